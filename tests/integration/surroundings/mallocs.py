"""A malloc of the program's own below the library: one with the four functions that libc asks for, and no other.

mallocs.py BUILD [test...]; see harness.main. own_malloc.cpp ends the process at a free of what it did not give.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

# Threads, streams, captures, contexts and host memory: each has objects of its own.
PROGRAMS = (["threads.shared"], ["async_streams.shared"], ["captures.shared"], ["host_memory.shared"], ["forks.shared"],
            ["acts", "malloc", "threads", "5", "cancel", "storm", "10"])
CHAINS = {
    "arena": 'device = ["arena", "cuda"]\n',
    "binning": 'device = ["binning", "pool", "cuda"]\n[resource.binning]\nbins = [ { max = "1 KiB" }, { max = "256 KiB" } ]\n',
    "fixed_size": 'device = ["fallback"]\n[resource.fallback]\nchains = [["fixed_size", "cuda"], ["limiting", "pool", "vmm"]]\n'
                  '[resource.fixed_size]\nblock_size = "64 KiB"\n[resource.limiting]\nallocation_limit = "2 GiB"\n',
    "observers": 'device = ["logging", "tracking", "statistics", "guard", "pool", "cuda"]\n[resource.tracking]\n'
                 'capture_stacks = true\n[resource.logging]\nfile = "FOLDER/log.csv"\n',
}


def own(build):
    return str(build.folder / "programs" / "own_malloc.so")


def compared(build, program, first, env=None):
    command = [build.program(program[0]), *program[1:]]
    plain = build.run(command, env={"LD_PRELOAD": own(build), **(env or {})})
    harness.equal(plain.code, 0, f"exit code of the plain run of {program}, {plain.stderr[-300:]}")
    both = [own(build), str(build.library)]
    run = build.run(command, preload=True, env={"LD_PRELOAD": ":".join(both if first else both[::-1]), **(env or {})})
    harness.equal(harness.differences(plain, run), [], f"{program} over a malloc of its own")
    assert run.reports, f"{program}: no report"


def test_before_the_library(build):
    for program in PROGRAMS:
        compared(build, program, first=True)


def test_behind_the_library(build):
    for program in PROGRAMS:
        compared(build, program, first=False)


def test_every_chain(build):
    for name, chain in CHAINS.items():
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "chain.toml"
            config.write_text("version = 1\n[route]\n" + chain.replace("FOLDER", folder))
            compared(build, ["threads.shared"], first=True, env={"GPUMEM_CONFIG": str(config), "GPUMEM_RECORD": f"{folder}/recording"})


def test_of_points_of_cancellation(build):
    """As of Electric Fence, which takes a semaphore, and of tracers, which write."""
    for first in (True, False):
        compared(build, PROGRAMS[-1], first, env={"OWN_MALLOC_CANCELS": "1"})


def test_a_foreign_block_ends_the_process(build):
    """Or the other tests of this file show nothing: libc's aligned_alloc gives what this malloc does not know."""
    code = "import ctypes; c = ctypes.CDLL(None); c.aligned_alloc.restype = ctypes.c_void_p; c.free(ctypes.c_void_p(c.aligned_alloc(64, 64)))"
    run = build.run([sys.executable, "-c", code], env={"LD_PRELOAD": own(build), "PYTHONMALLOC": "malloc"})
    harness.equal((run.code, run.stderr), (66, "own_malloc: free of what it did not give\n"), "a foreign block")


def test_no_other_function_is_asked_for_memory(build):
    harness.require_tool("nm")
    text = subprocess.run(["nm", "-D", "--undefined-only", str(build.library)], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r" U (\w+)", text))
    assert {"malloc", "free"} <= names, f"nothing was read: {names}"
    others = names & {"aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc", "malloc_usable_size", "cfree"}
    harness.equal(sorted(others), [], "functions that a program's malloc may not have")


harness.main(globals())
