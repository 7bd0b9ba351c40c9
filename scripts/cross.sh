#!/usr/bin/env bash
# Builds the preload library for aarch64 with the cross compiler, into build-aarch64, and checks what came out. It cannot
# be run here, so it is compiled fast. Exits 77 where there is no cross compiler. The libraries it needs are headers only,
# hence the links.
set -euo pipefail
cd "$(dirname "$0")/.."

compiler="aarch64-linux-gnu-g++"
if ! command -v "$compiler" >/dev/null 2>&1; then
  echo "cross: no $compiler (Debian: g++-aarch64-linux-gnu)"
  exit 77
fi
folder="build-aarch64"
mkdir -p "$folder/include"
for library in toml++ fmt nlohmann; do ln -sfn "/usr/include/$library" "$folder/include/$library"; done
launcher=()
if command -v ccache >/dev/null 2>&1; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S . -B "$folder" -G Ninja "${launcher[@]}" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_ASM_COMPILER=aarch64-linux-gnu-gcc \
  -DCMAKE_BUILD_TYPE=None -DGPUMEM_TESTS=OFF -DGPUMEM_TOMLPLUSPLUS="$PWD/$folder/include" \
  -DGPUMEM_FMT="$PWD/$folder/include" -DCMAKE_CXX_FLAGS="-O0 -isystem $PWD/$folder/include" >/dev/null
cmake --build "$folder" -j "${GPUMEM_JOBS:-$(nproc)}" --target gpumem_preload
library="$folder/libgpumem.so"
readelf -h "$library" | grep -q AArch64
if readelf -d "$library" | grep NEEDED | grep -qvE 'lib(c|m|dl|pthread)\.so|ld-linux'; then
  echo "cross: $library needs more than the C library:"
  readelf -d "$library" | grep NEEDED
  exit 1
fi
echo "cross: $library is built for aarch64 and needs only the C library"
