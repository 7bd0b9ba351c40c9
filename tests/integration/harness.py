"""Runs a program plain and under the preload library and reads what came of it: output, code, reports.

Used by the integration tests (simulated CUDA) and by tests/gpu/run.py (a real one). Standard library only, but for Python before 3.11. A report or a
state page never lands outside the run's own temporary folder, so runs may go on side by side.
"""
import collections
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import ledger_oracle
import report_schema

SKIP = 77
ALLOCATIONS = ("cuMemAlloc", "cuMemAllocAsync")
COUNTED = ALLOCATIONS + ("cuMemFree", "cuMemFreeAsync")


class Skipped(Exception):
    """The test cannot run here; the text says why."""


class Outcome:
    """One finished run."""

    def __init__(self, code, stdout, stderr, seconds, folder):
        self.code, self.stdout, self.stderr, self.seconds = code, stdout, stderr, seconds
        self.texts = sorted(p.read_text() for p in folder.glob("report.*.txt*")) if folder else []
        self.reports = []
        for path in sorted(folder.glob("report.*.json*")) if folder else []:
            self.reports.append(read_json(path.read_text()))
        # What the simulated driver knew at the end, by process.
        self.known = {int(path.name.split(".")[1]): json.loads(path.read_text())
                      for path in (sorted(folder.glob("simulated.*.json")) if folder else [])}
        self.state = sorted(p.name for p in (folder / "state").rglob("*")) if folder else []


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"duplicate keys in the JSON report: {keys}"
    return dict(pairs)


def read_json(text):
    """A report: each is as core/report/report.schema.json has it."""
    report = json.loads(text, object_pairs_hook=no_duplicates)
    faults = report_schema.faults_of(report)
    assert not faults, "; ".join(faults)
    return report


