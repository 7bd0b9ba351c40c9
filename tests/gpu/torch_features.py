"""What PyTorch does with device memory beyond a training step: graphs, side streams, pinned memory, libraries' workspaces, pools of
the program, an allocator of its own, workers, NCCL.

torch_features.py [FEATURE...]; see features.main. Run plain and preloaded by run.py, with PyTorch's cache and others. Not `compiled`
without being asked for: it takes a minute. 77 where there is no torch or GPU.
"""
import os
import pathlib
import tempfile
import threading

from torch_here import torch
import features

torch.manual_seed(1)
MIB = 1 << 20


def model(width=512):
    torch.manual_seed(2)
    layers = [torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width), torch.nn.Linear(width, 10)]
    return torch.nn.Sequential(*layers).cuda()


def total(tensor):
    return float(tensor.double().sum())


def needs_own_cache():
    """Private pools and the history are the native cache's; without a cache a capture refuses what a graph's tensors ask for."""
    if torch.cuda.memory.get_allocator_backend() != "native" or os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        raise features.Missing("another cache than PyTorch's native one")


def feature_graphs_that_share_a_pool():
    needs_own_cache()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    given = torch.ones(1 << 20, device="cuda")
    with torch.cuda.graph(first):
        between = (given * 2).sort().values.cumsum(0)
    with torch.cuda.graph(second, pool=first.pool()):
        result = (between + given).softmax(0)
    found = []
    for turn in range(20):
        given.fill_(turn / 100)
        first.replay()
        others = [torch.full((1 << 18,), 7.0, device="cuda") for _ in range(8)]
        second.replay()
        found.append(total(result) + total(between) / 1e12 + total(others[3]) * 0)
    del first, second, between, result
    torch.cuda.empty_cache()
    return sum(found)


def feature_graphed_callables():
    needs_own_cache()
    given = torch.randn(64, 512, device="cuda", generator=torch.Generator("cuda").manual_seed(3))
    graphed = torch.cuda.make_graphed_callables(model(), (given.clone().requires_grad_(),))
    losses = []
    for _ in range(10):
        graphed.zero_grad(set_to_none=True)
        loss = graphed(given).square().mean()
        loss.backward()
        losses.append(float(loss))
    return losses[0], losses[-1]


def feature_side_streams():
    streams = [torch.cuda.Stream() for _ in range(6)]
    found = 0.0
    for turn in range(200):
        block = torch.full((1 << 16,), float(turn), device="cuda")
        stream = streams[turn % 6]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            block.record_stream(stream)
            copied = block * 2
            copied.record_stream(torch.cuda.current_stream())
        del block
        torch.cuda.current_stream().wait_stream(stream)
        found += total(copied)
    return found


def feature_workers_and_pinned_memory():
    data = torch.utils.data.TensorDataset(torch.arange(4096, dtype=torch.float32).reshape(256, 16))
    loader = torch.utils.data.DataLoader(data, batch_size=16, num_workers=2, pin_memory=True, multiprocessing_context="fork")
    return sum(total(batch.cuda(non_blocking=True)) for _ in range(2) for batch, in loader)


def feature_registered_memory():
    runtime = torch.cuda.cudart()
    host = torch.arange(1 << 20, dtype=torch.float32)
    codes = [int(runtime.cudaHostRegister(host.data_ptr(), host.numel() * 4, 0))]
    copied = host.cuda(non_blocking=True)
    torch.cuda.synchronize()
    codes.append(int(runtime.cudaHostUnregister(host.data_ptr())))
    pinned = torch.empty(3 * MIB, dtype=torch.uint8, pin_memory=True)
    return codes, total(copied), pinned.is_pinned(), host.is_pinned()


def feature_pools_of_the_program():
    needs_own_cache()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = [torch.full((MIB,), float(each), device="cuda") for each in range(20)]
    outside = torch.ones(MIB, device="cuda")
    found = sum(total(each) for each in inside) + total(outside)
    inside.clear()
    del pool
    torch.cuda.empty_cache()
    return found


def feature_libraries():
    numbers = torch.Generator("cuda").manual_seed(4)
    square = torch.randn(512, 512, device="cuda", generator=numbers)
    image = torch.randn(8, 16, 64, 64, device="cuda", generator=numbers)
    weight = torch.randn(32, 16, 3, 3, device="cuda", generator=numbers)
    sparse = (square * (square > 1)).to_sparse_csr()
    symmetric = square @ square.T + 512 * torch.eye(512, device="cuda")
    return (total(torch.nn.functional.conv2d(image, weight, padding=1).abs()), total((square.half() @ square.half()).abs()),
            total((square.bfloat16() @ square.bfloat16()).abs()), total(torch.fft.rfft2(image).abs()), total(torch.linalg.svdvals(square)),
            total(torch.linalg.cholesky(symmetric).abs()), total(torch.linalg.inv(symmetric).abs()), total(torch.linalg.eigvalsh(symmetric)),
            total((sparse @ square).abs()), total(torch.unique((square * 10).int())), total(image.flatten().sort().values[::1000].abs()),
            total(torch.nn.functional.embedding_bag(torch.arange(512, device="cuda").reshape(64, 8), square).abs()))


