"""Rules that are not the derivatives of their code, and gradients of values, as JAX has them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.helpers.rule_programs import clip_gradient, quantize, soft_gate
from tests.helpers.value_programs import SHAPES, SIZE, TURNS, every_value, gradients, values

RNG = np.random.default_rng(3)


def random(*shape: int) -> jax.Array:
    return jnp.asarray(RNG.random(shape, np.float32))


def rounds(x: jax.Array) -> jax.Array:
    (y,) = jax_kernel(quantize)(x)
    return y


def reference(x: jax.Array) -> jax.Array:
    z = 4 * x
    return (z + jax.lax.stop_gradient(jnp.round(z) - z)) * x


def test_a_straight_through_estimator_has_gradients() -> None:
    x, ct = random(6), random(6)
    np.testing.assert_allclose(rounds(x), jnp.round(4 * x) * x, rtol=1e-6)
    found = jax.jit(jax.grad(lambda x: (rounds(x) * ct).sum()))(x)
    expected = jax.grad(lambda x: (reference(x) * ct).sum())(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_its_derivatives_are_those_of_the_rule_in_every_order() -> None:
    x, t = random(6), random(6)
    for function in (jax.jvp, lambda f, p, q: jax.jvp(jax.jit(f), p, q)):
        found, expected = (function(f, (x,), (t,))[1] for f in (rounds, reference))
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def slope(f):
        return jax.grad(lambda x: f(x).sum())

    hessians = [jax.jvp(slope(f), (x,), (t,))[1] for f in (rounds, reference)]
    np.testing.assert_allclose(*hessians, rtol=1e-6)


def test_it_is_batched() -> None:
    x = random(3, 6)
    found = jax.vmap(jax.grad(lambda v: rounds(v).sum()))(x)
    np.testing.assert_allclose(found, jnp.round(4 * x) + 4 * x, rtol=1e-6)


def test_a_rule_that_is_not_linear_has_no_place_in_jax() -> None:
    with pytest.raises(kc.KernelGradError, match="is not seen to be linear"):
        jax.grad(lambda x: jax_kernel(clip_gradient)(x)[0].sum())(random(4))


def test_a_rule_for_tangents_serves_reverse_mode() -> None:
    x, gate, ct = random(5), random(5) - 0.5, random(5)

    def loss(f):
        return lambda x, gate: (f(x, gate) * ct).sum()

    found = jax.grad(loss(lambda x, g: jax_kernel(soft_gate)(x, g)[0]), (0, 1))(x, gate)
    expected = jax.grad(loss(lambda x, g: x * jax.nn.sigmoid(g)), (0, 1))(x, gate)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_values_of_every_kind_have_gradients() -> None:
    given, ct = values(), np.random.default_rng(1).random(SIZE)

    def loss(arrays: dict[str, jax.Array]) -> jax.Array:
        inner = {"offset": arrays["o.inner.offset"], "gain": arrays["o.inner.gain"]}
        outer = {"inner": inner, "turns": TURNS, "frame": arrays["o.frame"]}
        plain: dict[str, Any] = {name: arrays[name] for name in ("x", "s", "v", "m", "q", "t")}
        (out,) = jax_kernel(every_value)(**plain, o=outer)
        return jnp.vdot(out, ct)

    arrays = {name: jnp.asarray(a) for name, a in given.items()}
    found = jax.jit(jax.grad(loss))(arrays)
    expected = gradients(given, ct)
    assert set(found) == {"x", *SHAPES}
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-12)
    _, tangent = jax.jvp(loss, (arrays,), (arrays,))
    want = sum(np.sum(expected[n] * a) for n, a in given.items())
    np.testing.assert_allclose(tangent, want, rtol=1e-12)
