"""Gradients of values as functions of JAX have them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ffi import jax_kernel
from tests.helpers.value_programs import SHAPES, SIZE, TURNS, every_value, gradients, values


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
