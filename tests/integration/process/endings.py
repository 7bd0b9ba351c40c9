"""No ending loses a counter: under `gpumem run` a killed process's report is full and says that it was killed.

endings.py BUILD [test...]; see harness.main. The program (tests/programs/exits.cpp) prints its counts before it ends.
"""
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def program(build, way):
    return [build.program("exits.shared"), way]


def ends(build, way, code, kind, clean, signal_number=None):
    """Runs it under `gpumem run -q`: the program's own code comes through, the report knows how it ended."""
    run = build.run(program(build, way), tool=["-q"])
    harness.equal(run.code, code, f"exit code of `gpumem run` around {way}: {run.stderr}")
    plain = build.run(program(build, way))
    harness.equal(run.stdout, plain.stdout, f"stdout of {way}")
    harness.equal(harness.count_faults(run), [], f"counts after {way}")
    harness.equal(len(run.reports), 1, f"JSON reports after {way}")
    harness.equal(len(run.texts), 1, f"text reports after {way}")
    end = run.reports[0]["end"]
    harness.equal((end["kind"], end["clean"]), (kind, clean), f"end of {way}")
    if signal_number is not None:
        harness.equal(end.get("signal"), signal_number, f"signal of {way}")
        assert "killed by SIG" in run.texts[0], f"the text report does not say that it was killed:\n{run.texts[0]}"
    harness.equal(run.state, [], f"state pages left after {way}")


def test_descriptors_of_the_program(build):
    """Its files lie where our copy of stderr was: the report goes to stderr itself, and nothing into them."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "of the program"
        run = build.run([*program(build, "descriptors"), str(file)], preload=True, env={"GPUMEM_REPORT": "stderr"})
        harness.equal((run.code, file.read_text()), (12, "mine\n"), "exit code and file")
        assert "=== gpumem" in run.stderr, f"no report: {run.stderr}"


def test_return(build):
    ends(build, "return", 0, "exit", True)


def test_exit(build):
    ends(build, "exit", 7, "exit", True)


def test_underscore_exit(build):
    ends(build, "_exit", 8, "exit", True)


def test_quick_exit(build):
    ends(build, "quick_exit", 9, "exit", True)


def test_threads_that_end_it_together(build):
    """Whichever comes first to the end of the process leaves the one that writes the report the time to write it."""
    for way, code in (("together", 15), ("_together", 16), ("quick_together", 17)) * 20:
        run = build.run(program(build, way), preload=True)
        harness.equal((run.code, len(run.reports), len(run.texts), run.state), (code, 1, 1, []), f"code, reports and pages of {way}")
        harness.equal(harness.count_faults(run), [], f"counts after {way}")
        harness.equal(run.reports[0]["end"]["code"], code, f"code in the report of {way}")


def test_threads_that_exec_and_exit_together(build):
    """Each image has its whole report; that of the first one is written again where an exec was overtaken by an exit."""
    seen = set()
    for _ in range(40):
        run = build.run(program(build, "exec_together"), preload=True)
        kinds = sorted(report["end"]["kind"] for report in run.reports)
        assert (run.code, kinds) in ((0, ["exec", "exit"]), (15, ["exit"]), (15, ["exec", "exit"])), (run.code, kinds)
        harness.equal((len(run.texts), run.state), (len(kinds), []), f"text reports and pages, {kinds}")
        seen.add(run.code)
    harness.equal(seen, {0, 15}, "both came first at times")


def test_a_handler_that_joins_a_thread_that_exits(build):
    """Before 2.41 libc lets it end the process; nothing of ours is waited for then."""
    if tuple(map(int, platform.libc_ver()[1].split("."))) >= (2, 41):
        raise harness.Skipped("this libc lets one thread into exit, and the program waits for ever")
    ends(build, "joined", 18, "exit", True)


def test_the_main_thread_alone(build):
    ends(build, "main", 0, "exit", True)


def test_a_system_call(build):
    """Go's programs end so, past every handler: the page is kept, and `gpumem run` reports all the same."""
    ends(build, "system_call", 20, "exit", False)
    run = build.run(program(build, "system_call"), preload=True)
    harness.equal((run.code, run.reports, len(run.state)), (20, [], 1), "code, reports and pages")


