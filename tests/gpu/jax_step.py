"""A jitted JAX step with gradients, run 20 times, with JAX's own memory pool as it comes.

Run plain and preloaded by run.py. Prints each loss with all its bits. 77 where there is no JAX or GPU.
"""
import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.2")
try:
    import jax
    import jax.numpy as jnp
    devices = jax.devices("gpu")
except Exception as missing:  # no JAX, or no GPU plugin, each with its own type
    print(missing)
    sys.exit(77)

key = jax.random.PRNGKey(0)
weights = [jax.random.normal(jax.random.fold_in(key, i), (512, 512)) * 0.05 for i in range(4)]
inputs = jax.random.normal(key, (128, 512))


def loss(parameters):
    hidden = inputs
    for weight in parameters:
        hidden = jnp.tanh(hidden @ weight)
    return jnp.mean(hidden ** 2)


@jax.jit
def step(parameters):
    value, gradients = jax.value_and_grad(loss)(parameters)
    return value, [p - 0.1 * g for p, g in zip(parameters, gradients)]


for number in range(20):
    value, weights = step(weights)
    print(f"step {number} loss {float(value).hex()}")
