#!/usr/bin/env bash
# Configures and builds: build.sh [release|debug|asan|tsan] [target...]. Each preset has its own folder
# (build, build-debug, build-asan, build-tsan), so that switching costs nothing. Called by test.sh, demo.sh and gpu.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

preset="release"
case "${1:-}" in
  release|debug|asan|tsan) preset="$1"; shift ;;
  -h|--help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
esac

folder="build-$preset"
options=()
together=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8)  # several files compiled as one
case "$preset" in
  # Lines and functions; variables, which take a seventh of the time and two thirds of the objects, are in debug.
  release) folder="build"
    options+=(-DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG" -DGPUMEM_QUICK_TESTS=ON) ;;
  debug) options+=(-DCMAKE_BUILD_TYPE=Debug) ;;
  # Lines and function names are all that a sanitizer prints; more debug information, -O2, and each file by itself cost
  # minutes of compiling.
  asan) options+=(-DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-g1 -DCMAKE_CXX_FLAGS=-g1 "-DGPUMEM_SANITIZE=address,undefined" "${together[@]}") ;;
  tsan) options+=(-DCMAKE_BUILD_TYPE=None "-DCMAKE_C_FLAGS=-O1 -g1" "-DCMAKE_CXX_FLAGS=-O1 -g1" "-DGPUMEM_SANITIZE=thread" "${together[@]}") ;;
esac
# Clang takes two thirds of gcc's time, half with headers that are compiled ahead; what is released is gcc's. Its
# sanitizers are in a package of their own.
if [ "$preset" = asan ] || [ "$preset" = tsan ]; then
  if command -v clang >/dev/null 2>&1 && [ -e "$(clang++ -print-file-name="libclang_rt.asan-$(uname -m).so" 2>/dev/null)" ]; then
    options+=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
  fi
fi
if command -v ccache >/dev/null 2>&1; then
  export CCACHE_SLOPPINESS=pch_defines,time_macros  # for precompiled headers
  options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
if ! command -v ninja >/dev/null 2>&1; then
  echo "build: error: no ninja; run scripts/setup.sh first" >&2
  exit 1
fi

cmake -S . -B "$folder" -G Ninja "${options[@]}" >"/tmp/gpumem-configure.$$" 2>&1 || {
  cat "/tmp/gpumem-configure.$$" >&2
  rm -f "/tmp/gpumem-configure.$$"
  exit 1
}
rm -f "/tmp/gpumem-configure.$$"
targets=()
if [ "$#" -gt 0 ]; then targets=(--target "$@"); fi
cmake --build "$folder" -j "${GPUMEM_JOBS:-$(nproc)}" "${targets[@]}"
