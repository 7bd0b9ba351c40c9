"""What recordings promise, tried out and printed as tables; nothing here is held to a time.

recording_proofs.py BUILD killed [--calls 1e8] [--threads N] [--folder FOLDER]: so many calls are recorded, then kill -9 in their middle; the
recording is completed and read: each call that had come back is there.
recording_proofs.py BUILD stalled [--calls N] [--rounds N]: the longest call of a program without a recording, with one on a tmpfs, and with one
whose disk takes nothing from the middle on: a file system of Python's (fuse, fusepy: Debian's python3-fusepy), or, where there is none,
the thread that writes, stopped as a debugger stops it. Recordings' buffers are in GPUMEM_STATE_DIR, else on /dev/shm.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import harness
import stalled_writer

STATES = ("open", "complete", "stopped", "recovered")


def calls_so_far(path):
    """Of each thread, by what the program notes in its file."""
    text = path.read_bytes() if path.exists() else b""
    return [struct.unpack_from("Q", text, at)[0] for at in range(0, len(text), 64)]


def replayed(build, path):
    begun = time.monotonic()
    done = subprocess.run([build.program("recording_ledger"), str(path)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout), time.monotonic() - begun


def environment(build, folder, recording, **more):
    env = {"GPUMEM_REPORT": "none", "GPUMEM_JSON": f"{folder}/report.json", "GPUMEM_STATE_DIR": os.environ.get("GPUMEM_STATE_DIR", f"{folder}/state"), **more}
    if recording is not None:
        env["GPUMEM_RECORD"] = str(recording)
    return build.environment({"LD_PRELOAD": build.preload(), **env})


def killed(build, calls, threads, folder):
    """The row of the table, as a dict."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="gpumem-proofs.") as made, \
            tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None, prefix="gpumem-proofs.") as state:
        recording, noted = pathlib.Path(made) / "recording", pathlib.Path(state) / "noted"
        begun = time.monotonic()
        program = subprocess.Popen([build.program("steady_loop.shared"), str(2 * calls), str(threads), str(noted)],
                                   env=environment(build, state, recording), stdout=subprocess.DEVNULL)
        while sum(calls_so_far(noted)) < calls:
            assert program.poll() is None, f"the program ended by itself: {program.returncode}"
            time.sleep(0.002)
        program.send_signal(signal.SIGKILL)
        program.wait()
        seconds = time.monotonic() - begun
        before = sum(calls_so_far(noted))
        begun = time.monotonic()
        completed = subprocess.run([build.tool, "export", "--format", "rmm-csv", "-o", "/dev/null", str(recording)], capture_output=True, text=True,
                                   env=build.environment({"GPUMEM_STATE_DIR": f"{state}/state"}))
        exporting = time.monotonic() - begun
        found, reading = replayed(build, recording)
        return {"calls": before, "recorded": found["calls"], "missing": max(0, before - found["calls"]), "too many": max(0, found["calls"] - before - threads),
                "faults": len(found["faults"]), "contradictions": found["contradictions"] + found["breaks"], "state": STATES[found["state"]],
                "export": f"{completed.returncode}{completed.stderr}", "chunks": found["chunks"], "MiB": found["bytes"] / (1 << 20),
                "bytes/event": found["bytes"] / max(1, found["events"]), "seconds": seconds, "export s": exporting, "read s": reading}


