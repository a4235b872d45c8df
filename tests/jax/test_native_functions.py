"""Kernels with C++ texts as functions of JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.helpers.native_programs import (
    exponential_kernel,
    random,
    repeated_roots,
    saxpy_kernel,
    scale_kernel,
)


def saxpy(a: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    (out,) = jax_kernel(saxpy_kernel, output_dims="x")(a, x, y)
    return out


def reference(a: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return a * x + y


def test_a_text_is_differentiated_and_batched() -> None:
    a, x, y = jnp.asarray(random(3)), jnp.asarray(random(3, 5)), jnp.asarray(random(5))
    axes = (0, 0, None)

    def loss(function):
        return lambda *args: jnp.sum(jnp.sin(jax.vmap(function, axes)(*args)))

    found = jax.jit(jax.value_and_grad(loss(saxpy), (0, 1, 2)))(a, x, y)
    expected = jax.value_and_grad(loss(reference), (0, 1, 2))(a, x, y)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_results_in_loops_are_differentiated() -> None:
    x = jnp.asarray(random(5))

    def loss(x: jax.Array) -> jax.Array:
        (out,) = jax_kernel(repeated_roots)(x, np.int32(2))
        return out.sum()

    expected = jax.grad(lambda x: (2 * (2 * x**1.5) ** 1.5).sum())(x)
    np.testing.assert_allclose(jax.grad(loss)(x), expected, rtol=1e-5)


def test_an_array_that_a_text_updates_is_differentiated() -> None:
    x, a = jnp.asarray(random(4)), jnp.float32(1.5)

    def loss(function):
        return lambda x, a: (function(x, a) ** 2).sum()

    found = jax.grad(
        loss(lambda x, a: jax_kernel(scale_kernel, num_outputs=1, in_out_argnames=["x"])(x, a)[0]),
        (0, 1),
    )(x, a)
    expected = jax.grad(loss(lambda x, a: x * a), (0, 1))(x, a)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_an_adjoint_may_read_arrays_that_its_snippet_wrote() -> None:
    x = jnp.asarray(random(4))
    found = jax.grad(lambda x: jax_kernel(exponential_kernel, output_dims="x")(x)[0].sum())(x)
    np.testing.assert_allclose(found, jnp.exp(x), rtol=1e-6)


def test_forward_mode_is_refused() -> None:
    args = (jnp.float32(1.0), jnp.ones(3, jnp.float32), jnp.ones(3, jnp.float32))
    with pytest.raises(kc.KernelGradError, match="no derivative in forward mode"):
        jax.jvp(saxpy, args, args)
