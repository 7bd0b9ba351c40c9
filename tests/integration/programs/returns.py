"""Memory that goes back to the device by the program's own calls, and memory that does not, as it is needed again.

returns.py BUILD [test...]; see harness.main. The program says what the simulated driver has in use.
"""
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

CHAINS = {"pool": '["pool", "cuda"]', "arena": '["arena", "cuda"]'}
PAGES = '["pool", "vmm"]'


def run(build, mode, chain="pool", options="", env=None):
    """What the program printed, and its report."""
    with tempfile.TemporaryDirectory(prefix="gpumem-returns.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        route, resource = (PAGES, "pool") if chain == "vmm" else (CHAINS[chain], chain)
        path.write_text(f'version = 1\n[route]\ndevice = {route}\n[resource.{resource}]\n{options}\n')
        outcome = build.run([build.program("returns.shared"), mode], preload=True,
                            env={"GPUMEM_CONFIG": str(path), **(env or {})})
    harness.equal(outcome.code, 0, f"exit code of {mode}, {outcome.stderr}")
    return outcome


def figure(outcome, what):
    return int(re.search(rf"{what}: (\d+)", outcome.stdout).group(1))


def nodes(outcome):
    return [node for chain in outcome.reports[0]["chains"] for node in chain["nodes"]]


def went_back(outcome, why):
    return sum(node[f"{why}_bytes"] for node in nodes(outcome)) >> 20


def test_large_blocks_go_back_when_they_are_freed(build):
    for chain in CHAINS:
        outcome = run(build, "large", chain)
        assert figure(outcome, "taken") > 6000, outcome.stdout
        assert figure(outcome, "at the end") < 256, f"{chain}: {outcome.stdout}"
        assert went_back(outcome, "unearned") > 6000, nodes(outcome)


def test_empty_segments_go_back_for_their_age(build):
    for chain in CHAINS:
        outcome = run(build, "aged", chain)
        assert figure(outcome, "taken") > 1000, outcome.stdout
        assert figure(outcome, "at the end") <= 256, f"{chain}: {outcome.stdout}"
        assert went_back(outcome, "aged") > 700, nodes(outcome)


def test_they_do_at_a_synchronisation_of_the_only_thread(build):
    short = 'release_after = "100 ms"'
    assert figure(run(build, "synchronised", options=short), "at the end") <= 256
    assert figure(run(build, "two_threads", options=short), "at the end") > 1000


def test_over_vmm_what_stayed_idle_goes_back(build):
    outcome = run(build, "aged", "vmm")
    assert figure(outcome, "taken") > 1000, outcome.stdout
    assert figure(outcome, "at the end") <= 256, outcome.stdout
    assert went_back(outcome, "aged") > 700, nodes(outcome)
    harness.equal(figure(run(build, "warm", "vmm"), "warm"), 0, "calls of a warm loop")
    short = 'release_after = "20 ms"'
    harness.equal(figure(run(build, "captured", "vmm", short), "beside a capture"), 0, "calls beside a capture")
    assert figure(run(build, "busy", "vmm", short), "while its kernel runs") >= 128
    never = run(build, "aged", "vmm", 'release_after = "never"')
    assert figure(never, "at the end") >= figure(never, "taken"), never.stdout


def test_never_keeps_all(build):
    for options in ('release_after = "never"', 'release_threshold = "max"'):
        for mode in ("large", "aged"):
            outcome = run(build, mode, options=options)
            assert figure(outcome, "at the end") >= figure(outcome, "taken"), outcome.stdout


def test_a_floor_is_kept(build):
    outcome = run(build, "aged", options='release_threshold = "512 MiB"\nrelease_after = "100 ms"')
    assert 480 <= figure(outcome, "at the end") < 800, outcome.stdout
    outcome = run(build, "aged", options='initial_pool_size = "2 GiB"\nrelease_after = "100 ms"')
    assert figure(outcome, "at the end") >= 2048, outcome.stdout


def test_a_warm_loop_makes_no_call_of_the_driver(build):
    for chain in CHAINS:
        outcome = run(build, "warm", chain)
        harness.equal(figure(outcome, "warm"), 0, f"calls, {chain}")


def test_nothing_goes_back_before_its_work_is_done(build):
    outcome = run(build, "busy", options='release_after = "20 ms"')
    assert figure(outcome, "while its kernel runs") >= 128, outcome.stdout
    assert figure(outcome, "at the end") < 128, outcome.stdout


def test_nothing_goes_back_beside_a_capture(build):
    outcome = run(build, "captured", options='release_after = "20 ms"')
    harness.equal(figure(outcome, "beside a capture"), 0, "calls")
    assert figure(outcome, "at the end") <= 256, outcome.stdout


def test_the_seeded_bugs_are_caught(build):
    library = {"LD_PRELOAD": str(build.folder / "libgpumem_mutant.so")}
    short = 'release_after = "20 ms"'
    for mode, what, bugs in (("warm", "warm", ("young_goes_back", "never_earned")),
                             ("captured", "beside a capture", ("returns_beside_capture",))):
        for name in ("none", *bugs):
            outcome = run(build, mode, options=short if mode == "captured" else "", env={**library, "TEST_MUTANT": name})
            assert (figure(outcome, what) >= 1) == (name in bugs), f"{name}: {outcome.stdout}"


harness.main(globals())
