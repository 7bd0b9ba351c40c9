"""Messages of the library: levels, pattern, stderr or a file, forks, and what happens where a place for them fails.

log.py BUILD [test...]; see harness.main. A log of allocations in a folder that is not there gives one warning a process.
"""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

CHAIN = 'version = 1\n[route]\ndevice = ["logging", "pool", "cuda"]\n[resource.logging]\nfile = "/nowhere/at/all.csv"\n'
WARNING = ("no log of allocations: cannot create /nowhere/at/all.csv: No such file or directory; gpumem makes no folders: "
           "create it first, or change the pattern")
STARTED = r"version [0-9.]+, driver of CUDA \d+\.\d+, CUDA runtime shared, configuration .*chain\.toml"


@contextlib.contextmanager
def configured(log=""):
    """A folder with chain.toml, whose [log] is `log`."""
    with tempfile.TemporaryDirectory(prefix="gpumem-log.") as name:
        folder = pathlib.Path(name)
        (folder / "chain.toml").write_text(CHAIN + ("[log]\n" + log if log else ""))
        yield folder


def acts(build, folder, *what, **env):
    command = [build.program("acts"), *what]
    return build.run(command, preload=True, env={"GPUMEM_CONFIG": str(folder / "chain.toml"), **env}, cwd=folder)


def good(run, plain=None):
    harness.equal(run.code, 0, f"exit code, {run.stderr}")
    assert "counts:" in run.stdout, run.stdout
    if plain is not None:
        harness.equal(run.stdout, plain.stdout, "the program's output")


def test_stderr_without_a_word_of_it(build):
    with configured() as folder:
        run = acts(build, folder, "malloc")
        good(run)
        harness.equal(run.stderr, f"gpumem: warning: {WARNING}\n", "stderr")


def test_levels(build):
    with configured() as folder:
        for variable in ("GPUMEM_LOG", "GPUMEM_LOG_LEVEL"):
            for level, lines in (("off", 0), ("error", 0), ("warn", 1), ("info", 2), ("trace", 2)):
                run = acts(build, folder, "malloc", **{variable: level})
                good(run)
                harness.equal(len(run.stderr.splitlines()), lines, f"lines with {variable}={level}: {run.stderr}")
                if lines == 2:
                    assert re.match(f"gpumem: {STARTED}\ngpumem: warning: ", run.stderr), run.stderr
    with configured('level = "info"\n') as folder:
        harness.equal(len(acts(build, folder, "malloc").stderr.splitlines()), 2, "lines with level info in the file")
        harness.equal(acts(build, folder, "malloc", GPUMEM_LOG="error").stderr, "", "the variable over the file")


def test_pattern(build):
    with configured('level = "info"\npattern = "%Y-%m-%dT%H:%M:%S.%e%z [%-7l] %P %v"\n') as folder:
        run = acts(build, folder, "malloc")
        good(run)
        time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"
        assert re.fullmatch(rf"{time} \[info   \] \d+ {STARTED}\n{time} \[warning\] \d+ {re.escape(WARNING)}\n", run.stderr), run.stderr


def test_a_file(build):
    with configured('pattern = "%l %v"\nfile = "%e.%p.log"\n') as folder:
        what = ("malloc", "open", str(folder / "data"), "write", "malloc")
        plain = build.run([build.program("acts"), *what], cwd=folder)
        run = acts(build, folder, *what)
        good(run, plain)     # with the number of its descriptor
        harness.equal(run.stderr, "", "stderr")
        made = list(folder.glob("acts.*.log"))
        harness.equal([file.read_text() for file in made], [f"warning {WARNING}\n"], "the log")
        harness.equal((folder / "data").read_text(), "D" * 64, "the program's data file")


def test_a_file_by_the_variable(build):
    with configured('level = "off"\nfile = "never"\n') as folder:
        run = acts(build, folder, "malloc", GPUMEM_LOG=f"warn:{folder}/a:b")
        good(run)
        harness.equal((run.stderr, (folder / "a:b").read_text()), ("", f"gpumem: warning: {WARNING}\n"), "stderr and log")
        assert not (folder / "never").exists(), "the file's own name was used"
        # What is there is never written over.
        good(acts(build, folder, "malloc", GPUMEM_LOG=f":{folder}/a:b", GPUMEM_LOG_LEVEL="warn"))
        harness.equal((folder / "a:b.1").read_text(), (folder / "a:b").read_text(), "the second log")


def test_a_file_that_cannot_be_made(build):
    for name, why in (("/nowhere/log", "cannot create /nowhere/log: No such file or directory; gpumem makes no folders"),
                      ("/dev/fd/1", "cannot write to /dev/fd/1: Bad file descriptor"),
                      (".", "cannot create ")):
        with configured(f'file = "{name}"\n') as folder:
            run = acts(build, folder, "malloc")
            good(run, build.run([build.program("acts"), "malloc"]))
            lines = run.stderr.splitlines()
            assert lines[0].startswith(f"gpumem: warning: log.file: {why}"), lines
            assert lines[0].endswith("; messages go to stderr"), lines
            harness.equal(lines[1:], [f"gpumem: warning: {WARNING}"], "what follows")


