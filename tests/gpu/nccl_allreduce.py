"""NCCL all-reduce over two GPUs by torch.distributed, one process a rank, 1 KiB to 256 MiB, every element checked.

Buffers are made anew for each size and pass, so that NCCL meets fresh and reused blocks. NCCL_CUMEM_ENABLE comes from the
case. Run plain and preloaded by run.py; 77 with fewer than two GPUs.
"""
import datetime
import os
import sys
import tempfile

try:
    import torch
    import torch.distributed as distributed
    import torch.multiprocessing as multiprocessing
except ImportError as missing:
    print(missing)
    sys.exit(77)

RANKS = 2


def rank_main(rank, folder):
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    distributed.init_process_group("nccl", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS,
                                   timeout=datetime.timedelta(seconds=60), device_id=device)
    wrong = 0
    for exponent in range(10, 29, 2):
        for repeat in range(4):
            values = torch.arange(1 << (exponent - 2), dtype=torch.int32, device=device) + rank * (repeat + 1)
            distributed.all_reduce(values)
            wanted = torch.arange(1 << (exponent - 2), dtype=torch.int32, device=device) * 2 + repeat + 1
            wrong += int((values != wanted).sum())
            del values, wanted
    distributed.destroy_process_group()
    with open(f"{folder}/rank{rank}", "w") as out:
        out.write(f"rank {rank}: 10 sizes, {wrong} wrong elements")


def main():
    if torch.cuda.device_count() < RANKS:
        print(f"needs {RANKS} GPUs, {torch.cuda.device_count()} found")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank_main, args=(folder,), nprocs=RANKS)
        lines = [open(os.path.join(folder, f"rank{rank}")).read() for rank in range(RANKS)]
    print("\n".join(lines))
    sys.exit(0 if all(" 0 wrong" in line for line in lines) else 1)


if __name__ == "__main__":
    main()
