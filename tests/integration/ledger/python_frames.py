"""Python frames of samples, tracking and refusals, against what Python itself says of its frames.

python_frames.py BUILD [test...]; see harness.main. The program is python_program.py. Every Python from 3.9 on that is
found runs it: the one of the tests, those of the system, pyenv's, and the paths in GPUMEM_TEST_PYTHONS.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness

PROGRAM = str(HERE / "python_program.py")
LEFT_OUT = ("_call_impl", "_wrapped_call_impl")
MOST = 16
TRACKING = '[route]\ndevice = ["tracking", "pool", "cuda"]\n[resource.tracking]\ncapture_stacks = true\n'


def pythons():
    found = {}
    paths = [sys.executable, *os.environ.get("GPUMEM_TEST_PYTHONS", "").split(":")]
    paths += [f"/usr/bin/python3.{minor}{kind}" for minor in range(9, 20) for kind in ("", "d", "t")]
    paths += [str(p) for p in sorted(pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"))]
    for path in filter(os.path.exists, paths):
        told = subprocess.run([path, "-c", "import sys, sysconfig\nprint(sys.version_info[:2] >= (3, 9), sys.implementation.name, sys.version.split()[0] + "
                               "('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else '') + ('d' if hasattr(sys, 'gettotalrefcount') else ''))"],
                              capture_output=True, text=True)
        if told.stdout.startswith("True cpython"):
            found.setdefault(told.stdout.split()[2], path)
    return found


def run(build, python, *arguments, config="", every="1 B"):
    with tempfile.TemporaryDirectory(prefix="gpumem-python.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        path.write_text(f'version = 1\n{config}[report]\nsample_every = "{every}"\n')
        return build.run([python, PROGRAM, *arguments], preload=True, env={"GPUMEM_CONFIG": str(path)}, cwd=folder)


def by_size(sites, bytes_of):
    found = {}
    for site in sites:
        if bytes_of(site):
            found.setdefault(bytes_of(site), []).append(site)
    return found


def place(frame):
    """As the report keeps it: of a file or a function with a long name a part."""
    file, line, function = frame["file"], frame["line"], frame["function"]
    return file, line, function


def same(seen, true):
    file, line, function = true
    said = seen["file"]
    return (seen.get("line"), seen["function"]) == (line, function) and (said == file or (len(said) > 60 and file.endswith(said)))


def check_sites(found, truth, about):
    """Each that was found; how many there were."""
    checked = 0
    for size, frames in truth.items():
        wanted = [frame for frame in frames if frame[2] not in LEFT_OUT][:MOST]
        for site in found.get(int(size), ()):
            checked += 1
            seen = site["python"]
            assert len(seen) == len(wanted) and all(same(*pair) for pair in zip(seen, wanted)), \
                f"{about}, {int(size) >> 10} KiB:\n{[place(f) for f in seen]}\nwanted\n{wanted}"
    return checked


def test_frames_are_the_true_ones(build):
    for version, python in pythons().items():
        done = run(build, python, "frames")
        harness.equal(done.code, 0, f"{version}: {done.stderr}")
        truth = json.loads(done.stdout)
        assert len(truth) > 15, truth
        checked = check_sites(by_size(done.reports[0]["samples"]["sites"], lambda site: site["now_bytes"]), truth, f"samples of {version}")
        harness.equal(checked, len(truth) - 1, f"{version}: all but the one of a loop that keeps nothing")
        print(f"  Python {version}: {checked} places as Python has them")


def test_tracking_has_them_too(build):
    for version, python in pythons().items():
        done = run(build, python, "frames", config=TRACKING, every="never")
        harness.equal(done.code, 0, f"{version}: {done.stderr}")
        truth = json.loads(done.stdout)
        found = by_size(done.reports[0]["call_sites"], lambda site: site["allocated_bytes"] // max(1, site["allocations"]))
        checked = check_sites(found, truth, f"tracking of {version}")
        assert checked >= len(truth), f"{version}: {checked} places of {len(truth)}"
        text = done.texts[0]
        assert re.search(r"from python_program.py:\d+ take", text), text


def test_a_refusal_says_who_asked(build):
    done = run(build, sys.executable, "frames", config='[route]\ndevice = ["limiting", "pool", "cuda"]\n[resource.limiting]\nallocation_limit = "4 MiB"\n')
    report = done.reports[0]
    truth = json.loads(done.stdout)
    failure = report["failures"][0]
    site = [one for one in report["samples"]["sites"] if one["id"] == failure["asked_at"]][0]
    wanted = truth[str(failure["requested_bytes"])]
    assert same(site["python"][0], wanted[0]) and same(site["python"][1], wanted[1]), (site["python"], wanted)
    asked = re.search(r"asked at +(\S+ \S+)", done.texts[0])
    harness.equal(asked and asked.group(1).rstrip(","), f"python_program.py:{wanted[0][1]} take", done.texts[0])


def test_threads_without_python_have_a_name(build):
    library = next((build.folder / "programs").rglob("*holding*.so"))
    done = run(build, sys.executable, "native", str(library))
    harness.equal(done.code, 0, done.stderr)
    site = by_size(done.reports[0]["samples"]["sites"], lambda site: site["now_bytes"])[900 << 10][0]
    harness.equal((site["python"], site.get("thread")), ([], "pt_autograd_0"), "a thread of C++ code")


def test_subinterpreters_have_none(build):
    """Of their own: up to 3.11 the thread still has the frames of the main one, which called it."""
    for version, python in pythons().items():
        done = run(build, python, "subinterpreter")
        harness.equal(done.code, 0, f"{version}: {done.stderr}")
        if json.loads(done.stdout) is None:
            continue
        for site in by_size(done.reports[0]["samples"]["sites"], lambda site: site["now_bytes"]).get(200 << 10, ()):
            functions = [frame["function"] for frame in site["python"]]
            assert functions in ([], ["subinterpreter", "<module>"]), f"{version}: {functions}"


def test_unrest_ends_well(build):
    for version, python in pythons().items():
        done = run(build, python, "unrest", every="4 KiB")
        harness.equal(done.code, 0, f"{version}: {done.stderr}")
        sites = [site for report in done.reports for site in report["samples"]["sites"]]
        files = {frame["file"] for site in sites for frame in site["python"]}
        assert files and all(file == "<string>" or file.endswith(".py") or file.startswith("<frozen") for file in files), (version, files)


def test_pypy_has_none(build):
    if not os.path.exists("/usr/bin/pypy3"):
        raise harness.Skipped("no PyPy is installed here (Debian's pypy3)")
    for mode in ("frames", "unrest"):
        done = run(build, "/usr/bin/pypy3", mode)
        harness.equal(done.code, 0, done.stderr)
        sites = done.reports[0]["samples"]["sites"]
        assert sites and not any(site["python"] for site in sites), "frames of another kind of Python"


def test_none_where_memory_cannot_be_read(build):
    """A sandbox that forbids the call: no frames, and the program runs."""
    if build.sanitized or build.emulator:
        raise harness.Skipped("needs a filter of system calls before the sanitizer's or emulator's own")
    program = ("import ctypes, struct, sys, runpy\n"
               "libc = ctypes.CDLL(None)\n"
               "code = [(0x20, 0, 0, 0), (0x15, 0, 1, 310), (6, 0, 0, 0x00050001), (6, 0, 0, 0x7fff0000)]\n"
               "text = b''.join(struct.pack('HBBI', *one) for one in code)\n"
               "buffer = ctypes.create_string_buffer(text)\n"
               "filter = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(code), ctypes.addressof(buffer)))\n"
               "assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter) == 0\n"
               "sys.argv = sys.argv[1:]\n"
               "runpy.run_path(sys.argv[0], run_name='__main__')\n")
    with tempfile.TemporaryDirectory(prefix="gpumem-python.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        path.write_text('version = 1\n[report]\nsample_every = "1 B"\n')
        done = build.run([sys.executable, "-c", program, PROGRAM, "frames"], preload=True, env={"GPUMEM_CONFIG": str(path)})
    harness.equal(done.code, 0, done.stderr)
    sites = done.reports[0]["samples"]["sites"]
    assert sites and not any(site["python"] for site in sites), "frames that cannot have been read"


COUNTER = """#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
static unsigned long calls;
ssize_t process_vm_readv(pid_t of, const struct iovec* to, unsigned long count, const struct iovec* from, unsigned long ranges, unsigned long flags) {
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  return syscall(SYS_process_vm_readv, of, to, count, from, ranges, flags);
}
__attribute__((destructor)) static void tell(void) {
  FILE* to = fopen(getenv("READS_FILE"), "w");
  if (to != NULL) fprintf(to, "%lu", calls), fclose(to);
}
"""


def test_an_object_is_read_at_once(build):
    """A field at a time a walk took 17 calls of the system for a frame, 130 us."""
    if build.sanitized or build.emulator:
        raise harness.Skipped("needs a library before the sanitizer's or emulator's own")
    if sys.implementation.name != "cpython":
        raise harness.Skipped("the Python of the tests is not CPython")
    compiler = harness.require_tool("cc")
    deep, lines = 6, 20
    program = ("import ctypes\n"
               "runtime, block = ctypes.CDLL('libcudart.so.13'), ctypes.c_void_p()\n"
               "def ask():\n    assert runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(1 << 16)) == 0\n"
               + "".join(f"def level_{i}(ask):\n    ask()\n" for i in range(deep)))
    within = "ask"
    for i in range(deep):
        within = f"lambda ask={within}: level_{i}(ask)"
    program += f"inner = {within}\n" + "inner()\n" * lines
    with tempfile.TemporaryDirectory(prefix="gpumem-python.") as folder:
        here = pathlib.Path(folder)
        (here / "counter.c").write_text(COUNTER)
        (here / "program.py").write_text(program)
        (here / "chain.toml").write_text('version = 1\n[report]\nsample_every = "1 B"\n')
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "counter.c", "-o", "counter.so"], cwd=folder, check=True)
        done = build.run([sys.executable, "program.py"], cwd=folder,
                         env={"LD_PRELOAD": f"{here / 'counter.so'}:{build.preload()}", "READS_FILE": str(here / "reads"),
                              "GPUMEM_CONFIG": str(here / "chain.toml"), "GPUMEM_JSON": str(here / "report.json"), "GPUMEM_REPORT": "none"})
        harness.equal(done.code, 0, done.stderr)
        reads = int((here / "reads").read_text())
        sites = json.loads((here / "report.json").read_text())["samples"]["sites"]
    frames = sum(len(site["python"]) for site in sites)
    assert len(sites) >= lines and frames > lines * deep, f"{len(sites)} places, {frames} frames: not what was to be walked"
    print(f"{reads} calls of the system for {frames} frames")
    assert len(sites) <= reads < 5 * frames, f"{reads} calls of the system for {frames} frames"


harness.main(globals())
