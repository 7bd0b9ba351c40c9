"""Phases from ranges of NVTX: in C with and without domains and registered strings, from Python's nvtx package, beside another tool,
over forks, exec, kills and threads that end; and what does not change where no phases are asked for.

ranges.py BUILD [test...]; see harness.main. The programs are nvtx_ranges and, as the other tool, other_tool.c.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness

MIB = 1 << 20
STATISTICS = 'version = 1\n[route]\ndevice = ["statistics", "pool", "cuda"]\n'
SCENARIOS = ("plain", "domains", "ranges", "wrong", "many", "threads", "forks", "signals", "fails", "exec")


def program(build, *arguments):
    if not (build.folder / "programs" / "nvtx_ranges").exists():
        raise harness.Skipped("the program is not built: there is no nvtx3/nvToolsExt.h with the CUDA headers")
    return [build.program("nvtx_ranges"), *arguments]


def run(build, *arguments, config="", env=None, tool=("-q", "--phases"), command=None):
    with tempfile.TemporaryDirectory(prefix="gpumem-phases.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        path.write_text(config or "version = 1\n")
        return build.run(command or program(build, *arguments), tool=list(tool), env={"GPUMEM_CONFIG": str(path), **(env or {})})


def phases(report):
    return {one["name"]: one for one in report.get("phases", {"names": []})["names"]}


def figures(report, name, device=0):
    one = phases(report)[name]
    found = [each for each in one["devices"] if each["device"] == device]
    return {"entered": one["entered"], "open": one["open"], **(found[0] if found else {})}


def expect(report, name, **wanted):
    found = figures(report, name)
    harness.equal({key: found.get(key) for key in wanted}, wanted, f"phase {name}")


def expect_plain(report):
    for name, entered, highest, added, requests in (("load", 1, 10, 10, 1), ("step N", 20, 60, 50, 60), ("forward", 20, 60, 50, 40),
                                                    ("backward", 20, 45, 5, 20)):
        expect(report, name, entered=entered, open=0, highest_bytes=highest * MIB, added_bytes=added * MIB, requests=requests, refusals=0)
    names = phases(report)
    assert names["step N"]["inside_ns"] >= names["forward"]["inside_ns"] + names["backward"]["inside_ns"] > 0, names


def test_figures(build):
    done = run(build, "plain", config=STATISTICS)
    harness.equal((done.code, done.stdout), (0, "done\n"), done.stderr)
    expect_plain(done.reports[0])
    # Of the peak, RMM's own counters say the same.
    node = done.reports[0]["chains"][0]["nodes"][0]
    harness.equal(node["statistics"]["highest_bytes"], 60 * MIB, "the peak by the resource statistics")
    assert re.search(r"^PHASES device 0 .*\n  step N +20 +\d:\d\d\.\d{3} +60\.00 MiB +50\.00 MiB +60", done.texts[0], re.M), done.texts[0]
    growths = sum(figures(done.reports[0], name)["growths"] for name in ("load", "step N"))
    harness.equal(growths, done.reports[0]["devices"][0]["segments"], "each segment was taken in one of both phases")


def test_figures_without_statistics(build):
    report = run(build, "plain").reports[0]
    for name, highest in (("load", 10), ("step N", 60), ("forward", 60), ("backward", 45)):
        found = figures(report, name)["highest_bytes"]
        assert (highest - 8) * MIB <= found <= highest * MIB, f"{name}: {found}"


def test_domains_and_registered_strings(build):
    report = run(build, "domains", config=STATISTICS).reports[0]
    expect(report, "solver:iterate N", entered=3, highest_bytes=40 * MIB, requests=3)
    expect(report, "between", entered=3, highest_bytes=40 * MIB, requests=6)
    expect(report, "solver:r\u00e4nge", entered=1, highest_bytes=12 * MIB, requests=1)
    expect(report, "w\u00e9it:in wide domain", entered=1, highest_bytes=2 * MIB, requests=1)


def test_ranges_that_start_and_end(build):
    report = run(build, "ranges", config=STATISTICS).reports[0]
    expect(report, "across threads", entered=1, highest_bytes=7 * MIB, requests=1)
    expect(report, "\u4e00\U0001f600", entered=1, highest_bytes=3 * MIB)
    expect(report, "second", entered=1, highest_bytes=4 * MIB, requests=2)
    expect(report, "wide", entered=1, highest_bytes=6 * MIB)


def test_what_a_program_should_not_do(build):
    done = run(build, "wrong", config=STATISTICS)
    harness.equal((done.code, done.stdout), (0, "done\n"), done.stderr)
    report = done.reports[0]
    expect(report, "(no name)", entered=9, open=0, highest_bytes=9 * MIB, requests=2)
    expect(report, "x" * 103, entered=1, open=0, highest_bytes=9 * MIB)
    expect(report, "last", entered=1, open=0, highest_bytes=2 * MIB, requests=1)


def test_many_names_and_deep_ones(build):
    report = run(build, "many", config=STATISTICS).reports[0]
    names = phases(report)
    harness.equal(len(names), 257, "names")
    expect(report, "other", entered=100_000 - 256 + 3000, open=0, highest_bytes=10 * MIB)
    expect(report, "name0", entered=1, highest_bytes=MIB, requests=1)
    harness.equal(report["phases"]["unmeasured"], 3000 - 1024, "deeper than there are places")


def test_threads_that_end_or_are_cancelled(build):
    report = run(build, "threads", config=STATISTICS).reports[0]
    for name in ("of a thread", "inner"):
        expect(report, name, entered=2, open=0, highest_bytes=9 * MIB, added_bytes=8 * MIB, requests=2)


def test_forks(build):
    done = run(build, "forks", config=STATISTICS)
    harness.equal(sorted(done.stdout.split()), ["done"], done.stderr)
    names = sorted(tuple(phases(report)) for report in done.reports)
    harness.equal(names, [("child",), ("parent",)], "each process has its own")
    for report in done.reports:
        for name in phases(report):
            expect(report, name, entered=1, open=0, requests=1)


def test_exec(build):
    done = run(build, "exec", config=STATISTICS)
    harness.equal(done.stdout, "done\n", done.stderr)
    before = next(report for report in done.reports if report["end"]["kind"] == "exec")
    after = next(report for report in done.reports if report["end"]["kind"] == "exit")
    expect(before, "before exec", entered=1, open=1, highest_bytes=MIB, requests=1)
    expect_plain(after)


def test_killed(build):
    done = run(build, "killed", config=STATISTICS)
    harness.equal(done.code, 137, done.stderr)
    report = done.reports[0]
    harness.equal(report["end"]["kind"], "signal", "the end")
    expect(report, "train", entered=1, open=1, highest_bytes=150 * MIB, added_bytes=150 * MIB, requests=4)
    expect(report, "step", entered=3, open=1, highest_bytes=150 * MIB, added_bytes=50 * MIB, requests=3)
    names = phases(report)
    assert names["train"]["inside_ns"] >= names["step"]["inside_ns"] > 0, names
    assert "PHASES device 0" in done.texts[0], done.texts[0]


def test_handlers_in_the_middle_of_hooks(build):
    done = run(build, "signals")
    harness.equal((done.code, done.stdout), (0, "done\n"), done.stderr)
    expect(done.reports[0], "outer", entered=20_000, open=0, requests=20_000)
    for one in phases(done.reports[0]).values():
        harness.equal(one["open"], 0, one["name"])


def test_a_refusal_names_its_phase(build):
    done = run(build, "fails")
    expect(done.reports[0], "too much", entered=1, refusals=1, requests=1)
    harness.equal(done.reports[0]["failures"][0]["phase"], "too much", "the failure's phase")
    assert re.search(r"^ +phase +too much$", done.texts[0], re.M), done.texts[0]


def test_nothing_changes_where_nothing_is_asked_for(build):
    plain = build.run(program(build, "plain", "and say"))
    harness.equal(plain.stdout, "none\ndone\n", plain.stderr)
    loaded = build.run(program(build, "plain", "and say"), preload=True)
    harness.equal(harness.differences(plain, loaded), [], "without phases")
    assert "phases" not in loaded.reports[0] and "PHASES" not in loaded.texts[0]
    off = build.run(program(build, "plain", "and say"), preload=True, env={"GPUMEM_PHASES": "0"})
    harness.equal(harness.differences(plain, off), [], "GPUMEM_PHASES=0")
    disabled = build.run(program(build, "plain", "and say"), preload=True, env={"GPUMEM_PHASES": "1", "GPUMEM_DISABLE": "1"})
    harness.equal((disabled.stdout, disabled.reports), (plain.stdout, []), "GPUMEM_DISABLE=1")


def test_programs_cannot_tell(build):
    for scenario in SCENARIOS:
        plain = build.run(program(build, scenario))
        loaded = run(build, scenario)
        harness.equal(harness.differences(plain, loaded), [], scenario)


def test_ways_to_ask(build):
    with tempfile.TemporaryDirectory(prefix="gpumem-phases.") as folder:
        asking = pathlib.Path(folder) / "phases.toml"
        asking.write_text(STATISTICS + "[report]\nphases = true\n")
        config = {"GPUMEM_CONFIG": str(asking)}
        done = build.run(program(build, "plain"), tool=["-q"], env=config)
        expect_plain(done.reports[0])
        done = build.run(program(build, "plain"), tool=["-q"], env={**config, "GPUMEM_PHASES": "0"})
        assert "phases" not in done.reports[0], "the variable is over the file"
        done = build.run(program(build, "plain", "and say"), preload=True, env={**config, "GPUMEM_PHASES": "1"})
        harness.equal(done.stdout, f"{build.library}\ndone\n", "NVTX's variable, without gpumem run")
        expect_plain(done.reports[0])
        # The file alone is read at the first CUDA call. The program's NVTX has looked for a tool by then, its child's has not.
        done = build.run(program(build, "plain"), preload=True, env=config)
        assert "phases" not in done.reports[0], "documented: an NVTX call before the first CUDA call hears of no tool"
        done = build.run(program(build, "exec"), preload=True, env=config)
        expect_plain(next(report for report in done.reports if report["end"]["kind"] == "exit"))


def test_a_child_without_the_library(build):
    done = run(build, command=["env", "-u", "LD_PRELOAD", *program(build, "plain", "and say")])
    harness.equal((done.code, done.stdout), (0, f"{build.library}\ndone\n"), done.stderr)
    harness.equal((done.stderr, done.reports), ("", []), "NVTX finds the library, which is no tool there")


# --- another tool ---

def with_other_tool(build, scenario, kind, how, extra=None):
    """What the tool wrote, and the run. how: alone | before | under | none of ours."""
    library = build.folder / "programs" / "lib" / f"other_tool_{kind}.so"
    with tempfile.TemporaryDirectory(prefix="gpumem-phases.") as folder:
        log = pathlib.Path(folder) / "log"
        variables = {"NVTX_INJECTION64_PATH": str(library), "OTHER_TOOL_LOG": str(log), **(extra or {})}
        if how == "alone":
            done = build.run(program(build, scenario), env=variables)
        elif how == "preloaded":
            done = build.run(program(build, scenario), env=variables, preload=True)
        elif how == "before":    # nsys profile gpumem run ./program
            done = run(build, scenario, env=variables, config=STATISTICS)
        else:                    # gpumem run nsys profile ./program
            command = ["env", *(f"{key}={value}" for key, value in variables.items()), *program(build, scenario)]
            done = run(build, command=command, config=STATISTICS)
        harness.equal(done.code, 0, f"{scenario}, {kind}, {how}: {done.stderr}")
        return log.read_text(errors="replace"), done


def test_another_tool_gets_every_range(build):
    for kind in ("full", "minimal"):
        for scenario in ("plain", "domains", "ranges", "wrong", "threads", "forks"):
            wanted, plain = with_other_tool(build, scenario, kind, "alone")
            assert wanted.startswith("initialized\n") and wanted.count("\n") > 2, wanted
            ours = run(build, scenario, config=STATISTICS)
            for how in ("before", "under"):
                log, done = with_other_tool(build, scenario, kind, how)
                harness.equal(log, wanted, f"{scenario}, {kind}, {how}: what the tool heard")
                harness.equal(done.stdout, plain.stdout, f"{scenario}, {kind}, {how}")
                counted = [{name: (one["entered"], one["devices"]) for name, one in sorted(phases(r).items())}
                           for r in sorted(done.reports, key=lambda r: sorted(phases(r)))]
                alone = [{name: (one["entered"], one["devices"]) for name, one in sorted(phases(r).items())}
                         for r in sorted(ours.reports, key=lambda r: sorted(phases(r)))]
                if kind == "minimal" and scenario == "domains":
                    counted, alone = [list(c) for c in counted], [list(c) for c in alone]  # its marks are nobody's: names at least
                harness.equal(counted, alone, f"{scenario}, {kind}, {how}: what phases heard")


def test_a_thread_that_is_cancelled_in_another_tool(build):
    for how in ("alone", "before", "under"):
        log, done = with_other_tool(build, "cancelled", "full", how)
        harness.equal(done.stdout, "cancelled 1\ndone\n", f"{how}: {done.stderr}")
        assert "push pause" in log, log
    expect(done.reports[0], "outer", entered=1, open=0)
    expect(done.reports[0], "pause", entered=1, open=0)


def test_another_tool_that_declines(build):
    for how in ("before", "under"):
        log, done = with_other_tool(build, "plain", "full", how, {"OTHER_TOOL_DECLINES": "1"})
        harness.equal(log, "initialized\n", how)
        expect_plain(done.reports[0])


def test_another_tool_where_no_phases_are_asked_for(build):
    wanted, _ = with_other_tool(build, "domains", "full", "alone")
    log, done = with_other_tool(build, "domains", "full", "preloaded")
    harness.equal(log, wanted, "what the tool heard")
    assert "phases" not in done.reports[0]


# --- in a recording ---

def recorded(build, scenario):
    with tempfile.TemporaryDirectory(prefix="gpumem-phases.") as folder:
        done = run(build, scenario, config=STATISTICS, tool=("-q", "--phases", "--record", f"{folder}/recording"))
        told = subprocess.run([build.program("recording_ledger"), f"{folder}/recording"], capture_output=True, text=True)
        harness.equal((told.returncode, told.stderr), (0, ""), "the recording")
        found = json.loads(told.stdout)
        harness.equal((found["faults"], found["contradictions"], found["breaks"]), ([], 0, 0), scenario)
        return done, found


def test_recordings_have_them(build):
    for scenario, left in (("plain", 0), ("domains", 0), ("ranges", 0), ("threads", 0), ("killed", 2)):
        done, found = recorded(build, scenario)
        report = {name: one["entered"] for name, one in phases(done.reports[0]).items()}
        told = dict(found["phases"])
        if left:    # what was in no frame when it was killed has no name in the file; see recover.cpp
            harness.equal(sum(told.values()), sum(report.values()), scenario)
        else:
            harness.equal(told, report, scenario)
        harness.equal(found["open_phases"], left, f"{scenario}: open at the end")


# --- Python ---

PYTHON = """
import ctypes, nvtx
cuda = ctypes.CDLL("libcudart.so.13")
def use(mib):
    block = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(mib << 20)) == 0
    cuda.cudaFree(block)
