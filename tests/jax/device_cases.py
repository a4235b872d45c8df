"""JAX kernels on the device of the suite: values, gradients, batches, loops in one program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.target import DEVICE, IS_CPU


@kc.kernel
def wave(x: kc.array(dtype=float), w: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = kc.sin(w * x[i]) * x[i]


def call(x: jax.Array, w: float) -> jax.Array:
    return jax_kernel(wave)(x, w)[0]


def expected(x: jax.Array, w: float) -> jax.Array:
    return jnp.sin(w * x) * x


@pytest.fixture(autouse=True)
def device() -> None:
    """JAX puts arrays on GPUs by itself; that it does is checked."""
    platform = jnp.zeros(1).devices().pop().platform
    assert platform == ("cpu" if IS_CPU else "gpu"), (platform, DEVICE)


def sample(*shape: int) -> jax.Array:
    return jnp.linspace(-2.0, 2.0, int(np.prod(shape)), dtype=jnp.float32).reshape(shape)


def test_values_eagerly_and_in_a_program() -> None:
    x = sample(4096)
    for function in (call, jax.jit(call, static_argnums=1)):
        np.testing.assert_allclose(function(x, 3.0), expected(x, 3.0), rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_jax() -> None:
    x = sample(4096)
    found = jax.jit(jax.grad(lambda x: (call(x, 3.0) ** 2).sum()))(x)
    wanted = jax.grad(lambda x: (expected(x, 3.0) ** 2).sum())(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_batches_are_one_launch() -> None:
    x = sample(16, 256)
    found = jax.jit(jax.vmap(lambda row: call(row, 0.5)))(x)
    np.testing.assert_allclose(found, expected(x, 0.5), rtol=1e-5, atol=1e-6)


def test_a_loop_of_launches_is_one_program() -> None:
    x = sample(4096)
    found = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, v: call(v, 1.5) + 0.25, x))(x)
    wanted = x
    for _ in range(20):
        wanted = expected(wanted, 1.5) + 0.25
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
