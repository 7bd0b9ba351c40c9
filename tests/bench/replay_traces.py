"""Reserved against requested memory of recorded traces, over each chain, on the simulated CUDA: no GPU is needed.

replay_traces.py BUILD [--golden FILE] [--chain NAME,...] [TRACE...]: traces are files of tests/bench/traces by default; a
chain is "default" or a TOML file of configs/ or config/examples. Each block is used by a kernel of 0 ns (what space costs) and
of 2 us (and what frees cost that the GPU has not caught up with). With --golden a ratio of the first kind more than 2 %
and a page of the driver above the file's is a fault: how long a loop takes decides which blocks it keeps. So is one a tenth and
a page below it, as what was gained could be lost again unseen; UPDATE_GOLDEN=1 writes it.
"""
import argparse
import gzip
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness
import instruction_counts
import performance
import tables

CHAINS = ("default", "compact", "compact_vmm", "replay_binning", "replay_tight")
KERNELS = (0, 2000)
TOLERANCE, PAGE = 0.02, 2 << 20


def config_file(chain):
    if chain == "default":
        return ""
    found = [path for path in (HERE / "configs" / f"{chain}.toml", ROOT / "config" / "examples" / f"{chain}.toml")
             if path.exists()]
    return str(found[0]) if found else sys.exit(f"no chain {chain}: neither in tests/bench/configs nor in config/examples")


def replay(build, trace, chain, kernel):
    """(requested at its peak, reserved at its peak) in bytes."""
    with tempfile.NamedTemporaryFile(suffix=".trace") as plain:
        plain.write(gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes())
        plain.flush()
        env = {"GPUMEM_SIMULATED_MEMORY": str(64 << 30)}
        if config_file(chain):
            env["GPUMEM_CONFIG"] = config_file(chain)
        outcome = build.run([build.program("trace_replay"), plain.name, str(kernel)], preload=True, env=env)
    if outcome.code != 0 or not outcome.reports:
        sys.exit(f"{trace.name} over {chain}: exit code {outcome.code}\n{outcome.stderr[-2000:]}")
    reserved = sum(device["at_peak"]["reserved_bytes"] for device in outcome.reports[0]["devices"])
    return json.loads(outcome.stdout.splitlines()[-1])["requested_peak"], reserved


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--golden")
    parser.add_argument("--chain", default=",".join(CHAINS))
    options = parser.parse_args()
    build, rows, ratios, page_of = harness.Build(options.build), [], {}, {}
    traces = [pathlib.Path(name) for name in options.traces] or sorted((HERE / "traces").glob("*.trace.gz"))
    for trace in traces:
        for chain, kernel in ((chain, kernel) for chain in options.chain.split(",") for kernel in KERNELS):
            requested, reserved = replay(build, trace, chain, kernel)
            name = trace.name.split(".")[0]
            if kernel == 0:                  # with kernels a growth depends on how long the host waits, in real time
                ratios[f"{name} {chain}"] = round(reserved / requested, 4)
                page_of[f"{name} {chain}"] = PAGE / requested
            rows.append((name, chain, f"{kernel} ns", f"{requested / 2**20:.1f} MiB", f"{reserved / 2**20:.1f} MiB", f"{reserved / requested:.3f}"))
    print(tables.table(("trace", "chain", "kernel", "requested at its peak", "reserved at its peak", "ratio"), rows))
    if not options.golden:
        return
    golden = pathlib.Path(options.golden)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(json.dumps(ratios, indent=1) + "\n")
        performance.refresh()
        return
    wanted = json.loads(golden.read_text())
    faults = [f"{name}: {ratio}, the golden file has {wanted.get(name)}: more than {TOLERANCE:.0%} and a page above" for name, ratio in ratios.items()
              if name not in wanted or ratio > wanted[name] * (1 + TOLERANCE) + page_of[name]]
    faults += [f"{name}: {ratio}, the golden file has {wanted[name]}: stale, UPDATE_GOLDEN=1 writes it" for name, ratio in ratios.items()
               if name in wanted and ratio < wanted[name] * (1 - instruction_counts.STALE) - page_of[name]]
    faults += [f"{name}: in the golden file, not replayed" for name in wanted.keys() - ratios.keys()]
    for fault in faults:
        print(f"golden: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
