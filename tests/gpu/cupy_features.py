"""What CuPy does with device memory: its pools of each kind, graphs, textures, libraries' workspaces, module variables.

cupy_features.py [FEATURE...]; see features.main. Run plain and preloaded by run.py. 77 where there is no CuPy or GPU.
"""
import sys
import threading

try:
    import cupy
    cupy.zeros(1)
except Exception as missing:  # no CuPy, no driver, no device
    print(missing)
    sys.exit(77)
import features

MIB = 1 << 20


def total(array):
    return float(array.astype(cupy.float64).sum())


def worked_with(allocate):
    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(allocate)
    try:
        found = 0.0
        for turn in range(100):
            block = cupy.full((1 + turn % 7) * 10_000, turn, dtype=cupy.float32)
            found += total(cupy.sort(block * 2)[::2])
        return found
    finally:
        cupy.cuda.set_allocator(before)


def feature_pool():
    pool = cupy.cuda.MemoryPool()
    found = worked_with(pool.malloc)
    used = pool.used_bytes(), pool.total_bytes() > 0
    pool.free_all_blocks()
    return found, used, pool.total_bytes()


def feature_pool_with_limit():
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=64 * MIB)
    found = worked_with(pool.malloc)
    try:
        pool.malloc(128 * MIB)
        return found, "not refused"
    except cupy.cuda.memory.OutOfMemoryError:
        return found, "refused"


def feature_pool_in_order():
    if not cupy.cuda.runtime.driverGetVersion() >= 11020:
        raise features.Missing("no cudaMallocAsync")
    pool = cupy.cuda.MemoryAsyncPool()
    found = worked_with(pool.malloc)
    cupy.cuda.Device().synchronize()
    used = pool.used_bytes()
    pool.free_all_blocks()
    return found, used


def feature_managed():
    pool = cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)
    found = worked_with(pool.malloc)
    block = cupy.cuda.malloc_managed(MIB)
    cupy.cuda.runtime.memset(block.ptr, 7, MIB)
    cupy.cuda.Device().synchronize()
    return found, cupy.cuda.runtime.pointerGetAttributes(block.ptr).type


def feature_without_pool():
    return worked_with(None), worked_with(cupy.cuda.malloc_async)


def feature_pinned():
    pool = cupy.cuda.PinnedMemoryPool()
    found = []
    for size in (1, 1000, MIB, 3 * MIB + 5):
        block = pool.malloc(size)
        found.append(cupy.cuda.runtime.pointerGetAttributes(block.ptr).type)
        del block
    pool.free_all_blocks()
    return found, pool.n_free_blocks()


def feature_function_allocator():
    runtime, seen = cupy.cuda.runtime, []

    def allocate(size, device):
        seen.append(size)
        return runtime.malloc(size)

    made = cupy.cuda.PythonFunctionAllocator(allocate, lambda address, device: runtime.free(address))
    return worked_with(made.malloc), len(seen)


def feature_graphs():
    stream = cupy.cuda.Stream(non_blocking=True)
    given = cupy.ones(MIB, dtype=cupy.float32)
    result = cupy.empty_like(given)
    with stream:
        cupy.multiply(given, 2, out=result)
        stream.begin_capture()
        cupy.multiply(given, 3, out=result)
        cupy.add(result, given, out=result)
        graph = stream.end_capture()
        for _ in range(10):
            graph.launch(stream)
            cupy.ones(1000, dtype=cupy.float32)
        stream.synchronize()
    return total(result)


def feature_libraries():
    numbers = cupy.random.RandomState(1)
    square = numbers.standard_normal((256, 256), dtype=cupy.float32)
    symmetric = square @ square.T + 256 * cupy.eye(256, dtype=cupy.float32)
    import cupyx.scipy.sparse
    sparse = cupyx.scipy.sparse.csr_matrix(square * (square > 1))
    return (total(cupy.abs(cupy.fft.fft2(square))), total(cupy.linalg.svd(square, compute_uv=False)), total(cupy.abs(cupy.linalg.cholesky(symmetric))),
            total(cupy.abs(cupy.linalg.inv(symmetric))), total(abs(sparse @ square)), total(cupy.unique((square * 10).astype(int))),
            total(cupy.lexsort(square[:2])), total(cupy.histogram(square, bins=20)[0]))


def feature_module_variables():
    source = 'extern "C" { __device__ float kept[1024]; __global__ void fill(float* out) { int i = threadIdx.x; kept[i] += i; out[i] = kept[i]; } }'
    module = cupy.RawModule(code=source)
    kept = module.get_global("kept")
    out = cupy.zeros(1024, dtype=cupy.float32)
    cupy.cuda.runtime.memset(kept.ptr, 0, 4096)
    for _ in range(3):
        module.get_function("fill")((1,), (1024,), (out,))
    return total(out), cupy.cuda.runtime.pointerGetAttributes(kept.ptr).type


def feature_textures():
    from cupy.cuda import texture
    runtime = cupy.cuda.runtime
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    found = 0.0
    for turn in range(20):
        array = texture.CUDAarray(channel, 64, 32)
        array.copy_from(cupy.full((32, 64), turn, dtype=cupy.float32))
        back = cupy.empty((32, 64), dtype=cupy.float32)
        array.copy_to(back)
        description = texture.TextureDescriptor((runtime.cudaAddressModeClamp, runtime.cudaAddressModeClamp), runtime.cudaFilterModePoint,
                                                runtime.cudaReadModeElementType)
        made = texture.TextureObject(texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array), description)
        del made
        found += total(back)
    return found


def feature_questions():
    runtime = cupy.cuda.runtime
    block = cupy.cuda.alloc(5 * MIB)
    about = runtime.pointerGetAttributes(block.ptr + 4096)
    free, whole = runtime.memGetInfo()
    return about.device, about.type, about.devicePointer == block.ptr + 4096, 0 < free < whole


def feature_streams_and_threads():
    found = [0.0] * 6

    def work(own):
        with cupy.cuda.Stream(non_blocking=own % 2 == 0):
            for turn in range(50):
                found[own] += total(cupy.full(50_000 + own, turn, dtype=cupy.float32) * own)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


if __name__ == "__main__":
    features.main(globals())
