"""A call of libc that fails anywhere in the library costs a report or a chain, never the program.

faults.py BUILD [test...]; see harness.main. inject.cpp fails the Nth call of one kind that the library makes, for N from 1
on; each time the program's stdout and exit code are those of the plain run. GPUMEM_SURROUNDINGS_ROUNDS=10 looks at ten
times as many positions. The counts of what was tried are printed.
"""
import concurrent.futures
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

UNREADABLE = 78
ROUNDS = int(os.environ.get("GPUMEM_SURROUNDINGS_ROUNDS", "1"))
LOGGING = 'version = 1\n[route]\ndevice = ["logging", "tracking", "pool", "cuda"]\n[resource.logging]\nfile = "log.%p.csv"\n'


def spread(count, most):
    """Positions from 1 to `count`: all, or the first ones and then ever fewer, the last included."""
    if count <= most:
        return range(1, count + 1)
    return sorted({1 + round((count - 1) * (i / (most - 1)) ** 1.5) for i in range(most)})


class Sweep:
    def __init__(self, build, folder, program, *arguments, config=None):
        self.build, self.folder = build, folder
        self.command = [build.program(program), *arguments]
        self.plain = build.run(self.command)
        harness.equal(self.plain.code, 0, f"exit code of the plain run, {self.plain.stderr}")
        self.env = {"LD_PRELOAD": f"{build.folder}/programs/inject.so:{build.library}", "GPUMEM_STATE_DIR": f"{folder}/state",
                    "GPUMEM_REPORT": f"{folder}/report.%p.txt", "GPUMEM_JSON": f"{folder}/report.%p.json"}
        if config:
            (folder / "chain.toml").write_text(config)
            self.env["GPUMEM_CONFIG"] = str(folder / "chain.toml")
        (folder / "state").mkdir(mode=0o700)
        self.wrong, self.tried = [], 0

    def run(self, kind, position, on):
        env = {**self.env, "INJECT_KIND": kind, "INJECT_AT": str(position)}
        if on:
            env["INJECT_ON"] = "1"
        if position == 0:
            (self.folder / "count").write_bytes(bytes(8))
            env["INJECT_COUNT"] = f"{self.folder}/count"
        return self.build.run(self.command, env=env, timeout=60, cwd=self.folder)

    def kind(self, kind, most, on=False):
        """Fails calls of one kind, at up to `most` positions."""
        run = self.run(kind, 0, False)
        harness.equal((run.code, run.stdout), (0, self.plain.stdout), "with nothing failed")
        count = int.from_bytes((self.folder / "count").read_bytes(), "little")
        positions = spread(count, most * ROUNDS)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for position, run in zip(positions, pool.map(lambda p: self.run(kind, p, on), positions)):
                self.tried += 1
                if run.code == UNREADABLE and "chain.toml" in run.stderr:
                    continue             # a configuration that cannot be read is an error, whatever the reason
                if (run.code, run.stdout) != (0, self.plain.stdout):
                    said = [line for line in run.stderr.splitlines() if line][-1:]
                    self.wrong.append(f"{kind} {position}{' and on' if on else ''} of {count}: code {run.code}, {said}")
        # Threads may have met one another at no lock.
        assert count > 0 or kind == "futex", f"no call of {kind} is made: nothing was tried"
        print(f"{os.path.basename(self.command[0])}: {kind}{' and on' if on else ''}: {len(positions)} of {count} positions")
        return count


def swept(build, kinds, program, *arguments, config=None, report=None, env=None):
    with tempfile.TemporaryDirectory() as folder:
        sweep = Sweep(build, pathlib.Path(folder), program, *arguments, config=config)
        sweep.env.update(env or {})
        if report:
            sweep.env["GPUMEM_REPORT"] = report
        for kind, most, on in kinds:
            sweep.kind(kind, most, on)
        assert sweep.tried >= 4, f"only {sweep.tried} positions: nothing was tried"
        harness.equal(sweep.wrong, [], f"programs that noticed, of {sweep.tried}")


def test_host_memory(build):
    swept(build, [("malloc", 60, False), ("malloc", 20, True)], "runtime_loop.shared", "60")


def test_host_memory_in_captures(build):
    swept(build, [("malloc", 40, False), ("malloc", 10, True)], "captures.shared")


def test_host_memory_of_threads(build):
    swept(build, [("malloc", 25, False)], "threads.shared", "4", "20")


def test_host_memory_below_observers(build):
    swept(build, [("malloc", 40, False), ("mmap", 20, False)], "runtime_loop.shared", "60", config=LOGGING)


def test_addresses(build):
    swept(build, [("mmap", 20, False), ("mmap", 10, True), ("madvise", 10, True)], "runtime_loop.shared", "60")


def test_files(build):
    kinds = [(kind, 10, on) for kind in ("open", "read", "write", "size", "stat", "unlink", "cwd") for on in (False, True)]
    swept(build, kinds, "runtime_loop.shared", "40")
    kinds = [(kind, 10, on) for kind in ("write", "fcntl") for on in (False, True)]
    swept(build, kinds, "runtime_loop.shared", "40", report="stderr")


def test_files_of_a_log(build):
    kinds = [(kind, 8, on) for kind in ("open", "write", "stat", "fcntl") for on in (False, True)]
    swept(build, kinds, "runtime_loop.shared", "40", config=LOGGING)


def test_keys_of_threads(build):
    swept(build, [("key", 5, False), ("key", 5, True)], "threads.shared", "2", "10")


ONCE_AND_ON = (False, True)


def test_what_the_kernel_forbids(build):
    """As a sandbox does, an old kernel, or a limit; waits end for nothing."""
    kinds = [(kind, 6, on) for kind in ("mprotect", "folder", "limit", "signals", "leave", "peek", "barrier") for on in ONCE_AND_ON]
    swept(build, kinds, "captures.shared")
    swept(build, [(kind, 6, on) for kind in ("munmap", "futex", "barrier") for on in ONCE_AND_ON], "threads.shared", "8", "200")


def test_threads_that_do_not_start(build):
    """The one that writes a recording."""
    with tempfile.TemporaryDirectory() as folder:
        swept(build, [(kind, 6, on) for kind in ("thread", "size", "mmap", "signals") for on in ONCE_AND_ON], "threads.shared", "4", "50",
              env={"GPUMEM_RECORD": f"{folder}/recorded.%p"})


harness.main(globals())
