"""What PyTorch's profiler sees of its cudaMalloc and cudaFree with the cache off: each of them, plain and preloaded.

77 where there is no torch or GPU.
"""
import collections
import os
import sys

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
from torch_here import torch
from torch.profiler import ProfilerActivity, profile

layer = torch.nn.Linear(512, 512).cuda()
inputs = torch.randn(64, 512, device="cuda")


def steps(count):
    for _ in range(count):
        layer(inputs).relu().sum().backward()
        layer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()


steps(5)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
    steps(10)
calls = collections.Counter(event.name for event in seen.events())
print("cudaMalloc", calls["cudaMalloc"], "cudaFree", calls["cudaFree"])
sys.exit(0 if calls["cudaMalloc"] >= 10 and calls["cudaFree"] >= 10 else 1)
