#!/usr/bin/env bash
# Random programs under the hazard checker until the time is over: soak.sh [MINUTES [FIRST_SEED]], 30 minutes by
# default. Needs no GPU. Prints what was run; stops with the seed and the command of the first failure, exit code 1.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h|--help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
esac
minutes="${1:-30}"
scripts/build.sh release gpumem_preload gpumem_mutant random_program
exec python3 tests/integration/random/soak.py build "$(awk -v m="$minutes" 'BEGIN { print m * 60 }')" "${@:2}"
