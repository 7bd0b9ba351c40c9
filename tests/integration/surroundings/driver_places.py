"""A driver call of the library's own that fails, at each place of the library that makes one, while random programs run.

driver_places.py BUILD [test...]; see harness.main. The simulated driver fails calls by where they return to in the library
(tests/simulated_cuda/driver/faults.hpp): so those that are rare have their turn, and the program's own calls that are handed on are
told from those that it knows nothing of. With one that fails once the random program goes on as if it had not: no call of its own
says otherwise, no access is unordered, nothing waits, and the figures are the simulated driver's. GPUMEM_SURROUNDINGS_ROUNDS=10 looks
at ten times as many calls of each place. The counts of what was tried are printed.
"""
import collections
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
OPERATIONS = 1500
TOGETHER = 6                     # faults of one run, where each may fail once
INVALID_VALUE, UNAVAILABLE, OPERATING_SYSTEM, NOT_SUPPORTED, UNKNOWN = 1, 46, 304, 801, 999
# What the random program calls its requests, of which some are handed on.
REQUESTS = {"cuMemAllocHost": r"pinned", "cuMemHostAlloc": r"pinned", "cuMemAllocManaged": r"managed", "cuMemAllocPitch": r"pitched",
            "cuMemCreate": r"of a mapping", "cuMemHostRegister": r"to register", "cuMemAllocFromPoolAsync": r"of a pool", "cuMemFree": r"a free by a host function"}
NOT_OURS = ("cuGetProcAddress",)  # the simulated runtime's, which cannot do without


def function_of(place):
    return re.sub(r"(_v\d)?(_ptsz)?$", "", place.split("@")[0])


