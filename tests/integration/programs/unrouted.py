"""What the report says of memory that no chain serves, and what becomes of memory that another process may have open.

unrouted.py BUILD [test...]; see harness.main.
"""
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness


def figures(outcome):
    harness.equal(outcome.code, 0, f"exit code, {outcome.stderr}")
    return [int(figure) for figure in re.findall(r"\d+", outcome.stdout)]


def ledger(outcome):
    harness.equal(len(outcome.reports), 1, "reports")
    return outcome.reports[0]["devices"][0]["now"]


def virtual_memory(build, mode):
    command = [build.program("virtual_memory.driver"), mode]
    plain, preloaded = build.run(command), build.run(command, preload=True)
    harness.equal(harness.differences(plain, preloaded), [], "differences")
    harness.equal(ledger(preloaded)["observed_bytes"], figures(plain)[0], "bytes seen, not routed")


def test_virtual_memory_is_counted_by_handle(build):
    virtual_memory(build, "handles")


def test_mappings_of_a_refused_unmap_hold_their_memory(build):
    virtual_memory(build, "refused")


def test_the_most_that_was_seen_is_told_after_it_went(build):
    command = [build.program("virtual_memory.driver"), "freed"]
    plain, preloaded = build.run(command), build.run(command, preload=True)
    harness.equal(harness.differences(plain, preloaded), [], "differences")
    left, highest = figures(plain)
    harness.equal(ledger(preloaded)["observed_bytes"], left, "bytes seen, not routed")
    device = preloaded.reports[0]["devices"][0]
    harness.equal(device["highest_observed_bytes"], highest, "the most of them")
    assert device["name"], "the device has no name"


def test_what_no_hook_saw_is_named(build):
    outcome = build.run([build.program("virtual_memory.driver"), "pool"], preload=True)
    left, taken = figures(outcome)
    assert taken > left, f"the pool took only {taken}: nothing was left to see"
    row = ledger(outcome)
    harness.equal(row["observed_bytes"], left, "bytes seen, not routed")
    harness.equal(row["unseen_bytes"], taken - left, "bytes not seen")


def test_memory_that_cannot_be_exported_is_said_so(build):
    config = pathlib.Path(__file__).resolve().parent / "configs" / "pool_over_vmm.toml"
    outcome = build.run([build.program("ipc_pair.shared")], preload=True, env={"GPUMEM_CONFIG": str(config)})
    assert outcome.code != 0, "the driver shared memory of vmm"
    assert "end the chain with cuda" in outcome.stderr, outcome.stderr


def test_host_memory_is_on_no_device(build):
    command = [build.program("virtual_memory.driver"), "host"]
    plain, preloaded = build.run(command), build.run(command, preload=True)
    harness.equal(harness.differences(plain, preloaded), [], "differences")
    harness.equal(figures(plain), [0, 0], "bytes left, code of cuMemCreate")
    harness.equal(ledger(preloaded)["observed_bytes"], 0, "bytes seen, not routed")


# Makes a context and asks for no memory, or for a block.
CONTEXT = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, block, free, total = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
codes = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
         cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))]
if sys.argv[1] == "block":
    codes.append(cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(4096)))
sys.exit(any(codes))
"""


def test_a_device_and_a_chain_are_there_once_they_are_used(build):
    for what, wanted in (("nothing", ([], [])), ("block", ([0], ["device"]))):
        outcome = build.run([sys.executable, "-c", CONTEXT, what], preload=True)
        harness.equal(outcome.code, 0, f"exit code, {outcome.stderr}")
        report = outcome.reports[0]
        found = [device["device"] for device in report["devices"]], [chain["route"] for chain in report["chains"]]
        harness.equal(found, wanted, f"devices and chains of a program that asks for {what}")


def test_what_a_chain_takes_at_first_is_not_taken_ahead(build):
    for size in ("64 MiB", "10 % of total", "10 % of free"):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write(f'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\ninitial_pool_size = "{size}"\n')
            config.flush()
            outcome = build.run([sys.executable, "-c", CONTEXT, "nothing"], preload=True, env={"GPUMEM_CONFIG": config.name})
        harness.equal(outcome.code, 0, f"exit code, {outcome.stderr}")
        harness.equal(outcome.reports[0]["devices"], [], f"devices of a program that asks for nothing, of {size}")


def exported(build, library=None, env=None):
    extra = dict(env or {})
    if library:
        extra["LD_PRELOAD"] = str(build.folder / library)
    return figures(build.run([build.program("ipc_exported.shared")], preload=True, env=extra))[0]


def test_exported_memory_serves_nobody(build):
    for config in (None, "binning", "arena"):
        env = {"GPUMEM_CONFIG": str(pathlib.Path(__file__).resolve().parent / "configs" / f"{config}.toml")} if config else {}
        harness.equal(exported(build, env=env), 0, f"bytes that changed under an importer, {config or 'default'}")


def test_the_bug_that_exported_memory_serves_is_caught(build):
    assert exported(build, "libgpumem_mutant.so", {"TEST_MUTANT": "exported_served"}) > 0, "not caught"


harness.main(globals())
