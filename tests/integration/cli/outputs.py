"""Where reports go, and how they look there: streams and files by name, terminals of any width, with and without colours."""
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

PROGRAM = ("runtime_loop.shared", "5")


def program(build):
    return [build.program(PROGRAM[0]), *PROGRAM[1:]]


def ran(build, folder, *words, env=None, **more):
    """`gpumem run` in a folder that is empty but for the state folder beside it."""
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run([build.tool, "run", *words, "--", *program(build)], cwd=folder, capture_output=True, text=True,
                              timeout=60, env=build.environment({"GPUMEM_STATE_DIR": state, **(env or {})}), **more)
    harness.equal(done.returncode, 0, f"run {words}: {done.stderr}")
    return done


def test_streams_by_their_names(build):
    """No file of the name is made, whether a word comes by flag, by variable or by file."""
    with tempfile.TemporaryDirectory() as folder:
        for word in ("stdout", "-", "/dev/stdout"):
            for env, flags in (({"GPUMEM_REPORT": word}, ()), (None, ("-o", word)), (None, (f"--output={word}",))):
                done = ran(build, folder, "-q", *flags, env=env)
                assert "=== gpumem" in done.stdout and "=== end" in done.stdout, f"{word}: {done.stdout}"
                harness.equal(done.stderr, "", f"stderr with {word}")
        for word in ("stderr", "/dev/stderr"):
            done = ran(build, folder, "-q", "-o", word)
            assert "=== gpumem" in done.stderr and "=== gpumem" not in done.stdout, f"{word}: {done.stderr}"
        for word, stream in (("stdout", "stdout"), ("-", "stdout"), ("stderr", "stderr")):
            for env, flags in (({"GPUMEM_JSON": word}, ()), (None, ("--json", word))):
                done = ran(build, folder, "-q", "-o", "none", *flags, env=env)
                text = getattr(done, stream)
                harness.read_json(text[text.index("{\n"):])
        config = pathlib.Path(folder) / "chain.toml"
        config.write_text('version = 1\n[report]\ntext = "stdout"\njson = "stderr"\n')
        done = ran(build, folder, "-q", "-c", "chain.toml")
        assert "=== end" in done.stdout and done.stderr.startswith("{"), done.stdout + done.stderr
        harness.equal(os.listdir(folder), ["chain.toml"], "what lies in the folder")


UNFLUSHED = """
#include <stdio.h>
#include <unistd.h>
int cudaMalloc(void**, unsigned long);
int main(int count, char** words) {
  void* memory;
  if (cudaMalloc(&memory, 4096) != 0) return 1;
  printf("its last line\\n");
  if (count > 1) _exit(0);
  return 0;
}
"""


def test_what_the_program_printed_stands_before_its_report(build):
    """Its last lines are still in the buffer of stdio when the library ends; _exit drops them, as without us."""
    compiler = harness.require_tool("cc")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "unflushed.c").write_text(UNFLUSHED)
        runtime = next(build.simulated.glob("libcudart.so.1*"))
        subprocess.run([compiler, "unflushed.c", "-o", "unflushed", str(runtime)], cwd=folder, check=True, timeout=60)
        for words, last in (([], "its last line\n"), (["_exit"], "")):
            done = subprocess.run([f"{folder}/unflushed", *words], capture_output=True, text=True, timeout=60,
                                  env=build.environment({"LD_PRELOAD": build.preload(), "GPUMEM_REPORT": "stdout"}))
            harness.equal(done.returncode, 0, done.stderr)
            assert done.stdout.startswith(last + "=== gpumem"), done.stdout[:300]


def test_a_redirected_stdout_gets_it(build):
    with tempfile.TemporaryDirectory() as folder:
        for word in ("/dev/stdout", "stdout", "-"):
            path = pathlib.Path(folder) / "out"
            with open(path, "w") as out:
                subprocess.run([build.tool, "run", "-q", "-o", word, *program(build)], stdout=out, check=True, timeout=60,
                               env=build.environment({"GPUMEM_STATE_DIR": folder}))
            assert "=== end" in path.read_text(), word
            harness.equal(os.listdir(folder), ["out"], "files")


def test_a_stdout_that_was_closed_gets_nothing(build):
    """The number 1 is then the program's first file: its data stays its own."""
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data"
        script = (f"import ctypes; data = open({str(data)!r}, 'wb'); assert data.fileno() == 1, data.fileno()\n"
                  "runtime = ctypes.CDLL('libcudart.so.13'); p = ctypes.c_void_p()\n"
                  "assert runtime.cudaMalloc(ctypes.byref(p), 4096) == 0\ndata.write(b'mine'); data.flush()\n")
        done = subprocess.run(["bash", "-c", 'exec "$@" >&-', "bash", sys.executable, "-c", script],
                              env=build.environment({"LD_PRELOAD": build.preload(), "GPUMEM_REPORT": "stdout",
                                                     "GPUMEM_STATE_DIR": folder}), capture_output=True, text=True, timeout=60)
        harness.equal((done.returncode, data.read_bytes()), (0, b"mine"), f"code and data, {done.stderr}")
        assert "cannot write to stdout" in done.stderr, done.stderr


