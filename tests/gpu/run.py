"""Runs every program of the label gpu plain and preloaded on a real GPU and prints one table: result, times, figures.

run.py [--build FOLDER] [--out FILE] [--group NAME,...] [--only TEXT] [--seconds N] [--probe]. Equal stdout (lines `time:`
aside), stderr and exit code, counts equal to the program's own, no wrong word. Without --group all groups run that fit
into the time. Ends with a compact table. Exits 77 without a GPU, 1 when a row failed.
"""
import argparse
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import harness
import adaptors
import documents
import interfaces
import limits
import mps
import runtimes
import sanitizer
import told
import tools
import transports
from cases import GROUPS, LINKS, TWO_GPUS
from table import Table

PROGRAMS = ROOT / "tests" / "integration" / "programs"
CONFIGS = (PROGRAMS / "configs", ROOT / "tests" / "gpu" / "configs", ROOT / "config" / "examples")
USUAL = ("must_fail", *(name for name in GROUPS if name != "features"), "limits", "adaptors", "memcheck")
NAMES = (*USUAL, "features", "two_gpus", "runtimes", "transports", "tools", "told", "interfaces", "pages", "mps")
TIME = re.compile(r"^time: (.*?) ([\d.]+) (ns|us|ms)$", re.MULTILINE)


