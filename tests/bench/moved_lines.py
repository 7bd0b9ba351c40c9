"""Which lines of memory move from one thread to another in a pair of calls, and which of them for nothing, on any machine.

moved_lines.py BUILD LIBRARY [--config FILE] [--pairs N] [--top N] [--for-nothing] [--most-moved N] [--most-for-nothing N] -- WORKLOAD
ALLOCATOR [key=value ...]: as bench's own arguments, say `threads async from=16 threads=16`. LIBRARY is a libgpumem.so that
`scripts/build.sh tsan` made with clang: moved_lines.cpp stands in for the sanitizer's runtime. `for nothing`: a thread took the line and
found there only what nobody else had changed, or changed only what nobody else used; it had lost it to somebody who wrote beside. The
exit code is 1 where more than so many lines a pair moved, or more than so many between one place and another for nothing. What a line
takes is in no count of instructions; where threads are in time, where_time_goes.py tells.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness
import tables

SKIPPED = 77
REQUEST = re.compile(r"^(cudaMalloc|cudaMallocAsync|cuMemAlloc_v2|cuMemAllocAsync)\b")


def read(path):
    """Places as number: (file, offset, count); moves as (from, to, count, for nothing)."""
    places, moves, lost = {}, [], 0
    for line in path.read_text().splitlines():
        kind, *rest = line.split()
        if kind == "place":
            places[int(rest[0])] = (rest[1], int(rest[2], 16), int(rest[3]))
        elif kind == "move":
            moves.append(tuple(map(int, rest)))
        else:
            lost = int(rest[0])
    return places, moves, lost


def functions(places, library):
    """The functions that are inlined at each place, the innermost first, with their lines."""
    numbers = [n for n, place in places.items() if os.path.samefile(place[0], library)]
    asked = "\n".join(f"{places[n][1]:#x}" for n in numbers)
    told = subprocess.run(["addr2line", "-a", "-C", "-f", "-i", "-p", "-s", "-e", library], input=asked, capture_output=True, text=True).stdout
    found = []
    for line in told.splitlines():
        if line.startswith("0x"):
            found.append([line.split(": ", 1)[1]])
        else:
            found[-1].append(line.strip().removeprefix("(inlined by) "))
    return dict(zip(numbers, found))


def short(names):
    """What tells most of a place: its first line that is not the standard library's or a counter's, and who called that."""
    told = []
    for name in names:
        function, _, line = name.rpartition(" at ")
        line = line.split(" ")[0]
        if re.match(r"(atomic|std_|move\.h|utility|stl_|shared_ptr|unique_)", line):
            continue
        told.append(f"{function.split('(')[0].split('<')[0].split('::')[-1]} {line}")
    return ", ".join(told[:2]) if told else "elsewhere"


def run(wanted, build, folder, seconds):
    """Places, moves and the functions of places of one run, and how many pairs it counted."""
    out = folder / "lines"
    env = {"LD_PRELOAD": f"{os.path.abspath(wanted.library)}:{build.program('moved_lines.so')}", "MOVED_LINES": str(out), "MOVED_LINES_AFTER": str(wanted.after),
           "GPUMEM_REPORT": "none", "GPUMEM_JSON": "none", "GPUMEM_STATE_DIR": str(folder)}
    if wanted.config:
        env["GPUMEM_CONFIG"] = os.path.abspath(wanted.config)
    done = subprocess.run([build.program("bench.shared"), *wanted.workload, f"seconds={seconds}"], capture_output=True, text=True,
                          env=build.environment(env))
    if done.returncode != 0 or not out.exists():
        sys.exit(f"exit code {done.returncode}\n{done.stderr[-2000:]}")
    places, moves, lost = read(out)
    if lost:
        sys.exit(f"{lost} accesses were not followed: the tables of moved_lines.cpp are too small")
    names = functions(places, wanted.library)
    return moves, names, max((places[n][2] for n, inlined in names.items() if REQUEST.match(inlined[-1])), default=0)


def measure(wanted, build):
    """Moves by (to, from) as counts a pair, those for nothing as well; and how many pairs there were."""
    with tempfile.TemporaryDirectory(prefix="gpumem-lines.") as folder:
        folder = pathlib.Path(folder)
        for seconds in (0.7, 2, 6):  # a machine that is busy gets to fewer
            moves, names, pairs = run(wanted, build, folder, seconds)
            if pairs >= wanted.pairs:
                break
    if pairs == 0:
        sys.exit("no request was seen: the library is not one of clang's for the thread sanitizer")
    sums, nothing = collections.Counter(), collections.Counter()
    for begin, end, count, for_nothing in moves:
        if begin in names and end in names:
            key = short(names[end]), short(names[begin])
            sums[key] += count / pairs
            nothing[key] += for_nothing / pairs
    return sums, nothing, pairs


def main():
    given = argparse.ArgumentParser()
    given.add_argument("build")
    given.add_argument("library")
    given.add_argument("--config")
    given.add_argument("--after", type=int, default=10_000_000, help="accesses before the first that is counted")
    given.add_argument("--top", type=int, default=20)
    given.add_argument("--for-nothing", action="store_true", help="only these, most first")
    given.add_argument("--pairs", type=int, default=50_000, help="at least, on a machine that is not too busy")
    given.add_argument("--most-moved", type=float, help="lines a pair")
    given.add_argument("--most-for-nothing", type=float, help="lines a pair, between two places")
    given.add_argument("workload", nargs="+")
    wanted = given.parse_args()
    code = pathlib.Path(wanted.library).read_bytes() if os.path.exists(wanted.library) else b""
    if b"__tsan_func_entry" not in code or b"libtsan.so" in code:  # gcc's brings its runtime
        print(f"skipped: {wanted.library} is no library that clang made for the thread sanitizer")
        sys.exit(SKIPPED)
    sums, nothing, pairs = measure(wanted, harness.Build(wanted.build))
    ranked = (nothing if wanted.for_nothing else sums).most_common(wanted.top)
    print(tables.table(("lines a pair", "for nothing", "came to", "written before at"),
                       [(f"{sums[key]:.4f}", f"{nothing[key]:.4f}", *key) for key, many in ranked if many > 0]))
    moved, useless = sum(sums.values()), sum(nothing.values())
    print(f"{moved:.3f} lines a pair moved, {useless:.4f} of them for nothing, in {pairs} pairs")
    if wanted.most_moved is not None and moved > wanted.most_moved:
        sys.exit(f"more than {wanted.most_moved} moved")
    if wanted.most_for_nothing is not None:
        for (to, begin), many in nothing.items():
            if many > wanted.most_for_nothing:
                sys.exit(f"{many:.3f} lines a pair moved for nothing to {to} from {begin}: more than {wanted.most_for_nothing}")


main()
