"""Instructions, atomic operations and driver calls of one pair of calls under gpumem, counted by callgrind; or a profile.

instruction_counts.py BUILD [--golden FOLDER] [--profile FUNCTION] [--rounds N] [--samples]. Runs programs/counted_calls on the simulated CUDA. With
--golden the counts are held to the file of the same compiler: more than TOLERANCE above is a fault, and so are a tenth fewer
instructions, as what was gained could be lost again unseen; UPDATE_GOLDEN=1 writes it. Samples of who allocates are left out: a
walk of the stack is 25 instructions a pair of a thousand, and how many there are depends on where the stack lies and on the clock
(first_call_counts.py counts one). Another compiler or no valgrind: skipped with the reason, exit code 77.
"""
import argparse
import collections
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import callgrind_file
import harness
import performance

ROUNDS = 1000
TOLERANCE = 0.03
STALE = 0.10                     # a golden figure that is so much above what is measured holds nothing any more
FEW = 0.05                       # atomics and driver calls below this a pair are an epoch's now and then, not a call's
HEAD = ("instructions", "atomics", "driver_calls")
SAMPLE = re.compile(r"gpumem::route::look_closer_slow\(")
with_samples = False


class Case:
    """The counts of one loop, for one round of it."""

    def __init__(self, name, dump, rounds):
        self.name, self.dump, self.rounds = name, dump, rounds
        ours = lambda path: path.endswith("/libgpumem.so")
        driver = lambda path: "/libcuda.so" in path
        self.counts = (self.with_libc(dump.cost, dump.inclusive, ours, driver),
                       self.with_libc(dump.atomics, dump.inclusive_atomics, ours, driver),
                       sum(times for (caller, called, _), times in dump.calls.items()
                           if ours(caller) and driver(called)) / rounds)

    def with_libc(self, own, inclusive, ours, driver):
        """What the library's code costs, and what the C library costs that it calls; the driver's part is not ours."""
        itself = sum(cost for (path, _, _), cost in own.items() if ours(path))
        called = sum(cost for (caller, path, _), cost in inclusive.items()
                     if ours(caller) and not ours(path) and not driver(path))
        samples = sum(cost for (_, path, function), cost in inclusive.items() if ours(path) and SAMPLE.match(function))
        return (itself + called - (0 if with_samples else samples)) / self.rounds

    def profile(self):
        by_function, by_file, atomics = collections.Counter(), collections.Counter(), collections.Counter()
        for (path, function, source), cost in self.dump.cost.items():
            by_function[f"{os.path.basename(path)}: {function}"] += cost
            if path.endswith("/libgpumem.so"):
                by_file["/".join(source.split("/")[-2:])] += cost
        for (path, function, source), count in self.dump.atomics.items():
            if path.endswith("/libgpumem.so"):
                atomics[f"{function}, in {'/'.join(source.split('/')[-2:])}"] += count
        for title, counter in (("instructions by function", by_function), ("libgpumem.so: atomics", atomics),
                               ("libgpumem.so: instructions by source file, inlined code where it was written", by_file)):
            print(f"{self.name}, {title}, a pair")
            for name, cost in (+counter).most_common(28):
                print(f"  {cost / self.rounds:8.2f}  {name}")


def measure(build, chain="", rounds=ROUNDS):
    """All cases, in the order of the program. The second dump of a function is the one after its warm-up. `chain`: a file of
    configs/; none: unaged, the default but for the clock."""
    env = {"GPUMEM_REPORT": "none", "GPUMEM_JSON": "none"}
    env["GPUMEM_CONFIG"] = str(pathlib.Path(__file__).resolve().parent / "configs" / f"{chain or 'unaged'}.toml")
    names = sorted(set(re.findall(r"\bT (counted_\w+)", subprocess.run(
        ["nm", build.program("counted_calls")], capture_output=True, text=True, check=True).stdout)))
    with tempfile.TemporaryDirectory(prefix="gpumem-count.") as folder:
        stops = [f"--{when}={name}" for name in names for when in ("zero-before", "dump-after")]
        command = ["valgrind", "--tool=callgrind", "--collect-bus=yes", *stops, f"--callgrind-out-file={folder}/out",
                   build.program("counted_calls"), str(rounds)]
        outcome = build.run(command, preload=True, env=env)
        if outcome.code != 0:
            sys.exit(f"counted_calls under callgrind: exit code {outcome.code}\n{outcome.stderr[-2000:]}")
        numbered = sorted(pathlib.Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:]))
        dumps = [callgrind_file.Dump(path) for path in numbered]
    cases = [Case(second.trigger.removeprefix("counted_"), second, rounds)
             for first, second in zip(dumps[::2], dumps[1::2]) if first.trigger == second.trigger]
    if len(cases) != len(names):
        sys.exit(f"{len(names)} loops but {len(cases)} counts: {[case.name for case in cases]}")
    return cases