def test_a_reader_that_went_away_has_what_it_wanted(build):
    """Of the report on standard output, as of other verbs': nothing is said, and the program's exit code is its own."""
    silent = "import ctypes; assert ctypes.CDLL('libcudart.so.13').cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(4096)) == 0"
    with tempfile.TemporaryDirectory() as folder:
        for word in ("-", "stdout", "/dev/stdout"):
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([build.tool, "run", "-q", "-o", word, sys.executable, "-c", silent], stdout=writer, stderr=subprocess.PIPE, text=True,
                                  timeout=60, env=build.environment({"GPUMEM_STATE_DIR": folder}))
            os.close(writer)
            harness.equal((done.returncode, done.stderr, os.listdir(folder)), (0, "", []), word)


def test_folders_and_places_that_cannot_be_written(build):
    with tempfile.TemporaryDirectory() as folder:
        beside = pathlib.Path(folder) / "taken"
        beside.mkdir()
        for place, words in ((beside, "Is a directory: name a file in it"), ("/dev/full", "cannot write all of /dev/full: No space left on device"),
                             ("/no/such/folder/r.txt", "gpumem makes no folders")):
            for flag in ("-o", "--json"):
                other = ("-o", "none") if flag == "--json" else ()
                done = ran(build, folder, "-q", *other, flag, str(place))
                assert words in done.stderr and "=== gpumem" not in done.stderr, f"{flag} {place}: {done.stderr}"
        harness.equal(os.listdir(folder), ["taken"], "files")
        harness.equal(os.listdir(beside), [], "files")


def test_flags_stand_over_variables_and_file(build):
    """Names are of the folder in which `gpumem run` was started."""
    with tempfile.TemporaryDirectory() as folder:
        ran(build, folder, "-q", "-o", "r.%e.txt", "--json=r.json", env={"GPUMEM_REPORT": "no.txt", "GPUMEM_JSON": "no.json"})
        harness.equal(sorted(os.listdir(folder)), ["r.json", "r.runtime_loop.shared.txt"], "files")
        bad = subprocess.run([build.tool, "run", "-o", "%z", "true"], env=build.environment(), capture_output=True, text=True)
        assert bad.returncode == 125 and '--output: "%z": %z is not known' in bad.stderr, bad.stderr


UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",
            "TF_GPU_ALLOCATOR": "cuda_malloc_async"}


def test_uncached_tells_the_frameworks(build):
    """And says so, and what it costs; without the flag nothing is set."""
    with tempfile.TemporaryDirectory() as folder:
        def seen(*flags, env=None):
            done = subprocess.run([build.tool, "run", *flags, "env"], capture_output=True, text=True, timeout=60,
                                  env=build.environment({"GPUMEM_STATE_DIR": folder, **(env or {})}))
            harness.equal(done.returncode, 0, done.stderr)
            found = [line.split("=", 1) for line in done.stdout.splitlines() if line.split("=")[0] in UNCACHED]
            return sorted(map(tuple, found)), done.stderr

        harness.equal(seen()[0], [], "without the flag")
        variables, said = seen("--uncached", env={"XLA_PYTHON_CLIENT_ALLOCATOR": "bfc"})
        harness.equal(variables, sorted(UNCACHED.items()), "with it")
        for word in (*(f"{name}={value}" for name, value in UNCACHED.items()), "PyTorch captures no CUDA graph", "slower"):
            assert word in said, f"{word!r} is not in {said}"
        assert "passthrough" not in said, said
        harness.equal(seen("-q", "--uncached"), (sorted(UNCACHED.items()), ""), "with -q")
        path = pathlib.Path(folder) / "none.toml"
        path.write_text('version = 1\n[route]\ndevice = "passthrough"\n')
        assert "route.device is passthrough" in seen("-c", path, "--uncached")[1]


