"""Reads figures around a part of its work: what it needed at most, and what it left behind. Runs without gpumem too."""
import contextlib
import ctypes

import gpumem

MIB = 1 << 20


@contextlib.contextmanager
def measured(name, device=0):
    if not gpumem.is_loaded():
        yield
        return
    gpumem.reset_peak(device)
    before = gpumem.get_statistics(device)
    yield
    after = gpumem.get_statistics(device)
    print(f"{name}: at most {(after.peak_bytes - before.current_bytes) / MIB:.0f} MiB, left "
          f"{(after.current_bytes - before.current_bytes) / MIB:.0f} MiB, {after.total_count - before.total_count} allocations")


cuda = ctypes.CDLL("libcudart.so.13")   # in the place of what you use: PyTorch, CuPy, cuDF


def allocate(bytes):
    block = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(bytes)) == 0
    return block


weights = allocate(100 * MIB)
with measured("forward"):
    activations = allocate(300 * MIB)
    output = allocate(20 * MIB)
    cuda.cudaFree(activations)
with measured("backward"):
    gradients = allocate(100 * MIB)
    cuda.cudaFree(output)
print("done")
