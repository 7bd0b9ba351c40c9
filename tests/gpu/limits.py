"""The cases of the group `limits` on a real GPU: limits that hold and fallbacks that spill, by what the report says."""
import pathlib
import re
import sys

import harness

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests" / "gpu"
SIMULATED = ROOT / "tests" / "integration" / "limits"
GIB = 1 << 30


def node(report, name):
    return next(n for chain in report["chains"] for n in chain["nodes"] if n["name"] == name)


def limited(build, link, config):
    sys.path.insert(0, str(SIMULATED))
    import limits_checks
    env = {"GPUMEM_CONFIG": str(SIMULATED / "configs" / f"{config}.toml")}
    run = build.run([build.program(f"limited.{link}")], preload=True, env=env, timeout=60)
    assert run.code == 0, f"exit code {run.code}: {run.stderr[-300:]}"
    limits_checks.check_limit(run)
    limits_checks.check_failures(run.reports[0])
    return run, "64 MiB by every route"


def spill(build, link, config):
    env = {"GPUMEM_CONFIG": str(SIMULATED / "configs" / f"{config}.toml")}
    run = build.run([build.program(f"limited.{link}"), "spill", "96"], preload=True, env=env, timeout=60)
    assert run.code == 0, f"exit code {run.code}: {run.stderr[-300:]}"
    assert "4 managed" in run.stdout, run.stdout
    second = node(run.reports[0], "chain 2")
    assert second["hits"] == 4 and second["highest_bytes"] == 32 << 20, second
    return run, "32 of 96 MiB spilled"


def torch_job(build):
    command = [sys.executable, str(HERE / "torch_large.py")]
    plain = build.run(command, timeout=120)
    if plain.code == harness.SKIP:
        raise harness.Skipped(plain.stdout.strip().splitlines()[-1])
    run = build.run(command, preload=True, timeout=240, env={"GPUMEM_CONFIG": str(HERE / "configs" / "spill_20_gib.toml")})
    faults = harness.differences(plain, run)
    assert not faults, faults
    report = run.reports[0]
    first, second = node(report, "limiting"), node(report, "chain 2")
    assert first["now_bytes"] <= 20 * GIB, first
    assert second["hits"] > 0 and second["highest_bytes"] >= 6 * GIB, second
    assert not report["failures"], report["failures"]
    return run, f"{second['hits']} requests, {second['highest_bytes'] / GIB:.1f} GiB spilled at most; plain {plain.seconds:.0f} s"


def jax_job(build):
    command = [sys.executable, str(HERE / "jax_limited.py")]
    run = build.run(command, preload=True, timeout=180, env={"GPUMEM_CONFIG": str(HERE / "configs" / "limit_10_gib.toml")})
    if run.code == harness.SKIP:
        raise harness.Skipped(run.stdout.strip().splitlines()[-1])
    assert run.code == 0, f"exit code {run.code}: {run.stderr[-300:]}"
    assert "mean sum 15.0" in run.stdout, run.stdout
    assert "codes (0, 0) total 10240 MiB device 10240 MiB" in run.stdout, run.stdout
    assert int(re.search(r"^pool (\d+) MiB$", run.stdout, re.M)[1]) <= 10240, run.stdout
    assert run.stdout.rstrip().endswith("refused"), run.stdout
    # JAX maps its pool by cuMemCreate, which the ledger's peak (of routed memory) need not show.
    held = int(re.search(r"^held (\d+) MiB$", run.stdout, re.M)[1])
    assert 6 * 1024 < held <= 10 * 1024, run.stdout
    return run, f"sees 10 GiB, held {held / 1024:.2f} GiB"


def jobs(build, table):
    """(name, function) of each case."""
    cases = [(f"{what.__name__} {config}, {link}", lambda what=what, link=link, config=config: what(build, link, config))
             for what, config in ((limited, "below_pool"), (limited, "above_pool"), (spill, "fallback"),
                                  (spill, "pool_over_fallback"))
             for link in ("static", "shared")]
    cases += [("torch 29 GiB under a 20 GiB limit", lambda: torch_job(build)),
              ("jax under a 10 GiB limit", lambda: jax_job(build))]

    def run(name, case):
        try:
            done, note = case()
        except harness.Skipped as reason:
            table.add(name, "SKIP", note=str(reason)[:80])
            return
        faults = [fault for report in done.reports for fault in harness.ledger_faults(report)]
        table.add(name, "FAIL" if faults else "PASS", "", f"{done.seconds:.2f} s", note, faults)

    return [(name, lambda name=name, case=case: run(name, case)) for name, case in cases]
