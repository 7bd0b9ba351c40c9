"""Seeded bugs (core/base/mutant.hpp) in what is done when contexts, threads and the work of others end: each must be seen.

ended.py BUILD [test...]; see harness.main. The same programs are compared without a bug in CMakeLists.txt.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

CONFIGS = pathlib.Path(__file__).resolve().parent / "configs"


# Where `tracking` stands, of one that comes after the end of its context, when nobody has the address.
TRUE_OF_A_LATE_FREE = re.compile(r"^gpumem: warning: 0x[0-9a-f]+ was freed at .*, and is no block of anyone's$")


def of_mutant(build, mutant, program, *arguments, config=None, attempts=1, simulated=(), **limits):
    """What differs from the plain run, of the first of so many runs of which anything does."""
    command = [build.program(program), *arguments]
    plain = build.run(command, env=dict(simulated))
    for _ in range(attempts):
        env = {**dict(simulated), "LD_PRELOAD": str(build.folder / "libgpumem_mutant.so"), "TEST_MUTANT": mutant}
        if config:
            env["GPUMEM_CONFIG"] = str(CONFIGS / f"{config}.toml")
        run = build.run(command, preload=True, env=env, **limits)
        run.stderr = "".join(line for line in run.stderr.splitlines(True) if not TRUE_OF_A_LATE_FREE.search(line))
        found = harness.differences(plain, run)
        for report in run.reports:
            found += harness.ledger_faults(report, run.known.get(report["process"]["pid"]), noted=False)
        if found:
            return found
    return []


def caught(build, mutant, program, *arguments, **how):
    command = [build.program(program), *arguments]
    if of_mutant(build, mutant, program, *arguments, **how):
        return
    raise AssertionError(f"{mutant}: not caught by {' '.join(command)}")


def test_a_context_that_ended_serves(build):
    # A race, which one attempt in two or so wins where the machine is idle, and fewer where it is busy.
    caught(build, "ended_served", "racing_contexts.driver", "retain", "2000", attempts=40)


def test_a_context_is_entered_while_it_ends(build):
    small = {"GPUMEM_SIMULATED_DEVICES": "1", "GPUMEM_SIMULATED_MEMORY": str(2 << 30)}
    caught(build, "ending_entered", "ending_beside_others.driver", "ends", "1000", attempts=20, simulated=small)


def test_a_context_is_entered_after_its_end(build):
    small = {"GPUMEM_SIMULATED_DEVICES": "1", "GPUMEM_SIMULATED_MEMORY": str(2 << 30), "GPUMEM_SIMULATED_STALE_PUSHES": "1"}
    caught(build, "gone_entered", "ending_beside_others.driver", "ends", "1000", attempts=20, simulated=small)


def test_memory_goes_back_after_its_context(build):
    caught(build, "freed_after_its_context", "ending_beside_others.driver", "keeps", "100", attempts=20,
           simulated={"GPUMEM_SIMULATED_DEVICES": "1"})


def test_pages_go_back_after_their_context(build):
    small = {"GPUMEM_SIMULATED_DEVICES": "1", "GPUMEM_SIMULATED_MEMORY": str(2 << 30), "GPUMEM_SIMULATED_CONTEXT": str(16 << 20),
             "TEST_INTERLEAVE": "1"}
    caught(build, "freed_after_its_context", "ending_beside_others.driver", "keeps", "300", config="pool_over_vmm", attempts=20, simulated=small)


def test_a_block_goes_back_that_went_with_its_context(build):
    caught(build, "lost_block_kept", "ending_beside_others.driver", "frees", "30", config="direct", attempts=20,
           simulated={"GPUMEM_SIMULATED_DEVICES": "1", "TEST_INTERLEAVE": "1"})


def test_a_context_serves_that_is_over(build):
    # Mapped memory needs none, so that no call of the chain is refused.
    caught(build, "begun_when_over", "dead_context.driver", "released", config="pool_over_vmm")


def test_a_limit_refuses_what_a_driver_does_not_look_at(build):
    """Under a context that ended: the driver's word for it, and no failure for want of memory in the report."""
    caught(build, "limit_under_ended", "dead_context.driver", "released", config="counted")
    run = build.run([build.program("dead_context.driver"), "released"], preload=True, env={"GPUMEM_CONFIG": str(CONFIGS / "counted.toml")})
    harness.equal(run.reports[0]["failures"], [], "refusals that the program was not given")