def on_terminal(build, words, columns=200, env=None):
    """What a command shows on a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([build.tool, *words], stdin=slave, stdout=slave, stderr=slave,
                               env=build.environment({"TERM": "xterm", "NO_COLOR": None, **(env or {})}))
    os.close(slave)
    text, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other side is gone
            break
        if not part:
            break
        text += part
    os.close(master)
    process.wait(30)
    return text.decode().replace("\r\n", "\n")


def failing_report(build, folder):
    """A JSON report with a failure, which is what is shown in red."""
    path = pathlib.Path(folder) / "small.toml"
    path.write_text('version = 1\n[route]\ndevice = ["limiting", "pool", "cuda"]\n[resource.limiting]\n'
                    'allocation_limit = "1 KiB"\n')
    json_path = pathlib.Path(folder) / "r.json"
    subprocess.run([build.tool, "run", "-q", "-c", path, "-o", "none", "--json", json_path, *program(build)],
                   env=build.environment({"GPUMEM_STATE_DIR": folder}), capture_output=True, timeout=60)
    assert harness.read_json(json_path.read_text())["failures"], "nothing failed"
    return str(json_path)


def test_a_file_whose_name_needs_quotes_is_named_with_them(build):
    with tempfile.TemporaryDirectory() as name:
        for file, word in (("r.json", "{}/r.json"), ("a b.json", "'{}/a b.json'"), ("it's.json", "'{}/it'\\''s.json'")):
            done = build.run([build.program("runtime_loop.shared"), "5"], preload=True, env={"GPUMEM_JSON": f"{name}/{file}"})
            assert f"gpumem report {word.format(name)}\n" in done.texts[0], done.texts[0]


def test_colours(build):
    """In a terminal that has them, and for who wants them; by the program itself as well."""
    with tempfile.TemporaryDirectory() as folder:
        report = failing_report(build, folder)
        small = str(pathlib.Path(folder) / "small.toml")
        for words in (["report", report], ["run", "-q", "-c", small, "-o", "stderr", *program(build)],
                      ["run", "-q", "-c", small, "-o", "-", *program(build)]):
            def coloured(env):
                text = on_terminal(build, words, env={"GPUMEM_STATE_DIR": folder, **env})
                assert "!! " in text, text
                return "\033[" in text
            harness.equal(coloured({}), True, f"{words} in a terminal")
            harness.equal(coloured({"NO_COLOR": "1"}), False, f"{words} under NO_COLOR")
            harness.equal(coloured({"NO_COLOR": ""}), True, f"{words} under an empty NO_COLOR")
            harness.equal(coloured({"TERM": "dumb"}), False, f"{words} under TERM=dumb")
        piped = subprocess.run([build.tool, "report", report], env=build.environment({"TERM": "xterm"}), capture_output=True,
                               text=True)
        assert "\033[" not in piped.stdout, "colours in a pipe"


def test_the_terminals_width(build):
    """Nothing is wider than a terminal of 80 columns or more; beyond it, and in a file, it is a page of 96."""
    with tempfile.TemporaryDirectory() as folder:
        report = failing_report(build, folder)
        env = {"GPUMEM_STATE_DIR": folder}
        for words in (["report", report], ["report", "--explain"], ["check"], ["help"], ["help", "run"], ["help", "check"],
                      ["help", "report"], ["check", "--", "/bin/true"],
                      ["run", "-q", "-o", "stderr", *program(build)], ["check", "--device-memory=8GiB", "--strict"]):
            for columns in (80, 90, 96, 200):
                text = on_terminal(build, words, columns, env)
                wide = [line for line in text.splitlines() if len(re.sub("\033\\[[0-9;]*m", "", line)) > columns]
                paths = ["/" in line for line in wide]  # a path is not broken
                assert all(paths), f"{words} on {columns} columns: {wide}"
        narrow, page = on_terminal(build, ["report", report], 80, env), on_terminal(build, ["report", report], 96, env)
        harness.equal(len(narrow.splitlines()[-1]), 80, "the last line on 80 columns")
        harness.equal(len(page.splitlines()[-1]), 96, "the last line on 96 columns")
        assert "refused by" in narrow and "CHAIN" in narrow, narrow


def test_report_clean(build):
    """Pages of ended processes go, those of live ones stay, and nothing else is touched."""
    with tempfile.TemporaryDirectory() as name:
        state = pathlib.Path(name) / "state"
        state.mkdir(mode=0o700)
        (state / "mine").write_text("not a page")
        env = build.environment({"GPUMEM_STATE_DIR": str(state), "LD_PRELOAD": build.preload(), "GPUMEM_REPORT": "none"})
        words = [build.program(PROGRAM[0]), "100000000"]
        killed, live = (subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL) for _ in range(2))
        try:
            end = time.monotonic() + 30
            while len(list(state.iterdir())) < 3 and time.monotonic() < end:
                time.sleep(0.02)
            killed.kill()
            killed.wait()
            clean = lambda *more: subprocess.run([build.tool, "report", "--clean", *more], capture_output=True, text=True,
                                                 env=build.environment({"GPUMEM_STATE_DIR": str(state)}), timeout=60)
            done = clean()
            harness.equal((done.returncode, done.stderr), (0, ""), "clean")
            harness.equal(done.stdout, f"1 state page of ended processes removed from {state}; 1 of live ones stays\n", "clean")
            left = sorted(path.name for path in state.iterdir())
            assert len(left) == 2 and left[0].startswith(f"{live.pid}-") and left[1] == "mine", left
            for more in (["--list"], ["--json"], ["x.json"]):
                assert clean(*more).returncode == 2, more
            with open("/dev/full", "w") as full:
                harness.equal(subprocess.run([build.tool, "report", "--clean"], stdout=full, stderr=subprocess.PIPE,
                                             env=build.environment({"GPUMEM_STATE_DIR": str(state)})).returncode, 3, "/dev/full")
        finally:
            for process in (killed, live):
                process.kill()
                process.wait()


if __name__ == "__main__":
    harness.main(globals())