def compiler(build):
    """What the library was built with: counts compare only within one."""
    comment = subprocess.run(["readelf", "-p", ".comment", str(build.library)], capture_output=True, text=True).stdout
    version = re.search(r"(GCC|clang)\D*?[^)\n]*\)? (\d+\.\d+\.\d+)", comment)
    cache = (build.folder / "CMakeCache.txt").read_text()
    kind = re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache, re.MULTILINE)
    return f"{version.group(1)} {version.group(2)} {kind.group(1) if kind else ''} {platform.machine()}" if version else "unknown"


def text(title, cases):
    lines = [f"# {title}. One pair of calls each; instruction_counts.py says how to read and update this."]
    lines.append(f"{'loop':36}" + "".join(f"{name:>14}" for name in HEAD))
    return "\n".join(lines + [f"{case.name:36}" + "".join(f"{count:14.2f}" for count in case.counts) for case in cases]) + "\n"


def faults(golden, cases):
    """Counts that grew beyond the tolerance, or fell far below; loops that are missing on either side."""
    wanted = {line.split()[0]: [float(part) for part in line.split()[1:]] for line in golden.splitlines()[2:]}
    found = [f"{name}: in the golden file, not measured" for name in wanted.keys() - {case.name for case in cases}]
    for case in cases:
        if case.name not in wanted:
            found.append(f"{case.name}: not in the golden file")
            continue
        for what, now, before in zip(HEAD, case.counts, wanted[case.name]):
            if now > before * (1 + TOLERANCE) + (FEW if what != HEAD[0] else 0):
                found.append(f"{case.name}: {now:.2f} {what}, the golden file has {before:.2f}: more than {TOLERANCE:.0%} above")
            if what == HEAD[0] and now < before * (1 - STALE):
                found.append(f"{case.name}: {now:.2f} {what}, the golden file has {before:.2f}: stale, UPDATE_GOLDEN=1 writes it")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--golden", help="folder of the golden files")
    parser.add_argument("--profile", default="", help="loops whose name contains this, by function and by source file")
    parser.add_argument("--chain", default="", help="a file of configs/, instead of the default")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of each loop; more: what comes a few times a second counts as rarely as it does")
    parser.add_argument("--samples", action="store_true", help="count them as well; not with --golden")
    options = parser.parse_args()
    global with_samples
    with_samples = options.samples
    missing = [tool for tool in ("valgrind", "nm", "readelf") if not shutil.which(tool)]
    if missing:
        print(f"skipped: no {' and no '.join(missing)} here (scripts/setup.sh installs them)")
        sys.exit(harness.SKIP)
    build = harness.Build(options.build)
    title = compiler(build)
    path = pathlib.Path(options.golden, f"calls{options.chain and '_' + options.chain}." + re.sub(r"[^\w.]+", "-", title.strip()) + ".txt") if options.golden else None
    update = os.environ.get("UPDATE_GOLDEN") == "1"
    if path and not path.exists() and not update:
        print(f"skipped: no golden file for {title}: {path.name}")
        sys.exit(harness.SKIP)
    cases = measure(build, options.chain, options.rounds)
    print(text(title, cases), end="")
    for case in cases:
        if options.profile and options.profile in case.name:
            case.profile()
    if path and update:
        path.write_text(text(title, cases))
        performance.refresh()
    elif path:
        found = faults(path.read_text(), cases)
        for fault in found:
            print(f"golden: {fault}")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
