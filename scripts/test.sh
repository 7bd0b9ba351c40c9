#!/usr/bin/env bash
# The whole check of a clone, the README's test command: setup, layers, lint, build, sanitizer builds with their tests,
# and last the full ctest run, whose summary ends the output. test.sh [--fast] [ctest arguments]: --fast leaves the
# sanitizers out. Needs no GPU; what is skipped is said, with the reason. Exits 1 when any step failed.
set -euo pipefail
cd "$(dirname "$0")/.."

fast=0
if [ "${1:-}" = "--fast" ]; then fast=1; shift; fi
jobs="${GPUMEM_JOBS:-$(($(nproc) * 3 / 2 + 1))}"  # of tests: they wait half of their time, as for a signal or for another process
failed=()
skipped=()
started=$SECONDS

step() {
  local name="$1" begin=$SECONDS
  shift
  echo "--- $name"
  if "$@"; then
    echo "--- $name: done after $((SECONDS - begin)) s"
  else
    echo "--- $name: FAILED after $((SECONDS - begin)) s"
    failed+=("$name")
    return 1
  fi
}

# What the next steps need nothing of goes on beside them, so that no processor idles while the last file of one is compiled or its last
# test ends. joined NAME waits for it and says what it said.
declare -A beside_process beside_output
beside() {
  beside_output["$1"]="$(mktemp)"
  "${@:2}" >"${beside_output[$1]}" 2>&1 </dev/null &
  beside_process["$1"]=$!
}
joined() {
  local code=0
  wait "${beside_process[$1]}" || code=$?
  cat "${beside_output[$1]}"
  rm -f "${beside_output[$1]}"
  return "$code"
}
trap 'kill $(jobs -p) 2>/dev/null || true; rm -f "${beside_output[@]}"' EXIT

# A sanitizer build holds the units, and the preload library with a few programs on the simulated CUDA (label sanitized);
# the other integration tests run in the plain build alone. Begun beside what comes before; the second one beside these tests.
sanitize() {
  local code=0
  joined "build-$1" || code=$?
  if [ -n "${2:-}" ]; then beside "build-$2" scripts/build.sh "$2"; fi
  [ "$code" -eq 0 ] && ctest --test-dir "build-$1" -LE 'integration|gpu|bench' -j "$jobs" --output-on-failure --timeout 300
}

step setup scripts/setup.sh || exit 1
if ! [ -e build-headers/python/jsonschema_rs ] && ! python3 scripts/from_pypi.py validator; then
  skipped+=("reports are validated by python3-jsonschema, which takes a minute more: no wheel of jsonschema-rs for this machine")
fi
beside build scripts/build.sh release
step layers-self-test scripts/layers.sh --self-test || true
step layers scripts/layers.sh || true
step lint scripts/lint.sh || true
if command -v clang++ >/dev/null 2>&1; then
  step thread-safety-self-test scripts/thread_safety.sh --self-test || true
  step thread-safety scripts/thread_safety.sh || true
else
  skipped+=("clang's thread-safety analysis: no clang++ (Debian: clang)")
fi
step build joined build || exit 1
if [ "$fast" = 0 ]; then beside build-asan scripts/build.sh asan; fi
if command -v nvcc >/dev/null 2>&1 || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
  step gpu-programs scripts/build.sh release gpu_programs || true
else
  skipped+=("GPU programs are not compiled: no nvcc")
fi
if command -v aarch64-linux-gnu-g++ >/dev/null 2>&1; then
  step aarch64 scripts/cross.sh || true
else
  skipped+=("aarch64: no cross compiler (Debian: g++-aarch64-linux-gnu, and qemu-user to run it)")
fi
if ! scripts/cccl.sh >/dev/null 2>&1; then
  skipped+=("gpumem/memory_resource.hpp with other versions of CCCL, and RMM: scripts/cccl.sh could not fetch them")
fi
if [ "$fast" = 1 ]; then
  skipped+=("sanitizer builds: --fast")
else
  step asan sanitize asan tsan || true
  step tsan sanitize tsan || true
fi
if ! python3 tests/gpu/run.py --probe >/dev/null 2>&1; then
  skipped+=("tests of label gpu: no CUDA device here (scripts/gpu.sh runs them where one is)")
fi

step ctest ctest --test-dir build -j "$jobs" --output-on-failure --timeout 300 "$@" || true
for reason in "${skipped[@]}"; do echo "skipped: $reason"; done
if [ "${#failed[@]}" -gt 0 ]; then
  echo "test: FAILED: ${failed[*]} (after $((SECONDS - started)) s)"
  exit 1
fi
echo "test: all steps passed after $((SECONDS - started)) s"
