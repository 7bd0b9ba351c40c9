"""Runs every program of the label gpu plain and preloaded on a real GPU and prints one table: result, times, figures.

run.py [--build FOLDER] [--out FILE] [--only TEXT] [--seconds N] [--probe]. Equal stdout (lines `time:` aside), stderr and
exit code, counts equal to the program's own, no wrong word. Exits 77 without a GPU, 1 when a row failed.
"""
import argparse
import ctypes
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import harness
from cases import CASES, LINKS, PYTHON_CASES

PROGRAMS = ROOT / "tests" / "integration" / "programs"
TIME = re.compile(r"^time: (.*?) ([\d.]+) (ns|us|ms)$", re.MULTILINE)


def no_device():
    """Why there is no GPU to run on; empty where there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as reason:
        return str(reason)
    count = ctypes.c_int(0)
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if code == 0 and count.value else f"cuInit or cuDeviceGetCount gave {code}, {count.value} devices"


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


class Table:
    HEAD = ("test", "result", "plain", "preloaded", "note")

    def __init__(self):
        self.rows, self.failed, self.details = [], 0, []
        self.step_times = {}         # PyTorch's: its own allocator plain, caching off preloaded

    def add(self, name, result, plain="", preloaded="", note="", details=()):
        self.failed += result == "FAIL"
        self.rows.append((name, result, plain, preloaded, note))
        print(f"{result:5} {name}  {note}", flush=True)
        for line in details:
            print(f"      {line}", flush=True)
            self.details.append(f"{name}: {line}")

    def text(self):
        width = [max(len(str(row[i])) for row in [self.HEAD, *self.rows]) for i in range(len(self.HEAD))]
        line = lambda row: "| " + " | ".join(str(cell).ljust(w) for cell, w in zip(row, width)) + " |"
        return "\n".join([line(self.HEAD), "|" + "|".join("-" * (w + 2) for w in width) + "|", *map(line, self.rows)])


def compare(build, case, link, table):
    if link:
        command = [build.program(f"{case.program}.{link}"), *case.arguments]
    else:
        command = [sys.executable, str(ROOT / "tests" / "gpu" / case.program), *case.arguments]
    name = case.name() + (f", {link}" if link in LINKS else "")
    plain = build.run(command, env=case.env, timeout=case.timeout)
    if plain.code == harness.SKIP:
        table.add(name, "SKIP", note=plain.stdout.strip().splitlines()[-1][:80])
        return
    plain_times = split_times(plain)
    faults = []
    if case.expected:
        wanted = (PROGRAMS / "expected" / case.expected).read_text()
        faults = harness.first_difference("plain stdout against the file of the expected", wanted, plain.stdout)
    for config in ("", *(case.configs if link != "static" else ())):
        env = dict(case.env)
        if config:
            env["GPUMEM_CONFIG"] = str(PROGRAMS / "configs" / f"{config}.toml")
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
            ratio = f"{before / value:.2f} times as fast" if value else ""
            table.add(f"  {what}" + (f", {config}" if config else ""), "time", f"{before:g} {unit}", f"{value:g} {unit}", ratio)
        faults = []


def must_fail(build, name, library, table):
    """Over memory that is handed out too early the test has to report corruption, or it proves nothing: a cache that is
    wrong on purpose, and gpumem itself with its protection switched off (GPUMEM_TEST_UNSAFE_REUSE)."""
    unsafe = build.run([build.program(name), "100"], timeout=60,
                       env={"LD_PRELOAD": str(build.folder / library), "GPUMEM_REPORT": "none"})
    note = next((line for line in unsafe.stdout.splitlines() if "wrong" in line), f"exit code {unsafe.code}")
    caught = unsafe.code == 1 and " 0 wrong" not in unsafe.stdout
    table.add(f"{name} over {library} must fail", "PASS" if caught else "FAIL", note=note, details=[] if caught else [unsafe.stderr])


def killed(build, table):
    run = build.run([build.program("exits.static"), "kill"], tool=["-q"], timeout=60)
    faults = harness.count_faults(run)
    if run.code != 137:
        faults.append(f"exit code {run.code}, wanted 137: {run.stderr[-400:]}")
    if not run.reports or run.reports[0]["end"]["signal"] != 9:
        faults.append("the report does not say SIGKILL")
    table.add("kill -9 under gpumem run", "FAIL" if faults else "PASS", note="full counters, marked killed", details=faults)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--out", help="file for the table as well")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--seconds", type=int, default=330, help="no case is started after this")
    parser.add_argument("--probe", action="store_true", help="only say whether there is a GPU")
    options = parser.parse_args()
    reason = no_device()
    if reason:
        print(f"skipped: no CUDA device here ({reason})")
        sys.exit(harness.SKIP)
    if options.probe:
        print(device_line())
        return
    build = harness.Build(options.build, simulated=False)
    if not (build.folder / "gpu").is_dir():
        print(f"skipped: {build.folder}/gpu is not built; run scripts/build.sh release gpu_programs")
        sys.exit(harness.SKIP)

    table, begin = Table(), time.monotonic()
    jobs = [(f"{name} must fail", lambda name=name, library=library: must_fail(build, name, library, table))
            for name, library in (("reuse_hazard.shared", "gpu/libunsafe_cache.so"), ("reuse.shared", "gpu/libunsafe_cache.so"),
                                  ("reuse_hazard.shared", "libgpumem_unsafe.so"))]
    jobs.append(("kill -9 under gpumem run", lambda: killed(build, table)))
    for case in [*CASES, *PYTHON_CASES]:
        jobs += [(case.name(), lambda case=case, link=link: compare(build, case, link, table)) for link in case.links]
    for name, job in jobs:
        if options.only not in name:
            continue
        if time.monotonic() - begin > options.seconds:
            table.add(name, "SKIP", note=f"not started: {options.seconds} s were up")
            continue
        try:
            job()
        except (AssertionError, OSError, ValueError, KeyError) as fault:
            table.add(name, "FAIL", note=str(fault)[:120])

    own, bare = table.step_times.get("own cache"), table.step_times.get("cache off")
    if own and bare:
        table.add("PyTorch: caching off under gpumem / its own allocator", "time", f"{own:g} ms", f"{bare:g} ms",
                  f"{bare / own:.3f} times its own")
    count = lambda result: sum(row[1] == result for row in table.rows)
    text = "\n".join([f"# {device_line()}", "", table.text(), "",
                      f"{count('PASS')} passed, {table.failed} failed, {count('SKIP')} skipped,"
                      f" {time.monotonic() - begin:.0f} s", *(f"    {line}" for line in table.details), ""])
    print("\n" + text)
    if options.out:
        pathlib.Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(options.out).write_text(text)
    sys.exit(1 if table.failed else 0)


main()
