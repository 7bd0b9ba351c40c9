#!/usr/bin/env bash
# A first look: builds gpumem and runs an unmodified CUDA program under it, then shows the report. On a machine with a GPU
# the program is compiled by nvcc with the runtime linked in statically, as most programs are; elsewhere the same program
# runs on the simulated CUDA of the tests. demo.sh [CONFIG.toml]
set -euo pipefail
cd "$(dirname "$0")/.."

config=()
if [ "$#" -gt 0 ]; then config=(-c "$1"); fi
# Silent unless it fails: the report is what is to be seen.
built() {
  local log
  log="$(mktemp)"
  echo "demo: building, some minutes the first time"
  scripts/build.sh release "$@" >"$log" 2>&1 || { cat "$log" >&2; echo "demo: error: the build failed" >&2; exit 1; }
  rm -f "$log"
  unset GPUMEM_JOBS  # of the scripts: gpumem would warn of a name that it does not know
}

scripts/setup.sh
if python3 tests/gpu/run.py --probe 2>/dev/null; then
  echo "demo: a GPU is here: thrust sorts a million numbers 500 times, unmodified, without gpumem and with it"
  built gpumem_preload gpumem_cli gpu_programs
  program=(build/gpu/thrust_sort.static 500)
else
  echo "demo: no GPU here: the program runs on the simulated CUDA (tests/simulated_cuda)"
  built gpumem_preload gpumem_cli programs_runtime_loop_static simulated_cuda
  export LD_LIBRARY_PATH="$PWD/build/simulated${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  program=(build/programs/runtime_loop.static 2000)
fi
echo "+ ${program[*]}"
"${program[@]}"
echo "+ build/gpumem run ${config[*]:+${config[*]} }-- ${program[*]}"
build/gpumem run "${config[@]}" -- "${program[@]}"
