"""Random programs over threads, streams, contexts, captures, forks and frees, plain and under every kind of chain: no
access may be unordered and no byte wrong.

random_programs.py BUILD [test...]; see harness.main. GPUMEM_TEST_SEED=n repeats one seed. What a run is, and the chains,
are in random_run.py.
"""
import json
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness
from random_run import CROWDED_DEVICE, SMALL_DEVICE, figures_that_disagree, run

OPERATIONS = 30_000  # two rounds


def seeds():
    if "GPUMEM_TEST_SEED" in os.environ:
        return [os.environ["GPUMEM_TEST_SEED"]]
    fresh = str(random.SystemRandom().randrange(1 << 20))
    print(f"fresh seed: GPUMEM_TEST_SEED={fresh} repeats it")
    return ["1", fresh]


def expect_clean(build, config, env=None, options=()):
    for seed in seeds():
        outcome = run(build, seed, OPERATIONS, config, env=env, options=options)
        assert outcome.code == 0, f"seed {seed}: code {outcome.code}\n{outcome.stdout}{outcome.stderr}"
        count = int(outcome.stdout.split()[1])
        assert count > OPERATIONS // 3, f"only {count} allocations: nothing was proven"
        assert outcome.report, "no report: the library was not there"


def test_figures_that_disagree_are_seen(build):
    """Of a clean run's report, changed by a byte."""
    with tempfile.TemporaryDirectory(prefix="gpumem-figures.") as name:
        folder = pathlib.Path(name)
        report = folder / "figures.1.json"
        outcome = run(build, 1, 200, "managed_and_host", threads=1, env={"GPUMEM_JSON": str(report)})
        assert outcome.code == 0 and figures_that_disagree(folder) == [], figures_that_disagree(folder)
        changed = json.loads(report.read_text())
        node = next(node for chain in changed["chains"] if chain["route"] == "device" for node in chain["nodes"])
        node["given_back_bytes"] += 1
        report.write_text(json.dumps(changed))
        assert len(figures_that_disagree(folder)) == 2, figures_that_disagree(folder)


def test_plain(build):
    for seed in seeds():
        outcome = run(build, seed, OPERATIONS, None)
        assert outcome.code == 0, f"seed {seed}: the program itself is wrong: {outcome.stdout}{outcome.stderr}"


def test_pool(build):
    expect_clean(build, "pool")


def test_watched(build):
    expect_clean(build, "watched")


def test_small_pool(build):
    expect_clean(build, "small_pool")


def test_returning(build):
    expect_clean(build, "returning")


def test_returning_arena(build):
    expect_clean(build, "returning_arena")


def test_small_device(build):
    expect_clean(build, "pool", SMALL_DEVICE)


def test_crowded_device(build):
    for config in ("pool", "pool_over_vmm"):
        expect_clean(build, config, CROWDED_DEVICE, ["--crowded"])


def test_binning(build):
    expect_clean(build, "binning")


def test_pool_over_cuda_async(build):
    expect_clean(build, "pool_over_cuda_async")


def test_pool_over_system(build):
    expect_clean(build, "pool_over_system")


def test_compact(build):
    expect_clean(build, "compact")


def test_compact_vmm(build):
    expect_clean(build, "compact_vmm")


def test_pool_over_vmm(build):
    expect_clean(build, "pool_over_vmm")


def test_aligned(build):
    expect_clean(build, "aligned")


def test_arena(build):
    expect_clean(build, "arena")


def test_small_arena(build):
    expect_clean(build, "small_arena")


def test_cuda(build):
    expect_clean(build, "cuda")


def test_cuda_async(build):
    expect_clean(build, "cuda_async")


def test_limited(build):
    expect_clean(build, "limited")


def test_spilling(build):
    expect_clean(build, "spilling")


def test_pool_over_spilling(build):
    expect_clean(build, "pool_over_spilling")


def test_synchronize(build):
    expect_clean(build, "synchronize")


def test_one_stream(build):
    """They create streams and use several contexts: the promise ends there, and nothing of before it may be harmed."""
    expect_clean(build, "one_stream")


def test_one_device(build):
    expect_clean(build, "pool", {"GPUMEM_SIMULATED_DEVICES": "1"})


def test_managed_and_host(build):
    expect_clean(build, "managed_and_host")


if __name__ == "__main__":
    harness.main(globals())
