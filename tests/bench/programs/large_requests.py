"""A PyTorch loop that asks for 1 GiB a millisecond: a matrix product of about that time between request and free.

Run by real_programs.py in turns, under gpumem with and without samples and recorded. 77 where there is no torch or GPU.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gpu"))
import turns
from torch_here import torch

torch.backends.cuda.matmul.allow_tf32 = False
left, right = (torch.randn(2560, 2560, device="cuda") for _ in range(2))
out = torch.empty(2560, 2560, device="cuda")


def one_step(_number):
    block = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    torch.mm(left, right, out=out)
    torch.cuda.current_stream().synchronize()
    del block


for number in range(50):
    one_step(number)
turns.timed("1 GiB a millisecond", "ms", 1000, one_step, torch.cuda.synchronize)
