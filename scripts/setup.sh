#!/usr/bin/env bash
# Installs what the build and the tests need, on Debian 12, Ubuntu 22.04 or Ubuntu 24.04, with the system's package manager.
# Called by test.sh and demo.sh, or by hand. Looks first: where everything is there it changes nothing and needs
# no network. Never installs CUDA itself: only its headers are needed. They, and toml++ where the system has no package
# of it, come from PyPI into build-headers where they are nowhere else (from_pypi.py).
set -euo pipefail
cd "$(dirname "$0")/.."

# package | what it is for | a probe that finds it also where it was not installed by the package manager
needs=(
  "cmake|configures the build|command -v cmake"
  "ninja-build|runs the build|command -v ninja"
  "g++|compiles C++20|command -v g++"
  "python3|runs the integration tests|command -v python3"
  "python3-tomli|the tests read TOML, as Python before 3.11 cannot|python3 -c 'import tomllib' || python3 -c 'import tomli'"
  "python3-pytest|tries the plugin for it|python3 -c 'import pytest' || /usr/bin/python3 -c 'import pytest'"
  "python3-jsonschema|the tests hold each JSON report against its schema|python3 -c 'import jsonschema'"
  "git|version of the build|command -v git"
  "libtomlplusplus-dev|reads the configuration|test -e /usr/include/toml++/toml.h || test -e build-headers/toml++/toml.h"
  "libfmt-dev|formatting of text|test -e /usr/include/fmt/format.h"
  "libspdlog-dev|the log|test -e /usr/include/spdlog/spdlog.h"
  "nlohmann-json3-dev|the JSON report|test -e /usr/include/nlohmann/json.hpp"
  "libcli11-dev|arguments of the gpumem program|test -e /usr/include/CLI/CLI.hpp"
  "libgtest-dev|unit tests|test -e /usr/include/gtest/gtest.h"
  "strace|shows that a process without CUDA opens nothing|command -v strace"
  "valgrind|counts instructions of a call for tests/golden/bench|command -v valgrind"
)

# The same places, in the same order, as CMakeLists.txt and one more: beside nvcc.
find_cuda() {
  local nvcc_home=""
  if command -v nvcc >/dev/null 2>&1; then
    nvcc_home="$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")"
  fi
  local home
  for home in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /opt/cuda "$nvcc_home" /usr "$PWD/build-headers/cuda"; do
    if [ -n "$home" ] && [ -e "$home/include/cuda.h" ] && [ -e "$home/include/cuda_runtime_api.h" ]; then
      echo "$home"
      return 0
    fi
  done
  return 1
}

missing=()
for need in "${needs[@]}"; do
  IFS='|' read -r package purpose probe <<<"$need"
  if eval "$probe" >/dev/null 2>&1; then continue; fi
  if dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then continue; fi
  missing+=("$package")
  echo "setup: missing $package ($purpose)"
done
from_pypi=()
if ! find_cuda >/dev/null; then
  from_pypi+=(cuda)
  echo "setup: missing CUDA's headers (not in \$CUDA_HOME, \$CUDA_PATH, /usr/local/cuda, /opt/cuda, nvcc's folder, /usr)"
fi

if [ "${#missing[@]}" -gt 0 ]; then
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: error: no apt-get here; install the packages named above with this system's package manager" >&2
    exit 1
  fi
  if [ "$(id -u)" -eq 0 ]; then apt-get update -qq; fi
fi
packages=()
for package in "${missing[@]}"; do
  if [ "$package" = libtomlplusplus-dev ] && ! apt-cache policy "$package" | grep -q 'Candidate: [^(]'; then
    from_pypi+=(toml++)  # Ubuntu 22.04
  else
    packages+=("$package")
  fi
done
if [ "${#from_pypi[@]}" -gt 0 ] && ! python3 -m pip --version >/dev/null 2>&1; then packages+=(python3-pip); fi
if [ "${#packages[@]}" -gt 0 ]; then
  install="apt-get install -y --no-install-recommends ${packages[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: error: not root; run: sudo apt-get update && sudo $install" >&2
    exit 1
  fi
  echo "setup: $install"
  export DEBIAN_FRONTEND=noninteractive
  if ! $install; then
    echo "setup: error: this system has not all of them: build on Debian 12, Ubuntu 22.04, Ubuntu 24.04 or later" >&2
    echo "setup: what scripts/package.sh makes there runs on older ones (glibc 2.28 and later, docs/packages.md)" >&2
    exit 1
  fi
fi
if [ "${#from_pypi[@]}" -gt 0 ]; then python3 scripts/from_pypi.py "${from_pypi[@]}"; fi
cuda="$(find_cuda)"
echo "setup: everything is there; CUDA headers in $cuda/include"
