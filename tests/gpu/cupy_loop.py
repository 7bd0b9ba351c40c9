"""CuPy with its memory pool off, so that every array is a cudaMalloc: arithmetic, a sort and a product in a loop.

Run plain and preloaded by run.py. Prints checksums and the time of a round. 77 where there is no CuPy or GPU.
"""
import sys

import turns

try:
    import cupy
    cupy.cuda.runtime.getDeviceCount()
except Exception as missing:  # CuPy raises its own types, and ImportError
    print(missing)
    sys.exit(77)

cupy.cuda.set_allocator(None)
cupy.cuda.set_pinned_memory_allocator(None)
values = cupy.arange(1 << 16, dtype=cupy.float32)
matrix = cupy.arange(256 * 256, dtype=cupy.float32).reshape(256, 256) % 7


def one_round(number):
    scaled = values * cupy.float32(number % 13) + cupy.float32(1)
    mixed = cupy.sort((scaled * 7919) % 4096)
    return mixed[::4096] + (matrix @ matrix)[0, 0]


for number in range(20):
    one_round(number)
cupy.cuda.Device().synchronize()
turns.timed("CuPy round, pool off", "us", 300, one_round, cupy.cuda.Device().synchronize)
for number in (0, 5, 99):
    print(f"round {number}", [float(x).hex() for x in one_round(number).get()])
