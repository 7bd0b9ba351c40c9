"""Files and descriptors of others: closed ones, swapped ones, folders of other users, rights that are not the user's.

files.py BUILD [test...]; see harness.main. The program (acts.cpp) does to its process what its arguments say.
"""
import contextlib
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

OTHER = 12345                    # a user who is not root


@contextlib.contextmanager
def folder(mode=0o755):
    """One whose name every user may walk through."""
    with tempfile.TemporaryDirectory(prefix="gpumem-files.") as name:
        os.chmod(name, mode)
        yield pathlib.Path(name)


def root_only():
    if os.geteuid() != 0:
        raise harness.Skipped("needs root")


def shell(build, command, env):
    return build.run(["/bin/bash", "-c", command], env={"LD_PRELOAD": None, **env})


def preloaded(build, state):
    return {"LIBRARY": str(build.library), "ACTS": build.program("acts"), "GPUMEM_STATE_DIR": str(state)}


def test_a_data_file_that_got_descriptor_2(build):
    """stderr was closed when the program started: its first file gets the number, and no word of ours."""
    with folder() as here:
        for report in ("stderr", "/dev/stderr", "/nowhere/at/all", "%"):
            env = {**preloaded(build, here / "state"), "GPUMEM_REPORT": report, "GPUMEM_ON_ERROR": "passthrough",
                   "DATA": str(here / "data")}
            acts = "$ACTS open $DATA malloc write thread"
            run = shell(build, f"exec 2>&-; LD_PRELOAD=$LIBRARY {acts}", env)
            harness.equal(run.code, 0, "exit code")
            assert "descriptor 2" in run.stdout, run.stdout
            harness.equal((here / "data").read_text(), "D" * 64, f"the program's data file, GPUMEM_REPORT={report}")


def test_a_data_file_in_the_place_of_stderr(build):
    """The program closes stderr by itself, and then opens a file for data: still no word of ours in it."""
    with folder() as here:
        acts = ["close", "2", "open", str(here / "data"), "malloc", "write", "thread"]
        run = build.run([build.program("acts"), *acts], env={"LD_PRELOAD": str(build.library)})
        harness.equal(run.code, 0, "exit code")
        assert "descriptor 2" in run.stdout, run.stdout
        harness.equal((here / "data").read_text(), "D" * 64, "the program's data file")


def test_a_log_in_the_place_of_stderr(build):
    """A log that the shell, or the program, put there is what stderr is for."""
    with folder() as here:
        for redirection in ("2>$LOG", "2>>$LOG", ">$LOG 2>&1"):
            env = {**preloaded(build, here / "state"), "LOG": str(here / "log")}
            shell(build, f"LD_PRELOAD=$LIBRARY $ACTS malloc {redirection}", env)
            assert "=== gpumem" in (here / "log").read_text(), f"no report with {redirection}"
            (here / "log").unlink()
        script = "import os,sys,ctypes\nf=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT)\nos.dup2(f,2)\n" \
                 "c=ctypes.CDLL('libcudart.so.13')\np=ctypes.c_void_p()\nassert c.cudaMalloc(ctypes.byref(p),4096)==0\n" \
                 "c.cudaFree(p)\n"
        run = build.run([sys.executable, "-c", script, str(here / "log")], env={"LD_PRELOAD": str(build.library)})
        harness.equal(run.code, 0, f"exit code, {run.stderr}")
        assert "=== gpumem" in (here / "log").read_text(), "no report in the log that dup2 made stderr"


def test_a_link_that_is_swapped_in_writes_no_file(build):
    rounds = int(os.environ.get("GPUMEM_SURROUNDINGS_ROUNDS", "1")) * 60
    with folder() as here:
        victim = here / "victim"
        victim.write_text("precious\n")
        os.mkfifo(here / "report")
        (here / "link").symlink_to(victim)
        reader = os.open(here / "report", os.O_RDONLY | os.O_NONBLOCK)
        swapper = subprocess.Popen([build.program("acts"), "swap", here / "report", here / "link"], env=build.environment(),
                                   stdout=subprocess.DEVNULL)
        try:
            for number in range(rounds):
                run = build.run([build.program("acts"), "malloc"],
                                env={"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": str(here / "report")})
                harness.equal(run.code, 0, "exit code")
                harness.equal(victim.read_text(), "precious\n", f"the file behind the link, run {number}")
                for taken in here.glob("report.*"):
                    taken.unlink()
        finally:
            swapper.kill()
            swapper.wait()
            os.close(reader)