class Build:
    """A build folder, and how to run programs of it."""

    def __init__(self, folder, simulated=True):
        self.folder = pathlib.Path(folder).resolve()
        self.library = self.folder / "libgpumem.so"
        self.tool = self.folder / "gpumem"
        self.simulated = self.folder / "simulated" if simulated else None
        runtime = self.folder / "sanitizer_runtime.txt"  # of a sanitizer build: its library, if any, must be loaded first
        self.sanitized = runtime.exists()
        self.first = runtime.read_text().split() if self.sanitized else []
        emulator = self.folder / "emulator.txt"          # of a build for another processor: its command
        self.emulator = emulator.read_text().split() if emulator.exists() else []

    def program(self, name):
        path = self.folder / ("programs" if self.simulated else "gpu") / name
        assert path.exists(), f"{path} is not built"
        return str(path)

    def old_driver(self, version):
        """The environment in which a program meets a driver of that CUDA version."""
        folder = self.folder / "simulated_old" / version
        assert (folder / "libcuda.so.1").exists(), f"{folder} is not built"
        return {"LD_LIBRARY_PATH": f"{folder}:{self.simulated}:{self.folder / 'programs' / 'lib'}"}

    def preload(self, library="libgpumem.so"):
        """The value of LD_PRELOAD for a library of the build."""
        path = self.folder / library
        assert path.exists(), f"{path} is not built"
        return ":".join([*self.first, str(path)])

    def environment(self, extra=None):
        """The caller's, without anything that steers gpumem, the loader or the simulator, and then `extra`."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GPUMEM_") and k != "LD_PRELOAD"}
        if self.simulated:
            kept["LD_LIBRARY_PATH"] = f"{self.simulated}:{self.folder / 'programs' / 'lib'}"
            kept["GPUMEM_SIMULATED_STRICT"] = "1"
        if self.sanitized:
            # operator new for std::nothrow is the sanitizer's, delete the library's own. What lives to the end is meant to;
            # whole objects are searched for a name; programs fork while threads are at work.
            kept["ASAN_OPTIONS"] = "detect_leaks=0:alloc_dealloc_mismatch=0:intercept_memmem=0"
            kept["TSAN_OPTIONS"] = "die_after_fork=0"
        kept.update(extra or {})
        return {k: v for k, v in kept.items() if v is not None}

    def run(self, command, preload=False, env=None, timeout=120, cwd=None, tool=None):
        """Runs `command`; preloaded or under `tool` (arguments of `gpumem run`) its reports go to files and are read."""
        with tempfile.TemporaryDirectory(prefix="gpumem-test.") as name:
            folder = pathlib.Path(name)
            extra = {}
            if preload or tool is not None:
                (folder / "state").mkdir(mode=0o700)
                extra = {
                    "GPUMEM_REPORT": str(folder / "report.%p.%x.txt"),
                    "GPUMEM_JSON": str(folder / "report.%p.%x.json"),
                    "GPUMEM_STATE_DIR": str(folder / "state"),
                }
            if preload:
                extra["LD_PRELOAD"] = self.preload()
                if self.simulated:
                    extra["GPUMEM_SIMULATED_LEDGER"] = str(folder / "simulated.%p.json")
            if tool is not None:
                command = [str(self.tool), "run", *tool, "--", *command]
            extra.update(env or {})
            environment = self.environment(extra)
            if self.emulator:                            # what the loader reads is the program's, not the emulator's
                loaders = {key: environment.pop(key) for key in list(environment) if key.startswith("LD_")}
                command = [*self.emulator, *(part for key, value in loaders.items() for part in ("-E", f"{key}={value}")), *command]
            # Descriptors to files, not pipes: a pipe stays open in children that outlive the program.
            with open(folder / "stdout", "w+b") as out, open(folder / "stderr", "w+b") as err:
                begin = time.monotonic()
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd,
                                           env=environment)
                try:
                    code = process.wait(timeout)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    code = f"none, stopped after {timeout} s"
                seconds = time.monotonic() - begin
            texts = [(folder / which).read_bytes().decode(errors="replace") for which in ("stdout", "stderr")]
            return Outcome(code, texts[0], texts[1], seconds, folder if extra else None)


def base_name(symbol):
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", symbol)


def own_counts(stdout):
    """One counter for each `counts:` line that a program printed."""
    found = []
    for line in stdout.splitlines():
        if line.startswith("counts:"):
            pairs = (item.split("=") for item in line.split()[1:])
            found.append({key: int(value) for key, value in pairs if int(value)})
    return found


def report_counts(report):
    """The same figures out of a JSON report."""
    counts = collections.Counter()
    for hook in report["intercept"]["hooks"]:
        name = base_name(hook["symbol"])
        if name in COUNTED:
            counts[name] += hook["calls"]
            if name in ALLOCATIONS:
                counts["bytes"] += hook["requested_bytes"]
    return {key: value for key, value in counts.items() if value}


def count_faults(outcome, earlier=()):
    """Every `counts:` line must have its report; a process that printed none must have asked for nothing. `earlier`: what was asked
    before each program, in its process."""
    own = own_counts(outcome.stdout)
    own = [collections.Counter(c) + collections.Counter(before) for c, before in itertools.zip_longest(own, earlier, fillvalue={})]
    own = sorted(sorted(c.items()) for c in own)
    reported = sorted(sorted(report_counts(r).items()) for r in outcome.reports)
    reported = [r for r in reported if r]
    if own == reported:
        return []
    return [f"the program counted {[dict(c) for c in own]}", f"the reports say      {[dict(c) for c in reported]}"]


def first_difference(name, plain, preloaded):
    if plain == preloaded:
        return []
    if not isinstance(plain, str):
        return [f"{name}: plain {plain}, preloaded {preloaded}"]
    a, b = plain.splitlines(), preloaded.splitlines()
    for number in range(max(len(a), len(b))):
        left = a[number] if number < len(a) else "(ends)"
        right = b[number] if number < len(b) else "(ends)"
        if left != right:
            return [f"{name}, line {number + 1}:", f"  plain     {left}", f"  preloaded {right}"]
    return [f"{name} differs in its line ends"]


def differences(plain, preloaded):
    """What a user would notice between the two runs."""
    return (first_difference("exit code", plain.code, preloaded.code)
            + first_difference("stdout", plain.stdout, preloaded.stdout)
            + first_difference("stderr", plain.stderr, preloaded.stderr))


def ledger_faults(report, known=None, noted=True, peaks=True):
    """The rows of the ledger must add up, at exit and at the peak, and be what the simulated driver knew at the end."""
    faults = ledger_oracle.faults_of(report, known, noted, peaks)
    for device in report["devices"]:
        for when in ("now", "at_peak"):
            row = device.get(when)
            if not row or row.get("reserved_bytes") is None:
                continue
            parts = [row[f"{key}_bytes"] for key in ("requested", "rounding", "pending", "cached")]
            if any(part is None or part < 0 for part in parts) or sum(parts) != row["reserved_bytes"]:
                faults.append(f"device {device['device']} {when}: {parts} do not add up to {row['reserved_bytes']}")
    return faults


def require_tool(name):
    path = shutil.which(name)
    if not path:
        raise Skipped(f"{name} is not installed")
    return path


def main(tests):
    """argv: BUILD [test name...]. Runs the test_* functions, each with a Build; 77 when all of them were skipped."""
    build = Build(sys.argv[1])
    functions = {name: f for name, f in tests.items() if name.startswith("test_")}
    names = sys.argv[2:] or list(functions)
    failed = skipped = 0
    for name in names:
        try:
            functions[name](build)
            print(f"passed  {name}")
        except Skipped as reason:
            skipped += 1
            print(f"skipped {name}: {reason}")
        except AssertionError as fault:
            failed += 1
            print(f"FAILED  {name}: {fault}")
    if failed:
        sys.exit(1)
    sys.exit(SKIP if skipped == len(names) else 0)


def equal(actual, wanted, what):
    assert actual == wanted, f"{what}: {actual!r}, wanted {wanted!r}"
