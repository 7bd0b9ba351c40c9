"""A program that fills the device with large blocks of any size until one is refused: how many bytes its chain takes from the driver.

full_device.py BUILD [test...]; see harness.main. The program is the benchmark `refused`, on a device as large as an H200.
"""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness

DEVICE = {"GPUMEM_SIMULATED_MEMORY": str(139 << 30)}
EXACT = ("pool", 'sparing_beyond = "75 % of total"')   # set: the pool takes no more than a request


def run(build, allocator, chain=None):
    """Of 1000 requests those that were refused, and the bytes that the chain, a resource and its options, had from the driver."""
    program = [build.program("bench.static"), "refused", allocator]
    with tempfile.TemporaryDirectory(prefix="gpumem-full.") as folder:
        path = pathlib.Path(folder) / "chain.toml"
        if chain is not None:
            path.write_text(f'version = 1\n[route]\ndevice = ["{chain[0]}", "cuda"]\n[resource.{chain[0]}]\n{chain[1]}\n')
        outcome = build.run(program, preload=chain is not None, env={**DEVICE, "GPUMEM_CONFIG": str(path) if chain else None})
    harness.equal(outcome.code, 0, f"exit code, {outcome.stderr}")
    refused = [json.loads(line)["value"] for line in outcome.stdout.splitlines() if "refused of 1000" in line]
    taken = sum(node["handed_out_bytes"] for report in outcome.reports for each in report["chains"] for node in each["nodes"]
                if node["type"] == "cuda")
    return refused[0], taken


def test_growths_that_take_the_remainder_need_fewer_bytes(build):
    for allocator in ("malloc", "async"):
        native, _ = run(build, allocator)
        _, exact = run(build, allocator, EXACT)
        assert exact > 400 << 30, f"{exact >> 30} GiB: memory does not come and go"
        for resource in ("pool", "arena"):
            refused, taken = run(build, allocator, (resource, ""))
            assert taken < 0.8 * exact, f"{resource}, {allocator}: {taken >> 30} GiB of {exact >> 30}"
            assert abs(refused - native) < 10, f"{resource}, {allocator}: {refused} refused, natively {native}"


harness.main(globals())