class Stall:
    """From go() on nothing is written below `folder` any more, until end()."""

    def __init__(self, made):
        self.folder = pathlib.Path(made) / "disk"
        self.behind = pathlib.Path(made) / "behind"
        self.stop = pathlib.Path(made) / "stopped"
        self.folder.mkdir(), self.behind.mkdir()
        self.server = None
        self.held = []
        self.how = "writer stopped"
        if os.environ.get("GPUMEM_NO_FUSE") is None:
            self.mount()

    def mount(self):
        for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
            server = subprocess.Popen([python, HERE / "stalling_disk.py", self.folder, self.behind, self.stop], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(100):
                if os.path.ismount(self.folder):
                    self.server, self.how = server, "fuse"
                    return
                if server.poll() is not None:
                    break
                time.sleep(0.02)
            if server.poll() is None:
                server.kill()

    def go(self, program):
        self.stop.touch()
        if self.server is not None:
            return
        self.held = stalled_writer.hold(program.pid)
        if not self.held:
            raise harness.Skipped("neither a file system of Python's nor a thread that may be stopped can be had here")

    def end(self):
        self.stop.unlink(missing_ok=True)
        stalled_writer.let_go(self.held)
        self.held = []

    def close(self):
        self.end()
        if self.server is not None:
            subprocess.run(["fusermount3" if os.path.exists("/usr/bin/fusermount3") else "fusermount", "-u", "-z", self.folder], check=False, capture_output=True)
            self.server.kill()
            self.server.wait()


def timed(build, calls, threads, state, recording, stall=None):
    noted = pathlib.Path(state) / f"noted.{time.monotonic_ns()}"
    program = subprocess.Popen([build.program("steady_loop.shared"), str(calls), str(threads), str(noted)],
                               env=environment(build, state, recording), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if stall is not None:
        while program.poll() is None and sum(calls_so_far(noted)) < calls / 4:
            time.sleep(0.001)
        stall.go(program)
    words = program.stdout.readline().split()
    ended = time.monotonic()
    report = pathlib.Path(state) / "report.json"
    while not report.exists() and program.poll() is None and time.monotonic() < ended + 20:
        time.sleep(0.001)
    found = {"calls": int(words[1]), "seconds": float(words[3]), "longest us": float(words[5]), "end s": time.monotonic() - ended}
    if stall is not None:
        stall.end()  # the system ends no thread in the middle of a write
    error = program.communicate(timeout=60)[1]
    found["code"] = program.returncode
    found["said"] = (json.loads(report.read_text()).get("recording") or {}).get("stopped") or ""
    found["stderr"] = error
    report.unlink()
    return found


def stalled(build, calls, threads, rounds, compared=True):
    """How it was stalled, and the rows of the table: of each run a dict. `compared`: with the two rows beside it."""
    rows = {"no recording": [], "on a tmpfs": [], "on a disk that stalls": []}
    how = ""
    for number in range(rounds):
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None, prefix="gpumem-proofs.") as state, \
                tempfile.TemporaryDirectory(prefix="gpumem-proofs.") as made:
            if compared:
                rows["no recording"].append(timed(build, calls, threads, state, None))
                rows["on a tmpfs"].append(timed(build, calls, threads, state, f"{state}/recording"))
            stall = Stall(made)
            how = stall.how
            try:
                path = stall.folder / "recording"
                rows["on a disk that stalls"].append(timed(build, calls, threads, state, path, stall))
                subprocess.run([build.tool, "export", "--format", "rmm-csv", "-o", "/dev/null", str(path)], capture_output=True,
                               env=build.environment({"GPUMEM_STATE_DIR": f"{state}/state"}))
                rows["on a disk that stalls"][-1]["read"] = replayed(build, path)[0]
            finally:
                stall.close()
    return how, rows


def main():
    given = argparse.ArgumentParser()
    given.add_argument("build")
    given.add_argument("what", choices=("killed", "stalled"))
    given.add_argument("--calls", type=float)
    given.add_argument("--threads", type=int, default=2)
    given.add_argument("--folder")
    given.add_argument("--rounds", type=int, default=5)
    wanted = given.parse_args()
    build = harness.Build(wanted.build)
    if wanted.what == "killed":
        for name, value in killed(build, int(wanted.calls or 1e8), wanted.threads, wanted.folder).items():
            print(f"{name:16} {value:,.1f}" if isinstance(value, float) else f"{name:16} {value:,}" if isinstance(value, int) else f"{name:16} {value}")
        return
    how, rows = stalled(build, int(wanted.calls or 2e7), wanted.threads, wanted.rounds)
    print(f"stalled by {how}; medians of {wanted.rounds}\n{'':24} {'calls':>12} {'s':>8} {'ns/call':>8} {'longest us':>11} {'end s':>7}  said")
    for name, row in rows.items():
        median = lambda key: statistics.median(one[key] for one in row)
        print(f"{name:24} {median('calls'):12,} {median('seconds'):8.2f} {median('seconds') / median('calls') * 1e9:8.1f} {median('longest us'):11.1f} "
              f"{median('end s'):7.2f}  {row[-1]['said']}")


if __name__ == "__main__":
    main()
