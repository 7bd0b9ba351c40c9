"""What JAX does with device memory beyond a step: donated arguments, memory of the host, loops, libraries, arrays of others, refusals.

jax_features.py [FEATURE...]; see features.main. Run plain and preloaded by run.py with each of its allocators. 77 where there is no
JAX or GPU.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
try:
    import jax
    import jax.numpy as np
    DEVICE = jax.devices("gpu")[0]
except Exception as missing:  # no JAX, no driver, no device
    print(str(missing).splitlines()[0])
    sys.exit(77)
import features


def total(array):
    return float(np.abs(array).sum())


def feature_donated():
    step = jax.jit(lambda state, given: state * 0.5 + given, donate_argnums=0)
    state = np.ones(1 << 20)
    for turn in range(50):
        state = step(state, np.full(1 << 20, float(turn)))
    return total(state)


def feature_host_memory():
    sharding = jax.sharding.SingleDeviceSharding(DEVICE, memory_kind="pinned_host")
    there = jax.device_put(np.arange(1 << 20, dtype=np.float32), sharding)
    back = jax.device_put(there, jax.sharding.SingleDeviceSharding(DEVICE, memory_kind="device"))
    return total(back), there.sharding.memory_kind


def feature_loops():
    summed = jax.jit(lambda start: jax.lax.scan(lambda sum_, each: (sum_ * 0.9 + each, sum_.mean()), start, np.arange(100.0))[1])
    doubled = jax.jit(lambda start: jax.lax.while_loop(lambda held: held[0] < 10, lambda held: (held[0] + 1, held[1] * 1.1), (0, start))[1])
    return total(summed(np.ones(10_000))), total(doubled(np.ones(10_000)))


def feature_libraries():
    square = jax.random.normal(jax.random.key(1), (256, 256))
    symmetric = square @ square.T + 256 * np.eye(256)
    image = jax.random.normal(jax.random.key(2), (4, 8, 32, 32))
    weight = jax.random.normal(jax.random.key(3), (16, 8, 3, 3))
    return (total(np.linalg.svd(square, compute_uv=False)), total(np.linalg.cholesky(symmetric)), total(np.fft.fft2(square)),
            total(np.linalg.eigvalsh(symmetric)), total(jax.lax.conv(image, weight, (1, 1), "SAME")), total(np.sort(image.ravel())[::100]))


def feature_gradients():
    def loss(weights, given):
        for each in weights:
            given = np.tanh(given @ each)
        return (given ** 2).mean()

    weights = [jax.random.normal(jax.random.key(each), (256, 256)) * 0.1 for each in range(4)]
    given = jax.random.normal(jax.random.key(9), (512, 256))
    step = jax.jit(lambda held: [each - 0.1 * slope for each, slope in zip(held, jax.grad(loss)(held, given))])
    for _ in range(20):
        weights = step(weights)
    return [total(each) for each in weights]


def feature_arrays_that_come_and_go():
    kept, found = [], 0.0
    for turn in range(200):
        kept.append(np.full((1 + turn % 13) * 10_000, float(turn)))
        if len(kept) > 10:
            gone = kept.pop(turn % 10)
            found += total(gone)
            gone.delete()
    return found


def feature_arrays_of_others():
    try:
        import cupy
    except ImportError:
        raise features.Missing("no CuPy") from None
    mine = np.arange(1 << 16, dtype=np.float32)
    back = jax.dlpack.from_dlpack(cupy.from_dlpack(mine) * 2)
    cupy.cuda.Device().synchronize()
    return total(back)


def feature_refusals():
    try:
        np.zeros(1 << 44, dtype=np.int8).block_until_ready()
        return "not refused"
    except Exception as refused:
        return str(refused).split(":")[0], total(np.ones(1 << 20))


if __name__ == "__main__":
    features.main(globals())
