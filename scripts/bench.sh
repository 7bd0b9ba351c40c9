#!/usr/bin/env bash
# Measures everything that this machine allows and prints one table of ratios. bench.sh [--build FOLDER] [--rmm FOLDER]
# [--group NAME,...] [--program TEXT,...] [--seconds N] [--simulated] [--out FOLDER]; or bench.sh --record FOLDER: traces of the real programs.
# --rmm: a folder with RMM's wheels (pip download --no-deps librmm-cu13 rapids-logger), as files or unpacked; needed only to
# build. Where the programs were carried here nothing is compiled. Results go to $OUT when it is set, otherwise to
# docs/bench-results, and docs/performance.md follows. Exits 77 where there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

build="build"
rmm=""
simulated=0
record=""
pass=()
while [ "$#" -gt 0 ]; do
  case "$1" in
    --build) build="$2"; shift 2 ;;
    --rmm) rmm="$(realpath "$2")"; shift 2 ;;
    --record) record="$2"; shift 2 ;;
    --simulated) simulated=1; pass+=("$1"); shift ;;
    -h|--help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
    *) pass+=("$1"); shift ;;
  esac
done
if [ -n "${OUT:-}" ]; then pass+=(--out "$OUT"); fi

if [ -n "$rmm" ] && [ ! -d "$rmm/librmm" ]; then
  mkdir -p "$build/rmm"
  for wheel in "$rmm"/*.whl; do python3 -m zipfile -e "$wheel" "$build/rmm"; done
  rmm="$(realpath "$build/rmm")"
fi
if [ "$simulated" = 1 ]; then
  scripts/build.sh release gpumem_preload simulated_cuda bench_simulated_shared bench_simulated_static
elif [ -n "$rmm" ] || [ ! -e "$build/libgpumem.so" ] || [ ! -e "$build/gpu/bench.static" ]; then
  echo "bench: building"
  if [ -n "$rmm" ]; then cmake -S . -B "$build" -DGPUMEM_RMM="$rmm" >/dev/null; fi
  scripts/build.sh release gpumem_preload bench_programs
fi
if [ -n "$record" ]; then exec python3 tests/bench/record_traces.py "$build" "$record"; fi
PYTHONUNBUFFERED=1 exec python3 tests/bench/bench.py --build "$build" "${pass[@]}"
