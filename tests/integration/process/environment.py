"""Odd surroundings: no driver, disabled, misspelt variables, many processes at once, an unusable state folder.

environment.py BUILD [test...]; see harness.main. In each the program itself behaves as it does without the library.
"""
import concurrent.futures
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def test_no_driver(build):
    """A program that looks for a driver and finds none goes its own way, and there is nothing to report."""
    command = [build.program("driver_dlopen.driver")]
    with tempfile.TemporaryDirectory() as empty:
        env = {"LD_LIBRARY_PATH": empty}
        plain = build.run(command, env=env)
        if "no driver" not in plain.stdout:
            raise harness.Skipped("this machine has a driver of its own")
        run = build.run(command, preload=True, env=env)
        harness.equal(harness.differences(plain, run), [], "without a driver")
        harness.equal((run.reports, run.texts, run.state), ([], [], []), "files of a process without CUDA")


def test_no_driver_under_the_runtime(build):
    """The static runtime answers with its own code, as it does without the library."""
    with tempfile.TemporaryDirectory() as empty:
        command = [build.program("runtime_loop.static"), "5"]
        env = {"LD_LIBRARY_PATH": empty}
        plain = build.run(command, env=env)
        if plain.code == 0:
            raise harness.Skipped("this machine has a driver of its own")
        run = build.run(command, preload=True, env=env)
        harness.equal(harness.differences(plain, run), [], "without a driver")


def test_disabled(build):
    command = [build.program("runtime_loop.shared"), "30"]
    plain = build.run(command)
    run = build.run(command, preload=True, env={"GPUMEM_DISABLE": "1", "GPUMEM_CONFIG": "/nowhere.toml"})
    harness.equal(harness.differences(plain, run), [], "with GPUMEM_DISABLE=1")
    harness.equal((run.reports, run.texts, run.state), ([], [], []), "files of a disabled process")


def test_misspelt_variable_is_named(build):
    command = [build.program("runtime_loop.shared"), "10"]
    run = build.run(command, preload=True, env={"GPUMEM_REPROT": "none"})
    harness.equal(run.code, 0, "exit code")
    assert "GPUMEM_REPROT" in run.stderr and "GPUMEM_REPORT" in run.stderr, f"no warning: {run.stderr!r}"


def test_no_report_when_none_is_asked_for(build):
    command = [build.program("runtime_loop.shared"), "10"]
    plain = build.run(command)
    run = build.run(command, env={"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": "none"})
    harness.equal(harness.differences(plain, run), [], "with GPUMEM_REPORT=none")


def test_default_report_goes_to_stderr(build):
    command = [build.program("runtime_loop.shared"), "10"]
    plain = build.run(command)
    run = build.run(command, env={"LD_PRELOAD": str(build.library)})
    harness.equal((run.code, run.stdout), (plain.code, plain.stdout), "program")
    assert "gpumem" in run.stderr and "cuMemAlloc" in run.stderr, f"no report on stderr: {run.stderr!r}"
    assert max(map(len, run.stderr.splitlines())) <= 96, "a line of the report is wider than 96"


def unusable_state(build, make):
    command = [build.program("runtime_loop.shared"), "10"]
    plain = build.run(command)
    with tempfile.TemporaryDirectory() as folder:
        run = build.run(command, preload=True, env={"GPUMEM_STATE_DIR": make(pathlib.Path(folder))})
        harness.equal((run.code, run.stdout), (plain.code, plain.stdout), "program")
        harness.equal(harness.count_faults(run), [], "counts without a state page on disk")
        assert len(run.stderr.splitlines()) <= 2, f"more than a warning: {run.stderr}"


def test_state_folder_is_a_file(build):
    def make(folder):
        (folder / "file").write_text("")
        return str(folder / "file")
    unusable_state(build, make)


def test_state_folder_is_a_link(build):
    def make(folder):
        (folder / "real").mkdir(mode=0o700)
        os.symlink(folder / "real", folder / "link")
        return str(folder / "link")
    unusable_state(build, make)


def test_eight_processes_at_once(build):
    command = [build.program("runtime_loop.shared"), "40"]
    plain = build.run(command)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/state", 0o700)
        env = {"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": f"{folder}/state",
               "GPUMEM_REPORT": f"{folder}/report.%p.txt", "GPUMEM_JSON": f"{folder}/report.json"}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            runs = list(pool.map(lambda _: build.run(command, env=env), range(8)))
        for run in runs:
            harness.equal(harness.differences(plain, run), [], "one of eight")
        wanted = sorted(harness.own_counts(plain.stdout)[0].items())
        paths = list(pathlib.Path(folder).glob("report.json*"))
        harness.equal(len(paths), 8, "JSON reports under one name")
        for path in paths:
            counts = harness.report_counts(harness.read_json(path.read_text()))
            harness.equal(sorted(counts.items()), wanted, f"counts in {path.name}")
        harness.equal(len(list(pathlib.Path(folder).glob("report.*.txt"))), 8, "text reports")
        harness.equal(os.listdir(f"{folder}/state"), [], "state pages left")


harness.main(globals())
