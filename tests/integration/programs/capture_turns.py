"""A capture that has ended counts as one no more, and the one that goes on in its mode, also where threads take turns.

capture_turns.py BUILD [test...]; see harness.main.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def test_none_is_left(build):
    """While a capture goes on nothing that was freed serves again: memory would grow by each block, to 8 GiB."""
    command = [build.program("capture_turns.shared"), "100000"]
    plain = build.run(command)
    outcome = build.run(command, preload=True)
    harness.equal(harness.differences(plain, outcome), [], "the program")
    device = outcome.reports[0]["devices"][0]
    assert device["at_peak"]["reserved_bytes"] < 256 << 20, device["at_peak"]
    assert device["counters"]["epochs_closed"] > 0, "no event was recorded any more"


def test_stream_turn_ignored(build):
    """The wrong capture is forgotten where two threads' calls and their entries in the books cross."""
    for _ in range(60):
        outcome = build.run([build.program("capture_turns.shared"), "100000"], preload=True,
                            env={"LD_PRELOAD": build.preload("libgpumem_mutant.so"), "TEST_MUTANT": "stream_turn_ignored"})
        if outcome.code != 0:
            assert "a cudaMalloc beside it was served" in outcome.stderr, outcome.stderr
            return
        if outcome.reports[0]["devices"][0]["counters"]["epochs_closed"] == 0:
            return
    raise AssertionError("not caught in 60 runs")


harness.main(globals())
