"""A JAX program that takes its share of the device as it comes (75 %), and prints what it was told there is.

Run under a 10 GiB limit by limits.py. 77 where there is no JAX or GPU.
"""
import ctypes
import sys

try:
    import jax
    import jax.numpy as jnp
    device = jax.devices("gpu")[0]
except Exception as missing:  # no JAX, or no GPU plugin, each with its own type
    print(missing)
    sys.exit(77)

blocks = [jnp.full((256, 1024, 1024), number, jnp.float32) for number in range(6)]  # 1 GiB each
total = sum(float(block.mean()) for block in blocks)
print(f"mean sum {total}")
driver = ctypes.CDLL("libcuda.so.1")
free, seen, whole = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
codes = driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(seen)), driver.cuDeviceTotalMem_v2(ctypes.byref(whole), 0)
print(f"codes {codes} total {seen.value >> 20} MiB device {whole.value >> 20} MiB")
print(f"held {(seen.value - free.value) >> 20} MiB")
print(f"pool {device.memory_stats()['bytes_limit'] >> 20} MiB")
try:
    jnp.zeros((16, 256, 1024, 1024), jnp.float32).block_until_ready()  # 16 GiB
    print("16 GiB were given")
except Exception as refused:
    print("refused" if "RESOURCE_EXHAUSTED" in str(refused) else f"another error: {refused}")
