"""Uses the driver by ctypes, as CuPy, Numba and Triton find it, in a pool of worker processes: ctypes_workers.py METHOD.

METHOD: fork, spawn, forkserver, or none for one process. Workers start CUDA by themselves. Prints, ordered by worker,
what each got. Run plain and preloaded; knows nothing of gpumem.
"""
import ctypes
import multiprocessing
import sys


def work(number):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, block, device = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
    codes = [cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0),
             cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context)]
    for size in (1000, 1 << 20, 5 << 20):
        codes.append(cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size)))
        codes.append(cuda.cuMemsetD8_v2(block, ctypes.c_ubyte(number), ctypes.c_size_t(size)))
        host = (ctypes.c_ubyte * size)()
        codes.append(cuda.cuMemcpyDtoH_v2(host, block, ctypes.c_size_t(size)))
        codes.append(0 if bytes(host) == bytes([number]) * size else 999)
        codes.append(cuda.cuMemFree_v2(block))
    codes.append(cuda.cuMemFree_v2(block))
    return number, codes


def main():
    method = sys.argv[1]
    if method == "none":
        print(work(7))
        return
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        for line in sorted(pool.imap_unordered(work, range(1, 7))):
            print(line)
        pool.close()
        pool.join()


if __name__ == "__main__":
    main()
