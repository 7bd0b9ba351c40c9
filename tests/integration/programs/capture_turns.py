"""A capture that has ended counts as one no more, also where another thread begins the next one before the call returns.

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


harness.main(globals())
