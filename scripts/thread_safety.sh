#!/usr/bin/env bash
# clang's thread-safety analysis over every source whose header says which mutex guards what (core/base/threads/mutex.hpp).
# thread_safety.sh checks; --self-test plants an unguarded read and demands that it is found. Exit code 77: no clang++ here.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang++ >/dev/null 2>&1; then
  echo "skipped: no clang++ here (Debian: clang)"
  exit 77
fi
cuda="${CUDA_HOME:-/usr/local/cuda}/include"
flags=(-std=c++20 -fsyntax-only -Wno-everything -Wthread-safety -Wthread-safety-precise -Werror -I. -isystem "$cuda")

if [ "${1:-}" = "--self-test" ]; then
  planted="$(mktemp --suffix=.cpp)"
  trap 'rm -f "$planted"' EXIT
  cat >"$planted" <<'CPP'
#include "core/base/threads/mutex.hpp"
struct counter {
  int read() { return count_; }
  gpumem::base::mutex mutex_;
  int count_ GPUMEM_GUARDED_BY(mutex_) = 0;
};
int main() { return counter().read(); }
CPP
  if clang++ "${flags[@]}" "$planted" 2>/dev/null; then
    echo "thread_safety: self-test: an unguarded read was not found" >&2
    exit 1
  fi
  sed -i 's/int read() {/int read() { gpumem::base::lock_guard lock(mutex_);/' "$planted"
  clang++ "${flags[@]}" "$planted"
  echo "thread_safety: self-test: an unguarded read is found, a guarded one passes"
  exit 0
fi

faults=0
# A header is checked by the source beside it, or by itself where all of it is in the header.
mapfile -t named < <(grep -rlE "GPUMEM_(GUARDED_BY|REQUIRES)\(" core config shim --include=*.hpp --include=*.cpp |
  grep -v core/base/threads/mutex.hpp)
mapfile -t sources < <(for file in "${named[@]}"; do
  if [ -f "${file%.hpp}.cpp" ]; then echo "${file%.hpp}.cpp"; else echo "$file"; fi
done | sort -u)
checked="${#sources[@]}"
# All of them as one file, which reads each header once: an eighth of the time. Where that says anything, as when two of them have a
# name of their own in common, each by itself decides.
if ! printf '#include "%s"\n' "${sources[@]}" | clang++ "${flags[@]}" -x c++ - 2>/dev/null; then
  for source in "${sources[@]}"; do
    clang++ "${flags[@]}" -x c++ "$source" || faults=$((faults + 1))
  done
fi
[ "$faults" -eq 0 ] || exit 1
[ "$checked" -gt 0 ] || { echo "thread_safety: no header names a mutex" >&2; exit 1; }
echo "thread_safety: $checked sources hold the locks that their headers name"
