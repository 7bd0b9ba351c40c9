"""Records the real programs' traces on a GPU: record_traces.py BUILD FOLDER. Each runs bare (its own cache off) with the
recorder alone, so that the trace is all that it asks for.

A trace is cut after so many events that the file stays small; a cut trace is a valid one. Look at them with
replay_traces.py BUILD FOLDER/*.trace.gz, then put the chosen ones into tests/bench/traces. Exits 77 without a GPU.
"""
import gzip
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness
import real_programs
import versions

EVENTS = 50000
BARE = ("bare", "platform", "cudaMalloc")     # the variants of real_programs that ask the driver for each block


def record(build, name, path, variants, folder, arguments=()):
    env = next(env for label, _, _, env, *_ in variants if label in BARE)
    command = [sys.executable, str(path)] if isinstance(path, pathlib.Path) else [build.program(path), *arguments]
    with tempfile.TemporaryDirectory(prefix="gpumem-record.") as temporary:
        # The programs may start children: the largest trace is the program's.
        pattern = str(pathlib.Path(temporary, "%p.trace"))
        outcome = build.run(command, timeout=90, env={**env, "GPUMEM_TRACE": pattern,
                                                      "LD_PRELOAD": str(build.folder / "gpu" / "trace_recorder.so")})
        found = sorted(pathlib.Path(temporary).glob("*.trace"), key=lambda trace: trace.stat().st_size)
        if outcome.code != 0 or not found:
            print(f"{name}: exit code {outcome.code}: {(outcome.stdout + outcome.stderr).strip()[-200:]}")
            return
        lines = found[-1].read_text().splitlines()[:EVENTS + 1]
    packed = gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0)
    (folder / f"{name.lower().replace(' ', '_')}.trace.gz").write_bytes(packed)
    print(f"{name}: {len(lines) - 1} events, {len(packed) / 1024:.0f} KiB")


if __name__ == "__main__":
    if versions.no_device():
        print(f"skipped: no CUDA device here ({versions.no_device()})")
        sys.exit(harness.SKIP)
    target = pathlib.Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    for program, file, _, choices in real_programs.PROGRAMS:
        record(harness.Build(sys.argv[1], simulated=False), program, file, choices, target)
        # 8 MiB are four of the driver's pages, which hides what a chain adds: more keys as well.
        if program == "thrust sort":
            record(harness.Build(sys.argv[1], simulated=False), f"{program} 64M", file, choices, target, ["50", str(64 << 20)])
