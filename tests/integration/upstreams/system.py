"""The upstream `system` in whole programs on the simulated CUDA, on a device that reaches pageable memory and on one that
does not.

system.py BUILD [test...]; see harness.main.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import harness

DIRECT = ROOT / "config" / "examples" / "rmm" / "system_headroom.toml"
POOL = ROOT / "tests" / "integration" / "programs" / "configs" / "pool_over_system.toml"
REACHES = {"GPUMEM_SIMULATED_PAGEABLE": "1"}


def run(build, config, program, *arguments, env=None, **how):
    return build.run([build.program(program), *arguments], preload=True,
                     env={"GPUMEM_CONFIG": str(config), **(env or {})}, **how)


def nodes(report):
    return {node["name"]: node for chain in report["chains"] if chain["route"] == "device" for node in chain["nodes"]}


def test_serves_programs(build):
    for link in ("shared", "static"):
        program = f"system_memory.{link}"
        plain = build.run([build.program(program), "40"], env=REACHES)
        harness.equal(plain.code, 0, plain.stderr)
        for config in (DIRECT, POOL):
            done = run(build, config, program, "40", env=REACHES)
            harness.equal(harness.differences(plain, done) + harness.count_faults(done), [], f"{program}, {config.name}")
            report = done.reports[0]
            harness.equal(harness.ledger_faults(report), [], "the ledger")
            harness.equal(report["devices"][0]["live_blocks"], 0, "blocks still allocated")
            served = nodes(report)
            calls = harness.report_counts(report)
            asked = calls["cuMemAlloc"] + calls["cuMemAllocAsync"]
            if config == DIRECT:
                harness.equal(served["system"]["requests"], asked, "requests to system")
                # The program ends with a synchronisation: natively its streams' frees have gone back by then.
                harness.equal(report["devices"][0]["now"]["reserved_bytes"], 0, "memory that did not go back")
            else:
                harness.equal(served["pool"]["requests"], asked, "requests to the pool")
                assert 0 < served["system"]["requests"] < asked / 10, served["system"]


def test_several_streams_and_threads(build):
    for program in (("reuse.shared", "5"), ("threads.shared", "8", "20"), ("cross_frees.shared",)):
        plain = build.run([build.program(program[0]), *program[1:]], env=REACHES)
        for config in (DIRECT, POOL):
            done = run(build, config, *program, env=REACHES)
            harness.equal(harness.differences(plain, done), [], f"{program}, {config.name}")
            assert nodes(done.reports[0])["system"]["requests"] > 0, done.reports[0]["chains"]


def test_a_pool_that_reuses_too_early_is_seen(build):
    done = run(build, POOL, "reuse.shared", "5", env={**REACHES, "TEST_MUTANT": "always_done",
                                                 "LD_PRELOAD": build.preload("libgpumem_mutant.so")})
    harness.equal(done.code, 99, "exit code of the simulator")
    assert "unordered reuse" in done.stderr, done.stderr[-500:]


def test_more_than_the_host_has_is_out_of_memory(build):
    total = re.search(r"MemTotal: *(\d+)", pathlib.Path("/proc/meminfo").read_text())
    too_many = (int(total[1]) >> 20) + 2  # GiB
    if too_many >= 2048:
        raise harness.Skipped("the host has more than a block can hold")
    plain = build.run([build.program("system_memory.shared"), "2", str(too_many)], env=REACHES)
    assert "too many: code 2, last error 2" in plain.stdout, plain.stdout
    for config in (DIRECT, POOL):
        done = run(build, config, "system_memory.shared", "2", str(too_many), env=REACHES)
        harness.equal(harness.differences(plain, done), [], config.name)
        first = done.reports[0]["failures"][0]
        harness.equal((first["error"], first["refused_by"]), (2, "host_memory"), first["reason"])
        assert re.match(r"system: .* asked for, the host has .* available of ", first["reason"]), first["reason"]


def test_elsewhere_the_driver_serves(build):
    """Nothing but a warning that says why."""
    plain = build.run([build.program("reuse.shared"), "5"])
    done = run(build, DIRECT, "reuse.shared", "5")
    harness.equal((done.code, done.stdout), (plain.code, plain.stdout), "exit code and output")
    lines = done.stderr.splitlines()
    harness.equal(len(lines), 1, done.stderr)
    assert "does not reach pageable memory" in lines[0] and "use managed instead" in lines[0], lines[0]
    hook = [h for h in done.reports[0]["intercept"]["hooks"] if h["symbol"] == "cuMemAlloc_v2"][0]
    assert hook["calls"] > 0, hook
    harness.equal(hook["served"], 0, "calls that a chain served")


if __name__ == "__main__":
    harness.main(globals())
