"""Where the memory of the workload `footprint` is when most is reserved: requested, rounding, pending, idle; by chain, over several seeds.

footprint_parts.py BUILD [--cuda] [--seeds N] [--chain NAME,...] [--library FILE]: on the simulated CUDA, or with --cuda on a machine's own. A chain is
"CALL" (native) or "CALL NAME", where CALL is malloc or async and NAME "default" or a file of configs/ or config/examples. `highest` is what the device had in
use, the other columns are of the report's `at_peak`; means in MiB. `times native` compares with the native row of the same call, `grown` counts growths.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness
import tables

CHAINS = ("malloc", "async", "malloc default", "async default", "malloc compact", "malloc compact_vmm", "async compact_vmm", "malloc arena", "async arena")
PARTS = ("requested", "rounding", "pending", "cached", "reserved")
COLUMNS = ("chain", "held", "highest", "times native", "us", "requested", "rounding", "pending", "idle", "reserved", "grown")
MIB = 1 << 20


def config_file(chain):
    found = [path for path in (HERE / "configs" / f"{chain}.toml", ROOT / "config" / "examples" / f"{chain}.toml") if path.exists()]
    return str(found[0]) if found else sys.exit(f"no chain {chain}: neither in tests/bench/configs nor in config/examples")


def once(build, program, call, chain, seed, library):
    """One process: figures by name."""
    with tempfile.TemporaryDirectory(prefix="gpumem-parts.") as folder:
        report = pathlib.Path(folder) / "report.json"
        env = {"GPUMEM_SIMULATED_MEMORY": str(64 << 30)} if build.simulated else {}
        if chain:
            env.update(LD_PRELOAD=library or build.preload(), GPUMEM_REPORT="none", GPUMEM_JSON=str(report), GPUMEM_STATE_DIR=folder)
            if chain != "default":
                env["GPUMEM_CONFIG"] = config_file(chain)
        done = subprocess.run([program, "footprint", call, f"seed={seed}"], capture_output=True, text=True, env=build.environment(env))
        if done.returncode != 0:
            sys.exit(f"{call} {chain}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        lines = {line["metric"]: line["value"] for line in map(json.loads, done.stdout.splitlines())}
        found = {"held": lines["held at once at most"], "highest": lines.get("highest use of the device", 0), "us": lines["operation"]}
        if chain:
            device = json.loads(report.read_text())["devices"][0]
            found.update({part: device["at_peak"][f"{part}_bytes"] / MIB for part in PARTS})
            found["grown"] = device["counters"]["rung_grown"]
        return found


def main():
    given = argparse.ArgumentParser()
    given.add_argument("build")
    given.add_argument("--cuda", action="store_true")
    given.add_argument("--seeds", type=int, default=6)
    given.add_argument("--chain", default=",".join(CHAINS))
    given.add_argument("--library", help="preloaded instead of the build's: an older one, to compare with")
    wanted = given.parse_args()
    build = harness.Build(wanted.build, simulated=not wanted.cuda)
    program = build.program("bench.static")
    rows, native = [], {}
    for name in wanted.chain.split(","):
        call, _, chain = name.partition(" ")
        library = os.path.abspath(wanted.library) if wanted.library else None
        runs = [once(build, program, call, chain, seed, library) for seed in range(1, wanted.seeds + 1)]
        mean = {key: statistics.mean(run[key] for run in runs) for key in runs[0]}
        if not chain:
            native[call] = mean["highest"]
        ratio = f"{mean['highest'] / native[call]:.2f}" if native.get(call) else ""
        part = [f"{mean[key]:.0f}" if key in mean else "" for key in (*PARTS, "grown")]
        rows.append((name, f"{mean['held']:.0f}", f"{mean['highest']:.0f}", ratio, f"{mean['us']:.1f}", *part))
    print(tables.table(COLUMNS, rows))


main()
