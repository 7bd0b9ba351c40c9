"""A cancelled thread goes on to the next cancellation point of its own: nothing of ours is one, and nothing stays disabled.

cancellation.py BUILD [test...]; see harness.main. The program (acts.cpp) prints what the thread comes to.
"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

CHAINS = {
    "logging": 'device = ["logging", "pool", "cuda"]\n[resource.logging]\nfile = "FOLDER/log.csv"\nflush = true\n',
    "observers": 'device = ["tracking", "statistics", "pool", "cuda"]\n[resource.tracking]\ncapture_stacks = true\n',
    "small_pool": 'device = ["pool", "cuda"]\n[resource.pool]\nmaximum_pool_size = "8 MiB"\n',
    "vmm": 'device = ["pool", "vmm"]\n',
    "async": 'device = ["cuda_async"]\n',
    "system": 'device = ["pool", "system"]\n',
}
NEEDS = {"system": {"GPUMEM_SIMULATED_PAGEABLE": "1"}}  # of the device


def compared(build, *acts, chain=None):
    command = [build.program("acts"), *acts]
    env = dict(NEEDS.get(chain, {}))
    plain = build.run(command, env=env)
    harness.equal(plain.code, 0, f"exit code of the plain run, {plain.stderr}")
    with tempfile.TemporaryDirectory() as folder:
        if chain:
            config = pathlib.Path(folder) / "chain.toml"
            config.write_text("version = 1\n[route]\n" + CHAINS[chain].replace("FOLDER", folder))
            env["GPUMEM_CONFIG"] = str(config)
        run = build.run(command, preload=True, env=env)
    harness.equal(harness.differences(plain, run), [], f"{acts} over {chain or 'the default'}")
    harness.equal(len(run.reports), 1, "reports")


def test_the_first_call_of_the_process(build):
    compared(build, "cancel", "malloc")


def test_the_first_call_of_a_thread(build):
    compared(build, "malloc", "cancel", "malloc")


def test_later_calls(build):
    compared(build, "malloc", "cancel_known", "malloc")


def test_a_call_that_is_handed_on(build):
    compared(build, "malloc", "cancel_host", "malloc")


def test_an_exec(build):
    program = build.program("acts")
    command = [program, "malloc", "exec_cancelled", program]
    plain, run = build.run(command), build.run(command, preload=True)
    assert "not executed" not in plain.stdout, plain.stdout
    harness.equal(harness.differences(plain, run), [], "an exec of a cancelled thread")
    harness.equal([report["end"]["kind"] for report in run.reports], ["exec"], "reports")


def test_every_chain(build):
    for chain in CHAINS:
        compared(build, "cancel", "cancel_known", "malloc", chain=chain)
        compared(build, "malloc", "cancel", chain=chain)


def test_in_the_middle_of_calls(build):
    threads = str(40 * int(os.environ.get("GPUMEM_SURROUNDINGS_ROUNDS", "1")))
    for chain in (None, "logging", "small_pool"):
        compared(build, "malloc", "storm", threads, "malloc", chain=chain)


harness.main(globals())
