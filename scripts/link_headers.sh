#!/usr/bin/env bash
# Links the libraries of headers that gpumem is compiled with into a folder: link_headers.sh FOLDER. A cross compiler looks
# neither into this system's /usr/include nor where setup.sh put what the system has no package of (build-headers).
# Called by cross.sh and package.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
for library in toml++ fmt spdlog nlohmann CLI; do
  from="/usr/include/$library"
  if [ ! -e "$from" ]; then from="$PWD/build-headers/$library"; fi
  ln -sfn "$from" "$1/$library"
done
