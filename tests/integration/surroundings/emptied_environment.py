"""A program that empties its environment before its first CUDA call, as daemons and sandboxes do: what its user asked holds.

emptied_environment.py BUILD [test...]; see harness.main. The program (acts.cpp) drops the list, or takes each variable out.
"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

WAYS = ("clear", "unset")
AFTER = ("set", "PATH", "/bin:/usr/bin")  # what is made of it then


def acts(build, *what):
    return [build.program("acts"), *what]


def test_reports_and_configuration(build):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "chain.toml"
        config.write_text('version = 1\n[route]\ndevice = ["arena", "cuda"]\n')
        for way in WAYS:
            for rest in ((), AFTER):
                command = acts(build, way, *rest, "malloc", "thread")
                plain = build.run(command)
                run = build.run(command, preload=True, env={"GPUMEM_CONFIG": str(config)})
                harness.equal(harness.differences(plain, run), [], f"{way} {rest}")
                harness.equal(harness.count_faults(run), [], f"counts, {way} {rest}")
                assert str(config) in run.texts[0] and "arena" in run.texts[0], f"another configuration: {run.texts[0]}"


def test_between_two_calls(build):
    """The names of the files are made at the end, of variables too."""
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            run = build.run(acts(build, "malloc", way, "malloc"), preload=True,
                            env={"GPUMEM_REPORT": f"{folder}/%q{{JOB}}.%r.{way}", "JOB": "seven", "OMPI_COMM_WORLD_RANK": "3"})
            harness.equal((run.code, run.stderr), (0, ""), f"a run with {way}")
            assert (pathlib.Path(folder) / f"seven.3.{way}").exists(), os.listdir(folder)
            run = build.run(acts(build, "malloc", way, "set", "JOB", "eight", "malloc"), preload=True,
                            env={"GPUMEM_REPORT": f"{folder}/%q{{JOB}}.%r.{way}", "JOB": "seven"})
            assert (pathlib.Path(folder) / f"eight.0.{way}").exists(), os.listdir(folder)


def test_disabled_and_silent_ones(build):
    for way in WAYS:
        command = acts(build, way, *AFTER, "malloc")
        plain = build.run(command)
        for env in ({"GPUMEM_DISABLE": "1"}, {"GPUMEM_REPORT": "none", "GPUMEM_JSON": None}):
            run = build.run(command, preload=True, env=env)
            harness.equal(harness.differences(plain, run), [], f"{way} with {env}")
            harness.equal((run.reports, run.texts), ([], []), f"reports, {way} with {env}")


def test_a_bad_configuration(build):
    for way in WAYS:
        run = build.run(acts(build, way, "malloc"), preload=True, env={"GPUMEM_CONFIG": "/nowhere.toml"})
        harness.equal(run.code, 78, f"exit code, {way}")


def test_under_run(build):
    """Its page is where `gpumem run` looks for it."""
    for way in WAYS:
        with tempfile.TemporaryDirectory() as runtime:
            os.chmod(runtime, 0o700)
            run = build.run(acts(build, way, "malloc", "kill"), tool=[], env={"GPUMEM_STATE_DIR": None, "XDG_RUNTIME_DIR": runtime})
            assert "no CUDA call" not in run.stderr, run.stderr
            assert "written by gpumem run from the state page" in run.stderr, f"{way}, no report: {run.stderr}"


def test_what_the_program_sets_is_its_wish(build):
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            other = f"{folder}/other.{way}"
            run = build.run(acts(build, way, "set", "GPUMEM_REPORT", other, "malloc"), preload=True)
            harness.equal((run.code, run.stderr, run.reports, run.texts), (0, "", [], []), f"{way}, reports elsewhere")
            assert pathlib.Path(other).exists(), f"{way}: {os.listdir(folder)}"


def test_a_variable_that_is_taken_out_is_gone(build):
    """LD_PRELOAD is still there: the program has made this environment, and not emptied it."""
    for name in ("GPUMEM_REPORT", "GPUMEM_JSON"):
        run = build.run(acts(build, "drop", name, "malloc"), preload=True)
        harness.equal((len(run.texts), len(run.reports)), (0, 1) if name == "GPUMEM_REPORT" else (1, 0), f"reports without {name}")
    run = build.run(acts(build, "drop", "GPUMEM_DISABLE", "malloc"), env={"GPUMEM_DISABLE": "1", "LD_PRELOAD": str(build.library)})
    assert "=== gpumem" in run.stderr, f"no report: {run.stderr}"


harness.main(globals())
