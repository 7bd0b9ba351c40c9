"""PyTorch and a GPU for it, or exit code 77: `from torch_here import torch`, after what PyTorch reads from the environment is set."""
import sys

try:
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(77)
if not torch.cuda.is_available():
    print("no CUDA device")
    sys.exit(77)
