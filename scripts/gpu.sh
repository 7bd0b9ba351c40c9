#!/usr/bin/env bash
# Runs tests/gpu on this machine's GPU, plain and preloaded, within 8 minutes; a compact table comes last.
# gpu.sh [BUILD] [--group NAME,...] [--only TEXT]: the build folder (build); where it was carried here with its programs
# nothing is compiled. Without --group every group runs but those that need more time or GPUs (features, two_gpus, ...). The
# whole table is saved as gpu.md (gpu-GROUP.md) in $OUT when that is set, otherwise in docs/gpu-results/ by device; a run
# of selected cases only is not kept there. Needs no network. Exits 77 where there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

build="build"
if [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; then build="$1"; shift; fi
group=""
selected=""
for ((i = 1; i <= $#; i++)); do
  next=$((i + 1))
  case "${!i}" in
    --group) group="-${!next//,/-}" ;;
    --only) selected="yes" ;;
  esac
done
python3 tests/gpu/run.py --probe
if [ ! -e "$build/libgpumem.so" ] || [ ! -e "$build/gpu/reuse_hazard.static" ]; then
  echo "gpu: $build holds no GPU programs: building"
  scripts/setup.sh
  scripts/build.sh release all gpu_programs
  build="build"
fi

out=()
if [ -n "${OUT:-}" ]; then
  out=(--out "$OUT/gpu$group.md")
elif [ -z "$selected" ]; then
  device="$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr -c 'A-Za-z0-9\n' '-' | tr '[:upper:]' '[:lower:]')"
  out=(--out "docs/gpu-results/$device$group.md")
fi
PYTHONUNBUFFERED=1 python3 tests/gpu/run.py --build "$build" "${out[@]}" "$@"
