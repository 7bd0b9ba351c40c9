"""Programs that fill the device until a request is refused: how many bytes their chains take from the driver, and what is
answered at that limit and after it.

full_device.py BUILD [test...]; see harness.main. The first is the benchmark `refused`, on a device as large as an H200.
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


# The first export of a process, with every byte of the device in use, and another once there is room.
EXPORTS = """
import ctypes
cuda = ctypes.CDLL('libcuda.so.1')
context, blocks = ctypes.c_void_p(), []
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
def take(size):
    block = ctypes.c_uint64()
    code = cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size))
    blocks.append(block)
    return code
def export(block):
    return cuda.cuIpcGetMemHandle(ctypes.create_string_buffer(64), block)
for size in (1 << 20, 1 << 16, 512):
    while take(size) == 0: pass
    blocks.pop()
print('full', export(blocks[0]))
for block in blocks[1:]: cuda.cuMemFree_v2(block)
print('with room', export(blocks[0]))
"""


def test_an_export_at_the_limit_does_not_end_all_exports(build):
    for config in ("", 'version = 1\n[route]\ndevice = ["pool", "cuda"]\n[resource.pool]\nrelease_threshold = "0 B"\n'):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as chain:
            chain.write(config or "version = 1\n")
            chain.flush()
            outcome = build.run([sys.executable, "-c", EXPORTS], preload=True,
                                env={"GPUMEM_SIMULATED_MEMORY": str(64 << 20), "GPUMEM_CONFIG": chain.name})
        full, room = (line.split()[-1] for line in outcome.stdout.splitlines())
        harness.equal(room, "0", f"an export once there is room, {outcome.stderr}")
        assert full == "0" or "no memory" in outcome.stderr, f"{full} without a reason, {outcome.stderr}"


harness.main(globals())
