"""A PyTorch job that needs 29 GiB: 24 layers of 1 GiB, of which the last 4 are trained by hand for 5 steps.

Run plain and under a 20 GiB limit with a fallback by limits.py; the losses must be equal to the last bit. 77 where there
is no torch, no GPU, or less than 40 GiB of it free.
"""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
from torch_here import torch

# Not torch.cuda.mem_get_info: under the limit it tells the limit.
if torch.cuda.get_device_properties(0).total_memory < 40 << 30:
    print("the device has less than 40 GiB")
    sys.exit(77)

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
SIDE = 16384
layers = [torch.randn(SIDE, SIDE, device="cuda").mul_(SIDE ** -0.5) for _ in range(24)]
trained = layers[-4:]
for layer in trained:
    layer.requires_grad_(True)
inputs = torch.randn(64, SIDE, device="cuda")
for step in range(5):
    hidden = inputs
    for layer in layers:
        hidden = torch.tanh(hidden @ layer)
    loss = hidden.square().mean()
    loss.backward()
    with torch.no_grad():
        for layer in trained:
            layer.sub_(layer.grad, alpha=0.1)
            layer.grad = None
    print(f"step {step} loss {float(loss).hex()}")
print(f"held {torch.cuda.max_memory_reserved() >> 30} GiB or more")
