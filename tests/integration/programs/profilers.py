"""What a profiler sees of the CUDA runtime: everything from the moment on at which it asks libcupti for it.

profilers.py BUILD [test...]; see harness.main.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

ASKING = ("activity", "activity_of_a_context", "activity_and_dump", "runtime_api", "driver_api", "callback", "domain", "all_domains",
          "looked_up")
NOT_ASKING = ("contexts", "off")


def calls(outcome):
    """What libcupti was asked, the code, and the runtime's calls in 100 pairs before and after."""
    harness.equal(outcome.code, 0, f"exit code, {outcome.stderr}")
    asked, code, before, after = re.match(r"libcupti: (.*)\ncode (\d+), calls before (\d+), after (\d+)\n$", outcome.stdout).groups()
    return asked, int(code), int(before), int(after)


def run(build, way):
    command = [build.program("profiled.shared"), way]
    plain, preloaded = calls(build.run(command)), calls(build.run(command, preload=True))
    harness.equal(plain[2:], (200, 200), "calls of the runtime without gpumem")
    harness.equal(preloaded[:2], plain[:2], "what libcupti was asked, and its code")
    return preloaded[2:]


def test_who_asks_sees_every_call(build):
    for way in ASKING:
        harness.equal(run(build, way), (0, 200), f"calls of the runtime, {way}")


def test_libcupti_alone_costs_nothing(build):
    for way in NOT_ASKING:
        harness.equal(run(build, way), (0, 0), f"calls of the runtime, {way}")


def test_a_process_without_the_libraries_finds_none_of_their_functions(build):
    probe = "import ctypes; print([name for name in ('cuptiActivityEnable', 'cudaMalloc', 'cuInit') if hasattr(ctypes.CDLL(None), name)])"
    for preload in (False, True):
        harness.equal(build.run([sys.executable, "-c", probe], preload=preload).stdout, "[]\n", "functions found")


harness.main(globals())
