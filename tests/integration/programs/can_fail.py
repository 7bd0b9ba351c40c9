"""Proves that the comparisons can fail: over a cache that is wrong on purpose the simulator must report hazards, and each
kind of difference between two runs must be named.

can_fail.py BUILD [test...]; see harness.main. Without it, a simulator that sees nothing would make everything pass.
"""
import copy
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

REPORT = {
    "intercept": {"hooks": [
        {"symbol": "cuMemAlloc_v2", "calls": 3, "requested_bytes": 700, "failed": 0},
        {"symbol": "cuMemAllocAsync", "calls": 1, "requested_bytes": 50, "failed": 0},
        {"symbol": "cuMemAllocAsync_ptsz", "calls": 1, "requested_bytes": 50, "failed": 0},
        {"symbol": "cuMemFree_v2", "calls": 3, "failed": 0},
        {"symbol": "cuCtxSynchronize", "calls": 9, "requested_bytes": 0, "failed": 0},
    ]},
    "end": {"kind": "exit"},
    "chains": [{"route": "device", "device": 0, "nodes": [
        {"name": "pool", "type": "pool", "requests": 4, "hits": 2, "failed": 1, "upstream": 1, "handed_out_bytes": 16,
         "given_back_bytes": 10, "now_bytes": 6},
        {"name": "cuda", "type": "cuda", "requests": 1, "hits": 0, "failed": 0, "upstream": 0, "handed_out_bytes": 10, "given_back_bytes": 0, "now_bytes": 10}]}],
    "devices": [{"device": 0, "live_blocks": 1, "counters": {
        "allocated_blocks": 3, "freed_blocks": 1, "lost_blocks": 1, "allocated_requested_bytes": 14, "freed_requested_bytes": 5,
        "lost_requested_bytes": 4, "allocated_handed_bytes": 16, "freed_handed_bytes": 6, "lost_handed_bytes": 4},
        "now": {"requested_bytes": 5, "rounding_bytes": 1, "pending_bytes": 2, "cached_bytes": 2, "reserved_bytes": 10}}],
}
STDOUT = "checksum 1\ncounts: cuMemAlloc=3 cuMemFree=3 cuMemAllocAsync=2 bytes=800\n"


class Run(harness.Outcome):
    def __init__(self, stdout=STDOUT, code=0, stderr="", reports=(REPORT,)):
        super().__init__(code, stdout, stderr, 0.0, None)
        self.reports = list(reports)


def changed(path, value):
    report = copy.deepcopy(REPORT)
    place = report
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return report


def test_equal_runs_have_no_difference(build):
    harness.equal(harness.differences(Run(), Run()), [], "equal runs")
    harness.equal(harness.count_faults(Run()), [], "equal counts")
    harness.equal(harness.ledger_faults(REPORT), [], "a ledger that adds up")


def test_differences_are_named(build):
    for other in (Run(stdout=STDOUT + "more\n"), Run(stdout=STDOUT.replace("1", "2")), Run(code=1), Run(stderr="warning\n"),
                  Run(stdout=STDOUT[:-1])):
        assert harness.differences(Run(), other), f"not named: {other.__dict__}"


def test_wrong_counts_are_named(build):
    for path, value in ((("intercept", "hooks", 0, "calls"), 2), (("intercept", "hooks", 0, "requested_bytes"), 701),
                        (("intercept", "hooks", 2, "calls"), 2), (("intercept", "hooks"), [])):
        assert harness.count_faults(Run(reports=[changed(path, value)])), f"not named: {path} = {value}"
    assert harness.count_faults(Run(reports=[])), "a missing report is not named"
    before = {"cuMemAlloc": 1, "bytes": 300}
    assert harness.count_faults(Run(), [before]), "what was asked before and is not in the report is not named"
    less = STDOUT.replace("cuMemAlloc=3", "cuMemAlloc=2").replace("800", "500")
    harness.equal(harness.count_faults(Run(stdout=less), [before]), [], "counts with what was asked before")
    assert harness.count_faults(Run(reports=[REPORT, REPORT])), "a report too many is not named"


def test_a_ledger_that_does_not_add_up_is_named(build):
    for key, value in (("cached", 3), ("pending", None), ("rounding", -1), ("reserved", 11)):
        assert harness.ledger_faults(changed(("devices", 0, "now", f"{key}_bytes"), value)), f"not named: {key} = {value}"


def test_bytes_that_a_chain_counts_twice_or_not_at_all_are_named(build):
    for node, key, value in ((0, "now_bytes", 7), (0, "given_back_bytes", 9), (0, "handed_out_bytes", 17), (0, "failed", 0),
                             (0, "hits", 0), (0, "hits", 4), (0, "upstream", 0), (1, "given_back_bytes", 11), (1, "now_bytes", 11)):
        assert harness.ledger_faults(changed(("chains", 0, "nodes", node, key), value)), f"not named: {node} {key} = {value}"
    for key in ("allocated_blocks", "lost_requested_bytes", "freed_handed_bytes"):
        assert harness.ledger_faults(changed(("devices", 0, "counters", key), 0)), f"not named: {key} = 0"


def test_duplicate_keys_are_named(build):
    try:
        harness.read_json('{"a": 1, "a": 2}')
    except AssertionError:
        return
    raise AssertionError("a duplicate key was accepted")


def test_unsafe_cache_is_caught(build):
    command = [build.program("reuse.shared"), "10"]
    plain = build.run(command)
    harness.equal(plain.code, 0, f"plain run: {plain.stderr}")
    unsafe = build.run(command, env={"LD_PRELOAD": str(build.folder / "programs" / "libunsafe_cache.so")})
    assert unsafe.code != 0, f"the unsafe cache was not caught: {unsafe.stdout}{unsafe.stderr}"
    assert "hazard" in unsafe.stderr or "wrong" in unsafe.stdout, f"caught, but not as a hazard: {unsafe.stderr}"


harness.main(globals())
