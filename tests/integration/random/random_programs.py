"""Random programs over threads, streams, captures and frees, plain and under every kind of chain: no access may be
unordered and no byte wrong. And the opposite: over a library that hands memory out too early, hazards must be reported.

random_programs.py BUILD [test...]; see harness.main. GPUMEM_TEST_SEED=n repeats one seed.
"""
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

OPERATIONS = 100_000
CONFIGS = {
    "pool": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n',
    "small_pool": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\nmaximum_pool_size = "6 GiB"\n'
                  'release_threshold = "64 MiB"\n',
    "binning": 'version = 1\n[route]\ndevice = ["binning", "pool", "cuda"]\n[resource.binning]\n'
               'bins = [ { max = "1 KiB" }, { max = "64 KiB" }, { max = "1 MiB" } ]\n',
    "pool_over_cuda_async": 'version = 1\n[route]\ndevice = ["pool", "cuda_async"]\n',
    "cuda": 'version = 1\n[route]\ndevice = ["cuda"]\n',
    "cuda_async": 'version = 1\n[route]\ndevice = ["cuda_async"]\n',
    "synchronize": 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[behavior]\nfree = "synchronize"\n',
}


def seeds():
    if "GPUMEM_TEST_SEED" in os.environ:
        return [os.environ["GPUMEM_TEST_SEED"]]
    fresh = str(random.SystemRandom().randrange(1 << 20))
    print(f"fresh seed: GPUMEM_TEST_SEED={fresh} repeats it")
    return ["1", fresh]


def run(build, seed, library, config, operations=OPERATIONS, env=None):
    with tempfile.TemporaryDirectory(prefix="gpumem-random.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        extra = {"GPUMEM_SIMULATED_STRICT": None}
        extra.update(env or {})
        if library is not None:
            assert (build.folder / library).exists(), f"{library} is not built"
            path.write_text(CONFIGS[config])
            extra.update(LD_PRELOAD=str(build.folder / library), GPUMEM_CONFIG=str(path),
                         GPUMEM_STATE_DIR=folder, GPUMEM_REPORT=str(pathlib.Path(folder) / "report"))
        outcome = build.run([build.program("random_program"), seed, str(operations)], env=extra)
        outcome.report = (pathlib.Path(folder) / "report").exists()
        return outcome


def expect_clean(build, config, env=None):
    for seed in seeds():
        outcome = run(build, seed, "libgpumem.so", config, env=env)
        assert outcome.code == 0, f"seed {seed}: code {outcome.code}\n{outcome.stdout}{outcome.stderr}"
        count = int(outcome.stdout.split()[1])
        assert count > OPERATIONS // 3, f"only {count} allocations: nothing was proven"
        assert outcome.report, "no report: the library was not there"


def test_plain(build):
    for seed in seeds():
        outcome = run(build, seed, None, None)
        assert outcome.code == 0, f"seed {seed}: the program itself is wrong: {outcome.stdout}{outcome.stderr}"


def test_pool(build):
    expect_clean(build, "pool")


def test_small_pool(build):
    expect_clean(build, "small_pool")


def test_small_device(build):
    expect_clean(build, "pool", {"GPUMEM_SIMULATED_MEMORY": str(5 << 30)})


def test_binning(build):
    expect_clean(build, "binning")


def test_pool_over_cuda_async(build):
    expect_clean(build, "pool_over_cuda_async")


def test_cuda(build):
    expect_clean(build, "cuda")


def test_cuda_async(build):
    expect_clean(build, "cuda_async")


def test_synchronize(build):
    expect_clean(build, "synchronize")


def test_unsafe_reuse_is_caught(build):
    if not (build.folder / "libgpumem_unsafe.so").exists():
        raise harness.Skipped("libgpumem_unsafe.so is not built")
    for config in ("pool", "binning"):
        outcome = run(build, "1", "libgpumem_unsafe.so", config, operations=2000)
        assert outcome.code == 1 and "unordered" in outcome.stdout, f"not caught: {outcome.code} {outcome.stdout}"


if __name__ == "__main__":
    harness.main(globals())
