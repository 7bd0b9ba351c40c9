"""A PyTorch job with DistributedDataParallel, one process a GPU, and three libraries that take memory of their own: torch_ddp.py LIBRARY...

Run by told.py. Each rank trains some steps of a small network, has each library take its size of ALONE and keeps it. Prints `expected:
LIBRARY BYTES` for each. With one GPU there is one rank, over gloo, and no NCCL; 77 where there is no torch or GPU.
"""
import ctypes
import datetime
import pathlib
import sys
import tempfile

from torch_here import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing

MIB = 1 << 20
ALONE = (96 * MIB, 300 * MIB, 640 * MIB)


def rank_main(rank, ranks, folder, libraries):
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    distributed.init_process_group("nccl" if ranks > 1 else "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks,
                                   timeout=datetime.timedelta(seconds=60))
    model = torch.nn.Sequential(*[layer for _ in range(6) for layer in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]).to(device)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for library, size in zip(libraries, ALONE):
        take = ctypes.CDLL(library).take
        take.argtypes, take.restype = (ctypes.c_size_t,), ctypes.c_uint64
        assert take(size), f"{library}: no memory"
    for _ in range(10):
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(512, 2048, device=device)).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    distributed.barrier()


def main():
    ranks = min(2, torch.cuda.device_count())
    libraries = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank_main, args=(ranks, folder, libraries), nprocs=ranks)
    print(f"ranks: {ranks}")
    for library, size in zip(libraries, ALONE):
        print(f"expected: {pathlib.Path(library).name} {size}")


if __name__ == "__main__":
    main()
