"""What the report tells of a PyTorch program, against what it is known to hold: lines of Python, the backward pass, phases, libraries.

The group `told` of run.py: torch_told.py under `gpumem run --phases`, PyTorch's cache off. Each row has the wanted and the told size; a
sampled size may differ by 5 %, a phase by its bound, libraries not at all from the ledger.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import harness

EXPECTED = re.compile(r"^expected: (\S+) (\d+) (\d+)$", re.MULTILINE)
MIB = 1 << 20


def by_line(report, line):
    """What sampled sites hold whose Python frames have that line of the program."""
    return sum(site["now_bytes"] for site in report["samples"]["sites"]
               if any(frame.get("file", "").endswith("torch_told.py") and frame.get("line") == line for frame in site["python"]))


def by_autograd(report):
    return sum(site["now_bytes"] for site in report["samples"]["sites"]
               if any(frame.get("function", "").endswith("backward") for frame in site["python"]) or "autograd" in site.get("thread", ""))


def added_in_phase(report, name):
    return sum(device["added_bytes"] for phase in report["phases"]["names"] if phase["name"].replace(" ", "_") == name
               for device in phase["devices"])


def check(build, table):
    run = build.run([sys.executable, str(HERE / "torch_told.py")], tool=["-q", "--phases", "--uncached"], timeout=120)
    if run.code == harness.SKIP:
        table.add("told", "SKIP", note=run.stdout.strip()[-80:])
        return
    if run.code != 0 or not run.reports:
        table.add("told", "FAIL", note=f"exit code {run.code}", details=[run.stderr[-600:]])
        return
    report = run.reports[-1]
    for kind, line, size in EXPECTED.findall(run.stdout):
        wanted = int(size)
        if kind == "python":
            told, bound, name = by_line(report, int(line)), wanted // 20, f"told, Python line {line}"
        elif kind == "autograd":
            told, bound, name = by_autograd(report), wanted // 20, "told, backward pass"
        else:
            told, bound, name = added_in_phase(report, kind.partition(":")[2]), max(8 * MIB, wanted // 100), f"told, {kind}"
        good = abs(told - wanted) <= bound
        table.add(name, "PASS" if good else "FAIL", f"{wanted / MIB:.0f} MiB", f"{told / MIB:.1f} MiB", f"within {bound / MIB:.0f} MiB",
                  [] if good else [str(report.get("phases"))[:1500], str(report["samples"]["sites"][:6])[:3000]])
    device = report["devices"][0]
    routed = sum(library["routed_bytes"] for library in device["libraries"])
    ledger = device["now"]["requested_bytes"]
    table.add("told, libraries add up to the ledger", "PASS" if routed == ledger else "FAIL", f"{ledger:,} B", f"{routed:,} B")


def jobs(build, table, _config_file, _rounds):
    return [("told", lambda: check(build, table))]
