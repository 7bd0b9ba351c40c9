"""The loop of tests/gpu/cupy_loop.py with CuPy's own memory pool on, which that file switches off: the peer to compare with.

Run plain by bench.py. 77 where there is no CuPy or GPU.
"""
import pathlib
import runpy
import sys

try:
    import cupy
except ImportError as missing:
    print(missing)
    sys.exit(77)

cupy.cuda.set_allocator = cupy.cuda.set_pinned_memory_allocator = lambda allocator: None
GPU = pathlib.Path(__file__).resolve().parents[2] / "gpu"
sys.path.insert(0, str(GPU))
runpy.run_path(str(GPU / "cupy_loop.py"))
