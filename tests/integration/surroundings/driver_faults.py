"""A driver call of the library's own that fails costs memory or a figure, never the program.

driver_faults.py BUILD [test...]; see harness.main. The simulated driver fails the Nth call of one function that the library makes
(tests/simulated_cuda/driver/faults.hpp), for every function that a program makes it call. Either the program's output is that of the
plain run, or its own call, of that function or for memory, says the driver's code, and it ends by that. It
is not ended by a signal, does not stand still, no access is unordered, and the ledger adds up. The random program must come through
a question that fails once as if it had not. GPUMEM_SURROUNDINGS_ROUNDS=10 looks at
ten times as many positions. The counts of what was tried are printed.
"""
import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "random"))
import harness
import random_run

ROUNDS = int(os.environ.get("GPUMEM_SURROUNDINGS_ROUNDS", "1"))
CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "programs" / "configs"
OUT_OF_MEMORY, UNKNOWN = 2, 999
# What the library asks of the driver for the program, whose answer is the program's.
GAVE = re.compile(r": (.*) gave (-?\d+), wanted", re.M)
# Of the runtime's calls, or of the program's, that are not named as the driver's function is; "": any may be a thread's first.
CALLS = {"cuCtxSynchronize": "DeviceSynchronize", "cuMemcpyDtoH_v2": "Memcpy", "cuDevicePrimaryCtxRetain": "", "cuMemFree_v2": "free",
         "cuDevicePrimaryCtxReset_v2": "DeviceReset", "cuMemFreeAsync": "free", "cuCtxEnablePeerAccess": "DeviceEnablePeerAccess",
         "cuCtxDisablePeerAccess": "DeviceDisablePeerAccess"}
# Handed on: to the simulated runtime, which cannot do without; frees of memory that the library lets through.
HANDED_ON = ("cuGetProcAddress_v2", "cuMemFreeHost")
# What the library alone asks or does in the random program, and can ask or do once more.
QUESTIONS = ("cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxGetId", "cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuCtxRecordEvent",
             "cuDevicePrimaryCtxGetState", "cuEventQuery", "cuStreamGetCtx", "cuStreamGetId", "cuStreamIsCapturing",
             "cuThreadExchangeStreamCaptureMode")
ASKS_FOR_MEMORY = re.compile(r"[Mm]alloc|Alloc|Create|Register|Begin|Instantiate")


def spread(count, most):
    return range(1, count + 1) if count <= most else sorted({1 + round((count - 1) * (i / (most - 1)) ** 2) for i in range(most)})


