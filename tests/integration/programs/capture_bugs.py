"""Seeded bugs of what captures forbid (core/base/mutant.hpp), one at a time: `capture_rules`, or
`default_pool`, must tell each from none.

capture_bugs.py BUILD [test...]; see harness.main.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def told(build, mutant, case, program="capture_rules"):
    command = [build.program(f"{program}.shared"), case]
    bug = {"LD_PRELOAD": build.preload("libgpumem_mutant.so"), "TEST_MUTANT": mutant}
    wrong = build.run(command, preload=True, env=bug)
    return harness.differences(build.run(command), wrong)


def test_no_bug_is_not_told(build):
    for case in ("forbidden", "joined", "destroyed", "threads"):
        harness.equal(told(build, "none", case), [], case)


def test_joined_context_ignored(build):
    assert told(build, "joined_context_ignored", "joined")


def test_destroyed_stream_asked(build):
    assert told(build, "destroyed_stream_asked", "destroyed")


def test_spoilt_stream_missed(build):
    assert told(build, "spoilt_stream_missed", "destroyed")


def test_served_in_watched_capture(build):
    assert told(build, "served_in_watched_capture", "forbidden")


def test_ended_thread_missed(build):
    assert told(build, "ended_thread_missed", "threads")


def test_slotless_is_plain(build):
    """Blocks of a stream that has no slot: of the legacy one beside a capture, and of one too many."""
    for case in ("captured", "crowded"):
        harness.equal(told(build, "none", case, "default_pool"), [], case)
        assert told(build, "slotless_is_plain", case, "default_pool"), case


harness.main(globals())
