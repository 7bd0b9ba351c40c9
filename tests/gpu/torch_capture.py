"""What PyTorch is refused inside a graph capture, and what it is not: each mode of torch.cuda.graph with its cache and without.

Run plain and preloaded by run.py, which sets PYTORCH_NO_CUDA_MEMORY_CACHING. Without a cache each tensor is a cudaMalloc, which a
capture in global or thread-local mode refuses and does not survive; in relaxed mode it is served. Prints the kind of each
error, and that PyTorch works on afterwards. 77 where there is no torch or GPU.
"""
import re

from torch_here import torch

CODES = re.compile(r"CUDA error: [a-z ]+|cudaError\w+")


def captured(mode):
    graph = torch.cuda.CUDAGraph()
    kept = torch.ones(1024, device="cuda")
    try:
        with torch.cuda.graph(graph, capture_error_mode=mode):
            doubled = kept * 2
            tripled = doubled + kept
        graph.replay()
        torch.cuda.synchronize()
        return f"replayed, {float(tripled.sum())}"
    except (RuntimeError, torch.AcceleratorError) as refused:
        found = CODES.search(str(refused))
        return f"refused: {found.group(0).strip() if found else str(refused).splitlines()[0]}"


def works():
    torch.cuda.synchronize()
    numbers = torch.arange(4096, device="cuda", dtype=torch.float64)
    return float((numbers * 2).sum())


torch.ones(1, device="cuda")
for mode in ("global", "thread_local", "relaxed"):
    print(f"{mode}: {captured(mode)}", flush=True)
    try:
        print(f"after it: {works()}", flush=True)
    except RuntimeError as broken:
        print(f"after it: {str(broken).splitlines()[0]}", flush=True)
