"""NVIDIA's tools with gpumem: each started before it (the tool runs the program, LD_PRELOAD is in the environment) and behind
it (`gpumem run -- tool program`), against the tool alone: the same findings, and planted faults are found. Used by run.py.

Two findings depend on whose allocation a block is. An overrun into the rest of a pool's segment is not seen by memcheck, but
with every block an allocation of the driver's (chain `cuda` alone) it is. Checkpoints (cuCheckpointProcess...) are here as well.
"""
import csv
import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import harness

PLACES = ("/usr/local/cuda*/bin/{0}", "/usr/local/cuda*/compute-sanitizer/{0}", "/opt/nvidia/nsight-compute/*/{0}",
          "/opt/nvidia/nsight-systems/*/bin/{0}", "/opt/nvidia/nsight-compute/*/host/target-linux-x64/{0}")
FAULTS = {"memcheck": "overrun", "racecheck": "race", "initcheck": "uninitialised", "synccheck": "barrier"}


def find(name):
    return shutil.which(name) or next((path for place in PLACES for path in sorted(glob.glob(place.format(name)))), None)


def sanitizer_findings(outcome, log):
    """Kinds of errors with their numbers: addresses, threads and lines of the call stack differ anyway."""
    kinds = re.findall(r"=========\s+((?:Invalid|Uninitialized|Error|Warning|Barrier|Potential|Race|Program hit)[^\n]*)", log)
    kinds = sorted({re.sub(r"0x[0-9a-f]+|\d+ hazards?|\d+", "#", kind) for kind in kinds})
    # After a lost context it is of no account which call hears of it, the runtime's or the driver's below.
    kinds = [kind for kind in kinds if not kind.startswith("Program hit")]
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: ([^\n]*)", log)
    return kinds, summary


def debugger_findings(outcome, log):
    kept = [line for line in outcome.stdout.splitlines()
            if re.match(r"(Breakpoint \d|.*hit Breakpoint|\$\d+ =|\[Inferior.*exited|#\d|CUDA Exception)", line)]
    kept += re.findall(r"total \d+, \w+: \w+", outcome.stdout)  # the program's own, wherever it got between
    return [re.sub(r"0x[0-9a-f]+|process \d+|\bLWP \d+|grid \d+|Thread [^ ]+", "#", line) for line in kept], None


def profiler_findings(outcome, log):
    rows = [line.split('","') for line in outcome.stdout.splitlines() if re.match(r'"\d+",', line)]
    return [f"{row[4]} {row[-2]} {row[-1]}" if len(row) > 5 else str(row) for row in rows], None


def system_findings(outcome, log):
    return [line for line in outcome.stdout.splitlines() if line.startswith("total ")], None


def jobs_of_sanitizer(build):
    tool = find("compute-sanitizer")
    for kind, fault in FAULTS.items():
        for what in ("none", fault):
            yield (f"{kind} {what}", tool, ["--tool", kind, "--log-file", "{folder}/log"], [what], sanitizer_findings, what != "none")


def jobs_of_others(build):
    commands = [part for text in ("set pagination off", "set confirm off", "break sum_of", "run", "bt", "print left + right",
                                  "info cuda kernels", "delete", "continue") for part in ("-ex", text)]
    yield "cuda-gdb", find("cuda-gdb"), ["-q", "-batch", *commands, "--args"], ["none"], debugger_findings, True
    yield ("ncu", find("ncu"), ["--csv", "--target-processes", "all", "--metrics", "launch__grid_size,smsp__inst_executed.sum"],
           ["none"], profiler_findings, True)
    yield "nsys", find("nsys"), ["profile", "--trace=cuda", "-o", "{folder}/trace"], ["none"], system_findings, True


def one_run(build, command, way, config=""):
    with tempfile.TemporaryDirectory(prefix="gpumem-tools.") as folder:
        env = {"GPUMEM_CONFIG": config} if config else {}
        whole = [part.format(folder=folder) for part in command]
        outcome = build.run(whole, preload=way == "before", tool=["-q"] if way == "behind" else None, env=env, timeout=100)
        log = pathlib.Path(folder) / "log"
        return outcome, log.read_text(errors="replace") if log.exists() else ""


def check(build, table, name, tool, options, arguments, read, must_find, config_file):
    if tool is None:
        return table.add(name, "SKIP", note="not installed")
    command = [tool, *options, build.program("planted"), *arguments]
    plain, log = one_run(build, command, "plain")
    wanted, summary = read(plain, log)
    faults = [] if wanted or not must_find else [f"plain found nothing: code {plain.code}, {(log or plain.stdout + plain.stderr)[-500:]!r}"]
    if faults:                                       # the tool does not run here
        return table.add(name, "FAIL" if name.startswith("memcheck") else "SKIP", note="found nothing plain", details=faults)
    ways = [("before", ""), ("behind", "")]
    if name == "memcheck overrun":
        ways = [("before", "direct"), ("behind", "direct")]
    notes, slowest = [], 0
    for way, config in ways:
        loaded, log = one_run(build, command, way, config_file(config) if config else "")
        got, own_summary = read(loaded, log)
        slowest = max(slowest, loaded.seconds)
        if got != wanted or own_summary != summary:
            faults.append(f"{way}: found {got} {own_summary}, plain {wanted} {summary}")
        if loaded.code != plain.code:
            faults.append(f"{way}: exit code {loaded.code}, plain {plain.code}: {loaded.stderr[-200:]!r}")
        if not loaded.reports:
            faults.append(f"{way}: no report was written")
    notes.append(f"{len(wanted)} findings" + (f": {wanted[0][:60]}" if wanted else "") + f" {summary or ''}")
    table.add(f"{name}" + (f" ({ways[0][1]})" if ways[0][1] else ""), "FAIL" if faults else "PASS", f"{plain.seconds:.1f} s",
              f"{slowest:.1f} s", notes[0], faults)


