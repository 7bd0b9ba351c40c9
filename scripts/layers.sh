#!/usr/bin/env bash
# Checks the order of the layers: a file includes only its own folder and lower ones (core/README.md), and of its own
# folder only its own room and lower ones. Also: one user of fmt (core/base/text/format), spdlog (core/base/log/log) and
# toml++ (config/reader/file/toml_reader), and nothing of the product includes tests.
# layers.sh [ROOT] checks a tree; layers.sh --self-test plants each violation in a small tree and demands that it is found.
set -euo pipefail

check_tree() {
  python3 - "$1" <<'PYTHON'
import os, re, sys

# Low to high. Folders of one rank do not see each other.
RANK = {
    "core/base": 0, "core/driver": 1, "core/stats": 2, "core/recording": 2.5, "core/phases": 2.7, "core/stream_order": 3, "core/space": 3,
    "core/resource": 4, "core/upstream": 5, "core/route": 6, "core/report": 7, "config": 8,
    "shim": 9, "shim/cli": 9,
}
# The rooms of a folder, low to high; "" is the folder itself. Rooms in one string do not see each other.
ROOMS = {
    "core/base": ["", "threads", "text", "files", "log"],
    "core/stats": ["page/file callers/python", "page", "callers", "", "events"],
    "core/recording": ["", "writer", "reader"],
    "core/space": ["blocks", ""],
    "core/resource": ["", "pools/backing pools/cache", "adaptors pools selectors"],
    "core/upstream": ["", "host"],
    "core/route": ["rules", "contexts", "", "requests"],
    "core/report": ["names", "", "output"],
    "config": ["plan", "text", "schema", "reader/file reader/values", "reader/sections", "reader", "checks", "",
               "builder"],
    "shim": ["include/gpumem", "symbols/objects", "symbols", "observed", "process", "phases", "hooks", "interface"],
    "shim/cli": ["", "programs", "export report", "recommend", "check", "run", "command_line"],
}
ONLY_USER = {
    "fmt": re.compile(r"core/base/text/format[^/]*$"),
    "spdlog": re.compile(r"core/base/log/log\.[^/]*$"),
    "toml++": re.compile(r"config/reader/file/toml_reader[^/]*$"),
}
SOURCE = (".hpp", ".h", ".cpp", ".c", ".def", ".S", ".in")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def layer_of(path):
    matches = [l for l in RANK if path.startswith(l + "/")]
    return max(matches, key=len) if matches else None


def room_of(path, layer):
    """(rank, name) of the room that a file of the layer lies in; None: the layer has none, or not this one."""
    name = os.path.dirname(path)[len(layer):].strip("/")
    for rank, names in enumerate(ROOMS.get(layer, [])):
        if name in names.split(" "):
            return rank, name
    return None


def faults_in(root):
    files = 0
    for top in ("core", "config", "shim"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if not name.endswith(SOURCE):
                    continue
                full = os.path.join(folder, name)
                path = os.path.relpath(full, root)
                own = layer_of(path)
                files += 1
                if own is None:
                    yield path, 1, "is in no layer: put it in one of " + ", ".join(RANK)
                    continue
                if own in ROOMS and room_of(path, own) is None:
                    yield path, 1, "is in no room: put it in one of " + ", ".join(" ".join(ROOMS[own]).split())
                    continue
                for number, line in enumerate(open(full, encoding="utf-8", errors="replace"), 1):
                    found = INCLUDE.match(line)
                    if not found:
                        continue
                    target = found.group(2)
                    for library, allowed in ONLY_USER.items():
                        if target.startswith(library + "/") and not allowed.search(path):
                            yield path, number, f"includes {target}: only {allowed.pattern.rstrip('[^/]*$')}.* may"
                    if target.startswith("tests/") or target.startswith("../"):
                        yield path, number, f"includes {target}: write it from the root, and never a test's file"
                        continue
                    other = layer_of(target)
                    if other and other != own and RANK[other] >= RANK[own]:
                        yield path, number, f"{own} includes {target}: {other} is not below it"
                    if other == own and own in ROOMS:
                        mine, its = room_of(path, own), room_of(target, own)
                        if its is None or (mine is not None and mine[1] != its[1] and its[0] >= mine[0]):
                            yield path, number, f"includes {target}: its room is not below {os.path.dirname(path)}"
    if files == 0:
        yield root, 1, "no source file of core, config or shim found: nothing was checked"


faults = list(faults_in(sys.argv[1]))
for path, number, text in faults:
    print(f"{path}:{number}: layer error: {text}")
sys.exit(1 if faults else 0)
PYTHON
}

self_test() {
  local tree line path
  tree="$(mktemp -d)"
  trap 'rm -rf "$tree"' RETURN
  local planted=(
    'core/base/text/bytes.hpp|#include "core/stats/page/counters.hpp"'
    'core/space/segment.hpp|#include "core/stream_order/epoch.hpp"'
    'core/resource/pools/pool.cpp|#include "core/upstream/cuda.hpp"'
    'core/route/router.cpp|#include "config/plan/plan.hpp"'
    'core/report/output/text.cpp|#include "shim/process/process.hpp"'
    'config/plan/plan.cpp|#include "shim/process/process.hpp"'
    'shim/hooks/hooks.cpp|#include "shim/cli/run/run.hpp"'
    'core/report/output/text.cpp|#include <fmt/format.h>'
    'config/checks/validate.cpp|#include <toml++/toml.h>'
    'core/base/log/log_pattern.cpp|#include <spdlog/logger.h>'
    'shim/hooks/hooks.cpp|#include "tests/simulated_cuda/simulated.h"'
    'core/elsewhere/file.cpp|#include <vector>'
    'core/resource/pools/pool.hpp|#include "core/resource/adaptors/guard.hpp"'
    'core/resource/pools/cache/magazine.hpp|#include "core/resource/pools/pool.hpp"'
    'config/reader/sections/rule_reader.cpp|#include "config/checks/validate.hpp"'
    'config/plan/plan.hpp|#include "config/load.hpp"'
    'shim/new_file.cpp|#include <vector>'
    'shim/elsewhere/new_file.cpp|#include <vector>'
  )
  for line in "${planted[@]}"; do
    rm -rf "${tree:?}"/*
    path="$tree/${line%%|*}"
    mkdir -p "$(dirname "$path")"
    echo "${line#*|}" >"$path"
    if check_tree "$tree" >/dev/null; then
      echo "layers: self-test: not caught: $line" >&2
      return 1
    fi
  done
  rm -rf "${tree:?}"/*
  mkdir -p "$tree/core/base/text" "$tree/core/base/log" "$tree/shim/process" "$tree/config/reader/file"
  echo '#include <fmt/format.h>' >"$tree/core/base/text/format.cpp"
  echo '#include <spdlog/logger.h>' >"$tree/core/base/log/log.cpp"
  echo '#include <toml++/toml.h>' >"$tree/config/reader/file/toml_reader.cpp"
  echo '#include "core/base/text/bytes.hpp"' >"$tree/shim/process/process.cpp"
  echo '#include "shim/symbols/hook.hpp"' >>"$tree/shim/process/process.cpp"
  if ! check_tree "$tree"; then
    echo "layers: self-test: a good tree was refused" >&2
    return 1
  fi
  echo "layers: self-test: ${#planted[@]} planted violations caught, a good tree passes"
}

if [ "${1:-}" = "--self-test" ]; then
  self_test
else
  root="${1:-$(cd "$(dirname "$0")/.." && pwd)}"
  check_tree "$root"
  echo "layers: the order of includes holds"
fi
