"""The GPU programs under compute-sanitizer memcheck: plain, with GPUMEM_DISABLE=1, and with gpumem active.

Switched off, everything must be as plain: output, exit code, count of errors. Active, no error may be new. `overrun` is
wrong on purpose and must be reported both plain and switched off, or the tool did not look. Used by run.py.
"""
import glob
import pathlib
import re
import shutil
import tempfile

import harness
from cases import SANITIZED

PLACES = ("/usr/local/cuda*/bin/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer/compute-sanitizer",
          "/opt/nvidia/*/compute-sanitizer", "/usr/lib/nvidia-cuda-toolkit/compute-sanitizer/compute-sanitizer")
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error")


def find():
    found = shutil.which("compute-sanitizer")
    return found or next((path for place in PLACES for path in sorted(glob.glob(place))), None)


class Checked:
    """One run under the tool: what the program gave, and how many errors the tool counted (None: it wrote no summary)."""

    def __init__(self, build, tool, program, arguments, preload, env=None):
        with tempfile.TemporaryDirectory(prefix="gpumem-memcheck.") as folder:
            log = pathlib.Path(folder) / "log"
            command = [tool, "--tool", "memcheck", "--log-file", str(log), build.program(program), *arguments]
            self.outcome = build.run(command, preload=preload, env=env, timeout=90)
            self.log = log.read_text(errors="replace") if log.exists() else ""
        summary = SUMMARY.findall(self.log)
        self.errors = sum(map(int, summary)) if summary else None


def faults_of(plain, off, active, must_find):
    faults = harness.differences(plain.outcome, off.outcome)
    if plain.errors is None or off.errors is None or active.errors is None:
        return faults + [f"no summary by the tool: {(plain.log or plain.outcome.stderr)[-300:]!r}"]
    if off.errors != plain.errors:
        faults.append(f"switched off: {off.errors} errors, plain {plain.errors}: {off.log[:600]!r}")
    if must_find:
        return faults if plain.errors else faults + ["the overrun was not found"]
    faults += harness.differences(plain.outcome, active.outcome)
    if not active.outcome.reports:
        faults.append("active: no JSON report was written")
    if active.errors > plain.errors:
        faults.append(f"active: {active.errors} errors, plain {plain.errors}: {active.log[:600]!r}")
    return faults


def jobs(build, table):
    """(name, function) of each case; one skipped row where there is no tool."""
    tool = find()
    if tool is None:
        return [("memcheck", lambda: table.add("memcheck", "SKIP", note="compute-sanitizer is not installed"))]

    def check(program, arguments, must_find):
        plain = Checked(build, tool, program, arguments, preload=False)
        off = Checked(build, tool, program, arguments, preload=True, env={"GPUMEM_DISABLE": "1"})
        active = Checked(build, tool, program, arguments, preload=True)
        faults = faults_of(plain, off, active, must_find)
        table.add(f"memcheck {program}", "FAIL" if faults else "PASS", f"{plain.outcome.seconds:.1f} s",
                  f"{active.outcome.seconds:.1f} s",
                  f"errors: plain {plain.errors}, off {off.errors}, active {active.errors}", faults)

    wanted = [("overrun.shared", (), True)] + [(program, arguments, False) for program, *arguments in SANITIZED]
    return [(f"memcheck {program}", lambda case=(program, arguments, must): check(*case))
            for program, arguments, must in wanted]
