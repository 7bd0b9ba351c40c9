"""State pages of processes in containers, and of many processes: a live one's is never taken for a dead one's, and no
number of dead ones fills the folder.

pages.py BUILD [test...]; see harness.main.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def wait_for_page(state):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if list(state.iterdir()):
            return
        time.sleep(0.02)
    raise harness.Skipped("no namespace of processes can be made here")


def listed(build, state):
    run = build.run([str(build.tool), "report", "--list"], env={"GPUMEM_STATE_DIR": str(state)})
    harness.equal(run.code, 0, f"gpumem report --list, {run.stderr}")
    return run.stdout


def test_a_process_of_a_container_lives(build):
    harness.require_tool("unshare")
    with tempfile.TemporaryDirectory() as folder:
        state = pathlib.Path(folder) / "state"
        state.mkdir(mode=0o700)
        env = build.environment({"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": str(state), "GPUMEM_REPORT": "none"})
        outer = subprocess.Popen(["unshare", "-pf", "--kill-child", "--mount-proc", build.program("acts"), "malloc", "pause", "60000"],
                                 env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_page(state)
            page = next(state.iterdir())
            time.sleep(0.2)
            assert "running" in listed(build, state), f"a live process of a container: {listed(build, state)}"
            long_ago = time.time() - 30 * 24 * 3600
            os.utime(page, (long_ago, long_ago))
            listed(build, state)
            assert page.exists(), "the page of a live process was removed"
            last = build.run([str(build.tool), "report", "--last"], env={"GPUMEM_STATE_DIR": str(state)})
            assert last.code != 0, f"a live process is reported as ended: {last.stdout[:200]}"
        finally:
            outer.kill()
            outer.wait()
        deadline = time.monotonic() + 10
        while "running" in listed(build, state) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "running" not in listed(build, state), "its end is not seen"


def test_gpumem_run_leaves_a_container_behind(build):
    harness.require_tool("unshare")
    with tempfile.TemporaryDirectory() as folder:
        state = pathlib.Path(folder) / "state"
        state.mkdir(mode=0o700)
        script = f"unshare -pf --kill-child --mount-proc {build.program('acts')} malloc pause 3000 >/dev/null 2>&1 & " \
                 f"for i in $(seq 100); do [ -n \"$(ls {state})\" ] && break; sleep 0.02; done; sleep 0.2"
        run = build.run([str(build.tool), "run", "-q", "--", "/bin/bash", "-c", script],
                        env={"GPUMEM_STATE_DIR": str(state), "GPUMEM_REPORT": f"{folder}/report.%p.txt"})
        if not list(state.iterdir()):
            raise harness.Skipped("no namespace of processes can be made here")
        assert "still runs" in run.stderr, f"a live process of a container is reported: {run.stderr}"
        harness.equal([name for name in os.listdir(folder) if name.startswith("report")], [], "reports of a live process")


def test_a_process_outside_of_a_container_is_elsewhere(build):
    harness.require_tool("unshare")
    with tempfile.TemporaryDirectory() as folder:
        state = pathlib.Path(folder) / "state"
        state.mkdir(mode=0o700)
        env = build.environment({"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": str(state), "GPUMEM_REPORT": "none"})
        process = subprocess.Popen([build.program("acts"), "malloc", "pause", "60000"], env=env, stdout=subprocess.DEVNULL)
        try:
            wait_for_page(state)
            time.sleep(0.2)
            run = build.run(["unshare", "-pf", "--mount-proc", str(build.tool), "report", "--list"],
                            env={"GPUMEM_STATE_DIR": str(state)})
            if run.code != 0:
                raise harness.Skipped(f"no namespace of processes can be made here: {run.stderr[:100]}")
            assert "elsewhere" in run.stdout, run.stdout
        finally:
            process.kill()
            process.wait()


def test_many_pages_of_dead_processes(build):
    """300 processes were killed: the newest 256 pages stay. Another user's file, and one that is no page, is left alone."""
    with tempfile.TemporaryDirectory() as folder:
        state = pathlib.Path(folder) / "state"
        state.mkdir(mode=0o700)
        env = {"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": str(state), "GPUMEM_REPORT": "none"}
        build.run([build.program("acts"), "malloc", "kill"], env=env)
        page = next(state.iterdir())
        now = time.time()
        for number in range(300):
            copy = state / f"{900000 + number}-7-0"
            with open(copy, "wb") as out, open(page, "rb") as source:
                out.write(source.read(4096))
            os.utime(copy, (now - number - 10, now - number - 10))
        (state / "notes.txt").write_text("mine")
        if os.geteuid() == 0:
            shutil.copy(state / "900299-7-0", state / "900400-7-0")
            os.chown(state / "900400-7-0", 12345, 12345)
            os.utime(state / "900400-7-0", (1, 1))
        listed(build, state)
        left = sorted(path.name for path in state.iterdir())
        own = [name for name in left if name not in ("notes.txt", "900400-7-0")]
        harness.equal(len(own), 256, "pages kept")
        assert "900254-7-0" in own and "900255-7-0" not in own, "not the newest were kept"
        assert "notes.txt" in left, "a file that is no page was removed"
        harness.equal("900400-7-0" in left, os.geteuid() == 0, "the page of another user")


harness.main(globals())
