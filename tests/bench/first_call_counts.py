"""What the first allocation of a process, the first that is sampled, the first free and a second thread's first allocation do that later ones do not: system
calls, page faults, driver calls, instructions; and how many lines of code they run that lie outside the part of the library that is read ahead
(shim/first_call.functions).

first_call_counts.py BUILD [--golden FOLDER]. Runs programs/counted_first_call on the simulated CUDA, with the default chain. With
--golden the counts are held to the file of the same compiler, instructions from below as well; UPDATE_GOLDEN=1 writes it. Another
compiler, or no valgrind or strace: skipped with the reason, exit code 77. --names: the calls by name as well.
"""
import argparse
import bisect
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import callgrind_file
import harness
import instruction_counts

CALLS = ("malloc", "async", "sampled", "free", "thread")
HEAD = ("system_calls", "page_faults", "driver_calls", "instructions", "lines_outside")
LINE = 64                       # bytes
TRIES = 5                       # the least page faults of these: what else the machine does can only add some
ALLOWED = (0, 2, 0, None, 12)   # above the golden count; pages of code are read around as the kernel sees fit. None: TOLERANCE


def run(build, command):
    outcome = build.run(command, preload=True, env={"GPUMEM_REPORT": "none", "GPUMEM_JSON": "none"})
    if outcome.code != 0:
        sys.exit(f"{' '.join(command)}: exit code {outcome.code}\n{outcome.stderr[-2000:]}")
    return outcome.stdout


def system_calls(build, program, call, folder):
    """The lines that strace writes between the two marks, of the thread that made these: another one may begin to wait for it then. Without
    the count of page faults, which is the program's."""
    trace = pathlib.Path(folder, f"strace.{call}")
    # Of its processes the one that is traced alone is preloaded.
    command = ["env", "-u", "LD_PRELOAD", "strace", "-f", "-o", str(trace), "-E", f"LD_PRELOAD={build.preload()}", program, call]
    run(build, command)
    lines = [line.split(None, 1) for line in trace.read_text().splitlines()]
    marking = {thread for thread, line in lines if line.startswith('write(-1, "begin"')}
    lines = [line for thread, line in lines if thread in marking]
    marks = [number for number, line in enumerate(lines) if re.match(r'write\(-1, "(begin|end)"', line)]
    if len(marks) != 2:
        sys.exit(f"strace of {call}: {len(marks)} marks, not 2")
    return [line for line in lines[marks[0] + 1:marks[1]] if not line.startswith("getrusage(")]


def is_driver(path):
    return "/libcuda.so" in path


def driver_calls(dump):
    return {name: times for (caller, called, name), times in sorted(dump.calls.items())
            if caller.endswith("/libgpumem.so") and is_driver(called)}


def instructions(dump):
    """All of the call but the driver's part, with what that calls, which is not ours; the runtime's is small. Not by what
    calls into the driver cost in all: another thread may be in one when the count begins, which no such call tells."""
    of_others = sum(cost for (code, _, _), cost in dump.cost.items() if not is_driver(code))
    return of_others - sum(cost for (caller, called, _), cost in dump.inclusive.items() if is_driver(caller) and not is_driver(called))


def lines_outside(build, dump):
    """Lines of the library's code that were run and are not read ahead, by function."""
    listed = subprocess.run(["nm", "-C", "-n", "--defined-only", build.preload()], capture_output=True, text=True).stdout
    symbols = [(int(address, 16), name) for address, name in re.findall(r"^([0-9a-f]+) [tTwWiI] (.*)$", listed, re.MULTILINE)]
    places = {name: address for address, name in symbols}
    begin, end = places.get("gpumem_first_call_begin", 0), places.get("gpumem_first_call_end", 0)
    found = collections.defaultdict(set)
    for address in next(code for path, code in dump.code.items() if path.endswith("/libgpumem.so")):
        if not begin <= address < end:
            at = bisect.bisect_right(symbols, (address, "~")) - 1
            found[symbols[at][1] if at >= 0 else "?"].add(address // LINE)
    return found


def count(build, call, names):
    program = build.program("counted_first_call")
    with tempfile.TemporaryDirectory(prefix="gpumem-first.") as folder:
        system = system_calls(build, program, call, folder)
        faults = min(int(re.search(r"faults (\d+)", run(build, [program, call])).group(1)) for _ in range(TRIES))
        run(build, ["valgrind", "--tool=callgrind", "--collect-bus=yes", "--dump-instr=yes", "--zero-before=counted_first", "--dump-after=counted_first",
                    f"--callgrind-out-file={folder}/out", program, call])
        dump = callgrind_file.Dump(pathlib.Path(folder, "out.1"))
    of_driver = driver_calls(dump)
    outside = lines_outside(build, dump)
    if names:
        for name, times in of_driver.items():
            print(f"{call}: {times} {name}")
        for line in system:
            print(f"{call}: {line}")
        for name, lines in sorted(outside.items(), key=lambda item: -len(item[1])):
            print(f"{call}: {len(lines)} lines of {name}")
    return len(system), faults, sum(of_driver.values()), instructions(dump), len(set().union(*outside.values()))


def text(title, counts):
    lines = [f"# {title}. The first call of a process; first_call_counts.py says how to read and update this."]
    lines.append(f"{'call':12}" + "".join(f"{name:>14}" for name in HEAD))
    return "\n".join(lines + [f"{call:12}" + "".join(f"{number:14}" for number in numbers) for call, numbers in counts.items()]) + "\n"


def faults(golden, counts):
    """Counts that grew, or fell far below; calls that are missing on either side."""
    wanted = {line.split()[0]: [int(part) for part in line.split()[1:]] for line in golden.splitlines()[2:]}
    found = [f"{call}: only on one side" for call in wanted.keys() ^ counts.keys()]
    for call in wanted.keys() & counts.keys():
        for what, now, before, more in zip(HEAD, counts[call], wanted[call], ALLOWED):
            if now > before + (before * instruction_counts.TOLERANCE if more is None else more):
                found.append(f"{call}: {now} {what}, the golden file has {before}; --names lists the calls")
            if more is None and now < before * (1 - instruction_counts.STALE):
                found.append(f"{call}: {now} {what}, the golden file has {before}: stale, UPDATE_GOLDEN=1 writes it")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--golden", help="folder of the golden files")
    parser.add_argument("--names", action="store_true", help="the driver calls, the system calls and the functions outside as well")
    options = parser.parse_args()
    missing = [tool for tool in ("valgrind", "strace", "readelf") if not shutil.which(tool)]
    if missing or subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode != 0:
        print(f"skipped: no {' and no '.join(missing)} here (scripts/setup.sh installs them)" if missing else "skipped: strace may not trace here")
        sys.exit(harness.SKIP)
    build = harness.Build(options.build)
    title = instruction_counts.compiler(build)
    path = pathlib.Path(options.golden, "first_call." + re.sub(r"[^\w.]+", "-", title.strip()) + ".txt") if options.golden else None
    update = os.environ.get("UPDATE_GOLDEN") == "1"
    if path and not path.exists() and not update:
        print(f"skipped: no golden file for {title}: {path.name}")
        sys.exit(harness.SKIP)
    counts = {call: count(build, call, options.names) for call in CALLS}
    print(text(title, counts), end="")
    if path and update:
        path.write_text(text(title, counts))
    elif path:
        found = faults(path.read_text(), counts)
        for fault in found:
            print(f"golden: {fault}")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