RANGES = ("load", "forward", "backward", *(f"step {number}" for number in range(20)))  # nvtx_ranges plain
PHASES = {"load": 1, "forward": 20, "backward": 20, "step N": 20}


def ranges_of(nsys, trace):
    """{name: how often} of the program's ranges, as Nsight Systems has them. Where its importer does not run: what it received, uncounted."""
    if (raw := pathlib.Path(f"{trace}.qdstrm")).exists() and not pathlib.Path(f"{trace}.nsys-rep").exists():
        content = raw.read_bytes()
        return {name: 1 for name in RANGES if name.encode() in content}
    said = subprocess.run([nsys, "stats", "-q", "--force-export=true", "--report", "nvtx_sum", "--format", "csv", f"{trace}.nsys-rep"], capture_output=True, text=True,
                          timeout=100)
    rows = list(csv.DictReader(line for line in said.stdout.splitlines() if line.count(",") > 4))
    return {row["Range"].lstrip(":"): int(row["Instances"]) for row in rows}


def ranges(build, table):
    """The program's ranges of NVTX arrive at Nsight Systems, and as phases in the report."""
    nsys = find("nsys")
    if nsys is None:
        return table.add("nsys and phases", "SKIP", note="not installed")
    found, faults = {}, []
    for way in ("plain", "before", "behind"):
        with tempfile.TemporaryDirectory(prefix="gpumem-tools.") as folder:
            command = [nsys, "profile", "--trace=nvtx,cuda", "-o", f"{folder}/trace", build.program("nvtx_ranges.shared"), "plain"]
            outcome = build.run(command, preload=way == "before", tool=["-q", "--phases"] if way == "behind" else None,
                                env={"GPUMEM_PHASES": "1"} if way == "before" else {}, timeout=100)
            found[way] = ranges_of(nsys, f"{folder}/trace")
        if way == "plain":
            if not found[way]:
                return table.add("nsys and phases", "SKIP", note="found nothing plain", details=[outcome.stdout[-300:] + outcome.stderr[-300:]])
            continue
        phases = {}
        for report in outcome.reports:
            for phase in (report.get("phases") or {}).get("names", []):
                phases[phase["name"]] = phases.get(phase["name"], 0) + phase["entered"]
        if found[way] != found["plain"]:
            faults.append(f"{way}: Nsight has {found[way]}, plain {found['plain']}")
        if phases != PHASES:
            faults.append(f"{way}: phases {phases}, wanted {PHASES}")
    table.add("nsys and phases", "FAIL" if faults else "PASS", note=f"{sum(found['plain'].values())} ranges at both", details=faults)


def checkpoint(build, table, rounds, mode, config_file):
    """The whole number of rounds over the chain of the default, a tenth of it over others."""
    plain = build.run([build.program("checkpoint"), rounds, mode], timeout=280)
    if plain.code == harness.SKIP:
        return table.add(f"checkpoint {mode}", "SKIP", note=plain.stdout.strip())
    text = lambda outcome: [line for line in outcome.stdout.splitlines() if not line.startswith("time:")]
    took = lambda outcome: "".join(re.findall(r"restore (\d+ ms)", outcome.stdout))
    faults = [] if plain.code == 0 else [f"plain ended with {plain.code}: {text(plain)} {plain.stderr[-300:]!r}"]
    for config in ("", "compact_vmm", "pool_over_cuda_async"):
        if config and len(rounds) > 2:
            rounds = rounds[:-1]
            plain = build.run([build.program("checkpoint"), rounds, mode], timeout=280)
        loaded = build.run([build.program("checkpoint"), rounds, mode], preload=True, timeout=280,
                           env={"GPUMEM_CONFIG": config_file(config)} if config else {})
        own = faults if not config else []
        if text(loaded) != text(plain) or loaded.code != plain.code:
            own = own + [f"preloaded {loaded.code} {text(loaded)} {loaded.stderr[-300:]!r}, plain {text(plain)}"]
        table.add(f"checkpoint {mode} {rounds}, {config or 'default'}", "FAIL" if own else "PASS", took(plain), took(loaded),
                  f"{text(loaded)[-1] if text(loaded) else ''}; {took(plain)} and {took(loaded)} each", own)


def jobs(build, table, config_file, rounds):
    found = [(f"tools {name}", lambda row=(name, *rest): check(build, table, *row, config_file))
             for name, *rest in [*jobs_of_sanitizer(build), *jobs_of_others(build)]]
    found.append(("nsys and phases", lambda: ranges(build, table)))
    return found + [(f"checkpoint {mode}", lambda mode=mode: checkpoint(build, table, str(rounds), mode, config_file))
                    for mode in ("idle", "working")]
