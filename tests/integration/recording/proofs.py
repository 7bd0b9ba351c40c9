"""The proofs of tests/bench/recording_proofs.py in short: kill -9 in the middle of many events, and a disk that stalls.

proofs.py BUILD [test...]; see harness.main. What is printed are the tables; what is asserted are no times.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent.parent / "bench"))
import harness
import recording_proofs


def test_killed_in_the_middle(build):
    for threads in (1, 2, 7):
        row = recording_proofs.killed(build, 100_000, threads, None)
        print("  " + ", ".join(f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()))
        harness.equal({name: row[name] for name in ("missing", "too many", "faults", "contradictions", "state", "export")},
                      {"missing": 0, "too many": 0, "faults": 0, "contradictions": 0, "state": "recovered", "export": "0"}, f"{threads} threads")


def test_a_disk_that_stalls(build):
    """The program goes on and ends; its report says what is missing, and gpumem export brings it back."""
    how, rows = recording_proofs.stalled(build, 400_000, 2, 1)
    row = rows["on a disk that stalls"][0]
    print(f"  stalled by {how}: the longest call {row['longest us']:.0f} us, {rows['no recording'][0]['longest us']:.0f} us without a recording")
    harness.equal(row["code"], 0, row["stderr"])
    assert "its disk" in row["said"] and "gpumem export" in row["said"], row["said"]
    harness.equal(row["stderr"].count("warning"), 1, row["stderr"])
    harness.equal((row["read"]["faults"], row["read"]["contradictions"], row["read"]["calls"]), ([], 0, row["calls"]), "after gpumem export")


def test_a_disk_that_stalls_for_long(build):
    """What waits has no end: the recording ends, and says so at once. What it had is brought back."""
    row = recording_proofs.stalled(build, 9_000_000, 1, 1, compared=False)[1]["on a disk that stalls"][0]
    harness.equal(row["code"], 0, row["stderr"])
    assert "did not take what was recorded in time" in row["said"], row["said"]
    harness.equal(row["stderr"].count("warning"), 1, row["stderr"])
    harness.equal((row["read"]["faults"], row["read"]["contradictions"]), ([], 0), "after gpumem export")
    print(f"  {row['read']['calls']:,} calls of {row['calls']:,} recorded, {row['read']['bytes'] >> 20} MiB")
    # A quarter was written before; then some 30 to 50 MiB wait.
    assert row["read"]["calls"] > row["calls"] / 4 + 1_500_000, row["read"]


harness.main(globals())
