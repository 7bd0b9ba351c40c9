"""What else is served, or answered for: pitched memory, the default pool, and what a program sets on a block.

served.py BUILD [test...]; see harness.main. That nobody can tell is compare.py's to show.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

KEPT = {"GPUMEM_CONFIG": str(pathlib.Path(__file__).resolve().parent / "configs" / "never_back.toml")}
POOLS = {"GPUMEM_CONFIG": str(pathlib.Path(__file__).resolve().parent / "configs" / "every_pool.toml")}


def only_report(outcome):
    harness.equal(outcome.code, 0, f"exit code, {outcome.stderr}")
    harness.equal(len(outcome.reports), 1, "reports")
    return outcome.reports[0]


def of_hook(report, symbol):
    return next(hook for hook in report["intercept"]["hooks"] if hook["symbol"] == symbol)


def test_pitched_memory_comes_from_the_chain(build):
    hook = of_hook(only_report(build.run([build.program("pitched.shared")], preload=True)), "cuMemAllocPitch_v2")
    asked = hook["calls"] - hook["failed"]
    harness.equal(hook["route"], "device", "the route of pitched memory")
    # Each of 12 widths, 3 elements and 4 classes of heights for one plane, and the volumes' classes, once.
    assert hook["served"] >= 0.8 * asked, hook


def test_a_trim_of_the_default_pool_gives_back(build):
    for mode, kept in (("keep", True), ("trim", False)):
        report = only_report(build.run([build.program("default_pool.shared"), mode], preload=True))
        reserved = report["devices"][0]["now"]["reserved_bytes"]
        assert (reserved >= 100 << 20) == kept, f"{mode}: {reserved} bytes are reserved at the end"


def test_pools_of_the_program_are_served_by_choice(build):
    config = pathlib.Path(POOLS["GPUMEM_CONFIG"]).with_name("program_pools.toml")
    for env, by_choice in (({}, False), ({"GPUMEM_CONFIG": str(config)}, True)):
        report = only_report(build.run([build.program("pool_attributes.shared")], preload=True, env=env))
        hook = of_hook(report, "cuMemAllocFromPoolAsync")
        harness.equal(hook["served"], hook["calls"] if by_choice else 0, "served")
        harness.equal(hook["route"], "device" if by_choice else "observed", "route")
        told = [finding for finding in report["findings"] if "not routed" in finding["text"]]
        harness.equal(bool(told), not by_choice, "a finding")


def test_a_pool_that_is_opened_goes_on_counting(build):
    config = str(pathlib.Path(POOLS["GPUMEM_CONFIG"]).with_name("program_pools.toml"))
    command = [build.program("default_pool.shared"), "shared"]
    preloaded = build.run(command, preload=True, env={"GPUMEM_CONFIG": config})
    harness.equal(preloaded.stdout, build.run(command).stdout, "what the pools say")
    assert "opened to another device" in preloaded.stderr, preloaded.stderr


def caught(build, bug, program, env, *arguments):
    plain = build.run([build.program(program), *arguments])
    library = {"LD_PRELOAD": str(build.folder / "libgpumem_mutant.so"), **env}
    for name, differs in (("none", False), (bug, True)):
        outcome = build.run([build.program(program), *arguments], preload=True, env={**library, "TEST_MUTANT": name})
        equal = outcome.code == 0 and plain.stdout == outcome.stdout
        assert equal != differs, f"{name}: exit code {outcome.code}, {'equal' if equal else 'different'}\n{outcome.stderr}"


def test_the_bug_that_settings_stay_is_caught(build):
    caught(build, "settings_stay", "settings.shared", POOLS)


def test_the_bug_that_a_neighbour_loses_its_setting_is_caught(build):
    caught(build, "settings_shared", "settings.shared", POOLS)


def test_the_bug_that_figures_hear_of_any_free_is_caught(build):
    caught(build, "used_by_any_free", "default_pool.shared", {})


def test_the_bug_that_highest_figures_add_up_is_caught(build):
    caught(build, "highest_added_up", "default_pool.shared", {}, "shared")


def test_the_bug_that_live_blocks_are_looked_at_once_is_caught(build):
    caught(build, "looked_once", "asked_pool.driver", {"GPUMEM_SIMULATED_DEVICES": "16", "TEST_INTERLEAVE": "1"})


def test_the_bug_that_a_pool_gives_its_handle_on_is_caught(build):
    chain = {"GPUMEM_CONFIG": str(pathlib.Path(POOLS["GPUMEM_CONFIG"]).with_name("program_pools.toml"))}
    caught(build, "ended_pool_goes", "asked_rules.driver", chain, "pool_ended")


def test_the_bug_of_two_default_pools_is_caught(build):
    caught(build, "two_default_pools", "default_pool.shared", {})


def test_the_bug_of_a_wrong_pitch_is_caught(build):
    caught(build, "pitch_of_any_width", "pitched.shared", {})


def test_the_bug_that_a_refusal_is_never_forgotten_is_caught(build):
    caught(build, "stale_refusal", "out_of_memory.shared", {})


def test_the_bug_that_what_is_empty_does_not_count_is_caught(build):
    caught(build, "nothing_comes_back", "out_of_memory.shared", KEPT)


harness.main(globals())