def test_a_full_disk(build):
    with configured('file = "/dev/full"\n') as folder:
        run = acts(build, folder, "malloc")
        good(run)
        harness.equal(run.stderr, "gpumem: warning: /dev/full cannot be written: it was closed, or its disk is full; messages go to "
                      f"stderr\ngpumem: warning: {WARNING}\n", "stderr")


def test_a_bad_pattern(build):
    with configured('pattern = "[%Q] %v"\n') as folder:
        harness.equal(acts(build, folder, "malloc").code, 78, "exit code")
        run = acts(build, folder, "malloc", GPUMEM_ON_ERROR="passthrough")
        good(run)
        assert 'log.pattern: "[%Q] %v": %Q is not known; write %v' in run.stderr, run.stderr
        run = acts(build, folder, "malloc", GPUMEM_LOG="loud", GPUMEM_CONFIG=None)
        harness.equal(run.code, 78, "exit code")
        assert 'GPUMEM_LOG = "loud" is unknown; known values: off, error, warn, info, debug, trace' in run.stderr, run.stderr


def test_fork(build):
    """A process that uses CUDA begins a log of its own, whatever its parent did."""
    with configured('level = "info"\npattern = "%P %v"\nfile = "log.%p"\n') as folder:
        run = acts(build, folder, "fork", "malloc")
        good(run)
        harness.equal(len(list(folder.glob("log.*"))), 1, "logs when the child alone used CUDA")
    with configured('pattern = "%P %v"\nfile = "log"\n') as folder:
        program = ("import os,ctypes\nc=ctypes.CDLL('libcudart.so.13')\ndef use():\n p=ctypes.c_void_p()\n"
                   " assert c.cudaMalloc(ctypes.byref(p),4096)==0\n c.cudaFree(p)\npid=os.fork()\n"
                   "if pid: os.waitpid(pid,0); print(pid)\nuse()\n")
        run = build.run([sys.executable, "-c", program], preload=True, cwd=folder,
                        env={"GPUMEM_CONFIG": str(folder / "chain.toml")})
        harness.equal(run.code, 0, f"exit code, {run.stderr}")
        parent = (folder / "log.1").read_text().split()[0]
        texts = {path.name: path.read_text() for path in folder.glob("log*")}
        harness.equal(texts, {"log": f"{run.stdout.strip()} {WARNING}\n", "log.1": f"{parent} {WARNING}\n"}, "child's and parent's")
        harness.equal(run.stderr, "", "stderr")


def test_closed_stderr(build):
    """Where descriptor 2 is the program's data file, the log still goes into its own."""
    for log in ("", 'file = "log"\n'):
        with configured(log) as folder:
            env = build.environment({"LIBRARY": build.preload(), "GPUMEM_CONFIG": str(folder / "chain.toml"),
                                     "GPUMEM_STATE_DIR": str(folder / "state"), "ACTS": build.program("acts")})
            run = subprocess.run(["/bin/bash", "-c", "exec 2>&-; LD_PRELOAD=$LIBRARY $ACTS open data malloc write"], env=env,
                                 cwd=folder, stdout=subprocess.PIPE, text=True, timeout=60)
            harness.equal(run.returncode, 0, "exit code")
            assert "descriptor 2" in run.stdout, run.stdout
            harness.equal((folder / "data").read_text(), "D" * 64, "the program's data file")
            if log:
                harness.equal((folder / "log").read_text(), f"gpumem: warning: {WARNING}\n", "the log")


def test_the_number_of_the_log_taken_over(build):
    """A program that closes what it did not open: no word of ours in the file that gets the number."""
    with configured('level = "info"\nfile = "log"\n') as folder:
        program = ("import os,ctypes\nc=ctypes.CDLL('libcudart.so.13')\np=ctypes.c_void_p()\n"
                   "c.cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))\nc.cudaFree(None)\n"
                   "ours=[n for n in range(3,2000) if os.path.exists(f'/proc/self/fd/{n}') and "
                   "os.readlink(f'/proc/self/fd/{n}').endswith('/log')]\nassert len(ours)==1,ours\n"
                   "f=os.open('data',os.O_RDWR|os.O_CREAT)\nos.dup2(f,ours[0])\n"
                   "c.cudaMalloc(ctypes.byref(p),4096)\n")
        run = build.run([sys.executable, "-c", program], preload=True, cwd=folder,
                        env={"GPUMEM_CONFIG": str(folder / "chain.toml")})
        harness.equal(run.code, 0, f"exit code, {run.stderr}")
        harness.equal((folder / "data").read_text(), "", "the program's data file")
        assert run.stderr.endswith(f"gpumem: warning: {WARNING}\n"), run.stderr
        assert "cannot be written" in run.stderr, run.stderr


def test_no_formatter_is_relocated(build):
    """Nothing of spdlog's pattern formatter in what the loader relocates in each process: no virtual table, no type."""
    readelf = harness.require_tool("readelf")
    symbols = subprocess.run([readelf, "-sW", str(build.library)], capture_output=True, text=True, check=True).stdout
    spdlogs = set(re.findall(r"\b_ZT[VIS]\S*6spdlog\S*", symbols))
    if not any("logger" in name for name in spdlogs):
        raise harness.Skipped("the library has no symbols left")
    harness.equal([name for name in spdlogs if "formatter" in name and not name.endswith("6spdlog9formatterE")], [],
                  "tables of spdlog's formatters")


harness.main(globals())