def test_a_block_is_freed_under_a_context_that_ended(build):
    caught(build, "freed_under_ended", "dead_context.driver", "frees")


def test_what_the_driver_has_not_back_yet_is_freed_again(build):
    caught(build, "refused_given_to_driver", "captured_contexts.driver", "twice", config="direct_cuda_async")


# Each free is under way until the next context has served, which is no bug of its own.
LATE = {"GPUMEM_SIMULATED_DEVICES": "1", "TEST_INTERLEAVE": "1"}


def test_a_late_free_gives_its_block_to_the_next_context(build):
    # Its free lists may be circles, so that a report has no end.
    caught(build, "late_free_kept", "ending_beside_others.driver", "late", "30", attempts=5, simulated=LATE, timeout=30)


def test_a_guard_fills_a_block_of_the_next_context(build):
    caught(build, "guard_of_another_life", "ending_beside_others.driver", "late", "30", config="guarded", attempts=5, simulated=LATE)


def test_late_frees_are_clean(build):
    for since in ("late_find", "late_free", "late_pass"):  # it found its block, and has taken it; it found none
        for config in (None, "direct", "pool_over_vmm", "small_pool", "counted", "binning", "guarded"):
            found = of_mutant(build, since, "ending_beside_others.driver", "late", "6", config=config, simulated=LATE)
            assert not found, (since, config, found)


def test_a_free_takes_a_segment_of_the_next_context(build):
    caught(build, "passes_unseen", "ending_beside_others.driver", "late", "30", attempts=10, simulated=LATE)


def test_a_free_takes_what_its_handle_names_by_then(build):
    caught(build, "taken_by_its_handle", "ending_beside_others.driver", "late", "6", config="binning", attempts=10, simulated=LATE)


def test_a_late_free_counts_what_the_handle_names_then(build):
    caught(build, "counted_late", "ending_beside_others.driver", "late", "30", config="small_pool", attempts=10, simulated=LATE)


def test_a_block_counts_as_lost_whose_free_is_under_way(build):
    caught(build, "freed_is_lost_as_well", "ending_beside_others.driver", "frees", "30", config="counted", attempts=20,
           simulated={"GPUMEM_SIMULATED_DEVICES": "1", "TEST_INTERLEAVE": "1"})


def test_addresses_go_back_before_the_blocks_there(build):
    caught(build, "addresses_go_before_blocks", "racing_contexts.driver", "own", "200", config="pool_over_vmm", attempts=10,
           simulated={"TEST_INTERLEAVE": "1"})


# Handles that others get while the call that ended their contexts has not said so yet.
AGAIN = {"GPUMEM_SIMULATED_HANDLES_AGAIN": "1", "TEST_INTERLEAVE": "1"}


def test_the_end_of_a_context_takes_the_next_ones_access_along(build):
    caught(build, "known_by_handle", "handles_again.driver", "peers", "500", config="pool_over_cuda_async", attempts=20, simulated=AGAIN)


def test_the_end_of_a_context_takes_the_next_ones_memory_off_the_limits(build):
    caught(build, "known_by_handle", "handles_again.driver", "arrays", "1000", config="../../limits/configs/above_pool", attempts=20,
           simulated=AGAIN)


def test_a_context_is_served_as_the_green_one_that_had_its_handle(build):
    caught(build, "ended_green_found", "handles_again.driver", "green", "1000", attempts=20, simulated=AGAIN)


def test_idle_memory_of_a_context_goes_back_as_the_next_ones(build):
    caught(build, "namesake_entered", "handles_again.driver", "trims", "20", attempts=3, simulated=AGAIN)


def test_an_event_of_a_context_is_recorded_as_the_next_ones(build):
    caught(build, "asked_while_ending", "handles_again.driver", "events", "20", attempts=3, simulated=AGAIN)


def test_what_was_set_in_a_context_that_ended_is_the_next_ones(build):
    caught(build, "settings_outlive_context", "handles_again.driver", "settings", "5", config="every_pool")


def test_the_slot_of_an_ended_thread_keeps_its_memory(build):
    caught(build, "slot_of_an_ended_thread", "late_frees.driver", "threads", "500")


def test_a_free_on_another_contexts_stream_waits_for_no_work_of_it(build):
    caught(build, "foreign_work_ignored", "late_frees.driver", "foreign")


def test_what_is_freed_in_stream_order_goes_at_once(build):
    caught(build, "freed_before_done", "late_frees.driver", "async", config="direct_vmm")


harness.main(globals())