def evenly(count, most):
    return sorted({1 + (count - 1) * i // max(most - 1, 1) for i in range(most)})


def is_handed_on(place, code, run):
    """The program's own call, which said the code."""
    name = function_of(place)
    return re.search(rf"^({name}\b|{REQUESTS.get(name, name)})[^\n]*: code {code}, wanted", run.stdout, re.M) is not None


def places_of(build, seed, config, library, env, options):
    with tempfile.TemporaryDirectory() as folder:
        counts = pathlib.Path(folder, "places")
        env = {**env, "GPUMEM_SIMULATED_FAULT_PLACES": str(counts)}
        first = random_run.run(build, seed, OPERATIONS, config, library, env=env, options=options)
        harness.equal(first.code, 0, f"with nothing failed: {first.stdout}{first.stderr}")
        return {place: int(count) for place, count in (line.split() for line in counts.read_text().splitlines())
                if function_of(place) not in NOT_OURS}


def tried(build, config, library="libgpumem.so", mutant="none", codes=(UNKNOWN, OPERATING_SYSTEM), most=2, seeds=(1, 2), on="", functions=None, env=None, options=()):
    """The runs by what failed, but for those of calls that are handed on."""
    env = {"GPUMEM_SIMULATED_DEVICES": "2", "TEST_MUTANT": mutant, **(env or {})}
    places = {}
    for seed in seeds:
        for place, count in places_of(build, seed, config, library, env, options).items():
            if functions is None or function_of(place) in functions:
                places.setdefault(place, (seed, count))
    missing = [name for name in functions or () if name not in map(function_of, places)]
    harness.equal(missing, [], "functions that were not called")
    plans = [(seed, f"{place}:{at}{on}:{codes[number % len(codes)]}") for place, (seed, count) in sorted(places.items())
             for number, at in enumerate(evenly(count, most * ROUNDS))]
    together = 1 if on else TOGETHER
    groups = [(seed, [fault for of, fault in plans if of == seed][at:at + together])
              for seed in seeds for at in range(0, sum(of == seed for of, _ in plans), together)]

    def run(seed, faults):
        told = {**env, "GPUMEM_SIMULATED_FAULT": ",".join(faults)}
        return random_run.run(build, seed, OPERATIONS, config, library, env=told, timeout=60, options=options)

    def runs_of(group):
        """By what failed. Where something is wrong each fails alone, and those that are handed on, or the wrong ones, say so."""
        seed, faults = group
        one = run(seed, faults)
        if one.code == 0 or len(faults) == 1:
            return [(faults, one)]
        alone = [([fault], run(seed, [fault])) for fault in faults]
        if any(single.code != 0 for _, single in alone):
            return alone
        # Threads take turns otherwise each time: it may be the program's own call now, and another one alone.
        told = [fault for fault in faults if is_handed_on(fault.split(":")[0], int(fault.rsplit(":", 1)[1]), one)]
        others = [fault for fault in faults if fault not in told]
        return [(faults, one)] if not told else [([fault], one) for fault in told] + ([(others, run(seed, others))] if others else [])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = [pair for found in pool.map(runs_of, groups) for pair in found]
    handed_on = {fault.split(":")[0] for faults, one in runs for fault in faults
                 if len(faults) == 1 and is_handed_on(fault.split(":")[0], int(fault.rsplit(":", 1)[1]), one)}
    own = {",".join(faults): one for faults, one in runs if not handed_on.intersection(fault.split(":")[0] for fault in faults)}
    by_function = collections.Counter(function_of(fault) for faults in own for fault in faults.split(","))
    print(f"random program over {config}: {by_function.total()} faults at {len(places) - len(handed_on)} places in {len(by_function)} functions")
    assert len(by_function) > (10 if functions is None else 0), f"only {dict(by_function)}: nothing was tried"
    return own


def words_of(runs, is_wrong=lambda run: run.code != 0):
    return [f"{fault}, code {run.code}: {' | '.join(run.stdout.splitlines()[:6])} {run.stderr[:300]}"
            for fault, run in runs.items() if is_wrong(run)]


def expect_unnoticed(runs):
    wrong = words_of(runs)
    assert not wrong, "\n".join([f"{len(wrong)} of {len(runs)}", *wrong])


def expect_caught(build, mutant, sign, config, attempts=6, **which):
    """A seeded bug (core/base/mutant.hpp), by what it says."""
    for _ in range(attempts):
        runs = tried(build, config, "libgpumem_mutant.so", mutant, **which)
        if any(sign in words for words in words_of(runs)):
            return
    raise AssertionError(f"{mutant} is not caught")


def test_over_a_pool(build):
    expect_unnoticed(tried(build, "pool"))


def test_over_pages(build):
    expect_unnoticed(tried(build, "pool_over_vmm"))


def test_over_a_pool_of_the_driver(build):
    expect_unnoticed(tried(build, "pool_over_cuda_async"))


def test_without_a_pool(build):
    expect_unnoticed(tried(build, "cuda", most=1))


def test_of_managed_and_host_memory(build):
    expect_unnoticed(tried(build, "managed_and_host", most=1))


def test_of_frees_that_wait(build):
    expect_unnoticed(tried(build, "synchronize", most=1))


def is_unsafe(run):
    """A hazard, a signal, or no end; calls that fail, and figures, are what it may cost."""
    return run.code not in (0, 1, random_run.WRONG_FIGURES) or run.figures[3] != 0 or "hazards" in run.stderr


def test_for_good(build):
    for config in ("pool", "pool_over_vmm", "pool_over_cuda_async"):
        wrong = words_of(tried(build, config, most=1, seeds=(1,), on="+"), is_unsafe)
        assert not wrong, "\n".join(wrong)


# What a pool over pages is made of.
OF_PAGES = ("cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease")


def test_pages_that_a_driver_does_not_do(build):
    """None of its codes is the program's, which asked for plain memory: once, and always."""
    for on in ("", "+"):
        codes = (NOT_SUPPORTED, INVALID_VALUE, UNKNOWN)
        functions = [name for name in OF_PAGES if not on or name not in ("cuMemUnmap", "cuMemRelease")]
        expect_unnoticed(tried(build, "pool_over_vmm", codes=codes, most=1 if on else 6, functions=functions, on=on))


def test_codes_that_are_told(build):
    expect_caught(build, "code_of_the_chain_told", "code 999, wanted 0", "pool_over_vmm", functions=["cuMemCreate"])


def test_memory_that_is_forgotten(build):
    expect_caught(build, "kept_piece_forgotten", "reserved and seen is", "pool_over_vmm", codes=(INVALID_VALUE,), functions=["cuMemRelease"])


def test_codes_that_are_none_of_an_events(build):
    which = {"codes": (UNAVAILABLE, INVALID_VALUE), "functions": ["cuEventQuery"], "most": 4}
    expect_unnoticed(tried(build, "pool", **which))
    expect_caught(build, "any_code_is_loss", "requested and seen is", "pool", **which)


if __name__ == "__main__":
    harness.main(globals())
