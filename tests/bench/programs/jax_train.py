"""JAX training steps of a small network, each dispatched by itself, so that buffers come and go; XLA_PYTHON_CLIENT_ALLOCATOR
says whose memory they are ("platform": a driver call each). Prints the time of a step; 77 where there is no JAX or GPU.
bench.py runs it plain and under gpumem.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gpu"))
import turns

try:
    import jax
    import jax.numpy as jnp
    jax.devices("gpu")
except Exception as missing:  # no JAX, or no GPU plugin, each with its own type
    print(missing)
    sys.exit(77)

key = jax.random.PRNGKey(0)
weights = [jax.random.normal(jax.random.fold_in(key, i), (1024, 1024)) * 0.03 for i in range(8)]
inputs = jax.random.normal(key, (256, 1024))


@jax.jit
def step(parameters):
    def loss(own):
        hidden = inputs
        for weight in own:
            hidden = jnp.tanh(hidden @ weight)
        return jnp.mean(hidden ** 2)

    value, gradients = jax.value_and_grad(loss)(parameters)
    return value, [p - 0.1 * g for p, g in zip(parameters, gradients)]


def one_step(_number):
    global value, weights
    value, weights = step(weights)


for number in range(10):
    one_step(number)
jax.block_until_ready(weights)
turns.timed("JAX step", "ms", 100, one_step, lambda: jax.block_until_ready(weights))
print("loss", float(value).hex())
