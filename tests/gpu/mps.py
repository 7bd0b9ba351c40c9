"""The cases of the group `mps`: clients of CUDA's multi-process service, which share one context of the device, plain and preloaded.

Starts a daemon of its own in a folder of its own and ends it; the settings of the device stay as they are. Skipped where there is no
nvidia-cuda-mps-control, or where its server does not come up.
"""
import atexit
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import harness
from cases import MPS, MPS_BOUNDED, Case

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMITS = ROOT / "tests" / "integration" / "limits"


class Daemon:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mps.", dir="/tmp")  # short: it holds sockets
        atexit.register(self.end)
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": self.folder, "CUDA_MPS_LOG_DIRECTORY": self.folder}
        self.runs = False

    def tell(self, text):
        try:
            return subprocess.run(["nvidia-cuda-mps-control"], input=text, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:
            return None

    def start(self):
        if self.runs:
            return
        try:
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **self.env}, capture_output=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError) as reason:
            raise harness.Skipped(f"no daemon: {reason}") from None
        self.runs = True

    def clients(self):
        log = pathlib.Path(self.folder, "control.log")
        return log.read_text(errors="replace").count("NEW CLIENT") if log.exists() else 0

    def end(self):
        if self.runs:
            self.tell("quit\n")
        shutil.rmtree(self.folder, ignore_errors=True)


def two_limits(build, env):
    """Two clients at once, each of which may have 64 MiB."""
    sys.path.insert(0, str(LIMITS))
    import limits_checks
    env = {**env, "GPUMEM_CONFIG": str(LIMITS / "configs" / "below_pool.toml")}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = list(pool.map(lambda _: build.run([build.program("limited.static")], preload=True, env=env, timeout=60), range(2)))
    for run in runs:
        assert run.code == 0, f"exit code {run.code}: {run.stderr[-300:]}"
        limits_checks.check_limit(run)
        limits_checks.check_failures(run.reports[0])


def jobs(build, table, compare):
    """(name, function) of each case."""
    daemon = Daemon()

    def as_client(job):
        def run():
            before = daemon.clients()
            try:
                daemon.start()
            except harness.Skipped as reason:
                return table.add("mps", "SKIP", note=str(reason)[:80])
            job()
            if daemon.clients() == before:
                table.add("mps", "FAIL", note="no process was a client: nothing was shown")
        return run

    def compared(case, label, more):
        told = Case(**{**vars(case), "env": {**case.env, **daemon.env, **more}, "label": label, "timeout": 90})
        return f"{told.name()}, static", as_client(lambda: compare(build, told, "static", table))

    def limited():
        two_limits(build, daemon.env)
        table.add("limits of two clients under MPS", "PASS", note="64 MiB each")

    return [*(compared(case, "MPS", {}) for case in MPS),
            *(compared(case, "MPS, 4 GiB", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=4G"}) for case in MPS_BOUNDED),
            ("limits of two clients under MPS", as_client(limited))]
