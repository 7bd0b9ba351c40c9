"""Samples: which code holds memory, against what a program of known sizes and places takes.

samples.py BUILD [test...]; see harness.main. The program is tests/programs/sampled_sites.cpp.
"""
import math
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

MIB = 1 << 20
# By function: at exit, and when all libraries together held most.
TRUTH = {"take_large": (192, 192), "take_small": (64, 64), "take_passing": (0, 96), "take_array": (8, 8)}
CHAINS = ("", '[route]\ndevice = ["cuda"]\n', '[route]\ndevice = "passthrough"\n', '[route]\ndevice = ["arena", "cuda"]\n',
          '[route]\ndevice = ["statistics", "binning", "pool", "cuda"]\n[resource.binning]\nbins = [ { max = "1 MiB" } ]\n')


def run(build, mode, every, config="", code=0):
    with tempfile.TemporaryDirectory(prefix="gpumem-samples.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        path.write_text(f'version = 1\n{config}[report]\nsample_every = "{every}"\n')
        done = build.run([build.program("sampled_sites"), mode, "said"], preload=True, env={"GPUMEM_CONFIG": str(path)}, cwd=folder)
    harness.equal((done.code, done.stdout), (code, "done\n"), done.stderr)
    return done


def by_function(report):
    """(now, when all held most), added up over the sites with that function innermost."""
    sums = {}
    for site in report["samples"]["sites"]:
        name = site["frames"][0].get("symbol") if site["frames"] else None
        now, most = sums.get(name, (0, 0))
        sums[name] = (now + site["now_bytes"], most + site["at_highest_bytes"])
    return sums


def test_every_request_is_exact(build):
    for config in CHAINS:
        report = run(build, "sites", "1 B", config).reports[0]
        found = by_function(report)
        for name, (now, most) in TRUTH.items():
            harness.equal(found[name][0], now * MIB, f"{name}, at exit, under {config}")
            # Of one moment, within 1 % below the highest.
            assert most * MIB - 8 * MIB <= found[name][1] <= most * MIB, f"{name}, at the most: {found[name][1]:,} under {config}"
        whole = report["samples"]["devices"][0]
        harness.equal(whole["now_bytes"], 264 * MIB, f"all of it, under {config}")
        ledger = report["devices"][0]["now"]
        harness.equal(whole["now_bytes"], ledger["requested_bytes"] + ledger["observed_bytes"], f"as the ledger has it, under {config}")


def test_stacks_lead_to_main(build):
    site = next(site for site in run(build, "sites", "1 B").reports[0]["samples"]["sites"] if site["frames"][0].get("symbol") == "take_large")
    names = [frame.get("symbol") for frame in site["frames"]]
    assert "main" in names, names


def test_large_blocks_are_exact_at_the_default(build):
    report = run(build, "sites", "32 MiB").reports[0]
    found = by_function(report)
    # 64 MiB of 32: 86 % of them are sampled, and each then stands for 74 MiB.
    each = 64 * MIB / (1 - math.exp(-2))
    held = found.get("take_large", (0, 0))[0]
    assert abs(held - round(held / each) * each) < 100 and held <= 3 * each + 100, found
    harness.equal(report["samples"]["every_bytes"], 32 * MIB, "the distance")


def test_estimates_lie_within_chance(build):
    # 64 MiB by blocks of 128 KiB, a sample each MiB: 64 samples, give or take 8; five times that is no chance.
    found = by_function(run(build, "sites", "1 MiB").reports[0])
    for name, truth in (("take_small", 64), ("take_large", 192)):
        assert abs(found[name][0] - truth * MIB) < 5 * 8 * MIB, f"{name}: {found[name][0] / MIB} MiB of {truth}"
    assert abs(found["take_large"][0] - 192 * MIB) < MIB // 100, found["take_large"]


def test_none_are_taken(build):
    report = run(build, "sites", "never").reports[0]
    harness.equal(report["samples"], {"every_bytes": 0, "devices": [], "sites": []}, "samples")


def test_the_text_says_it(build):
    text = run(build, "sites", "1 MiB").texts[0]
    assert "WHERE device 0, about: a sample each 1.00 MiB" in text, text
    assert "sampled_sites take_large" in text, text
    text = run(build, "sites", "1 GiB").texts[0]
    assert "WHERE" not in text, text


def test_a_refusal_says_where_most_is_held(build):
    for config in (CHAINS[0], CHAINS[4], '[route]\ndevice = ["limiting", "pool", "cuda"]\n[resource.limiting]\nallocation_limit = "1 GiB"\n'):
        done = run(build, "full", "1 MiB", config)
        failure = done.reports[0]["failures"][0]
        sites = {site["id"]: site["frames"][0].get("symbol") for site in done.reports[0]["samples"]["sites"]}
        harness.equal([sites[one["id"]] for one in failure["sites"]][:1], ["take_large"], config)
        assert "held at     sampled_sites take_large about" in done.texts[0], done.texts[0]


def test_soak(build):
    """Threads that end and are cancelled, forks, exec, signals, small stacks: nothing hangs, nothing breaks, and it adds up."""
    for every in ("1 B", "64 KiB"):
        report = next(report for report in run(build, "soak", every).reports if report["process"]["argv"][1] == "soak")
        harness.equal([one["now_bytes"] for one in report["samples"]["devices"]], [0] if every == "1 B" else
                      [one["now_bytes"] for one in report["samples"]["devices"]], "what is still held")


harness.main(globals())
