"""What a new user types into `gpumem`, and what a script relies on: exit codes, hints, help."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def tool(build, *arguments, env=None, stdout=subprocess.PIPE):
    return subprocess.run([build.tool, *arguments], env=build.environment(env), stdout=stdout, stderr=subprocess.PIPE,
                          text=True, timeout=60)


def expect(done, code, *words):
    text = (done.stdout or "") + done.stderr
    assert done.returncode == code, f"code {done.returncode}, wanted {code}: {text}"
    for word in words:
        assert word in text, f"{word!r} is not in {text}"


def test_output_that_cannot_be_written(build):
    with tempfile.TemporaryDirectory() as name, open("/dev/full", "w") as full:
        chain = pathlib.Path(name) / "chain.toml"
        chain.write_text("version = 1\n")
        report = pathlib.Path(name) / "report.json"
        done = build.run([build.program("runtime_loop.shared"), "1"], preload=True)

        report.write_text(json.dumps(done.reports[0]))
        for words in (["--help"], ["--version"], ["check", chain], ["check", "--", "/bin/true"], ["report", report],
                      ["report", "--json", report], ["report", "--explain"], ["report", "--list"]):
            expect(tool(build, *words, stdout=full), 3, "standard output cannot be written: No space left on device")
            expect(tool(build, *words), 0)


def test_a_standard_output_that_is_closed(build):
    for words in ("--help", "report --explain", "check", "-V"):
        done = subprocess.run(["bash", "-c", f"{build.tool} {words} >&-"], env=build.environment(), capture_output=True, text=True,
                              timeout=60)
        expect(done, 3, "standard output cannot be written: Bad file descriptor")


def test_a_program_gets_its_streams_as_they_came(build):
    script = "import os\nfor n in range(3):\n  try: os.fstat(n)\n  except OSError: os.write(3, b'%d' % n)"
    for closed in ("0<&-", ">&-", "2>&-"):
        number = {"0": "0", ">": "1", "2": "2"}[closed[0]]
        for words in ([], [str(build.tool), "run", "-q"]):
            read, write = os.pipe()
            subprocess.run(["bash", "-c", f'exec 3>&{write}; "$@" {closed}', "bash", *words, sys.executable, "-c", script],
                           env=build.environment(), pass_fds=(write,), timeout=60, check=True)
            os.close(write)
            with os.fdopen(read) as told:
                harness.equal(told.read(), number, f"{closed} {words}: streams that are closed")


def test_a_reader_that_goes_away(build):
    script = f"set -o pipefail; trap '' PIPE; {build.tool} report --explain | head -1"
    done = subprocess.run(["bash", "-c", script], env=build.environment(), capture_output=True, text=True)
    harness.equal((done.returncode, done.stderr), (0, ""), "| head")


def test_help_and_version(build):
    for words in (["--help"], ["help"], ["-h"]):
        expect(tool(build, *words), 0, "run", "check", "report")
    expect(tool(build, "help", "check"), 0, "--device-memory")
    expect(tool(build, "help", "reprot"), 2, 'there is no verb "reprot"')
    for word in ("--version", "-V"):
        expect(tool(build, word), 0, "libgpumem.so")


def test_hints(build):
    done = tool(build, "check", "--device-memory=8GiB", "/dev/null", "extra")
    expect(done, 2, "a program stands after --")
    assert "did you mean" not in done.stderr, done.stderr
    expect(tool(build, "check", "--device-memry=8GiB", "/dev/null"), 2, '"--device-memory"')
    done = tool(build, "run", "-c", "/no/such.toml", "true")
    expect(done, 125, "/no/such.toml", "check the path that was given")
    assert "GPUMEM_CONFIG" not in done.stderr, done.stderr
    expect(tool(build, "check", "/dev/null", "ls"), 2, "a program stands after --: gpumem check -- ./program")
    expect(tool(build, "run", "--uncachd", "true"), 125, '"--uncached"')
    expect(tool(build, "run", "-o"), 125, "--output")
    expect(tool(build), 2, "which verb? run, check, report or export")


def test_a_script_without_its_first_line(build):
    """`run` executes it by a shell, as execvp does, so check says so."""
    with tempfile.TemporaryDirectory() as name:
        script = pathlib.Path(name) / "script"
        script.write_text("echo it ran\n")
        script.chmod(0o755)
        expect(tool(build, "check", "--", script), 0, "/bin/sh", "can be intercepted")
        expect(tool(build, "run", "-q", script), 0, "it ran")


def test_a_file_without_chains_keeps_those_that_are_there(build):
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "report.toml"
        path.write_text('version = 1\n[report]\ntext = "none"\n')
        expect(tool(build, "check", "--strict", path), 0, "device    pool", "cuda")
        run = build.run([build.program("runtime_loop.shared"), "5"], preload=True, env={"GPUMEM_CONFIG": str(path)})
        assert [chain["route"] for chain in run.reports[0]["chains"]] == ["device"], run.reports[0]["chains"]
        path.write_text('version = 1\n[route]\nmanaged = ["managed"]\n')
        expect(tool(build, "check", path), 0, "device    passthrough")


def test_an_empty_variable_is_none(build):
    for name in ("CONFIG", "JSON", "RECORD", "LOG", "LOG_LEVEL", "ON_ERROR", "PHASES", "DISABLE", "RUN_ID"):
        empty = {f"GPUMEM_{name}": ""}
        expect(tool(build, "check", env=empty), 0, "built-in configuration: good")
        run = build.run([build.program("runtime_loop.shared"), "5"], preload=True, env=empty)
        harness.equal((run.code, run.stderr), (0, ""), f"a program with an empty GPUMEM_{name}")
    expect(tool(build, "check", env={"GPUMEM_REPORT": ""}), 2, "GPUMEM_REPORT")


def test_run_shows_the_error_that_it_passes_over(build):
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "typos.toml"
        path.write_text('version = 1\n[route]\ndevice = ["pol", "cuda"]\n')
        done = tool(build, "run", "-c", path, "true", env={"GPUMEM_ON_ERROR": "passthrough"})
        expect(done, 0, "error[E301]", "the program runs without gpumem")
        assert f"running true with {path}" not in done.stderr, done.stderr


if __name__ == "__main__":
    harness.main(globals())
