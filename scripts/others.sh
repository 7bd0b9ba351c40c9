#!/usr/bin/env bash
# Gathers what other people's programs need on a machine with a GPU and no network: others.sh [BUILD] fetches the CUDA
# runtimes and UCX libraries that PyPI has into BUILD/others and builds their programs into BUILD/gpu. For Open MPI name
# one that was built with CUDA: GPUMEM_OPENMPI=its prefix. Needs pip and nvcc. Then, with BUILD there, run
#   scripts/gpu.sh BUILD --group runtimes,tools,transports
set -euo pipefail
cd "$(dirname "$0")/.."

build="$(realpath "${1:-build}")"
others="$build/others"
cuda="${CUDA_HOME:-/usr/local/cuda}"
mkdir -p "$others/wheels" "$build/gpu"

runtimes=(nvidia-cuda-runtime-cu11==11.7.99 nvidia-cuda-runtime-cu11==11.8.89)
for version in 12.0.146 12.1.105 12.2.140 12.3.101 12.4.127 12.5.82 12.6.77 12.8.90 12.9.79; do
  runtimes+=("nvidia-cuda-runtime-cu12==$version")
done
for version in 13.0.96 13.1.80 13.2.86 13.3.29 13.4.92 13.5.37; do
  runtimes+=("nvidia-cuda-runtime==$version")
done
transports=(libucx-cu12==1.15.0.post2 libucx-cu12==1.22.0)

# fetch WHEEL: unpacks it into others/wheels/WHEEL.
fetch() {
  local folder="$others/wheels/$1"
  [ -d "$folder" ] && return
  local platforms=()
  for number in 28 24 17; do platforms+=(--platform "manylinux_2_${number}_x86_64"); done
  python3 -m pip install -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" \
    --platform manylinux2014_x86_64 --platform manylinux1_x86_64 --target "$folder" "$1"
}

compile=(g++ -std=c++20 -O1 -s tests/programs/every_runtime.cpp)
"${compile[@]}" -o "$build/gpu/every_runtime" -ldl -pthread
for wheel in "${runtimes[@]}"; do
  fetch "$wheel"
  version="${wheel##*=}"
  lib="$(dirname "$(find "$others/wheels/$wheel" -name 'libcudart.so.*')")"
  mkdir -p "$others/cudart/$version"
  cp "$lib"/libcudart.so.* "$others/cudart/$version/"
  [ -e "$lib/libcudart_static.a" ] || continue
  extra=()
  if [ -e "$lib/libculibos.a" ]; then extra=("$lib/libculibos.a"); fi
  "${compile[@]}" -DSTATIC_RUNTIME -o "$build/gpu/every_runtime.static.$version" \
    -Wl,--whole-archive "$lib/libcudart_static.a" -Wl,--no-whole-archive "${extra[@]}" -ldl -lrt -pthread
done

nvcc=("$cuda/bin/nvcc" -std=c++20 -O2 -I. -arch=sm_90 -Xlinker "-rpath,$cuda/lib64")
shared=(-cudart shared -Xlinker -export-dynamic -Xlinker --allow-shlib-undefined)
"${nvcc[@]}" -cudart static -o "$build/gpu/checkpoint" tests/gpu/checkpoint.cu -lcuda
"${nvcc[@]}" -g -G -cudart shared -o "$build/gpu/planted" tests/gpu/planted.cu -lcuda
for wheel in "${transports[@]}"; do
  fetch "$wheel"
  from="$others/wheels/$wheel"
  to="$others/ucx/${wheel##*=}"
  mkdir -p "$to/ucx"
  cp "$from"/libucx/lib/lib*.so.0 "$from"/*.libs/lib*.so* "$to/"
  cp "$from"/libucx/lib/ucx/lib*.so.0 "$to/ucx/"
  [ -e "$build/gpu/ucx_rounds" ] || "${nvcc[@]}" "${shared[@]}" "-I$from/libucx/include" -o "$build/gpu/ucx_rounds" \
    tests/gpu/ucx_rounds.cu "-L$from/libucx/lib" -lucp -lucs -lcuda
done
if [ -n "${GPUMEM_OPENMPI:-}" ]; then
  mkdir -p "$others/openmpi"
  cp -rL "$GPUMEM_OPENMPI"/{bin,lib,share,etc} "$others/openmpi/"
  "${nvcc[@]}" "${shared[@]}" "-I$GPUMEM_OPENMPI/include" -o "$build/gpu/mpi_rounds" tests/gpu/mpi_rounds.cu \
    "-L$GPUMEM_OPENMPI/lib" -lmpi -lcuda
fi
du -sh "$others" --exclude wheels
