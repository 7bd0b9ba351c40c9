"""A bad configuration is never half applied: all errors with their places, exit code 78, the program not started.

bad_config.py BUILD [test...]; see harness.main. Also the ways out: on_config_error and GPUMEM_ON_ERROR = passthrough.
"""
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

# Five mistakes: an unknown key, a misspelt resource, a bad size, a bad value and an unknown table.
FIVE = """version = 1

[route]
device = ["pol", "cuda"]

[resource.pool]
initail_pool_size = "1 GiB"
maximum_pool_size = "70 G"

[behavior]
free = "sometimes"

[reprot]
text = "stderr"
"""
FIVE_LINES = {4, 7, 8, 11, 13}
POSITION = re.compile(r"^(\S+):(\d+):(\d+): error\[E\d+\]: .+")


def preloaded(build, text, env=None, name="bad.toml"):
    """(run, plain run) of a small program with the configuration `text` (None: a path that is not there)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        if text is not None:
            path.write_text(text)
        command = [build.program("runtime_loop.shared"), "20"]
        variables = {"GPUMEM_CONFIG": str(path), **(env or {})}
        return build.run(command, preload=True, env=variables), build.run(command)


def errors(text):
    return [POSITION.match(line).groups() for line in text.splitlines() if POSITION.match(line)]


def test_five_errors_with_their_places(build):
    run, _ = preloaded(build, FIVE)
    harness.equal(run.code, 78, f"exit code, stderr {run.stderr}")
    harness.equal(run.stdout, "", "output of a program that must not start")
    found = errors(run.stderr)
    harness.equal({int(line) for _, line, _ in found}, FIVE_LINES, f"lines with an error in\n{run.stderr}")
    harness.equal(len(found), 5, "errors")
    harness.equal([int(line) for _, line, _ in found], sorted(FIVE_LINES), "their order")
    assert 'did you mean "pool"' in run.stderr, "no nearest name"
    assert "5 errors" in run.stderr and "not started" in run.stderr, f"no closing line in\n{run.stderr}"
    harness.equal(run.reports, [], "reports of a program that must not start")


def test_gpumem_run_refuses_before_it_starts(build):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bad.toml"
        path.write_text(FIVE)
        marker = pathlib.Path(folder) / "started"
        run = build.run([str(build.tool), "run", "-c", str(path), "--", "/bin/touch", str(marker)])
        assert run.code != 0, "gpumem run accepted a bad configuration"
        assert not marker.exists(), "the program was started"
        harness.equal(len(errors(run.stderr)), 5, f"errors in\n{run.stderr}")


def test_gpumem_check_gives_the_same_errors(build):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bad.toml"
        path.write_text(FIVE)
        run = build.run([str(build.tool), "check", str(path)])
        harness.equal(run.code, 2, "exit code of gpumem check")
        harness.equal(len(errors(run.stderr + run.stdout)), 5, f"errors in\n{run.stderr}{run.stdout}")


def test_missing_file(build):
    run, _ = preloaded(build, None)
    harness.equal(run.code, 78, f"exit code, stderr {run.stderr}")
    assert "bad.toml" in run.stderr and "error" in run.stderr, f"the file is not named: {run.stderr}"


def test_syntax_error(build):
    run, _ = preloaded(build, 'version = 1\n[route\ndevice = ["pool", "cuda"]\n')
    harness.equal(run.code, 78, f"exit code, stderr {run.stderr}")
    harness.equal([int(line) for _, line, _ in errors(run.stderr)], [2], f"line of the error in\n{run.stderr}")


def passes_through(build, text, env):
    run, plain = preloaded(build, text, env)
    harness.equal((run.code, run.stdout), (plain.code, plain.stdout), f"program under a bad configuration, {run.stderr}")
    assert errors(run.stderr), f"the errors are not shown: {run.stderr}"


def test_passthrough_from_the_environment(build):
    passes_through(build, FIVE, {"GPUMEM_ON_ERROR": "passthrough"})


def test_passthrough_from_the_file(build):
    passes_through(build, FIVE.replace("[behavior]\n", '[behavior]\non_config_error = "passthrough"\n'), {})


def test_a_process_without_cuda_never_reads_it(build):
    run = build.run(["/bin/echo", "hello"], preload=True, env={"GPUMEM_CONFIG": "/nowhere/bad.toml"})
    harness.equal((run.code, run.stdout, run.stderr), (0, "hello\n", ""), "echo under a bad configuration")


harness.main(globals())
