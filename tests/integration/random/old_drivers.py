"""Random programs on drivers that lack functions: 11.8 has no stream ids, 12.0 and 12.4 no context events.

old_drivers.py BUILD [test...]; see harness.main. The same operations plain and preloaded: no fault, no hazard, and as many
allocations that succeed. What is newer than a driver must be absent through the library too (absent_functions).
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness
from random_run import run

VERSIONS = ("11080", "12000", "12040")
OPERATIONS = 25_000  # a round


def expect_same(build, version, configs):
    driver = build.old_driver(version)
    for config in (None, *configs):
        # Without context events requests that give memory back wait.
        outcome = run(build, "1", OPERATIONS, config, env=driver, program="random_program.old", options=("--requests-wait",))
        assert outcome.code == 0, f"{config}: code {outcome.code}\n{outcome.stdout}{outcome.stderr}"
        assert outcome.figures[0] > OPERATIONS // 3, f"{config}: only {outcome.figures[0]} allocations: nothing was proven"
        assert config is None or outcome.report, f"{config}: no report: the library was not there"


def test_11_8(build):
    expect_same(build, "11080", ("pool", "cuda_async"))


def test_12_0(build):
    expect_same(build, "12000", ("pool", "pool_over_vmm"))


def test_12_4(build):
    expect_same(build, "12040", ("pool", "arena"))


def test_a_chain_that_needs_a_newer_driver_is_passed_by(build):
    """Managed pools are of CUDA 13: nothing but a warning that says why, and what to do."""
    config = pathlib.Path(__file__).resolve().parents[3] / "config" / "examples" / "rmm" / "cuda_async_managed.toml"
    driver = build.old_driver("12040")
    program = build.program("reuse.shared")
    plain = build.run([program, "5"], env=driver)
    done = build.run([program, "5"], preload=True, env={**driver, "GPUMEM_CONFIG": str(config)})
    harness.equal((done.code, done.stdout), (plain.code, plain.stdout), "exit code and output")
    harness.equal(len(done.stderr.splitlines()), 1, done.stderr)
    assert "CUDA 13.0 or newer" in done.stderr and "use a pool over managed instead" in done.stderr, done.stderr
    hooks = {hook["symbol"]: hook for hook in done.reports[0]["intercept"]["hooks"]}
    assert hooks["cuMemAlloc_v2"]["calls"] > 0 and hooks["cuMemAlloc_v2"]["served"] == 0, hooks["cuMemAlloc_v2"]


if __name__ == "__main__":
    harness.main(globals())
