"""All-reduces of NCCL over two GPUs beside memory that goes back: nccl_rounds.py ROUNDS.

One process a GPU, PyTorch's cache off. Each round is an all-reduce of 64 KiB and a wait for it; every 50th takes and frees a block of 1 to
2048 MiB as well, the one in the middle a block of 40 GiB. Prints the longest round, and the longest without a block; 77 with fewer than two GPUs.
Called by memory_returns.py.
"""
import datetime
import os
import random
import sys
import tempfile
import time

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
from torch_here import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing

RANKS = 2


def block(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def rank_main(rank, rounds, folder):
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS,
                                   timeout=datetime.timedelta(seconds=60), device_id=torch.device("cuda", rank))
    values = torch.ones(16 << 10, device="cuda")
    sizes, with_block, without = random.Random(rank), [], []
    for number in range(rounds + 100):
        begin = time.perf_counter()
        if number % 50 == 49:
            taken = block(40 << 10 if number == rounds // 2 + 49 - rounds // 2 % 50 else 1 + sizes.randrange(2048))
            del taken
        distributed.all_reduce(values)
        torch.cuda.current_stream().synchronize()
        took = (time.perf_counter() - begin) * 1e3
        if number >= 100:
            (with_block if number % 50 == 49 else without).append(took)
        if number % 20 == 0:
            values.fill_(1)
    distributed.barrier()
    torch.cuda.synchronize()
    values.fill_(1)
    distributed.all_reduce(values)
    wrong = int((values != RANKS).sum())
    distributed.destroy_process_group()
    with open(f"{folder}/rank{rank}", "w") as out:
        worst = lambda times: f"{max(times):.2f} ms, 99 of 100 {sorted(times)[len(times) * 99 // 100]:.3f} ms"
        out.write(f"rank {rank}: {rounds} rounds, {wrong} wrong; longest with a block {worst(with_block)}; longest of the others {worst(without)}")


def main():
    if torch.cuda.device_count() < RANKS:
        print(f"needs {RANKS} GPUs, {torch.cuda.device_count()} found")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank_main, args=(int(sys.argv[1]), folder), nprocs=RANKS)
        print("\n".join(open(os.path.join(folder, f"rank{rank}")).read() for rank in range(RANKS)))


if __name__ == "__main__":
    main()
