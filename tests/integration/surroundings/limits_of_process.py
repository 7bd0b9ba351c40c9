"""Limits of the process, small stacks, refused system calls, missing folders: where plain runs, preloaded runs.

limits_of_process.py BUILD [test...]; see harness.main. The program (acts.cpp) sets its limits before its first CUDA call
and after; the folders are hidden by a mount of the test's own, where the machine permits one.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

MIB = 1 << 20
SMALL = {"GPUMEM_SIMULATED_MEMORY": str(256 * MIB), "GPUMEM_SIMULATED_DEVICES": "1"}
# Of x86-64; what is refused here answers EPERM, as in a strict container.
CALLS = {"read": 0, "open": 2, "stat": 4, "madvise": 28, "fcntl": 72, "ftruncate": 77, "getcwd": 79, "unlink": 87,
         "readlink": 89, "gettid": 186, "getdents64": 217, "newfstatat": 262, "openat": 257, "unlinkat": 263,
         "fallocate": 285, "prlimit64": 302, "membarrier": 324, "statx": 332, "fstat": 5, "pwrite64": 18, "lseek": 8}


def same(build, acts, env=None, prefix=(), warns=True):
    """Equal stdout and code; stderr may hold a warning or two of ours, no more."""
    command = [*prefix, build.program("acts"), *acts]
    plain = build.run(command, env=env)
    with tempfile.TemporaryDirectory() as state:
        run = build.run(command, env={"LD_PRELOAD": str(build.library), "GPUMEM_STATE_DIR": state, "GPUMEM_REPORT": "none",
                                      **(env or {})})
    if plain.code == 77:
        return False
    harness.equal((run.code, run.stdout), (plain.code, plain.stdout), f"{' '.join(acts)}, {run.stderr[-500:]}")
    lines = [line for line in run.stderr.splitlines() if line not in plain.stderr.splitlines()]
    assert len(lines) <= (2 if warns else 0) and all(line.startswith("gpumem: ") for line in lines), f"{acts}: {run.stderr}"
    return plain.code == 0


def test_addresses(build):
    """The tables leave the program nearly all of what `ulimit -v` leaves it."""
    good = 0
    for mebibytes in (700, 900, 1100, 1200, 1434, 2000, 4000):
        acts = ["limit", "as", str(mebibytes * MIB), "malloc", "take", str((mebibytes - 600) * MIB), "thread"]
        good += same(build, acts, env=SMALL)
    assert good >= 4, f"only {good} plain runs ended well: the limits are too low to show anything"


def test_descriptors(build):
    for limit in (3, 4, 5, 8, 64):
        same(build, ["malloc", "limit", "nofile", str(limit), "malloc", "threads", "3"])
    for limit in (8, 12, 16):
        same(build, ["limit", "nofile", str(limit), "malloc", "threads", "3"])


def test_file_sizes(build):
    """Writing beyond the limit raises SIGXFSZ, which would end the program."""
    for limit in (0, 1, 4096, 1 << 16, 1 << 20, 16 << 20, 18 << 20):
        same(build, ["limit", "fsize", str(limit), "malloc", "threads", "3"])
        same(build, ["malloc", "limit", "fsize", str(limit), "threads", "3"])
    with tempfile.TemporaryDirectory() as folder:
        env = {"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": f"{folder}/report.txt", "GPUMEM_STATE_DIR": f"{folder}/state"}
        run = build.run([build.program("acts"), "malloc", "limit", "fsize", "1000", "malloc"], env=env)
        harness.equal(run.code, 0, "exit code where the report is larger than a file may be")


def test_other_limits(build):
    for name, value in (("nproc", 1), ("memlock", 0), ("core", 0), ("stack", 64 << 10), ("data", 256 * MIB)):
        same(build, ["limit", name, str(value), "malloc", "malloc"])
        same(build, ["malloc", "limit", name, str(value), "malloc"])
    # What the tables reserve is not taken of what `ulimit -d` leaves the program.
    for before in ([], ["malloc"]):
        same(build, [*before, "limit", "data", str(256 * MIB), "malloc", "take", str(64 * MIB), "malloc"])


def test_small_stacks(build):
    for stack in (16 << 10, 20 << 10, 32 << 10, 64 << 10):
        same(build, ["malloc", "small", str(stack), "malloc"], warns=False)
        same(build, ["small", str(stack), "malloc"], warns=False)
        same(build, ["malloc", "fiber", str(stack), "malloc"], warns=False)
        same(build, ["fiber", str(stack), "malloc"], warns=False)
        same(build, ["fiber_exit", str(stack)], warns=False)
        for way in ("small_exit", "fiber_exit"):
            with tempfile.TemporaryDirectory() as folder:
                run = build.run([build.program("acts"), "malloc", way, str(stack)],
                                env={"LD_PRELOAD": str(build.library), "GPUMEM_REPORT": f"{folder}/report.txt",
                                     "GPUMEM_JSON": f"{folder}/report.json", "GPUMEM_STATE_DIR": f"{folder}/state"})
                harness.equal((run.code, run.stderr), (9, ""), f"a small stack on which the process ends, {way}")
                harness.equal(sorted(os.listdir(folder)), ["report.json", "report.txt", "state"], "its reports")


def test_a_signal_handler(build):
    same(build, ["handler"], warns=False)
    same(build, ["malloc", "handler", "thread"], warns=False)


def test_an_exec_in_a_signal_handler(build):
    """Its file is looked for in a long PATH, on the little that is left of the handler's stack."""
    for path in ("/bin", ":".join(["/" + "longer/" * 300, "/bin"])):
        same(build, ["malloc", "exec_in_handler", "true"], env={"PATH": path}, warns=False)


