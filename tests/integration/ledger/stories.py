"""The report after stories about memory: what it says must be what the simulated driver knows, to the byte.

stories.py BUILD [test...]; see harness.main. The programs are ledger_stories.cpp's; contexts take 3 MiB for themselves here.
"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

MIB = 1 << 20
CONTEXT = 3 * MIB
CHAINS = (
    None, '[route]\ndevice = ["cuda"]\n', '[route]\ndevice = ["pool", "vmm"]\n', '[route]\ndevice = ["arena", "cuda"]\n',
    '[route]\ndevice = ["statistics", "tracking", "logging", "pool", "managed"]\n',
    '[route]\ndevice = ["binning", "pool", "cuda"]\n[resource.binning]\nbins = [ { max = "1 GiB" } ]\n',
    '[route]\ndevice = ["limiting", "fallback"]\n[resource.limiting]\nallocation_limit = "4 GiB"\n[resource.fallback]\n'
    'chains = [["small", "cuda"], ["managed"]]\n[resource.small]\ntype = "limiting"\nallocation_limit = "100 MiB"\n',
)


def tell(build, story, config=None):
    with tempfile.TemporaryDirectory(prefix="gpumem-ledger.") as folder:
        env = {"GPUMEM_SIMULATED_CONTEXT": str(CONTEXT)}
        if config is not None:
            (pathlib.Path(folder) / "chain.toml").write_text("version = 1\n" + config)
            env["GPUMEM_CONFIG"] = str(pathlib.Path(folder) / "chain.toml")
        done = build.run([build.program("ledger_stories"), story], preload=True, env=env, cwd=folder)
    harness.equal(done.code, 0, done.stderr)
    report = done.reports[0]
    known = done.known[report["process"]["pid"]]
    harness.equal(harness.ledger_faults(report, known), [], f"{story} under {config}")
    return report, known


def node(report, name):
    return next(node for chain in report["chains"] for node in chain["nodes"] if node["name"] == name)


def test_a_reset_takes_its_blocks_out(build):
    for config in CHAINS:
        report, _ = tell(build, "resets", config)
        device = report["devices"][0]
        harness.equal((device["live_blocks"], device["now"]["requested_bytes"], device["now"]["reserved_bytes"]), (0, 0, 0), config)
        harness.equal(device["counters"]["lost_blocks"], 20, "blocks that went with their context")
        harness.equal([found for found in report["findings"] if found["level"] == "!!"], [], "what stands out")
        if config is not None and "fallback" in config:
            most = max(part.get("highest_bytes", 0) for chain in report["chains"] for part in chain["nodes"])
            harness.equal(most, 256 * MIB, "spilled at one time")
        for chain in report["chains"]:
            for part in chain["nodes"]:
                harness.equal(part["now_bytes"], 0, f"{part['name']} has handed out")


def test_unseen_is_of_one_moment(build):
    report, _ = tell(build, "managed")
    ledger = report["devices"][0]["now"]
    harness.equal((ledger["unseen_bytes"], ledger["elsewhere_bytes"]), (CONTEXT, 0), "not seen: the context")
    harness.equal([finding for finding in report["findings"] if "came into use" in finding["text"]], [], "growth")


def test_a_peak_that_no_driver_call_tells(build):
    report, known = tell(build, "slow_peak", '[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\ninitial_pool_size = "4 GiB"\n')
    device = report["devices"][0]
    for what in (device["highest_requested_bytes"], device["at_peak"]["requested_bytes"], max(report["timeline"][0]["requested_bytes"])):
        assert abs(what - 3000 * MIB) <= 30 * MIB, f"{what / MIB} MiB"


def test_a_peak_of_threads_that_free_for_each_other(build):
    report, known = tell(build, "peak_of_threads")
    highest, most = report["devices"][0]["highest_requested_bytes"], known[0]["most_live"]
    assert most > 300 * MIB and abs(highest - most) <= 8 * MIB, f"{highest} in the report, {most} in truth"


def test_observed_memory_leaves_before_it_is_freed(build):
    for _ in range(8):  # a race, which every second attempt or so wins
        report, _ = tell(build, "race")
        device = report["devices"][0]
        harness.equal(device["now"]["observed_bytes"], 16 * MIB, "held at the end")
        assert device["highest_observed_bytes"] <= 16 * MIB, f"never more than four blocks at a time: {device['highest_observed_bytes']}"


def test_memory_stands_on_its_device(build):
    for config in (None, '[route]\ndevice = "passthrough"\n'):
        report, _ = tell(build, "other_device", config)
        held = {device["device"]: device["now"]["observed_bytes"] + device["now"]["reserved_bytes"] for device in report["devices"]}
        assert held.get(0, 0) == 0 and held[1] >= 92 * MIB, held


def test_a_refused_free_gives_nothing_back(build):
    report, _ = tell(build, "refused_free")
    harness.equal(report["devices"][0]["now"]["observed_bytes"], 32 * MIB, "seen")


def test_what_a_capture_asks_for_is_not_held(build):
    report, _ = tell(build, "captured")
    harness.equal(report["devices"][0]["now"]["observed_bytes"], 4 * MIB, "seen")


def test_what_is_refused_was_not_handed_out(build):
    report, _ = tell(build, "refused_requests")
    pool = node(report, "pool")
    harness.equal((pool["handed_out_bytes"], pool["now_bytes"]), (MIB, 0), "handed out")
    harness.equal((pool["requests"], pool["failed"]), (4, 3), "requests, and those refused")
    assert pool["hits"] == 0, "a hit asks nothing of upstream"


if __name__ == "__main__":
    harness.main(globals())