def test_abort(build):
    ends(build, "abort", 128 + signal.SIGABRT, "signal", False, int(signal.SIGABRT))


def test_segmentation_fault(build):
    ends(build, "segv", 128 + signal.SIGSEGV, "signal", False, int(signal.SIGSEGV))


def test_kill(build):
    ends(build, "kill", 128 + signal.SIGKILL, "signal", False, int(signal.SIGKILL))


def test_exec_reports_both_images(build):
    run = build.run(program(build, "exec"), tool=["-q"])
    harness.equal(run.code, 0, f"exit code: {run.stderr}")
    harness.equal(harness.count_faults(run), [], "counts")
    harness.equal(len(run.reports), 2, "reports: one for each image of the same process id")


def files_that_fail(folder):
    """(file, reports of a process that executes it in vain): what can be told before, and what cannot."""
    folder = pathlib.Path(folder)
    for name, mode, text in (("unknown", 0o755, "echo never\n"), ("data", 0o644, "#!/bin/sh\n"), ("empty", 0o755, ""),
                             ("lost", 0o755, "#!/no/such/interpreter\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    return [(str(folder), 1), *((str(folder / name), 1) for name in ("unknown", "data", "empty", "none")), (str(folder / "lost"), 2)]


def test_an_exec_that_fails_changes_nothing(build):
    """Its report is not written twice where that could be told; in any case the last one has everything."""
    with tempfile.TemporaryDirectory() as folder:
        for file, reports in files_that_fail(folder):
            for form in ("v", "at"):
                command = [build.program("acts"), "malloc", "exec", form, file, "exec", form, file, "thread"]
                plain, run = build.run(command), build.run(command, preload=True)
                harness.equal(harness.differences(plain, run), [], f"exec of {file}")
                harness.equal((len(run.reports), run.state), (2 * reports - 1, []), f"reports and pages, exec of {file}")
                last = max(run.reports, key=lambda report: report["end"]["duration_ns"])
                harness.equal((harness.own_counts(plain.stdout)[-1], last["end"]["kind"]), (harness.report_counts(last), "exit"), file)


def test_a_kill_after_an_exec_that_failed(build):
    with tempfile.TemporaryDirectory() as folder:
        for file, reports in files_that_fail(folder):
            command = [build.program("acts"), "malloc", "exec", "v", file, "threads", "3", "kill"]
            run = build.run(command, preload=True)
            harness.equal((len(run.reports), len(run.state)), (reports - 1, 1), f"reports and pages after exec of {file}: {run.state}")
            run = build.run(command, tool=["-q"])
            harness.equal(([report["end"]["kind"] for report in run.reports], run.state), (["signal"], []), f"exec of {file}: {run.stderr}")
            harness.equal(harness.report_counts(run.reports[0]), harness.own_counts(run.stdout)[-1], file)


def test_files_that_an_exec_finds(build):
    """In the current folder, by an empty element of PATH; by a shell, as it has no interpreter's name; by execveat."""
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        os.symlink(build.program("acts"), here / "again")
        (here / "no_interpreter").write_text('test "$1" = executed && echo by a shell\n')
        (here / "no_interpreter").chmod(0o755)
        for form, file, path in (("vp", "again", "/nowhere:"), ("vp", "again", ":/nowhere"), ("vp", "no_interpreter", f"/bin:{folder}"),
                                 ("vp", "./no_interpreter", None), ("at", "again", None), ("v", "again", None)):
            command = [build.program("acts"), "malloc", "exec", form, file]
            env = {"PATH": path} if path else None
            plain, run = build.run(command, cwd=folder, env=env), build.run(command, preload=True, cwd=folder, env=env)
            assert "not executed" not in plain.stdout, plain.stdout
            harness.equal(harness.differences(plain, run), [], f"{form} {file}")
            harness.equal(([report["end"]["kind"] for report in run.reports], run.state), (["exec"], []), f"{form} {file} by {path}")


def hang_and_kill(build, folder, command, env):
    """Starts the hanging program, waits for its counts, kills it from outside; (counts, code of `command`)."""
    out = pathlib.Path(folder) / "out"
    with open(out, "wb") as stdout:
        process = subprocess.Popen([*command, *program(build, "hang")], stdout=stdout, env=build.environment(env))
        deadline = time.monotonic() + 60
        while "counts:" not in out.read_text() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        victim = process.pid
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if command and process.poll() is None:
            victim = int(children.read_text().split()[0])
        assert "counts:" in out.read_text(), "the program did not get to its counts"
        os.kill(victim, signal.SIGKILL)
        code = process.wait(60)
    return harness.own_counts(out.read_text())[0], code


def test_kill_from_outside_under_run(build):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/state", 0o700)
        env = {"GPUMEM_STATE_DIR": f"{folder}/state", "GPUMEM_REPORT": f"{folder}/report.txt",
               "GPUMEM_JSON": f"{folder}/report.json"}
        counts, code = hang_and_kill(build, folder, [str(build.tool), "run", "-q", "--"], env)
        harness.equal(code, 128 + 9, "exit code of `gpumem run`")
        report = harness.read_json(pathlib.Path(folder, "report.json").read_text())
        harness.equal(harness.report_counts(report), counts, "counts after kill -9")
        harness.equal((report["end"]["kind"], report["end"]["signal"], report["end"]["clean"]), ("signal", 9, False), "end")
        assert "SIGKILL" in pathlib.Path(folder, "report.txt").read_text(), "the text report does not name SIGKILL"


def test_kill_under_plain_preload_is_reported_later(build):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/state", 0o700)
        env = {"GPUMEM_STATE_DIR": f"{folder}/state", "LD_PRELOAD": str(build.library)}
        counts, code = hang_and_kill(build, folder, [], env)
        harness.equal(code, -9, "exit code of the program")
        run = build.run([str(build.tool), "report", "--last", "--json"], env={"GPUMEM_STATE_DIR": f"{folder}/state"})
        harness.equal(run.code, 0, f"`gpumem report --last --json`: {run.stderr}")
        harness.equal(harness.report_counts(harness.read_json(run.stdout)), counts, "counts after kill -9")


def test_text_report_on_stderr_when_the_program_closed_it(build):
    run = build.run(program(build, "closed"), env={"LD_PRELOAD": str(build.library)})
    harness.equal(run.code, 12, "exit code")
    assert "=== end" in run.stderr or "gpumem" in run.stderr, f"no report on stderr: {run.stderr!r}"


def test_a_failed_report_changes_nothing(build):
    plain = build.run(program(build, "exit"))
    run = build.run(program(build, "exit"), env={"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": "/nowhere/at/all.txt"})
    harness.equal((run.code, run.stdout), (plain.code, plain.stdout), "code and stdout")
    lines = [line for line in run.stderr.splitlines() if line]
    harness.equal(len(lines), 1, f"lines on stderr, {lines}")
    assert "/nowhere/at/all.txt" in lines[0], f"the line does not name the file: {lines[0]}"


def test_report_files_are_never_overwritten(build):
    with tempfile.TemporaryDirectory() as folder:
        env = {"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": f"{folder}/same.txt"}
        for _ in range(3):
            harness.equal(build.run(program(build, "return"), env=env).code, 0, "exit code")
        harness.equal(sorted(os.listdir(folder)), ["same.txt", "same.txt.1", "same.txt.2"], "files")


harness.main(globals())
