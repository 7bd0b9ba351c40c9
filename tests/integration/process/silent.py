"""A process that never calls CUDA must not notice the library: nothing printed, nothing opened but the library itself.

silent.py BUILD [test...]; see harness.main. strace gives the list of touched paths; where it may not trace, skipped.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

PYTHON = str(pathlib.Path(sys.executable).resolve())
COMMANDS = {
    "true": ["/bin/true"],
    "ls": ["/bin/ls", "/"],
    "bash": ["/bin/bash", "-c", "true; /bin/true; echo done"],
    "python": [PYTHON, "-c", "pass"],
}
# What the dynamic loader opens for the library: itself and the C library's own parts.
LOADER = re.compile(r"/(libgpumem\.so|lib(c|m|dl|pthread|rt)\.so\.\d+|ld\.so\.(cache|preload)|ld-linux[^/]*)$|/glibc-hwcaps|/$")


def unchanged(build, which):
    command = COMMANDS[which]
    plain = build.run(command)
    # GPUMEM_REPORT is left alone: with a file named, a silent process must not make it either.
    loaded = build.run(command, preload=True)
    harness.equal(harness.differences(plain, loaded), [], f"{which} is not unchanged")
    harness.equal((loaded.reports, loaded.texts, loaded.state), ([], [], []), f"{which} left files")
    bare = build.run(command, env={"LD_PRELOAD": str(build.library)})
    harness.equal(harness.differences(plain, bare), [], f"{which} with no GPUMEM variable is not unchanged")


def traced(build, command, preload, which):
    """The system calls that strace's expression names, a line each."""
    strace = harness.require_tool("strace")
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        options = ["-f", "-qq", "-e", f"trace={which}", "-e", "signal=none", "-o", str(log)]
        if preload:
            options += ["-E", f"LD_PRELOAD={build.library}"]
        run = build.run([strace, *options, *command])
        if not log.exists() or "Operation not permitted" in run.stderr:
            raise harness.Skipped(f"strace may not trace here: {run.stderr.strip()}")
        harness.equal(run.code, 0, "traced program")
        calls = [re.sub(r"^\d+ +", "", line) for line in log.read_text(errors="replace").splitlines()]
        assert calls, "strace saw nothing"
        return calls


def touched(build, command, preload):
    """Paths of every file system call, as a set, and the processes' writes."""
    paths = set()
    for call in traced(build, command, preload, "%file,socket,connect,memfd_create"):
        quoted = re.search(r'"((?:[^"\\]|\\.)*)"', call)
        paths.add(quoted.group(1) if quoted else call.split("(")[0])
    return paths


def nothing_opened(build, which):
    assert build.library.exists(), f"{build.library} is not built"
    plain = touched(build, COMMANDS[which], preload=False)
    loaded = touched(build, COMMANDS[which], preload=True)
    assert any(path.endswith("/libgpumem.so") for path in loaded), "the library was not loaded: nothing was tested"
    extra = sorted(path for path in loaded - plain if not LOADER.search(path))
    harness.equal(extra, [], f"{which} touched under preload")


def test_true(build):
    unchanged(build, "true")


def test_ls(build):
    unchanged(build, "ls")


def test_bash(build):
    unchanged(build, "bash")


def test_python(build):
    unchanged(build, "python")


def test_true_opens_nothing(build):
    nothing_opened(build, "true")


def test_ls_opens_nothing(build):
    nothing_opened(build, "ls")


def test_bash_opens_nothing(build):
    nothing_opened(build, "bash")


def test_python_opens_nothing(build):
    nothing_opened(build, "python")


def test_visitors_need_no_registration(build):
    """A magazine's first visitor does not wait for all processors: the library registered for membarrier while there was one thread."""
    query, expedited = 0, 1 << 3
    command = [PYTHON, "-c", f"import ctypes; call = ctypes.CDLL(None).syscall; print(call(324, {query}, 0, 0) & {expedited}, call(324, {expedited}, 0, 0))"]
    if build.run(command).stdout.split() != [str(expedited), "-1"]:
        raise harness.Skipped("a kernel without membarrier, or another machine's number for it")
    harness.equal(build.run(command, preload=True).stdout.split(), [str(expedited), "0"], "membarrier in a process that registered nothing itself")


def test_true_takes_no_memory(build):
    """The library's start takes nothing from the heap, and maps its file in two parts and its zeros, no more."""
    def counts(preload):
        calls = traced(build, COMMANDS["true"], preload, "brk,getrandom,mmap,mprotect")
        return collections.Counter(call.split("(")[0] for call in calls)
    more = counts(preload=True) - counts(preload=False)
    harness.equal({name: more[name] for name in ("brk", "getrandom")}, {"brk": 0, "getrandom": 0}, "calls of the heap")
    # Some compilers' C++ library cannot be linked without libm, which then is mapped in four parts. One of mmap is the loader's own
    # list; binutils 2.38 leaves a page between the two parts, which the loader takes away.
    libm = "libm.so" in subprocess.run(["readelf", "-d", build.library], capture_output=True, text=True, check=True).stdout
    assert 0 < more["mmap"] <= 4 + 4 * libm and more["mprotect"] <= 2 + libm, more


harness.main(globals())
