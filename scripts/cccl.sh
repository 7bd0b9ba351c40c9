#!/usr/bin/env bash
# Fetches the versions of CCCL and RMM with which programs use gpumem/memory_resource.hpp: cccl.sh [BUILD] unpacks wheels
# of PyPI into BUILD/cccl, once. integration.examples.interfaces compiles with what is there. Needs pip; 25 MB come over the network.
# With --gpu also docs/examples as programs for a machine with a GPU, into BUILD/gpu/interfaces, which needs nvcc: carry
# that folder, libgpumem.so and gpumem there, and run python3 tests/gpu/run.py --build BUILD --group interfaces.
set -euo pipefail
cd "$(dirname "$0")/.."

export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
gpu=0
build="build"
for argument in "$@"; do
  if [ "$argument" = "--gpu" ]; then gpu=1; else build="$argument"; fi
done
mkdir -p "$build/cccl"
build="$(realpath "$build")"

# The newest of each minor version; librmm brings its own: 3.4 and 3.5.
wheels=(nvidia-cuda-cccl==13.0.85 nvidia-cuda-cccl==13.1.115 nvidia-cuda-cccl==13.2.86
  librmm-cu13==26.8.0 rapids-logger==0.2.3 librmm-cu13==26.10.0 rapids-logger==0.3.0)
platforms=()
for number in 28 27 24 17; do platforms+=(--platform "manylinux_2_${number}_x86_64"); done
fetch() {
  local folder="$build/cccl/$1"
  [ -d "$folder" ] && return
  python3 -m pip install -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" \
    --platform manylinux2014_x86_64 --target "$folder.part" "$1"
  mv "$folder.part" "$folder"
}
for wheel in "${wheels[@]}"; do fetch "$wheel"; done
if [ "$gpu" = 0 ]; then exit 0; fi

to="$build/gpu/interfaces"
cuda="${CUDA_HOME:-/usr/local/cuda}"
rmm="$build/cccl/librmm-cu13==26.10.0/librmm"
logger="$build/cccl/rapids-logger==0.3.0/rapids_logger"
rm -rf "$to"
mkdir -p "$to"
cp "$rmm/lib64/librmm.so" "$logger/lib64/librapids_logger.so" "$to/"
gcc -std=c11 -O2 -fPIE -pie -Ishim/include -I"$cuda/include" docs/examples/asks.c -o "$to/asks" \
  -L"$cuda/lib64" -lcudart_static -lrt -lpthread -ldl
nvcc=("$cuda/bin/nvcc" -std=c++20 -O2 -arch=sm_90 -Ishim/include)
with_rmm=(-I"$rmm/include/rapids" -isystem "$rmm/include" -isystem "$logger/include"
  -L"$to" -lrmm -lrapids_logger -Xlinker "-rpath,\$ORIGIN")
"${nvcc[@]}" docs/examples/buffers.cpp -o "$to/buffers" "${with_rmm[@]}"
"${nvcc[@]}" docs/examples/sort.cu -o "$to/sort" "${with_rmm[@]}"
for cccl in nvidia-cuda-cccl==13.2.86/nvidia/cu13/include/cccl librmm-cu13==26.10.0/librmm/include/rapids; do
  "${nvcc[@]}" -I"$build/cccl/$cccl" docs/examples/cuda_buffer.cu -o "$to/cuda_buffer.${cccl%%/*}"
done
for cccl in nvidia-cuda-cccl==13.0.85/nvidia/cu13/include/cccl nvidia-cuda-cccl==13.1.115/nvidia/cu13/include/cccl \
  nvidia-cuda-cccl==13.2.86/nvidia/cu13/include/cccl librmm-cu13==26.8.0/librmm/include/rapids librmm-cu13==26.10.0/librmm/include/rapids; do
  "${nvcc[@]}" -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -I"$build/cccl/$cccl" tests/programs/memory_resource.cpp \
    -o "$to/memory_resource.${cccl%%/*}"
done
# RMM in Python, for the Python there; numpy is PyTorch's.
for wheel in rmm-cu13==26.10.0 cuda-bindings==13.0.3; do
  python3 -m pip install -q --no-deps --only-binary=:all: --python-version "${GPUMEM_GPU_PYTHON:-3.12}" --implementation cp "${platforms[@]}" \
    --platform manylinux2014_x86_64 --target "$to/python" "$wheel"
done
find "$to/python" \( -name '*.cpp' -o -name '*.p[yx][xd]' -o -name '*.h' \) -delete
echo "$to: $(du -sh "$to" | cut -f1)"
