"""Does the benchmark house itself hold? Ratios point the right way, a count that grew is a fault, a dump is read right.

self_test.py; no build is needed. Each check is made to fail once by a wrong input, so that a check that cannot fail shows.
"""
import os
import pathlib
import sys
import tempfile
import tomllib
from types import SimpleNamespace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import callgrind_file
import in_turns
import instruction_counts
import tables
import wanted

DUMP = """# callgrind format
desc: Trigger: --dump-after=counted_x
positions: line
events: Ir Ge

ob=(1) /b/libgpumem.so
fl=(1) a.cpp
fn=(1) hook
10 5000 1000
cob=(2) /lib/libc.so.6
cfi=(2) m.c
cfn=(2) lock
calls=1000 3
10 3000 2000
cob=(3) /b/libcuda.so.1
cfn=(3) cuCtxGetCurrent
calls=2000 4
+1 9000 9000

ob=(2)
fl=(2)
fn=(2)
3 3000 2000
"""


def record(variant, role, value, higher=False, pair="malloc"):
    return {"variant": variant, "role": role, "pair": pair, "case": "c", "metric": "m", "value": value,
            "higher_is_better": higher}


def test_ratios():
    times = [record("native", "native", 50), record("other native", "native", 1, pair="async"), record("ours", "ours", 5),
             record("slow peer", "peer", 40), record("good peer", "peer", 4)]
    assert tables.ratios(times) == [("ours", "c m", 10.0, 0.8, "good peer", None)]
    rates = [record("native", "native", 2, True), record("ours", "ours", 8, True), record("peer", "peer", 10, True)]
    (_, _, native, peer, name, _), = tables.ratios(rates)
    assert (native, round(peer, 9), name) == (4.0, 0.8, "peer")
    assert tables.ratios([record("ours", "ours", 5)]) == [("ours", "c m", None, None, "", None)]
    versions = [record("gpumem x", "ours", 5), record("before x", "before", 4), record("before y", "before", 40)]
    assert tables.ratios(versions)[0][5] == 0.8


def test_counts():
    with tempfile.NamedTemporaryFile("w", suffix=".out") as file:
        file.write(DUMP)
        file.flush()
        case = instruction_counts.Case("x", callgrind_file.Dump(file.name), instruction_counts.ROUNDS)
    assert case.dump.trigger == "counted_x"
    assert case.counts == (8.0, 3.0, 2.0), case.counts        # the driver's 9000 are not ours
    golden = instruction_counts.text("any", [case])
    assert instruction_counts.faults(golden, [case]) == []
    for before, after in (("8.00", "7.70"), ("3.00", "2.80"), ("2.00", "1.00")):
        found = instruction_counts.faults(golden.replace(before, after), [case])
        assert len(found) == 1, (before, found)
    assert instruction_counts.faults(golden.replace("8.00", "7.90"), [case]) == []
    assert instruction_counts.faults(golden.replace("8.00", "8.80"), [case]) == []
    assert len(instruction_counts.faults(golden.replace("8.00", "9.00"), [case])) == 1, "stale"
    assert len(instruction_counts.faults(golden.replace("\nx ", "\ny "), [case])) == 2


def test_result_lines():
    import bench
    assert bench.result_lines('noise\n{"value": 1}\n{"val') == [{"value": 1}]


def document_after(folder, *runs):
    """What a results file holds after these runs, each a list of (group, figures, notes)."""
    import bench
    about = {"schema": 1, "date": "today", "device": "d", "driver": "", "memory": 0, "cpu": "c", "versions": {}}
    for run in runs:
        results = bench.Results()
        for group, figures, notes in run:
            for value in figures:
                results.records.append({**record("v", "native", value), "group": group, "unit": "ns"})
            for note in notes:
                results.note(group, "all", note)
        document, _ = bench.write_files(pathlib.Path(folder), about, results, merge=True)
    return [(item["group"], item["value"]) for item in document["results"]], [(item["group"], item["reason"]) for item in document["notes"]]


