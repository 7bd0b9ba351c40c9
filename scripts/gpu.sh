#!/usr/bin/env bash
# Runs everything of tests/gpu on this machine's GPU, plain and preloaded, and prints one table. gpu.sh [BUILD]: the build
# folder (build); where it was carried here with its programs nothing is compiled. The table is saved to $OUT/gpu.md when
# OUT is set, otherwise to docs/gpu-results/<device>.md. Needs no network. Exits 77 where there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

build="${1:-build}"
python3 tests/gpu/run.py --probe
if [ ! -e "$build/libgpumem.so" ] || [ ! -e "$build/gpu/reuse_hazard.static" ]; then
  echo "gpu: $build holds no GPU programs: building"
  scripts/setup.sh
  scripts/build.sh release all gpu_programs
  build="build"
fi

if [ -n "${OUT:-}" ]; then
  out="$OUT/gpu.md"
else
  device="$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr -c 'A-Za-z0-9\n' '-' | tr '[:upper:]' '[:lower:]')"
  out="docs/gpu-results/$device.md"
fi
status=0
PYTHONUNBUFFERED=1 python3 tests/gpu/run.py --build "$build" --out "$out" || status=$?
echo "gpu: table in $out"
exit "$status"