def test_refused_system_calls(build):
    if os.uname().machine != "x86_64":
        raise harness.Skipped("the numbers are of x86-64")
    good = 0
    for number in CALLS.values():
        good += same(build, ["malloc", "seal", str(number), "malloc", "thread"])
        same(build, ["seal", str(number), "malloc", "thread"])
    if good == 0:
        raise harness.Skipped("no filter for system calls can be set here")


def hidden(*folders):
    """The start of a command that sees empty, read-only folders there."""
    mounts = "; ".join(f"mount -t tmpfs -o ro,size=4k none {folder}" for folder in folders)
    prefix = ["unshare", "-m", "/bin/bash", "-c", f'{mounts} || exit 77; exec "$@"', "-"]
    probe = subprocess.run([*prefix, "/bin/true"], capture_output=True, text=True)
    if probe.returncode != 0:
        raise harness.Skipped(f"no mount of its own can be made here: {probe.stderr.strip()[:100]}")
    return prefix


def test_no_proc(build):
    same(build, ["malloc", "thread", "cancel"], prefix=hidden("/proc"))


def test_no_tmp_and_no_shm(build):
    prefix = hidden("/tmp", "/dev/shm")
    if str(build.folder).startswith("/tmp/"):
        raise harness.Skipped("the build lies in /tmp")
    same(build, ["malloc", "thread"], prefix=prefix)
    same(build, ["malloc", "thread"], prefix=prefix, env={"GPUMEM_STATE_DIR": None, "XDG_RUNTIME_DIR": None})


def test_a_full_disk(build):
    """A file system with room for the page's head only, then for its first thread."""
    prefix = hidden("/dev/shm")
    for size in ("4k", "64k", "256k", "1m"):
        mount = prefix[:-2] + [f'mount -t tmpfs -o size={size},mode=700 none /dev/shm || exit 77; exec "$@"', "-"]
        same(build, ["malloc", "threads", "4"], prefix=mount, env={"GPUMEM_STATE_DIR": "/dev/shm/state"})


def test_closed_descriptors(build):
    for closed in ("<&-", ">/dev/null 2>&-", "<&- 2>&-"):
        prefix = ["/bin/bash", "-c", f'exec "$@" {closed}', "-"]
        same(build, ["malloc", "thread"], prefix=prefix)


harness.main(globals())
