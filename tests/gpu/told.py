"""What the report tells of a PyTorch program, against what it is known to hold: lines of Python, the backward pass, phases, libraries.

The group `told` of run.py: torch_told.py under `gpumem run --phases`, PyTorch's cache off. Each row has the wanted and the told size; a
sampled size may differ by 5 %, a phase by its bound, libraries not at all from the ledger. And torch_ddp.py, on two GPUs if there are two.
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


def held(library):
    return library["routed_bytes"] + library["observed_bytes"]


def check_job(build, table, cached):
    """A job on two GPUs, if there are two: of each rank WHO adds up to the ledger, and three libraries have what they took, to 1 %."""
    name = f"told, DDP, {'own cache' if cached else 'cache off'}"
    libraries = [build.program(f"libholding_{number}.so") for number in ("first", "second", "third")]
    run = build.run([sys.executable, str(HERE / "torch_ddp.py"), *libraries], preload=True, timeout=150,
                    env={"NCCL_NVLS_ENABLE": "0", "TORCH_CPP_LOG_LEVEL": "ERROR", **({} if cached else {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})})
    if run.code == harness.SKIP:
        return table.add(name, "SKIP", note=run.stdout.strip()[-80:])
    if run.code != 0:
        return table.add(name, "FAIL", note=f"exit code {run.code}", details=[run.stderr[-900:]])
    wanted = {file: int(size) for file, size in re.findall(r"^expected: (\S+) (\d+)$", run.stdout, re.MULTILINE)}
    ranks, faults = int(re.search(r"^ranks: (\d+)$", run.stdout, re.MULTILINE)[1]), []
    devices = [device for report in run.reports for device in report["devices"] if device["now"]["requested_bytes"] > max(wanted.values())]
    if len(devices) != ranks:
        faults.append(f"{len(devices)} devices hold memory, {ranks} ranks ran")
    for device in devices:
        rows = {pathlib.Path(row.get("path", row.get("name", ""))).name: held(row) for row in device["libraries"]}
        ledger, told = device["now"]["requested_bytes"], sum(row["routed_bytes"] for row in device["libraries"])
        seen, seen_told = device["now"]["observed_bytes"], sum(row["observed_bytes"] for row in device["libraries"])
        good = abs(told - ledger) <= ledger // 100 and abs(seen_told - seen) <= seen // 100
        table.add(f"{name}, WHO and ledger", "PASS" if good else "FAIL", f"{(ledger + seen) / MIB:.1f} MiB", f"{(told + seen_told) / MIB:.1f} MiB",
                  ", ".join(f"{file} {size / MIB:.0f}" for file, size in sorted(rows.items(), key=lambda row: -row[1])[:6]))
        faults += [] if good else [f"ledger {ledger} and {seen}, libraries {told} and {seen_told}"]
        for file, size in wanted.items():
            if abs(rows.get(file, 0) - size) > size // 100:
                faults.append(f"{file} took {size}, WHO says {rows.get(file, 0)}")
        if ranks > 1 and not any("nccl" in file for file in rows):
            faults.append(f"NCCL holds nothing: {rows}")
    table.add(f"{name}, three libraries and {ranks} ranks", "FAIL" if faults else "PASS", note=", ".join(f"{size // MIB} MiB" for size in wanted.values()),
              details=faults)


def jobs(build, table, _config_file, _rounds):
    return [("told", lambda: check(build, table)),
            *((f"told, DDP {cached}", lambda cached=cached: check_job(build, table, cached)) for cached in (False, True))]
