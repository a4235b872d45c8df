"""Kernels that draw random numbers, differentiated and batched over seeds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import jax_kernel
from kernelcore.builtins.random import philox_init, rand_init, randn

N = 5


def _noise(init):
    """The kernel ``out[i] = scale[i] * (sum of 3 normal numbers)``."""

    @kc.kernel
    def noise(seed: int, scale: kc.array(dtype=float), out: kc.array(dtype=float)):
        i = kc.tid()
        state = init(seed, i)
        total = 0.0
        for _ in range(3):
            total += randn(state)
        out[i] = scale[i] * total

    return noise


@pytest.mark.parametrize("init", [rand_init, philox_init], ids=["hash", "philox"])
def test_derivatives_and_batches_use_the_numbers_of_the_launch(init):
    kernel = _noise(init)
    scale = jnp.linspace(1.0, 2.0, N, dtype=jnp.float32)
    numbers = np.zeros((3, N), np.float32)
    for seed in range(3):
        kc.launch(kernel, N, [seed, np.ones(N, np.float32), numbers[seed]])

    def draw(seed, scale):
        return jax_kernel(kernel, launch_dims=N)(seed, scale)[0]

    seeds = jnp.arange(3, dtype=jnp.int32)
    batch = jax.jit(jax.vmap(draw, (0, None)))(seeds, scale)
    np.testing.assert_array_equal(batch, np.asarray(scale) * numbers)
    gradient = jax.vmap(jax.grad(lambda scale, seed: draw(seed, scale).sum()), (None, 0))
    np.testing.assert_array_equal(gradient(scale, seeds), numbers)
    _, tangent = jax.jvp(lambda scale: draw(seeds[1], scale), (scale,), (2.0 * scale,))
    np.testing.assert_array_equal(tangent, 2.0 * np.asarray(scale) * numbers[1])