def test_a_link_is_never_written_through(build):
    with folder() as here:
        (here / "null").symlink_to("/dev/null")
        (here / "absent").symlink_to(here / "made")
        for name in ("null", "absent"):
            run = build.run([build.program("acts"), "malloc"],
                            env={"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": str(here / name)})
            harness.equal(run.code, 0, "exit code")
            beside = here / f"{name}.1"
            assert beside.exists() and "=== gpumem" in beside.read_text(), "the report went behind the link"
        assert not (here / "made").exists(), "a file was made behind a link"


def test_a_fifo_of_another_user_receives_nothing(build):
    root_only()
    with folder() as here:
        for owner, gets in ((0, True), (OTHER, False)):
            fifo = here / f"fifo{owner}"
            os.mkfifo(fifo)
            os.chown(fifo, owner, owner)
            os.chmod(fifo, 0o666)
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            run = build.run([build.program("acts"), "malloc"],
                            env={"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": str(fifo)})
            harness.equal(run.code, 0, "exit code")
            got = b""
            with contextlib.suppress(BlockingIOError):
                got = os.read(reader, 1 << 16)
            os.close(reader)
            harness.equal(b"=== gpumem" in got, gets, f"the report in a FIFO of user {owner}")
            harness.equal((here / f"fifo{owner}.1").exists(), not gets, "the report beside it")


def test_standard_names_are_what_is_open(build):
    """/dev/stdout is a link; where it is a file, the report stands behind what the program wrote."""
    with folder() as here:
        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            run = build.run([build.program("acts"), "malloc"], env={"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": name})
            harness.equal(run.code, 0, "exit code")
            assert run.stdout.startswith("malloc\ncounts:") and "=== gpumem" in run.stdout, f"{name}: {run.stdout!r}"
            harness.equal(run.stderr, "", f"stderr with GPUMEM_REPORT={name}")


def test_the_folder_of_a_program_that_moves(build):
    """Relative names are of the folder in which the first CUDA call was made."""
    with folder() as here:
        (here / "start").mkdir()
        (here / "later").mkdir()
        env = {"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": "state", "GPUMEM_REPORT": "report.txt",
               "GPUMEM_JSON": "report.json"}
        run = build.run([build.program("acts"), "malloc", "chdir", str(here / "later"), "thread"], env=env, cwd=here / "start")
        harness.equal((run.code, run.stderr), (0, ""), "code and stderr")
        harness.equal(sorted(os.listdir(here / "start")), ["report.json", "report.txt", "state"], "files at the start")
        harness.equal(os.listdir(here / "start" / "state"), [], "state pages left")
        harness.equal(os.listdir(here / "later"), [], "files where it went")
        counts = harness.report_counts(harness.read_json((here / "start" / "report.json").read_text()))
        harness.equal(counts["cuMemAlloc"], 20, "counts of both threads")


def test_gpumem_run_of_a_program_that_moves(build):
    with folder() as here:
        (here / "later").mkdir()
        env = {"GPUMEM_STATE_DIR": "state", "GPUMEM_JSON": str(here / "report.json"), "GPUMEM_REPORT": "none"}
        command = [str(build.tool), "run", "-q", "--", "/bin/bash", "-c",
                   f"cd {here}/later && exec {build.program('acts')} malloc thread kill"]
        run = build.run(command, env=env, cwd=here)
        harness.equal(run.code, 128 + 9, f"exit code, {run.stderr}")
        counts = harness.report_counts(harness.read_json((here / "report.json").read_text()))
        harness.equal(counts["cuMemAlloc"], 20, "counts of a killed program that moved")
        harness.equal(os.listdir(here / "later"), [], "files where it went")


def killed_after(build, here, *acts):
    """What `gpumem run` reports of a program that loses sight of its page, counts in a new thread and is killed."""
    (here / "state").mkdir(mode=0o700)
    env = {"GPUMEM_STATE_DIR": str(here / "state"), "GPUMEM_JSON": str(here / "report.json"), "GPUMEM_REPORT": "none"}
    run = build.run([str(build.tool), "run", "-q", "--", build.program("acts"), "malloc", *acts, "thread", "kill"], env=env)
    harness.equal((run.code, run.stderr), (128 + 9, ""), f"exit code and stderr after {acts}")
    return harness.report_counts(harness.read_json((here / "report.json").read_text()))["cuMemAlloc"]


def test_a_page_out_of_reach_counts_on(build):
    root_only()
    with folder() as here:
        (here / "jail").mkdir()
        harness.equal(killed_after(build, here, "chroot", str(here / "jail")), 20, "counts after chroot")
    with folder() as here:
        harness.equal(killed_after(build, here, "setuid", str(OTHER)), 20, "counts after setuid")