def test_a_file_keeps_what_this_run_did_not_measure():
    first = [("pairs", [1], ["slow"]), ("real_programs: a", [2], ["set of a"]), ("real_programs: b", [3], ["set of b"])]
    with tempfile.TemporaryDirectory() as folder:
        found = document_after(folder, first, [("real_programs: b", [4], ["new set of b"])])
        assert found == ([("pairs", 1), ("real_programs: a", 2), ("real_programs: b", 4)],
                         [("pairs", "slow"), ("real_programs: a", "set of a"), ("real_programs: b", "new set of b")]), found
        figures, notes = document_after(folder, [("real_programs: b", [], ["not started"])])
        assert ("real_programs: b", 4) in figures and ("real_programs: b", "not started") in notes, (figures, notes)


def test_notes_name_the_program():
    import bench
    import real_programs
    results = bench.Results()
    real_programs.run_group(None, [""], results, lambda: 0, lambda: None)
    assert [note["group"] for note in results.notes] == [f"real_programs: {name}" for name in real_programs.NAMES]


# Takes its time from the environment; "dies" in the second turn.
PROGRAM = """
import os, sys, time
print("ready", flush=True)
for number, line in enumerate(sys.stdin):
    if os.environ["PACE"] == "dies" and number == 1:
        sys.exit("no memory")
    value = 7 if os.environ["PACE"] == "dies" else float(os.environ["PACE"])
    print(f"time: step {value + number % 2:.1f} ms", flush=True)
"""


def test_wanted():
    """Each bound is missed on the wrong side of it alone; what was not measured has no row."""
    case, first = "32 GiB", {"group": "budget", "pair": "malloc", "case": "32 GiB", "higher_is_better": False}
    figures = lambda longest, whole: {"results": [
        {**first, "variant": variant, "role": role, "metric": metric, "value": value}
        for metric, values in (("request, longest", (100, longest)), ("whole", (50, whole)))
        for (variant, role), value in zip((("cudaMalloc", "native"), ("gpumem default: cudaMalloc", "ours")), values)]}
    met = lambda document: [line.rsplit("|", 2)[1].strip() for line in wanted.table(document).splitlines() if case in line]
    assert met(figures(200, 50)) == ["yes", "yes"] and met(figures(201, 50)) == ["no", "yes"] and met(figures(200, 51)) == ["yes", "no"]
    assert wanted.table({"results": []}) == ""
    rate = lambda many, value: {"group": "threads", "variant": "gpumem default: cudaMalloc", "role": "ours", "pair": "malloc", "metric": "throughput",
                                "case": f"{many} threads, mixed, 32 held", "value": value, "higher_is_better": True}
    rows = [line.split("|") for line in wanted.table({"results": [rate(1, 4), rate(4, 11), rate(16, 24)]}).splitlines() if "threads of" in line]
    assert [row[-2].strip() for row in rows] == ["yes", "yes", "yes", "no"], rows


def test_what_is_named_like_rmms_is_like_rmms():
    """A file of configs/ that another measurement needs otherwise is a file of its own."""
    pool, binning = (tomllib.loads((pathlib.Path(__file__).parent / "configs" / f"{name}.toml").read_text())["resource"] for name in ("pool", "binning"))
    assert pool["pool"] == binning["pool"] == {"initial_pool_size": "50 % of free"}, (pool, binning)


def test_turns():
    build = SimpleNamespace(environment=lambda extra: {**os.environ, **extra}, preload=lambda: "")
    how = lambda pace: ([sys.executable, "-c", PROGRAM], False, {"PACE": pace})
    figures, notes = in_turns.compare(build, {"own": how("10"), "ours": how("5")}, 20, 4, 2, 1, lambda: 60)
    assert notes == [f"set {i}, 4 turns of 20 steps, medians against own: own again 1.000, ours 0.523" for i in (1, 2)], notes
    assert [v for _, _, v in figures["own"]] == [11, 10, 11, 10] * 2, figures
    assert {(m, u) for m, u, _ in figures["ours"]} == {("time in turns, step", "ms"), ("time / that of own in the same turn", "times")}
    figures, notes = in_turns.compare(build, {"own": how("10"), "ours": how("dies")}, 20, 4, 2, 1, lambda: 60)
    assert figures == {"own": [], "own again": [], "ours": []} and notes == ["ours: exit code 1: no memory", "set 1 ended after 0 of 4 turns"], notes
    _, notes = in_turns.compare(build, {"own": how("10")}, 20, 4, 1, 1, lambda: -1)
    assert notes == ["set 1 not started: the time was up"]


for name, check in list(globals().items()):
    if name.startswith("test_"):
        check()
        print(f"ok {name}")
