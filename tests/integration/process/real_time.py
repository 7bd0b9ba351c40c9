"""Threads with real-time priorities, beside threads without: a wait inside the library must let the holder run.

real_time.py BUILD [test...]; see harness.main. Skipped where a process may not have such priorities.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def turns(build, library=None, bug=None):
    command = [build.program("real_time.shared")]
    plain = build.run(command)
    if plain.code == 77:
        raise harness.Skipped(plain.stdout.strip())
    env = {"LD_PRELOAD": build.preload(library), "TEST_MUTANT": bug} if library else None
    return harness.differences(plain, build.run(command, preload=True, env=env))


def test_a_thread_waits_for_one_of_lower_priority(build):
    harness.equal(turns(build), [], "real_time")


def test_waits_that_never_sleep(build):
    assert turns(build, "libgpumem_mutant.so", "waits_never_sleep"), "a thread that only yields was not seen"


harness.main(globals())
