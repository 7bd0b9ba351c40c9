"""A clock of the program's own that stands still, goes back or leaps: no wait of the library is as long as it says.

clocks.py BUILD [test...]; see harness.main. own_clock.cpp is the clock, which the plain run has as well.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

# Work that ends only when the host goes on, captures that forbid a look at events, memory that is short.
PROGRAMS = ("capture_forms.driver", "capture_rules.shared", "captured_contexts.driver", "waiting_calls.driver",
            "work_since_frees.driver", "threads.shared", "out_of_memory.shared", "returns.shared")


def compared(build, kind):
    clock = str(build.folder / "programs" / "own_clock.so")
    for program in PROGRAMS:
        command = [build.program(program)]
        plain = build.run(command, env={"LD_PRELOAD": clock, "OWN_CLOCK": kind})
        harness.equal(plain.code, 0, f"exit code of the plain run of {program}, {plain.stderr[-300:]}")
        run = build.run(command, preload=True, timeout=60,
                        env={"LD_PRELOAD": f"{clock}:{build.library}", "OWN_CLOCK": kind})
        harness.equal(harness.differences(plain, run), [], f"{program} with a clock of its own, {kind}")
        assert run.reports, f"{program}: no report"


def test_it_stands_still(build):
    compared(build, "frozen")


def test_it_goes_back(build):
    compared(build, "back")


def test_it_leaps(build):
    compared(build, "forth")


harness.main(globals())
