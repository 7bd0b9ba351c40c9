"""RMM's strategies as plain CUDA from Python, each to be run under the chain of its name: strategies.py NAME.

The same calls as strategies.cpp, by ctypes; any library that allocates on the GPU would do. Knows nothing of gpumem.
"""
import ctypes
import sys

KIB, MIB = 1 << 10, 1 << 20


def runtime():
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit("no libcudart: add its folder to LD_LIBRARY_PATH")


cuda = runtime()


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def take(size, stream=None):
    block = ctypes.c_void_p()
    call = "cudaMalloc" if stream is None else "cudaMallocAsync"
    say(call, size // KIB if size < MIB else size // MIB, "KiB" if size < MIB else "MiB")
    arguments = [ctypes.byref(block), ctypes.c_size_t(size)] + ([] if stream is None else [stream])
    if getattr(cuda, call)(*arguments) != 0:
        say("  out of memory")
        cuda.cudaGetLastError()
    return block


def give(block, stream=None):
    call = "cudaFree" if stream is None else "cudaFreeAsync"
    say(call)
    getattr(cuda, call)(block, *([] if stream is None else [stream]))


def new_stream():
    stream = ctypes.c_void_p()
    cuda.cudaStreamCreate(ctypes.byref(stream))
    return stream


def plain():
    for _ in range(2):
        give(take(1 * MIB))


def pool():
    a = take(1 * MIB)
    b = take(2 * MIB)
    give(a)
    give(b)
    give(take(3 * MIB))
    give(take(16 * MIB))


def fixed_size():
    a = take(4 * KIB)
    b = take(64 * KIB)
    give(a)
    give(take(32 * KIB))
    give(b)
    give(take(100 * KIB))


def binning():
    a = take(1 * KIB)
    b = take(200 * KIB)
    c = take(2 * MIB)
    give(a)
    give(b)
    give(c)


def arena():
    one, other = new_stream(), new_stream()
    a = take(64 * KIB, one)
    b = take(64 * KIB, other)
    give(a, one)
    give(b, other)
    give(take(64 * KIB, one), one)


def cuda_async():
    stream = new_stream()
    for _ in range(2):
        give(take(1 * MIB, stream), stream)


def managed_prefetch():
    a = take(32 * MIB)
    b = take(16 * MIB)
    give(a)
    give(b)
    give(take(48 * MIB))


def limiting():
    a = take(48 * MIB)
    b = take(32 * MIB)
    give(a)
    b = take(32 * MIB)
    give(b)


ALL = (plain, pool, fixed_size, binning, arena, cuda_async, managed_prefetch, limiting)

if __name__ == "__main__":
    chosen = [each for each in ALL if sys.argv[1:] == [each.__name__]]
    if not chosen:
        sys.exit("which strategy?")
    chosen[0]()