@nvtx.annotate("decorated", color="blue")
def decorated():
    use(30)
decorated()
with nvtx.annotate("with", domain="python"):
    use(20)
for i in range(5):
    with nvtx.annotate(f"step {i}"):
        use(10 + i)
started = nvtx.start_range("range", domain="x")
use(5)
nvtx.end_range(started)
nvtx.push_range("push")
use(3)
nvtx.pop_range()
print("done")
"""


def nvtx_package(build):
    """A folder that has it: this Python's own, or from PyPI, kept in the build folder."""
    have = subprocess.run([sys.executable, "-c", "import nvtx"], capture_output=True)
    if have.returncode == 0:
        return ""
    folder = build.folder / "python_nvtx"
    if not (folder / "nvtx").exists():
        made = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", "--target", str(folder), "nvtx"],
                              capture_output=True, text=True, timeout=100)
        if made.returncode != 0:
            raise harness.Skipped(f"Python's nvtx cannot be had: {made.stderr.strip().splitlines()[-1:]}")
    return str(folder)


def test_python(build):
    env = {"PYTHONPATH": nvtx_package(build), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(build, command=[sys.executable, "-c", PYTHON], config=STATISTICS, env=env)
    harness.equal((done.code, done.stdout), (0, "done\n"), done.stderr)
    for name, entered, mib in (("decorated", 1, 30), ("python:with", 1, 20), ("step N", 5, 14), ("x:range", 1, 5), ("push", 1, 3)):
        expect(done.reports[0], name, entered=entered, open=0, highest_bytes=mib * MIB, requests=entered)


MODULE = """
import ctypes, gpumem
cuda = ctypes.CDLL("libcudart.so.13")
def use(mib):
    block = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(mib << 20)) == 0
    cuda.cudaFree(block)
@gpumem.phase("decorated 1")
def decorated(mib):
    use(mib)
    return mib
with gpumem.phase("outer"):
    print(decorated(10), decorated(20))
    try:
        with gpumem.phase("raises \u00e9"):
            use(30)
            raise KeyError("passed on")
    except KeyError as passed:
        print(passed)
"""


def test_python_module(build):
    env = {"PYTHONPATH": str(HERE.parents[2] / "shim" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    plain = build.run([sys.executable, "-c", MODULE], env=env)
    harness.equal((plain.code, plain.stdout), (0, "10 20\n'passed on'\n"), plain.stderr)
    done = run(build, command=[sys.executable, "-c", MODULE], config=STATISTICS, env=env, tool=("-q",))
    harness.equal(harness.differences(plain, done), [], "with the library, without --phases")
    expect(done.reports[0], "decorated N", entered=2, open=0, highest_bytes=20 * MIB, requests=2)
    expect(done.reports[0], "outer", entered=1, open=0, highest_bytes=30 * MIB, requests=3)
    expect(done.reports[0], "raises \u00e9", entered=1, open=0, highest_bytes=30 * MIB, requests=1)


if __name__ == "__main__":
    harness.main(dict(globals()))
