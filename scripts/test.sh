#!/usr/bin/env bash
# The whole check of a clone, the README's test command: setup, layers, lint, build, sanitizer builds with their tests,
# and last the full ctest run, whose summary ends the output. test.sh [--fast] [ctest arguments]: --fast leaves the
# sanitizers out. Needs no GPU; what is skipped is said, with the reason. Exits 1 when any step failed.
set -euo pipefail
cd "$(dirname "$0")/.."

fast=0
if [ "${1:-}" = "--fast" ]; then fast=1; shift; fi
jobs="${GPUMEM_JOBS:-$(($(nproc) + 1))}"  # of tests: they wait half of their time, as for a signal or for another process
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

# A sanitizer build holds the units, and the preload library with a few programs on the simulated CUDA (label sanitized);
# the other integration tests run in the plain build alone.
sanitize() {
  scripts/build.sh "$1" && ctest --test-dir "build-$1" -LE 'integration|gpu|bench' -j "$jobs" --output-on-failure --timeout 300
}

step setup scripts/setup.sh || exit 1
if ! [ -e build-headers/python/jsonschema_rs ] && ! python3 scripts/from_pypi.py validator; then
  skipped+=("reports are validated by python3-jsonschema, which takes a minute more: no wheel of jsonschema-rs for this machine")
fi
step layers-self-test scripts/layers.sh --self-test || true
step layers scripts/layers.sh || true
step lint scripts/lint.sh || true
if command -v clang++ >/dev/null 2>&1; then
  step thread-safety-self-test scripts/thread_safety.sh --self-test || true
  step thread-safety scripts/thread_safety.sh || true
else
  skipped+=("clang's thread-safety analysis: no clang++ (Debian: clang)")
fi
step build scripts/build.sh release || exit 1
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
  step asan sanitize asan || true
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
