"""The pytest plugin of the wheel: markers limit_gpu_memory and limit_gpu_leaks, on the simulated CUDA.

limits_of_tests.py BUILD [test...]; see harness.main. Any Python that has pytest runs it (Debian: python3-pytest).
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "packages"))
import harness
import installed

ROOT = HERE.parents[2]
MODULE = str(ROOT / "shim" / "python")


def python_with_pytest():
    for path in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([path, "-c", "import pytest"], capture_output=True).returncode == 0:
            return path
    raise harness.Skipped("no Python here has pytest; scripts/setup.sh installs it")


def run_pytest(build, *arguments, preload=True, env=None, tests="limited_program.py", path=MODULE, plugin=("-p", "gpumem.pytest_plugin")):
    with tempfile.TemporaryDirectory() as folder:
        command = [python_with_pytest(), "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *plugin, f"--rootdir={folder}", *arguments,
                   str(HERE / tests)]
        more = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200", **(env or {})}
        outcome = build.run(command, preload=preload, env=more, cwd=folder)
        outcome.results = {name: result for result, name in re.findall(r"^(PASSED|FAILED|ERROR) \S*::test_(\w+)", outcome.stdout, re.M)}
        return outcome


def said_of(outcome, test):
    """The part of the output below a test's name."""
    return re.split(r"^_{3,} ", outcome.stdout.partition(f"_ test_{test} _")[2], flags=re.M)[0]


def test_the_markers(build):
    done = run_pytest(build, "--gpumem")
    wanted = {"passes": "PASSED", "fails": "FAILED", "errors": "ERROR"}
    assert len(done.results) == 15, done.stdout + done.stderr
    for name, result in done.results.items():
        harness.equal(result, wanted[name.split("_")[0]], f"{name}\n{done.stdout}")
    for test, words in {
            "fails_above": "Test was limited to 64.00 MiB of GPU memory but held 80.00 MiB more than when it began (device 0, exact to 1 % or 8 MiB",
            "fails_beside_a_fixture": "held 70.00 MiB more than when it began",
            "fails_by_memory_that_is_only_seen": "held 80.00 MiB more than when it began, 80.00 MiB of it by calls that no chain serves",
            "fails_keeping": "allowed to leak 0 B of GPU memory but did not give back 7.00 MiB (device 0: 7.00 MiB in 2 blocks)",
            "fails_by_its_own_assertion": "assert kept == []",
            "fails_by_both": "did not give back 300.00 MiB (device 0: 300.00 MiB in 1 block)"}.items():
        assert words in said_of(done, test), f"{test}: {done.stdout}"
    assert "limited to" not in said_of(done, "fails_by_its_own_assertion"), done.stdout
    assert "limited to 64.00 MiB" in said_of(done, "fails_by_both"), done.stdout
    assert re.search(r"device 0  \S+ +\d+.00 MiB now", said_of(done, "fails_keeping")), done.stdout
    assert "'2 gigs' is no size" in done.stdout and "limit_gpu_memory takes one argument" in done.stdout, done.stdout
    assert re.search(r"held 40.00 MiB of 64.00 MiB +\S+test_passes_within", done.stdout), done.stdout


def test_without_the_option_markers_do_nothing(build):
    done = run_pytest(build)
    failed = [name for name, result in done.results.items() if result != "PASSED"]
    harness.equal(failed, ["fails_by_its_own_assertion"], done.stdout)
    assert "PytestUnknownMarkWarning" not in done.stdout, done.stdout


def test_by_the_file_pytest_ini(build):
    with tempfile.TemporaryDirectory() as folder:
        ini = pathlib.Path(folder) / "pytest.ini"
        ini.write_text("[pytest]\ngpumem = true\ngpumem_not_loaded = skip\n")
        harness.equal(run_pytest(build, "-c", str(ini), "-k", "above").results, {"fails_above": "FAILED"}, "loaded")
        done = run_pytest(build, "-c", str(ini), "-k", "above or without_a_marker", preload=False)
        assert "1 passed, 1 skipped" in done.stdout and done.code == 0, done.stdout
        ini.write_text("[pytest]\ngpumem = true\ngpumem_not_loaded = maybe\n")
        done = run_pytest(build, "-c", str(ini), "-k", "above")
        assert done.code == 4 and "'maybe': error or skip" in done.stderr, done.stdout + done.stderr


def test_without_the_library(build):
    for env, preload, why in ((None, False, "pytest does not run under gpumem: gpumem run -- pytest --gpumem"),
                              ({"GPUMEM_DISABLE": "1"}, True, "GPUMEM_DISABLE is set: unset it")):
        only = ("--gpumem", "-k", "within or without_a_marker")
        done = run_pytest(build, *only, preload=preload, env=env)
        harness.equal(done.results, {"passes_within": "ERROR", "passes_without_a_marker": "PASSED"}, done.stdout)
        assert why in done.stdout, done.stdout
        done = run_pytest(build, *only, "--gpumem-not-loaded=skip", preload=preload, env=env)
        assert done.code == 0 and "1 passed, 1 skipped" in done.stdout and why in done.stdout, done.stdout


def test_figures_over_a_library_that_is_made_up(build):
    done = run_pytest(build, tests="judgement.py", preload=False)
    harness.equal(done.code, 0, done.stdout)
    assert len(done.results) > 6, done.stdout


def test_what_is_not_told_is_a_warning(build):
    """Where a library keeps one highest for the process: a module without reset_peak stands for it."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "older.py").write_text("import gpumem\ngpumem.__dict__.pop('reset_peak', None)\n")
        done = run_pytest(build, "-p", "older", "--gpumem", "-k", "above or earlier or beside", path=f"{MODULE}:{folder}")
        harness.equal(done.results, {"fails_above": "FAILED", "passes_below_an_earlier_highest": "PASSED",
                                     "passes_beside_a_fixture": "PASSED", "fails_beside_a_fixture": "FAILED"}, done.stdout)
        assert "device 0: the most that the test held is between 0 B and 80.00 MiB, its limit 64.00 MiB" in done.stdout, done.stdout


def test_pytest_finds_it_in_the_wheel(build):
    with tempfile.TemporaryDirectory() as folder:
        file = installed.wheel(installed.install(build, f"{folder}/tree"), folder)
        with zipfile.ZipFile(file) as archive:
            archive.extractall(f"{folder}/site")
        done = run_pytest(build, "--gpumem", "-k", "above or within", plugin=(), path=f"{folder}/site")
        harness.equal(done.results, {"passes_within": "PASSED", "fails_above": "FAILED"}, done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main(globals())
