#!/usr/bin/env bash
# Builds the preload library for aarch64 with the cross compiler, into build-aarch64, checks what came out and, where
# qemu-aarch64 is, runs programs on the simulated CUDA plain and preloaded under it. cross.sh [ctest arguments]: other tests of
# that build than the few of every run (-R . for all, a quarter of an hour). Compiled fast, as nothing is measured. Exits 77 where
# there is no cross compiler. The libraries it needs are headers only, hence the links.
set -euo pipefail
cd "$(dirname "$0")/.."

compiler="aarch64-linux-gnu-g++"
if ! command -v "$compiler" >/dev/null 2>&1; then
  echo "cross: no $compiler (Debian: g++-aarch64-linux-gnu)"
  exit 77
fi
folder="build-aarch64"
scripts/link_headers.sh "$folder/include"
options=(-DGPUMEM_TESTS=OFF)
targets=(gpumem_preload gpumem_cli)
# The tests of every run, and the programs that they run or that scripts/package.sh --check does.
few='emulated|\.(captures|reset).static$|\.(threads|early_program).shared$|forks.static.before|green_contexts.driver$|dlopen.driver.entry$'
if command -v qemu-aarch64 >/dev/null 2>&1; then
  options=(-DGPUMEM_TESTS=ON "-DGPUMEM_EMULATOR=qemu-aarch64 -L /usr/aarch64-linux-gnu")
  if [ "$#" = 0 ]; then
    targets+=(random_program early_program_shared)
    for name in captures_static reset_static runtime_loop_static threads_shared forks_static green_contexts_driver driver_dlopen_driver; do
      targets+=("programs_$name")
    done
  else
    targets+=(tests/all)
  fi
fi
if command -v ccache >/dev/null 2>&1; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S . -B "$folder" -G Ninja "${options[@]}" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_ASM_COMPILER=aarch64-linux-gnu-gcc \
  -DCMAKE_BUILD_TYPE=None -DGPUMEM_TOMLPLUSPLUS="$PWD/$folder/include" \
  -DGPUMEM_FMT="$PWD/$folder/include" -DCMAKE_CXX_FLAGS="-O0 -isystem $PWD/$folder/include" >/dev/null
cmake --build "$folder" -j "${GPUMEM_JOBS:-$(nproc)}" --target "${targets[@]}"
library="$folder/libgpumem.so"
readelf -h "$library" | grep -q AArch64
if readelf -d "$library" | grep NEEDED | grep -qvE 'lib(c|m|dl|pthread)\.so|ld-linux'; then
  echo "cross: $library needs more than the C library:"
  readelf -d "$library" | grep NEEDED
  exit 1
fi
python3 scripts/package/symbol_versions.py --most 2.28 "$library" "$folder/gpumem"
echo "cross: $library is built for aarch64 and needs only the C library"
if ! command -v qemu-aarch64 >/dev/null 2>&1; then
  echo "cross: not run: no qemu-aarch64 (Debian: qemu-user)"
  exit 0
fi
if [ "$#" = 0 ]; then set -- -R "$few"; fi
ctest --test-dir "$folder" -j "${GPUMEM_JOBS:-$(nproc)}" --output-on-failure --timeout 300 "$@"
