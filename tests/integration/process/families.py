"""Processes that make processes, and endings without exit handlers: plain and preloaded runs give the same.

families.py BUILD [test...]; see harness.main. Each process that used CUDA reports once, no other does.
"""
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

WORKERS = pathlib.Path(__file__).resolve().parents[2] / "programs" / "ctypes_workers.py"
PYTHON = str(pathlib.Path(sys.executable).resolve())


def same(build, command, env=None):
    plain = build.run(command, env=env)
    loaded = build.run(command, preload=True, env=env)
    harness.equal(harness.differences(plain, loaded), [], " ".join(command))
    return loaded


def workers(build, method, processes):
    """The pool is ended by a signal in some methods, so a worker's report may be left to `gpumem report`: then its page
    is there instead."""
    run = same(build, [PYTHON, str(WORKERS), method])
    assert "[0, 0, 0, 0" in run.stdout, f"the workers did no work: {run.stdout}{run.stderr}"
    pages = [name for name in run.state if name.endswith(".page") or "." in name]
    assert 1 <= len(run.reports) + len(pages) <= processes, f"{len(run.reports)} reports and {pages} of {processes}"
    for report in run.reports:
        counts = harness.report_counts(report)
        assert counts.get("cuMemAlloc", 0) % 3 == 0 and counts, f"counts of a worker: {counts}"


def test_ctypes(build):
    run = same(build, [PYTHON, str(WORKERS), "none"])
    harness.equal(harness.report_counts(run.reports[0]), {"cuMemAlloc": 3, "cuMemFree": 4, "bytes": 1000 + (1 << 20) + (5 << 20)},
                  "calls by ctypes")


def test_multiprocessing_fork(build):
    workers(build, "fork", 2)


def test_multiprocessing_spawn(build):
    workers(build, "spawn", 2)


def test_multiprocessing_forkserver(build):
    workers(build, "forkserver", 2)


def ended_by_signal(build, way, code):
    command = [build.program("exits.shared"), way]
    plain, loaded = build.run(command), build.run(command, preload=True)
    harness.equal(plain.code, code, "plain exit code")
    harness.equal(harness.differences(plain, loaded), [], way)


def test_abort(build):
    ended_by_signal(build, "abort", -6)


def test_kill(build):
    ended_by_signal(build, "kill", -9)


def test_segmentation_fault(build):
    ended_by_signal(build, "segv", -11)


def test_threads_at_work_at_exit(build):
    """Twenty times, since what the threads are doing at the end is chance."""
    command = [build.program("exits.static"), "workers"]
    for _ in range(20):
        run = build.run(command, preload=True, timeout=30)
        harness.equal((run.code, run.stderr, len(run.reports)), (13, "", 1), "an ending with threads at work")


def seconds_until_closed(build, acts, env):
    """How long whoever reads the program's output waits for its end, as a shell's $(...) does."""
    with tempfile.TemporaryDirectory() as state:
        environment = build.environment({"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": state, **env})
        begin = time.monotonic()
        subprocess.run([build.program("acts"), *acts], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
        return time.monotonic() - begin


def test_a_daemon_does_not_keep_its_starter_waiting(build):
    """The child of a CUDA program, whatever is reported; a daemon that uses CUDA itself, where no report is to be on stderr."""
    with tempfile.TemporaryDirectory() as folder:
        log = {"GPUMEM_LOG": f"debug:{folder}/log.%p"}
        for env in ({}, log, {"GPUMEM_REPORT": "none"}, {"GPUMEM_DISABLE": "1"}):
            seconds = seconds_until_closed(build, ["malloc", "background", "redirect", "pause", "3000"], env)
            assert seconds < 2.5, f"{seconds} s with {env}, by the child of a program that used CUDA"
        for env in ({"GPUMEM_REPORT": "none"}, {"GPUMEM_REPORT": f"{folder}/report.txt", **log}, {"GPUMEM_DISABLE": "1"}):
            seconds = seconds_until_closed(build, ["background", "malloc", "redirect", "pause", "3000"], env)
            assert seconds < 2.5, f"{seconds} s with {env}, by a daemon that uses CUDA"


def test_a_runtime_that_the_driver_is_too_old_for(build):
    """The runtime's own answer to a driver without cuGetProcAddress."""
    for link in ("shared", "static"):
        run = same(build, [build.program(f"runtime_loop.{link}"), "5"], env=build.old_driver("11000"))
        assert run.code == 3 and "35" in run.stderr, f"not refused: {run.code} {run.stderr}"


def test_old_drivers_lack_what_they_should(build):
    """The stand-ins of old drivers really do not export what is newer."""
    for version, absent, present in (("11000", "cuMemAllocAsync", "cuMemAlloc_v2"), ("11000", "cuGetProcAddress", "cuMemCreate"),
                                     ("12000", "cuCtxRecordEvent", "cuGetProcAddress_v2"), ("12000", "cuGreenCtxCreate", "cuStreamGetId")):
        code = f"import ctypes; c = ctypes.CDLL('libcuda.so.1'); c.{present}; print(hasattr(c, '{absent}'))"
        run = same(build, [PYTHON, "-c", code], env=build.old_driver(version))
        harness.equal((run.code, run.stdout), (0, "False\n"), f"{absent} of {version}, {present}: {run.stderr}")


harness.main(globals())
