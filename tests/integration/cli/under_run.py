"""What `gpumem run` adds to a program that ends by itself: lines and names in its report, and a word when there is none."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

TRACKED = 'version = 1\n[route]\ndevice = ["tracking", "pool", "cuda"]\n'
LINES = ("leaks.cpp:29 (anonymous namespace)::take_large(CUstream_st*)", "leaks.cpp:23 (anonymous namespace)::take_medium()",
         "leaks.cpp:17 (anonymous namespace)::take_small()")
MANGLED = "_ZN12_GLOBAL__N_110take_smallEv"


class Folder:
    """One with a chain that tracks, and a state folder, in which nothing may stay behind."""

    def __init__(self, build):
        self.build = build
        self.place = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.place.name)
        self.state = self.path / "state"
        self.state.mkdir(mode=0o700)
        (self.path / "t.toml").write_text(TRACKED)
        self.leaks = build.program("leaks.shared")

    def __enter__(self):
        return self

    def __exit__(self, *fault):
        self.place.cleanup()

    def environment(self, **more):
        return self.build.environment({"GPUMEM_STATE_DIR": str(self.state), **more})

    def run(self, *words, code=0, **more):
        done = subprocess.run([self.build.tool, "run", *words], cwd=self.path, env=self.environment(**more), text=True,
                              capture_output=True, timeout=100)
        harness.equal(done.returncode, code, f"run {words}: {done.stderr}")
        harness.equal(os.listdir(self.state), [], f"the state folder after {words}")
        return done


def expect_lines(text, times=1):
    for line in LINES:
        harness.equal(text.count(line), times, f"{line!r} in {text}")
    assert "_ZN" not in text and "exit 0, clean" in text, text


def need_symbolizer():
    if not shutil.which("llvm-symbolizer") and not shutil.which("addr2line"):
        raise harness.Skipped("neither llvm-symbolizer nor addr2line is installed")


def test_lines_and_names_of_a_program_that_ended_by_itself(build):
    need_symbolizer()
    with Folder(build) as here:
        expect_lines(here.run("-q", "-c", "t.toml", here.leaks).stderr)
        expect_lines(here.run("-q", "-c", "t.toml", "-o", "-", here.leaks).stdout)
        here.run("-q", "-c", "t.toml", "-o", "r.%e.txt", "--json", "r.json", here.leaks)
        expect_lines((here.path / "r.leaks.shared.txt").read_text())
        report = harness.read_json((here.path / "r.json").read_text())
        harness.equal((report["end"]["clean"], report["end"]["written_by"]), (True, "gpumem run"), "the end")
        harness.equal(harness.ledger_faults(report), [], "its ledger")
        files = {os.path.basename(frame.get("file", "")) for site in report["call_sites"] for frame in site["frames"]}
        assert "leaks.cpp" in files, report["call_sites"]


def test_names_without_any_symbolizer(build):
    """They need no program: only the lines do."""
    with Folder(build) as here:
        text = here.run("-q", "-c", "t.toml", here.leaks, PATH="/nowhere").stderr
        assert "leaks.shared (anonymous namespace)::take_small()" in text and "_ZN" not in text, text


def test_below_a_shell(build):
    """Also of what it starts; but where its output goes elsewhere, or by other names, so does its report."""
    need_symbolizer()
    with Folder(build) as here:
        script = f"{here.leaks} >/dev/null; {here.leaks} > /dev/null; true"
        expect_lines(here.run("-q", "-c", "t.toml", "sh", "-c", script).stderr, times=2)
        done = here.run("-q", "-c", "t.toml", "sh", "-c", f"{here.leaks} 2>own; true")
        assert done.stderr == "" and MANGLED in (here.path / "own").read_text(), done.stderr
        here.run("-q", "-c", "t.toml", "sh", "-c", f"mkdir below; cd below; GPUMEM_REPORT=r.%e.txt {here.leaks}")
        expect_lines((here.path / "below" / "r.leaks.shared.txt").read_text())
        here.run("-q", "-c", "t.toml", "sh", "-c", f"RANK=3 GPUMEM_REPORT=r.%r.txt {here.leaks}")
        assert MANGLED in (here.path / "r.3.txt").read_text(), "a name with a value of the program's environment"


def test_what_outlives_its_run_reports_by_itself(build):
    with Folder(build) as here:
        done = subprocess.run([build.tool, "run", "-q", "-c", "t.toml", "-o", "late.txt", "sh", "-c",
                               f"(sleep 0.5; {here.leaks}) >/dev/null 2>&1 &"], cwd=here.path, env=here.environment(), timeout=60)
        harness.equal(done.returncode, 0, "run")
        end = time.monotonic() + 30
        while (not (here.path / "late.txt").exists() or os.listdir(here.state)) and time.monotonic() < end:
            time.sleep(0.05)
        assert MANGLED in (here.path / "late.txt").read_text()
        harness.equal(os.listdir(here.state), [], "the state folder")


def test_others_do_not_clear_away_what_a_run_will_report(build):
    """`gpumem report` keeps the newest pages alone; a report that is still to be written is not lost by that."""
    with Folder(build) as here:
        script = f"{here.leaks} >/dev/null; {build.tool} report --clean; {build.tool} report --list >/dev/null"
        done = here.run("-q", "-c", "t.toml", "sh", "-c", script)
        assert "0 state pages of ended processes removed" in done.stdout and "take_small" in done.stderr, done.stdout + done.stderr


def test_no_call_was_seen(build):
    """It is said, with why and what to try; never of a program that called, and never with -q."""
    with Folder(build) as here:
        said = "no CUDA call was seen"
        text = here.run("true").stderr
        for words in (said, "true is linked to no CUDA", "static program", "setuid", "sudo", "gpumem check -- PROGRAM"):
            assert words in text, f"{words!r} is not in {text}"
        assert said not in here.run("-q", "true").stderr
        assert "GPUMEM_DISABLE is set" in here.run(here.leaks, GPUMEM_DISABLE="1").stderr
        for words in ([here.leaks], ["sh", "-c", f"{here.leaks}; true"]):
            assert said not in here.run(*words).stderr, words
        assert said in here.run("sh", "-c", f"env -i LD_LIBRARY_PATH=$LD_LIBRARY_PATH {here.leaks}").stderr
        assert said not in here.run("/no/such/program", code=127).stderr


def test_a_program_that_changes_its_folder_finds_the_configuration(build):
    """Which the variable may name from the folder of `run`, as --config may."""
    with Folder(build) as here:
        moved = ["sh", "-c", f"cd / && exec {here.leaks}"]
        for words, variable in ((["-c", "t.toml"], None), ([], "t.toml"), ([], f"../{here.path.name}/t.toml"), ([], str(here.path / "t.toml"))):
            text = here.run(*words, *moved, GPUMEM_CONFIG=variable).stderr
            assert "LEAKS device 0" in text and "no CUDA call was seen" not in text, text


def test_a_program_that_refuses_its_configuration_has_said_why(build):
    with Folder(build) as here:
        text = here.run("sh", "-c", f"GPUMEM_CONFIG=/absent.toml exec {here.leaks}", code=78).stderr
        assert "/absent.toml: error[E001]" in text and "no CUDA call was seen" not in text, text


def test_no_call_of_a_static_program_was_seen(build):
    compiler = harness.require_tool("cc")
    with Folder(build) as here:
        (here.path / "static.c").write_text("int main(void) { return 0; }\n")
        made = subprocess.run([compiler, "-static", "static.c", "-o", "static"], cwd=here.path, capture_output=True)
        if made.returncode != 0:
            raise harness.Skipped("no static libc")
        text = here.run("./static").stderr
        assert "no CUDA call was seen" in text and "statically linked" in text, text


def test_a_run_that_was_killed_leaves_no_mark_for_good(build):
    with Folder(build) as here:
        process = subprocess.Popen([build.tool, "run", "-q", "sleep", "60"], env=here.environment())
        end = time.monotonic() + 20
        while not os.listdir(here.state) and time.monotonic() < end:
            time.sleep(0.02)
        (mark,) = os.listdir(here.state)
        assert mark.startswith(f"run-{process.pid}-"), mark
        subprocess.run([build.tool, "report", "--clean"], env=here.environment(), check=True, timeout=60, capture_output=True)
        harness.equal(os.listdir(here.state), [mark], "the mark of a run that lives")
        process.kill()
        process.wait()
        subprocess.run([build.tool, "report", "--clean"], env=here.environment(), check=True, timeout=60, capture_output=True)
        harness.equal(os.listdir(here.state), [], "the mark of a run that was killed")


if __name__ == "__main__":
    harness.main(globals())
