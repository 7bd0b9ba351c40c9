"""What torch.cuda.memory_stats says with backend:cudaMallocAsync, which asks the device's default memory pool.

Run plain and preloaded by run.py, which chooses the backend. Blocks of many sizes come and go, peaks are reset, empty_cache gives
back; then a few steps of a training, whose highest use is told. 77 where there is no torch or GPU.
"""
from torch_here import torch

MIB = 1 << 20


def show(what, reserved=True):
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    rows = ("allocated_bytes", "reserved_bytes") if reserved else ("allocated_bytes",)
    print(f"{what}:", *(f"{row} {stats[f'{row}.all.current']} at most {stats[f'{row}.all.peak']}" for row in rows), flush=True)


def blocks():
    kept = []
    for size in (100 * MIB, 20 * MIB, 3 * MIB, 1000, 513, 1):
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        show(f"{size} more")
    assert torch.cuda.memory_allocated() == torch.cuda.memory_stats()["allocated_bytes.all.current"]
    assert torch.cuda.memory_reserved() == torch.cuda.memory_stats()["reserved_bytes.all.current"]
    while kept:
        kept.pop()
        show("one less")
    torch.cuda.reset_peak_memory_stats()
    show("peaks forgotten")
    torch.cuda.empty_cache()
    show("emptied")


def on_two_streams():
    other = torch.cuda.Stream()
    kept = []
    for i in range(50):
        with torch.cuda.stream(other if i % 2 else torch.cuda.current_stream()):
            kept.append(torch.full((1 + i * 997,), i, dtype=torch.int32, device="cuda"))
        if i % 3 == 0:
            del kept[i // 5 % len(kept)]
        print(torch.cuda.memory_allocated(), end=" ")
    torch.cuda.synchronize()
    print(sum(int(t[0]) for t in kept))
    kept.clear()
    show("two streams", reserved=False)


def training():
    torch.manual_seed(7)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    torch.cuda.reset_peak_memory_stats()
    for step in range(5):
        loss = model(torch.ones(256, 1024, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        show(f"step {step}", reserved=False)


assert torch.cuda.get_allocator_backend() == "cudaMallocAsync", torch.cuda.get_allocator_backend()
show("at the start")
blocks()
on_two_streams()
training()
