"""What a recording costs: ns and bytes an event, and the ratio to the same loop without one, run in turns.

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

LOOPS = (("pairs", "malloc", 4096), ("pairs", "async", 4096), ("pairs", "malloc", 1 << 20), ("pairs", "async", 1 << 20))


def once(build, program, loop, recording, state):
    workload, allocator, size = loop
    env = {"LD_PRELOAD": build.preload(), "GPUMEM_REPORT": "none", "GPUMEM_STATE_DIR": state}
    if recording is not None:
        env["GPUMEM_RECORD"] = recording
    done = subprocess.run([program, workload, allocator, "seconds=0.5", f"bytes={size}"], capture_output=True, text=True,
                          env=build.environment(env), check=True)
    values = [json.loads(line) for line in done.stdout.splitlines()]
    return next(value["value"] for value in values if value["metric"] == "pair" and value["unit"] == "ns")


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
    print(f"{'loop':28} {'plain ns':>9} {'recorded':>9} {'ratio':>6} {'ns/event':>9} {'bytes/event':>12}")
    with tempfile.TemporaryDirectory(dir=wanted.folder, prefix="gpumem-cost.") as folder:
        state = os.environ.get("GPUMEM_STATE_DIR", f"{folder}/state")
        for loop in LOOPS:
            plain, recorded, sizes = [], [], []
            for number in range(wanted.rounds):
                plain.append(once(build, program, loop, None, state))
                path = pathlib.Path(folder) / f"recording.{number}"
                recorded.append(once(build, program, loop, str(path), state))
                found = json.loads(subprocess.run([ledger, str(path)], capture_output=True, text=True, check=True).stdout)
                assert not found["faults"] and not found["contradictions"], found
                sizes.append(found["bytes"] / found["events"])
                path.unlink()
            without, having = statistics.median(plain), statistics.median(recorded)
            name = f"{loop[0]} {loop[1]} {loop[2] >> 10} KiB"
            print(f"{name:28} {without:9.1f} {having:9.1f} {having / without:6.3f} {(having - without) / 2:9.1f} {statistics.median(sizes):12.1f}")


main()