def test_a_folder_that_is_gone(build):
    """The state folder, or the folder that relative names are of, is removed: nothing is noticed but one line."""
    with folder() as here:
        (here / "gone").mkdir()
        env = {"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": "state", "GPUMEM_REPORT": "none"}
        run = build.run([build.program("acts"), "gone", "malloc", "thread"], env=env, cwd=here / "gone")
        harness.equal(run.code, 0, f"exit code, {run.stderr}")
        harness.equal(len(run.stderr.splitlines()), 1, f"lines on stderr, {run.stderr}")
        assert "no space" not in run.stderr, run.stderr


def test_no_space_is_said_of_no_space_only(build):
    with folder() as here:
        (here / "state").mkdir(mode=0o700)
        env = {"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": str(here / "state"), "GPUMEM_REPORT": "none"}
        run = build.run([build.program("acts"), "malloc", "limit", "nofile", "3", "thread", "malloc"], env=env)
        harness.equal(run.code, 0, "exit code")
        assert "no space" not in run.stderr.lower(), run.stderr


def test_a_runtime_folder_of_another_user(build):
    """`sudo -E` keeps XDG_RUNTIME_DIR: nothing of root's is made in the user's folder."""
    root_only()
    with folder() as here:
        runtime = here / "runtime"
        runtime.mkdir(mode=0o700)
        os.chown(runtime, OTHER, OTHER)
        run = build.run([build.program("acts"), "malloc"],
                        env={"LD_PRELOAD": str(build.library), "XDG_RUNTIME_DIR": str(runtime), "GPUMEM_REPORT": "none"})
        harness.equal((run.code, run.stderr, os.listdir(runtime)), (0, "", []), "code, stderr and the user's folder")
        run = build.run([build.program("acts"), "malloc"],
                        env={"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": str(runtime / "made"), "GPUMEM_REPORT": "none"})
        harness.equal((run.code, os.listdir(runtime)), (0, []), "code and the user's folder")
        assert "belongs to another user" in run.stderr, run.stderr


def test_rights_that_the_user_lacks(build):
    """A program with rights of its own (setuid, setgid) reads no variable of ours and writes no file."""
    root_only()
    with folder() as here:
        if os.statvfs(here).f_flag & os.ST_NOSUID:
            raise harness.Skipped(f"{here} is mounted nosuid")
        # ld.so takes no LD_PRELOAD here, so the library is linked; copies, as the other user must reach them.
        for file in ("libcuda.so.1", "libcudart.so.13"):
            shutil.copy(build.simulated / file, here / file)
        shutil.copy(build.library, here / "libgpumem.so")
        source = here / "program.c"
        source.write_text("extern int cudaMalloc(void**, unsigned long);\nextern int cudaFree(void*);\n"
                          "int main(void) { void* p = 0; return cudaMalloc(&p, 4096) * 10 + cudaFree(p); }\n")
        made = subprocess.run(["gcc", source, "-o", here / "program", "-Wl,--no-as-needed", here / "libgpumem.so",
                               here / "libcudart.so.13", f"-Wl,-rpath,{here},--disable-new-dtags"], capture_output=True, text=True)
        if made.returncode != 0:
            raise harness.Skipped(f"no program can be linked here: {made.stderr[:200]}")
        (here / "secret").write_text("root-only secret line\n")
        (here / "secret").chmod(0o600)
        (here / "private").mkdir(mode=0o700)
        env = {**build.environment(), "GPUMEM_JSON": f"{here}/private/report.json", "GPUMEM_REPORT": f"{here}/private/report.txt",
               "GPUMEM_STATE_DIR": f"{here}/private/state", "GPUMEM_CONFIG": f"{here}/secret"}

        def run_as_other():
            return subprocess.run([here / "program"], env=env, capture_output=True, text=True, timeout=60,
                                  user=OTHER, group=OTHER, extra_groups=[])
        harness.equal(run_as_other().returncode, 78, "exit code without rights: the variables count, the file is no configuration")
        for mode, owner in ((0o4755, 0), (0o2755, 0)):
            os.chown(here / "program", owner, owner)
            (here / "program").chmod(stat.S_IFREG | mode)
            run = run_as_other()
            harness.equal((run.returncode, run.stdout, run.stderr), (0, "", ""), f"code and output with mode {mode:o}")
            harness.equal(os.listdir(here / "private"), [], "files written with rights that the user lacks")


harness.main(globals())
