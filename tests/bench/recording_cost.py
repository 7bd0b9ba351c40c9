"""What samples and a recording cost a pair: the same loop without samples, as it is by default, and recorded, in turns.

recording_cost.py BUILD [--cuda] [--folder FOLDER] [--rounds N]: on the simulated CUDA, or with --cuda on a machine's own. FOLDER is where the
recordings lie (a tmpfs, a disk); their buffers are in GPUMEM_STATE_DIR as that is set, else in FOLDER. Medians of the rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness

ALLOCATORS = ("malloc", "async")
LOOPS = [("pairs", allocator, f"bytes={size}") for size in (4 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 1 << 30)
         for allocator in ALLOCATORS] + [("threads", allocator, "threads=1") for allocator in ALLOCATORS]
NO_SAMPLES = {"GPUMEM_CONFIG": str(pathlib.Path(__file__).resolve().parent / "configs" / "no_samples.toml")}


def once(build, program, loop, more, state):
    """Nanoseconds of a pair, by name of the case."""
    workload, allocator, option = loop
    env = {"LD_PRELOAD": build.preload(), "GPUMEM_REPORT": "none", "GPUMEM_STATE_DIR": state, **more}
    done = subprocess.run([program, workload, allocator, "seconds=0.5", option], capture_output=True, text=True,
                          env=build.environment(env), check=True)
    times = {}
    for value in map(json.loads, done.stdout.splitlines()):
        if value["metric"] == "pair" and value["unit"] == "ns":
            times[value["case"]] = value["value"]
        elif value["metric"] == "throughput":
            times[value["case"]] = 1e3 / value["value"]
    return times


def main():
    given = argparse.ArgumentParser()
    given.add_argument("build")
    given.add_argument("--cuda", action="store_true")
    given.add_argument("--folder", default=None)
    given.add_argument("--rounds", type=int, default=7)
    wanted = given.parse_args()
    build = harness.Build(wanted.build, simulated=not wanted.cuda)
    program = wanted.build + ("/gpu/bench.shared" if wanted.cuda else "/programs/bench.shared")
    ledger = str(build.folder / "programs" / "recording_ledger")
    print(f"{'loop':33} {'no samples, ns':>14} {'samples':>8} {'more':>6} {'recorded':>9} {'ratio':>6} {'ns/event':>9} {'bytes/event':>12}")
    with tempfile.TemporaryDirectory(dir=wanted.folder, prefix="gpumem-cost.") as folder:
        state = os.environ.get("GPUMEM_STATE_DIR", f"{folder}/state")
        for loop in LOOPS:
            bare, plain, recorded, sizes = [], [], [], []
            for number in range(wanted.rounds):
                bare.append(once(build, program, loop, NO_SAMPLES, state))
                plain.append(once(build, program, loop, {}, state))
                path = pathlib.Path(folder) / f"recording.{number}"
                recorded.append(once(build, program, loop, {"GPUMEM_RECORD": str(path)}, state))
                found = json.loads(subprocess.run([ledger, str(path)], capture_output=True, text=True, check=True).stdout)
                assert not found["faults"] and not found["contradictions"], found
                sizes.append(found["bytes"] / found["events"])
                path.unlink()
            for case in bare[0]:
                never, without, having = (statistics.median(times[case] for times in rounds)
                                          for rounds in (bare, plain, recorded))
                print(f"{case:26} {loop[1]:6} {never:14.1f} {without:8.1f} {without - never:6.1f} {having:9.1f} "
                      f"{having / without:6.3f} {(having - without) / 2:9.1f} {statistics.median(sizes):12.1f}", flush=True)


main()
