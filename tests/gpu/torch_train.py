"""A PyTorch training loop as people write it: a multi-layer perceptron, AdamW without foreach, a fixed seed.

Run plain and preloaded by run.py, which chooses PyTorch's allocator by PYTORCH_NO_CUDA_MEMORY_CACHING or
PYTORCH_ALLOC_CONF. Prints each loss with all its bits, and the time of a step (turns.py). 77 where there is no torch or GPU.
"""
import os

import turns

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
from torch_here import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
layers = []
for _ in range(8):
    layers += [torch.nn.Linear(1024, 1024), torch.nn.GELU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
inputs = torch.randn(256, 1024, device="cuda")
wanted = torch.randint(0, 10, (256,), device="cuda")

losses = []


def one_step(_number):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())


for number in range(20):
    one_step(number)
torch.cuda.synchronize()
turns.timed("PyTorch step", "ms", 40, one_step, torch.cuda.synchronize)
for step, loss in enumerate(losses):
    print(f"step {step} loss {float(loss).hex()}")
