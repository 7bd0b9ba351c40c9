"""Contexts that are made and ended for ever: what each leaves in the library's heap, and that the program cannot tell.

context_loops.py BUILD [test...]; see harness.main. The simulated driver keeps some of its own for each context, natively as well.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "programs" / "configs"
CONTEXTS = 400
# Of the driver, which keeps 128 for an event that the library made in the context; `every_pool` makes two.
MOST_FOR_EACH = 256
ONCE = 4096  # what is made once, at whichever context, in all


def grown(build, mode, **options):
    outcome = build.run([build.program("context_loop.driver"), mode, "heap", str(CONTEXTS)], **options)
    assert outcome.code == 0, f"{mode}: {outcome.code}\n{outcome.stderr}"
    return int(re.search(r"heap: (-?\d+) bytes", outcome.stdout)[1]) / CONTEXTS


def more_with_the_library(build, mode, bug=None, config=None):
    env = {"GPUMEM_CONFIG": str(CONFIGS / f"{config}.toml")} if config else {}
    if bug:
        env |= {"LD_PRELOAD": build.preload("libgpumem_mutant.so"), "TEST_MUTANT": bug}
    return grown(build, mode, preload=True, env=env) - grown(build, mode)


def expect_nothing_is_left(build, mode, config=None):
    more = more_with_the_library(build, mode, config=config)
    assert more <= MOST_FOR_EACH + ONCE / CONTEXTS, f"{mode}, {config}: each context left {more:.0f} bytes"


def test_one_after_the_other(build):
    expect_nothing_is_left(build, "created")


def test_several_at_once(build):
    expect_nothing_is_left(build, "kept")


def test_of_two_threads(build):
    expect_nothing_is_left(build, "threads")


def test_primary_ones(build):
    expect_nothing_is_left(build, "primary")


def test_every_chain(build):
    for config in ("arena", "binning", "direct", "pool_over_vmm", "pool_over_cuda_async", "small_pool", "aligned", "every_pool"):
        expect_nothing_is_left(build, "kept", config)


def test_entries_not_used_again(build):
    more = more_with_the_library(build, "created", "entries_not_used_again")
    assert more > 10 * MOST_FOR_EACH, f"what each context leaves was not seen: {more:.0f} bytes"


def test_programs_cannot_tell(build):
    for mode in ("created", "kept", "threads", "primary"):
        command = [build.program("context_loop.driver"), mode, "quietly", "300"]
        plain, loaded = build.run(command), build.run(command, preload=True)
        harness.equal(harness.differences(plain, loaded), [], mode)
        harness.equal(harness.count_faults(loaded), [], mode)
        harness.equal(harness.ledger_faults(loaded.reports[0], next(iter(loaded.known.values()))), [], f"{mode}, ledger")


harness.main(globals())