def devices():
    """How many GPUs there are to run on, and why there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as reason:
        return 0, str(reason)
    count = ctypes.c_int(0)
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return (count.value, "") if code == 0 and count.value else (0, f"cuInit or cuDeviceGetCount gave {code}")


def device_line():
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, timeout=30).stdout.splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown device"


def split_times(outcome):
    """The `time:` lines as {label: (value, unit)}; they are taken out of stdout, which must then be equal."""
    times = {label: (float(value), unit) for label, value, unit in TIME.findall(outcome.stdout)}
    outcome.stdout = "".join(line for line in outcome.stdout.splitlines(True) if not line.startswith("time:"))
    return times


def config_file(name):
    return next(str(folder / f"{name}.toml") for folder in CONFIGS if (folder / f"{name}.toml").exists())


def steady(build, case, command, plain):
    """Whether a second plain run gives the same: the memory of a process that just ended may still come back during the first."""
    again = build.run(command, env=case.env, timeout=case.timeout)
    split_times(again)
    return not harness.differences(plain, again)


def compare(build, case, link, table, may_repeat=True):
    if link:
        command = [build.program(f"{case.program}.{link}"), *case.arguments]
    else:
        command = [sys.executable, str(ROOT / "tests" / "gpu" / case.program), *case.arguments]
    name = case.name() + (f", {link}" if link in LINKS else "")
    plain = build.run(command, env=case.env, timeout=case.timeout)
    if plain.code == harness.SKIP:
        table.add(name, "SKIP", note=plain.stdout.strip().splitlines()[-1][:80])
        return
    if isinstance(plain.code, str):
        table.add(name, "FAIL", note=f"the plain run: {plain.code}", details=[plain.stderr[-300:]])
        return
    plain_times = split_times(plain)
    faults = []
    if case.expected:
        wanted = (PROGRAMS / "expected" / case.expected).read_text()
        faults = harness.first_difference("plain stdout against the file of the expected", wanted, plain.stdout)
    if case.code is not None and plain.code != case.code:
        faults.append(f"the plain run ended with {plain.code}, wanted {case.code}: {plain.stderr[-300:]!r}")
    for config in ("", *(case.configs if link != "static" else ())):
        env = dict(case.env)
        if config:
            env["GPUMEM_CONFIG"] = config_file(config)
        loaded = build.run(command, preload=True, env=env, timeout=case.timeout)
        times = split_times(loaded)
        faults += harness.differences(plain, loaded)
        if case.counts:
            faults += harness.count_faults(loaded)
            if not harness.own_counts(loaded.stdout):
                faults.append("no counts were printed: nothing was compared")
        if not loaded.reports:
            faults.append("no JSON report was written")
        for report in loaded.reports:
            faults += harness.ledger_faults(report)
        if faults and may_repeat and not steady(build, case, command, plain):
            return compare(build, case, link, table, may_repeat=False)
        label = f"{name}, {config}" if config else name
        last = loaded.stdout.strip().splitlines()
        note = next((line for line in last if "wrong" in line), "")
        if faults:
            faults.append(f"stderr: {loaded.stderr[-600:]!r}")
        table.add(label, "FAIL" if faults else "PASS", f"{plain.seconds:.2f} s", f"{loaded.seconds:.2f} s", note, faults)
        for what, (value, unit) in times.items():
            if what == "PyTorch step":
                table.step_times[case.label] = plain_times[what][0] if case.label == "own cache" else value
            before = plain_times.get(what, (0, unit))[0]
            table.add_time(f"  {what}" + (f", {config}" if config else ""), before, value, unit)
        faults = []


def must_fail(build, name, library, table):
    """Over memory that is handed out too early the test has to report corruption, or it proves nothing: a cache that is
    wrong on purpose, and gpumem itself with its protection switched off (core/base/mutant.hpp)."""
    unsafe = build.run([build.program(name), "100"], timeout=60,
                       env={"LD_PRELOAD": str(build.folder / library), "GPUMEM_REPORT": "none", "TEST_MUTANT": "always_done"})
    note = next((line for line in unsafe.stdout.splitlines() if "wrong" in line), f"exit code {unsafe.code}")
    caught = unsafe.code == 1 and " 0 wrong" not in unsafe.stdout
    table.add(f"{name} over {library} must fail", "PASS" if caught else "FAIL", note=note, details=[] if caught else [unsafe.stderr])


def killed(build, table):
    run = build.run([build.program("exits.static"), "kill"], tool=["-q"], timeout=60)
    faults = harness.count_faults(run)
    if run.code != 137:
        faults.append(f"exit code {run.code}, wanted 137: {run.stderr[-400:]}")
    if not run.reports or run.reports[0]["end"].get("signal") != 9:
        faults.append("the report does not say SIGKILL")
    table.add("kill -9 under gpumem run", "FAIL" if faults else "PASS", note="full counters, marked killed", details=faults)


def jobs_of(group, build, table, count, rounds):
    """(name, function) of everything in a group."""
    if group == "must_fail":
        wrong = (("reuse_hazard.shared", "gpu/libunsafe_cache.so"), ("reuse.shared", "gpu/libunsafe_cache.so"),
                 ("reuse_hazard.shared", "libgpumem_mutant.so"))
        return [*((f"{name} must fail", lambda name=name, library=library: must_fail(build, name, library, table))
                  for name, library in wrong),
                ("kill -9 under gpumem run", lambda: killed(build, table))]
    if group == "limits":
        return limits.jobs(build, table)
    if group == "mps":
        return mps.jobs(build, table, compare)
    if group == "pages":
        return documents.jobs(build, table)
    if group == "adaptors":
        return adaptors.jobs(build, table)
    if group == "memcheck":
        return sanitizer.jobs(build, table)
    others = {"runtimes": runtimes, "transports": transports, "tools": tools, "interfaces": interfaces, "told": told}
    if group in others:
        return others[group].jobs(build, table, config_file, rounds)
    if group == "two_gpus" and count < 2:
        return [("two_gpus", lambda: table.add("two_gpus", "SKIP", note=f"needs two GPUs, {count} found"))]
    return [(case.name() + (f", {link}" if link in LINKS else ""),
             lambda case=case, link=link: compare(build, case, link, table))
            for case in (TWO_GPUS if group == "two_gpus" else GROUPS[group]) for link in case.links]


def finish(table, seconds, out):
    own, bare = table.step_times.get("own cache"), table.step_times.get("cache off")
    if own and bare:
        table.add("PyTorch: caching off under gpumem / its own allocator", "time", f"{own:g} ms", f"{bare:g} ms",
                  f"{bare / own:.3f} times its own")
    end = [f"{table.count('PASS')} passed, {table.failed} failed, {table.count('SKIP')} skipped, {seconds:.0f} s",
           *(f"    {line}" for line in table.details), ""]
    head = f"# {device_line()}"
    print("\n" + "\n".join([head, table.compact(), *end]))
    if out:
        pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(out).write_text("\n".join([head, "", table.text(), "", *end]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--out", help="file for the whole table")
    parser.add_argument("--group", default=",".join(USUAL), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--seconds", type=int, default=390, help="no case is started after this")
    parser.add_argument("--rounds", type=int, default=100, help="of checkpoints; a hundred times as many of transports")
    parser.add_argument("--probe", action="store_true", help="only say whether there is a GPU")
    options = parser.parse_args()
    groups = options.group.split(",")
    if unknown := [group for group in groups if group not in NAMES]:
        parser.error(f"no group {unknown[0]}; there are {', '.join(NAMES)}")
    count, reason = devices()
    if not count:
        print(f"skipped: no CUDA device here ({reason})")
        sys.exit(harness.SKIP)
    if options.probe:
        print(device_line())
        return
    build = harness.Build(options.build, simulated=False)
    if not (build.folder / "gpu").is_dir():
        print(f"skipped: {build.folder}/gpu is not built; run scripts/build.sh release gpu_programs")
        sys.exit(harness.SKIP)

    os.environ["TEST_PROGRAMS"] = str(build.folder / "gpu")  # for Python programs, which open libraries there
    table, begin = Table(), time.monotonic()
    for name, job in [job for group in groups for job in jobs_of(group, build, table, count, options.rounds)]:
        if options.only not in name:
            continue
        if time.monotonic() - begin > options.seconds:
            table.add(name, "SKIP", note=f"not started: {options.seconds} s were up")
            continue
        try:
            job()
        except (AssertionError, OSError, ValueError, KeyError) as fault:
            table.add(name, "FAIL", note=str(fault)[:120])
    finish(table, time.monotonic() - begin, options.out)
    sys.exit(1 if table.failed else 0)


main()
