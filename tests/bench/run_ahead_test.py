"""The host runs ahead of the GPU over the default chain, and no further than it has to: run_ahead_test.py BUILD.

Four streams of kernels with a temporary each by cudaMalloc, in simulated time (workload `concurrency`): with 1 to 64 MiB a kernel
the GPU is at work nearly all the time, and at most 16 blocks and one are reserved for it. While a request that waits leaves the GPU
without work it takes 1.3 to 4 times the time.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness

MIB = 1 << 20
MOST_TIMES = 1.15          # 1.01 to 1.02 measured
MOST_BLOCKS = 17
SMALL = 16 * MIB           # what small growths may come to

build = harness.Build(sys.argv[1])
for mib in (1, 8, 64):
    report = build.folder / f"run_ahead.{mib}.json"
    outcome = build.run([build.program("bench.static"), "concurrency", "malloc", f"bytes={mib * MIB}"], preload=True,
                        env={"GPUMEM_REPORT": "none", "GPUMEM_JSON": str(report), "GPUMEM_SIMULATED_MEMORY": str(80 << 30)})
    assert outcome.code == 0, outcome.stderr
    lines = {line["metric"]: line["value"] for line in map(json.loads, outcome.stdout.splitlines())}
    reserved = json.loads(report.read_text())["devices"][0]["at_peak"]["reserved_bytes"]
    report.unlink()
    print(f"{mib} MiB: {lines['against no allocation']:.2f} times, {reserved // MIB} MiB reserved")
    assert lines["against no allocation"] <= MOST_TIMES, f"{mib} MiB: the GPU waits for the host"
    assert reserved <= MOST_BLOCKS * mib * MIB + SMALL, f"{mib} MiB: {reserved // MIB} MiB reserved"
