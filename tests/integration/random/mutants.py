"""Seeded bugs, one at a time (core/base/mutant.hpp): the random programs must catch each, and nothing but the bug.

mutants.py BUILD [test...]; see harness.main. A run catches a bug when it ends with a hazard, wrong data or a refused call.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness
from random_run import CROWDED_DEVICE, INTERLEAVED, run

OPERATIONS = 20_000
ATTEMPTS = 12
# What the program then does all the time, by its number in worker.cpp (rare).
FREES_WITHOUT_EVENTS = ("--often", "8")


def mutate(build, name, seed, config="pool", threads=4, env=None, options=()):
    return run(build, seed, OPERATIONS, config, library="libgpumem_mutant.so", threads=threads,
               env={"TEST_MUTANT": name, **(env or {})}, options=options)


def expect_caught(build, name, sign, config="pool", first=1, threads=None, env=None, options=()):
    """`sign`, or one of several, must be among the words, so that the bug is found and not some other one."""
    signs = (sign,) if isinstance(sign, str) else sign
    for seed in range(first, first + ATTEMPTS):
        outcome = mutate(build, name, seed, config, threads or (4, 8)[seed % 2], env, options)
        if outcome.code == 0:
            continue
        text = outcome.stdout + outcome.stderr
        assert any(one in text for one in signs), f"seed {seed}: caught, but without {signs}: {outcome.code}\n{text[:2000]}"
        print(f"{name}: caught with seed {seed}")
        return
    raise AssertionError(f"{name}: not caught in {ATTEMPTS} runs of {OPERATIONS} operations")


def expect_clean(build, name, configs, env=None, options=()):
    """A seed for each configuration: under `name` what is rare otherwise happens everywhere, and is right."""
    for seed, config in enumerate(configs, 1):
        outcome = mutate(build, name, seed, config, 8, env, options)
        assert outcome.code == 0 and outcome.report, f"seed {seed}, {config}: {outcome.code}\n{outcome.stdout}{outcome.stderr}"


def test_no_bug_is_clean(build):
    for seed in (1, 2, 3):
        outcome = mutate(build, "none", seed)
        assert outcome.code == 0 and outcome.report, f"seed {seed}: {outcome.code}\n{outcome.stdout}{outcome.stderr}"


def test_bins_that_threads_share_are_clean(build):
    # As if threads waited for the mutex from the start (resource/pools/sharing.cpp).
    expect_clean(build, "always_shares", ("pool", "binning", "arena", "pool", "small_pool"))


def test_peers_of_the_last_context(build):
    expect_caught(build, "peers_of_the_last_context", "no peer access", "pool_over_vmm", env={"GPUMEM_SIMULATED_DEVICES": "2"})


def test_frees_that_keep_the_pace_are_clean(build):
    # As if the program ran far ahead of the GPU from the start (stream_order/free_pace).
    expect_clean(build, "always_paces", ("pool", "binning", "arena", "small_pool", "pool"))


def test_frees_that_give_back_ahead_are_clean(build):
    # As if requests had had to give back all that is empty (resource/pools/backing/given_ahead.hpp).
    expect_clean(build, "always_gives_ahead", ("pool", "pool_over_vmm", "arena", "pool_over_cuda_async", "pool"))


def test_ahead_is_done(build):
    expect_caught(build, "ahead_is_done", "unordered reuse", "pool_over_cuda_async", threads=8)


def test_excess_that_goes_is_clean(build):
    # As if every growth left a pool with too much (resource/pools/backing/excess.hpp).
    expect_clean(build, "always_excess", ("pool", "binning", "arena", "returning", "pool"))


def test_excess_is_done(build):
    expect_caught(build, "excess_is_done", "unordered reuse", threads=8)


def test_freed_beside_work(build):
    expect_caught(build, "freed_beside_work", "unordered reuse", "cuda")


def test_large_blocks_by_themselves_are_clean(build):
    # As if memory were scarce from the start (resource/pools/backing/scarcity.hpp).
    expect_clean(build, "always_scarce", ("pool", "binning", "arena", "returning", "pool"))


def test_by_itself_unfinished(build):
    expect_caught(build, "by_itself_unfinished", "unordered reuse")


def test_threads_that_come_between_everywhere_are_clean(build):
    expect_clean(build, "none", ("pool", "returning", "arena", "pool_over_vmm", "returning"), {**CROWDED_DEVICE, **INTERLEAVED}, ("--crowded",))


def test_recent_address_first(build):
    expect_caught(build, "recent_address_first", "code 1, wanted 0", "returning", threads=8,
                  env={**CROWDED_DEVICE, **INTERLEAVED}, options=("--crowded",))


def test_pace_is_done(build):
    expect_caught(build, "pace_is_done", "unordered reuse")


def test_bin_not_done(build):
    expect_caught(build, "bin_not_done", "unordered reuse")


def test_always_done(build):
    expect_caught(build, "always_done", "unordered reuse")


def test_always_done_under_binning(build):
    expect_caught(build, "always_done", "unordered reuse", "binning")


def test_always_done_under_arena(build):
    expect_caught(build, "always_done", "unordered reuse", "arena")


def test_no_event(build):
    expect_caught(build, "no_event", "unordered reuse")


def test_event_before_free(build):
    expect_caught(build, "event_before_free", "unordered reuse")


def test_host_waits_for_foreign_work(build):
    expect_caught(build, "host_waits_for_foreign_work", "waited for the device")


def test_frees_in_order_wait(build):
    expect_caught(build, "frees_in_order_wait", "waited for the device", config="cuda")


def test_requests_free_at_once(build):
    expect_caught(build, "requests_free_at_once", "waited for the device", config="cuda")


def test_synchronised_too_much(build):
    expect_caught(build, "synchronised_too_much", "unordered reuse")


def test_capture_ignored(build):
    expect_caught(build, "capture_ignored", "a capture was invalidated")


def test_wrong_slot(build):
    expect_caught(build, "wrong_slot", "unordered reuse")


def test_shared_magazine(build):
    expect_caught(build, "shared_magazine", "unordered reuse")


def test_done_with_stream(build):
    expect_caught(build, "done_with_stream", "unordered reuse")


def test_stale_context(build):
    # Each wait for an event of a context that is gone takes long: one thread, and a seed that soon ends a context.
    expect_caught(build, "stale_context", "code 1, wanted 0", first=4, threads=1)


def test_destroyed_stream_asked(build):
    expect_caught(build, "destroyed_stream_asked", "a capture was invalidated")


def test_joined_context_ignored(build):
    expect_caught(build, "joined_context_ignored", "a capture was invalidated")


def test_served_in_watched_capture(build):
    expect_caught(build, "served_in_watched_capture", "beside a capture: code 0, wanted 900")


def test_lost_still_held(build):
    expect_caught(build, "lost_still_held", "ledger, contexts ended", threads=1)


def test_unproven_is_done(build):
    expect_caught(build, "unproven_is_done", "unordered reuse", "returning")


def test_tighter_unfinished(build):
    expect_caught(build, "tighter_unfinished", "unordered reuse")


def test_streams_that_are_asked_everywhere_are_clean(build):
    # As if memory were short from the start (suballocator::settle_idle_streams).
    expect_clean(build, "always_asks_streams", ("pool", "returning", "arena", "small_pool", "pool_over_vmm"))


def test_idle_stream_is_done(build):
    expect_caught(build, "idle_stream_is_done", "unordered reuse")


def test_legacy_stream_not_asked(build):
    # What is not done serves others, or its pages go.
    expect_caught(build, "legacy_stream_not_asked", ("unordered reuse", "unmapped in use"), "pool_over_vmm", options=FREES_WITHOUT_EVENTS)


def test_idle_is_done(build):
    expect_caught(build, "idle_is_done", "unordered reuse")


def test_surplus_is_done(build):
    expect_caught(build, "surplus_is_done", "unordered reuse", "pool_over_cuda_async", threads=8)


def test_parts_are_done(build):
    expect_caught(build, "parts_are_done", "unordered reuse", "arena", threads=8)


def test_what_bins_give_back_is_done(build):
    expect_caught(build, "parts_are_done", "unordered reuse", "binning", threads=8)


def test_every_bug_has_a_test(build):
    """Here or where its own area is tested."""
    root = pathlib.Path(__file__).resolve().parents[3]
    names = set()
    for path in [*root.glob("core/**/*.?pp"), *root.glob("shim/**/*.?pp")]:
        if path.name != "mutant.hpp":
            names.update(re.findall(r"GPUMEM_MUTANT\((\w+)\)", path.read_text()))
    texts = "".join(path.read_text() for path in root.glob("tests/integration/**/*.py"))
    untested = sorted(name for name in names if f'"{name}"' not in texts)
    assert names and not untested, f"no test names {untested}"


harness.main(globals())
