"""Programs and random calls in a later life of their contexts, after others of each device that were used and ended (lives.py); the bugs that
only they can see.

later.py BUILD [test...]; see harness.main. CMakeLists.txt compares programs; all.py does with every program there is.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "random")]
import harness
import lives
import transcripts

CONFIGS = HERE.parent / "programs" / "configs"


def caught(build, mutant, program, config, *arguments, count=1):
    command = [build.program(program), *arguments]
    for name, differs in (("none", False), (mutant, True)):
        env = {"TEST_MUTANT": name, "GPUMEM_CONFIG": str(CONFIGS / f"{config}.toml")}
        plain, later, _ = lives.run_both(build, command, count, {}, env, "libgpumem_mutant.so")
        assert bool(harness.differences(plain, later)) == differs, f"{name}: {'equal' if differs else harness.differences(plain, later)}"


def test_the_bug_that_settings_of_lost_blocks_stay_is_caught(build):
    caught(build, "set_on_lost_blocks", "settings.shared", "every_pool")


def test_the_bug_that_peers_are_the_last_contexts_is_caught(build):
    caught(build, "peers_of_the_last_context", "peers.shared", "pool_over_vmm", "first", count=2)


def test_transcripts(build):
    """Of random calls, after one and two lives."""
    for config, count in (("pool", 1), ("program_pools", 2), ("managed_and_host", 1)):
        transcripts.earlier_lives = count
        for seed in (1, 2):
            assert transcripts.difference(build, seed, config) is None, "\n" + transcripts.describe(build, seed, config)


harness.main(globals())
