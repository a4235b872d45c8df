"""Gradients of kernels with loops: adjoints take what the loops of the forward have computed."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc

ROWS, COLUMNS = 5, 40


@kc.op(launch_dims="x.shape[0]", output_dims={"y": "x", "top": "x.shape[0]"})
@kc.kernel
def softmax(
    x: kc.array2d[kc.float64],
    scale: kc.float64,
    y: kc.array2d[kc.float64],
    top: kc.array1d[kc.float64],
):
    i = kc.tid()
    most = x[i, 0]
    for j in range(x.shape[1]):
        most = kc.max(most, x[i, j])
    total = kc.float64(0.0)
    for j in range(x.shape[1]):
        total += kc.exp(scale * (x[i, j] - most))
    for j in range(x.shape[1]):
        y[i, j] = kc.exp(scale * (x[i, j] - most)) / total
    top[i] = most * scale


def of_jnp(x: Any, scale: Any) -> tuple[Any, Any]:
    return jax.nn.softmax(scale * x, axis=1), scale * x.max(1)


def inputs() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.standard_normal((ROWS, COLUMNS))), jnp.asarray(0.7)


def loss(function: Callable[..., Any]) -> Callable[..., Any]:
    weight = jnp.cos(jnp.arange(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)

    def run(x: Any, scale: Any) -> Any:
        y, top = function(x, scale)
        return (weight * y * y).sum() + (top * top).sum()

    return run


def of_y(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, scale: (function(x, scale)[0] ** 3).sum()


def in_batches(of: Callable[..., Any]) -> Callable[..., Any]:
    """``of`` a batch of ``x``, of ``scale`` or of both, added up."""

    def run(x: Any, scale: Any) -> Any:
        many, scales = jnp.stack((x, 0.5 * x)), jnp.stack((scale, 2.0 * scale))
        found = jax.vmap(of, (0, None))(many, scale), jax.vmap(of, (None, 0))(x, scales)
        return sum(f.sum() for f in (*found, jax.vmap(of)(many, scales)))

    return run


def scanned(of: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, scale: Any) -> Any:
        def step(x: Any, factor: Any) -> Any:
            return x + 0.1 * jnp.sin(x), of(x, factor * scale)

        return jax.lax.scan(step, x, jnp.arange(1.0, 4.0))[1].sum()

    return run


def transposed(of: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient by a transpose of tangents, a batch of them or those of ``x`` alone."""

    def run(x: Any, scale: Any) -> Any:
        _, push = jax.linearize(of, x, scale)
        (found,) = jax.linear_transpose(lambda t: push(t, jnp.zeros(())), x)(jnp.ones(()))
        many = jax.vmap(lambda t, s: push(t, s))
        pairs = jax.linear_transpose(many, jnp.stack((x, x)), jnp.stack((scale, scale)))(
            jnp.array((1.0, 2.0))
        )
        return (jnp.sin(x) * found).sum() + sum((p * p).sum() for p in pairs)

    return run


DERIVATIVES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "value and gradient": lambda f: jax.value_and_grad(f, (0, 1)),
    "gradient of x": lambda f: jax.grad(f, 0),
    "gradient of scale": lambda f: jax.grad(f, 1),
    "tangent": lambda f: lambda x, s: jax.jvp(f, (x, s), (jnp.cos(x), jnp.ones(()))),
    "batches": lambda f: jax.grad(in_batches(f), (0, 1)),
    "gradients of a batch": lambda f: in_batches(
        lambda x, s: sum((g * g).sum() for g in jax.grad(f, (0, 1))(x, s))
    ),
    "forward over reverse": lambda f: jax.jacfwd(jax.grad(f, (0, 1)), 1),
    "reverse over reverse": lambda f: jax.grad(lambda x, s: jax.grad(f, 1)(x, s) ** 2, (0, 1)),
    "reverse over forward": lambda f: jax.grad(
        lambda x, s: jax.jvp(f, (x, s), (jnp.cos(x), s))[1], (0, 1)
    ),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f), (0, 1)),
    "scan": lambda f: jax.grad(scanned(f), (0, 1)),
    "transpose": transposed,
}


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("of", [loss, of_y])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_those_of_jnp(name: str, of: Callable[..., Any], is_compiled: bool) -> None:
    found, expected = (DERIVATIVES[name](of(f)) for f in (softmax, of_jnp))
    run = jax.jit(found) if is_compiled else found
    leaves = map(jax.tree.leaves, (run(*inputs()), expected(*inputs())))
    for one, other in zip(*leaves, strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-11)


@kc.func
def rounded(x: kc.float64) -> kc.float64:
    return x


@kc.func_jvp(rounded)
def tangent_of_rounded(x: kc.float64, t_x: kc.float64):
    return kc.float64(0.0)


@kc.func
def doubled(x: kc.float64) -> kc.float64:
    return x


@kc.func_jvp(doubled)
def tangent_of_doubled(x: kc.float64, t_x: kc.float64):
    return kc.float64(2.0) * t_x


@kc.func_grad(doubled)
def gradient_of_doubled(x: kc.float64, adj_ret: kc.float64):
    kc.adjoint[x] += adj_ret


@pytest.mark.parametrize(("function", "slope"), [(rounded, 0.0), (doubled, 2.0)])
def test_given_tangents_have_their_transpose(function: Any, slope: float) -> None:
    @kc.op
    @kc.kernel
    def scaled(x: kc.array1d[kc.float64], w: kc.array1d[kc.float64], y: kc.array1d[kc.float64]):
        i = kc.tid()
        y[i] = function(x[i]) * w[i]

    x, w = jnp.array((0.2, 1.4)), jnp.array((3.0, 5.0))

    def total(x: Any, w: Any) -> Any:
        return scaled(x, w).sum()

    of_x, of_w = jax.grad(total, (0, 1))(x, w)
    alone = jax.grad(total)(x, w)
    _, push = jax.jvp(total, (x, w), (jnp.ones(2), jnp.zeros(2)))
    np.testing.assert_array_equal(of_x, slope * w)
    np.testing.assert_array_equal(alone, slope * w)
    np.testing.assert_array_equal(of_w, x)
    np.testing.assert_allclose(push, slope * 8.0)


def test_the_adjoint_reads_what_loops_have_computed() -> None:
    text = jax.jit(jax.grad(loss(softmax))).lower(*inputs()).as_text()
    (adjoint,) = [line for line in text.splitlines() if 'name = "softmax_vjp"' in line]
    # x, scale, the two saved results and two cotangents.
    assert adjoint.split(" : (")[1].split(") ->")[0].count("tensor<") == 6
    assert "softmax_jvp" not in text


def test_a_call_without_derivatives_saves_nothing() -> None:
    text = jax.jit(softmax).lower(*inputs()).as_text()
    (call,) = [line for line in text.splitlines() if 'name = "softmax"' in line]
    assert call.split(") ->")[1].count("tensor<") == 2