def feature_attention():
    numbers = torch.Generator("cuda").manual_seed(5)
    query, key, value = (torch.randn(4, 8, 256, 64, device="cuda", dtype=torch.float16, generator=numbers, requires_grad=True) for _ in range(3))
    found = []
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(backend):
            out = torch.nn.functional.scaled_dot_product_attention(query, key, value)
            gradient, = torch.autograd.grad(out.float().square().sum(), key)
        found += [round(total(out.abs()), -3), round(total(gradient.abs()), -3)]
    return found


def feature_mixed_precision():
    trained, given = model(), torch.randn(256, 512, device="cuda", generator=torch.Generator("cuda").manual_seed(6))
    optimizer, scaler = torch.optim.AdamW(trained.parameters(), fused=True), torch.amp.GradScaler()
    for _ in range(10):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            hidden = torch.utils.checkpoint.checkpoint(trained, given, use_reentrant=False)
            loss = hidden.float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return round(float(loss), 2)


def feature_threads():
    found = [0.0] * 8

    def work(own):
        with torch.cuda.stream(torch.cuda.Stream()):
            for turn in range(50):
                block = torch.full((1 << 16 | own << 8,), float(own), device="cuda")
                found[own] += total(block.sqrt() + turn)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def feature_memory_history():
    needs_own_cache()
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(max_entries=1000)
    kept = [torch.empty((1 + each) * MIB, dtype=torch.uint8, device="cuda") for each in range(30)]
    del kept[::2]
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    actions = [entry["action"] for trace in snapshot["device_traces"] for entry in trace]
    return len(snapshot["segments"]), len(actions), actions.count("alloc"), actions.count("free_completed")


def feature_refusals():
    found = []
    for size in (1 << 45, 1 << 60):
        try:
            torch.empty(size, dtype=torch.uint8, device="cuda")
        except (torch.OutOfMemoryError, RuntimeError) as refused:
            found.append(type(refused).__name__)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.05)
    try:
        kept = [torch.empty(256 * MIB, dtype=torch.uint8, device="cuda") for _ in range(600)]
        found.append(len(kept))
    except (torch.OutOfMemoryError, RuntimeError) as refused:
        found.append(type(refused).__name__)
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()
    return found + [total(torch.ones(MIB, device="cuda"))]


def feature_blocks_by_address():
    addresses = [torch.cuda.caching_allocator_alloc(each * 1000 + 1) for each in range(20)]
    for address in addresses:
        torch.cuda.caching_allocator_delete(address)
    return len(set(addresses)), all(address % 512 == 0 for address in addresses)


def feature_arrays_of_others():
    try:
        import cupy
    except ImportError:
        raise features.Missing("no CuPy") from None
    mine = torch.arange(1 << 16, device="cuda", dtype=torch.float32)
    theirs = cupy.from_dlpack(mine)
    theirs *= 2
    back = torch.from_dlpack(cupy.arange(1 << 16, dtype=cupy.float32) + theirs)
    cupy.cuda.Device().synchronize()
    del theirs, mine
    return total(back)


def feature_nccl():
    import torch.distributed as distributed
    if not distributed.is_nccl_available():
        raise features.Missing("no NCCL")
    with tempfile.TemporaryDirectory() as folder:
        distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1, device_id=torch.device("cuda:0"))
        block = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
        distributed.all_reduce(block)
        gathered = [torch.empty_like(block)]
        distributed.all_gather(gathered, block)
        found = [total(block), total(gathered[0])]
        distributed.destroy_process_group()
    return found


def feature_an_allocator_of_the_program():
    needs_own_cache()
    library = pathlib.Path(os.environ.get("TEST_PROGRAMS", "")) / "plug_in_allocator.so"
    if not library.exists():
        raise features.Missing("no plug_in_allocator.so")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(library), "plug_in_alloc", "plug_in_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    with torch.cuda.use_mem_pool(pool):
        inside = [torch.full((MIB + each,), float(each), device="cuda") for each in range(20)]
    found = sum(total(each) for each in inside)
    inside.clear()
    del pool
    return found


def feature_compiled():
    found = []
    for mode in ("default", "reduce-overhead"):
        torch._dynamo.reset()
        trained = model()
        compiled = torch.compile(trained, mode=mode)
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
        given = torch.randn(128, 512, device="cuda", generator=torch.Generator("cuda").manual_seed(7))
        for _ in range(8):
            optimizer.zero_grad(set_to_none=True)
            loss = compiled(given).square().mean()
            loss.backward()
            optimizer.step()
        found.append(round(float(loss), 3))
    return found


if __name__ == "__main__":
    slow = ("feature_compiled",)
    import sys
    features.main({name: made for name, made in globals().items() if name not in slow or sys.argv[1:]})