def evenly(count, most):
    return sorted({1 + (count - 1) * i // max(most - 1, 1) for i in range(most)})


def is_same_call(function, said):
    """Whether the program's call is that function: its own call failed, which the library handed on."""
    return CALLS.get(function, re.sub(r"^cu|_v\d+$|_ptsz$", "", function)) in said


def faults_of(plain, run, function, code):
    """What is wrong with a run in which a call of this function failed with this code."""
    if isinstance(run.code, str) or run.code < 0:
        return [f"ended by {run.code}"]
    said = GAVE.search(run.stderr)
    own = run.code == 3 and said and int(said[2]) == code and (ASKS_FOR_MEMORY.search(said[1]) or is_same_call(function, said[1]))
    lost = run.code == 3 and said and int(said[2]) == code == UNKNOWN and function == "cuEventQuery"  # for good: as of a device that is gone
    if own or lost:
        return []
    if (run.code, run.stdout) != (plain.code, plain.stdout):
        return [f"code {run.code}, {(said or [' '.join(run.stderr.split())[-200:]])[0]}"]
    return [fault for report in run.reports for fault in harness.ledger_faults(report)]


def swept(build, program, *arguments, config=None, most=2, for_good=True):
    command = [build.program(program), *arguments]
    plain = build.run(command)
    harness.equal(plain.code, 0, f"exit code of the plain run, {plain.stderr}")
    env = {"GPUMEM_CONFIG": str(CONFIGS / f"{config}.toml")} if config else {}
    with tempfile.TemporaryDirectory() as folder:
        counts = pathlib.Path(folder, "counts")
        first = build.run(command, preload=True, env={**env, "GPUMEM_SIMULATED_FAULT_COUNTS": str(counts)})
        harness.equal(faults_of(plain, first, "", 0), [], "with nothing failed")
        calls = {name: int(count) for name, count in (line.split() for line in counts.read_text().splitlines())}
    plans = [(name, position, on, code) for name, count in calls.items() if name not in HANDED_ON for code in (OUT_OF_MEMORY, UNKNOWN)
             for position, on in [*((at, "") for at in spread(count, most * ROUNDS)), *([(1, "+")] if for_good else [])]]
    wrong = []

    def tried(plan):
        name, position, on, code = plan
        told = {**env, "GPUMEM_SIMULATED_FAULT": f"{name}:{position}{on}:{code}"}
        try:
            return plan, faults_of(plain, build.run(command, preload=True, env=told, timeout=60), name, code)
        except ValueError as fault:
            return plan, [f"its report cannot be read: {fault}"]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for plan, found in pool.map(tried, plans):
            wrong += [f"{plan[0]} {plan[1]}{plan[2]} with {plan[3]}: {fault}" for fault in found]
    print(f"{program} {config or 'default'}: {len(plans)} faults in {len(calls)} functions")
    assert len(calls) > 4, f"only {calls}: nothing was tried"
    harness.equal(wrong, [], f"{program} {config or 'default'}, {len(wrong)} of {len(plans)} faults")


def with_questions_that_fail(build, config, most, library="libgpumem.so", mutant="none", functions=QUESTIONS, on=""):
    """Random programs over threads, contexts, streams and captures: the runs by what failed, once or, with on="+", from then on."""
    env = {"GPUMEM_SIMULATED_DEVICES": "2", "TEST_MUTANT": mutant}
    with tempfile.TemporaryDirectory() as folder:
        counts = pathlib.Path(folder, "counts")
        first = random_run.run(build, 1, 1500, config, library, env={**env, "GPUMEM_SIMULATED_FAULT_COUNTS": str(counts)})
        harness.equal(first.code, 0, f"with nothing failed: {first.stdout}{first.stderr}")
        calls = {name: int(count) for name, count in (line.split() for line in counts.read_text().splitlines())}
    harness.equal([name for name in functions if name not in calls], [], "questions that were not asked")
    plans = [f"{name}:{at}{on}:{(UNKNOWN, OUT_OF_MEMORY)[number % 2]}" for name in functions
             for number, at in enumerate(evenly(calls[name], most * ROUNDS))]

    def tried(fault):
        return fault, random_run.run(build, 1, 1500, config, library, env={**env, "GPUMEM_SIMULATED_FAULT": fault})

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = dict(pool.map(tried, plans))
    print(f"random program over {config}: {len(runs)} faults in {len(functions)} functions")
    return runs


def words_of(runs, is_wrong):
    return [f"{fault}, code {run.code}: {run.stdout[:400]}{run.stderr[:400]}" for fault, run in runs.items() if is_wrong(run)]


def expect_none(runs, is_wrong):
    wrong = words_of(runs, is_wrong)
    assert not wrong, "\n".join([f"{len(wrong)} of {len(runs)}", *wrong])


def is_noticed(run):
    return run.code != 0


def is_unsafe(run):
    """A hazard, a signal, or no end; calls that fail, and figures, are what it may cost."""
    return run.code not in (0, 1, random_run.WRONG_FIGURES) or run.figures[3] != 0 or "hazards" in run.stderr


def test_questions_of_random_programs(build):
    expect_none(with_questions_that_fail(build, "pool", 6), is_noticed)


def test_questions_of_random_programs_over_vmm(build):
    expect_none(with_questions_that_fail(build, "pool_over_vmm", 3), is_noticed)


def test_questions_asked_once(build):
    """A seeded bug (core/base/mutant.hpp): the library takes the first answer."""
    for _ in range(12):
        runs = with_questions_that_fail(build, "pool", 8, "libgpumem_mutant.so", "asked_once", ["cuThreadExchangeStreamCaptureMode"])
        if any("beside a capture: code 0, wanted 900" in run.stdout for run in runs.values()):
            return
    raise AssertionError("not caught")


# One whose context cannot be left for good, or told apart from the next one of its handle, nothing can be done about.
FOR_GOOD = [name for name in QUESTIONS if name not in ("cuCtxPopCurrent_v2", "cuCtxGetId")]


def test_questions_that_fail_for_good(build):
    """The program's calls fail; none of its blocks is taken from it, or given to another."""
    expect_none(with_questions_that_fail(build, "pool", 3, functions=FOR_GOOD, on="+"), is_unsafe)


def test_blocks_given_to_the_driver(build):
    """A seeded bug: a free that cannot be ordered is the driver's, which takes the whole segment that begins there."""
    runs = with_questions_that_fail(build, "pool", 3, "libgpumem_mutant.so", "own_block_given_to_driver", ["cuStreamGetCtx"], "+")
    assert any(map(is_unsafe, runs.values())), "not caught"


def test_blocks_of_threads(build):
    swept(build, "threads.static", "2", "20")


def test_blocks_in_stream_order(build):
    swept(build, "async_streams.shared")


def test_captures(build):
    swept(build, "captures.shared", "5")


def test_every_kind_of_memory(build):
    swept(build, "every_kind.shared", "2")
    swept(build, "every_kind.shared", "2", config="every_pool")


def test_pages(build):
    swept(build, "runtime_loop.static", "20", config="pool_over_vmm")


def test_pools_of_the_driver(build):
    swept(build, "runtime_loop.static", "20", config="pool_over_cuda_async")


def test_memory_that_peers_touch(build):
    """Which pools a peer was let into is asked of the driver: what is not answered for good is not known."""
    swept(build, "peers.shared", for_good=False)
    swept(build, "peers.shared", config="pool_over_vmm", for_good=False)


def test_a_reset(build):
    swept(build, "reset.shared")


def test_shares_of_what_nobody_tells(build):
    """A share of nothing would be a limit that refuses all: the program has the driver's own memory, and is told so."""
    plain = build.run([build.program("runtime_loop.static"), "20"])
    with tempfile.TemporaryDirectory() as folder:
        chain = pathlib.Path(folder, "chain.toml")
        chain.write_text('version = 1\n[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\nmaximum_pool_size = "50 % of free"\n')
        run = build.run([build.program("runtime_loop.static"), "20"], preload=True,
                        env={"GPUMEM_CONFIG": str(chain), "GPUMEM_SIMULATED_FAULT": f"cuMemGetInfo_v2:1+:{UNKNOWN}"})
    harness.equal((run.code, run.stdout), (0, plain.stdout), run.stderr)
    assert "the driver does not say what a % is of" in run.stderr, run.stderr


if __name__ == "__main__":
    harness.main(globals())
