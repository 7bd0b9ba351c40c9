"""A PyTorch step whose parts hold known sizes: two layers' activations, what the backward pass makes, and phases around them.

Run by told.py, cache off, under `gpumem run --phases`. Prints `expected: KIND LINE BYTES` for each: the line of this file that asked
for it. Everything lives to the end, so what is held then is what was asked for. 77 where there is no torch or GPU.
"""
import sys

from torch_here import torch

MIB = 1 << 20
kept = []


def said(kind, size):
    print(f"expected: {kind} {sys._getframe(1).f_lineno + 1} {size}")
    return size


class Grows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, size):
        ctx.size = size
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        kept.append(torch.empty(ctx.size, dtype=torch.uint8, device="cuda"))
        return gradient, None


class Small(torch.nn.Module):
    def forward(self, x):
        size = said("python", 256 * MIB)
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        return Grows.apply(x, 384 * MIB)


class Large(torch.nn.Module):
    def forward(self, x):
        size = said("python", 1024 * MIB)
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        return x * 2


x = torch.ones(16, device="cuda", requires_grad=True)
with torch.cuda.nvtx.range("warm up 1"):
    torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
with torch.cuda.nvtx.range("forward pass 7"):
    y = Large()(Small()(x)).sum()
with torch.cuda.nvtx.range("backward pass 7"):
    y.backward()
print(f"expected: autograd 0 {384 * MIB}")
print(f"expected: phase:warm_up_N 0 {64 * MIB}")
print(f"expected: phase:forward_pass_N 0 {1280 * MIB}")
print(f"expected: phase:backward_pass_N 0 {384 * MIB}")
torch.cuda.synchronize()
