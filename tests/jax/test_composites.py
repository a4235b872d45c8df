"""Kernels on elements with components, and on every scalar type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.test_util import check_grads

import kernelcore as kc
from jax_ffi import jax_kernel
from kernelcore.language.types import SCALARS
from tests.helpers import composites
from tests.jax.kernels import assert_close
from tests.jax.refusal import Golden, check_refusal

DTYPES = pytest.mark.parametrize("dtype", SCALARS, ids=str)


def random(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(len(shape)).standard_normal(shape))


def cross(s: Any, axis: Any, x: Any, **options: Any) -> jax.Array:
    return jax_kernel(composites.cross())(s, {"axis": axis}, x, **options)[0]


def cross_jax(s: Any, axis: jax.Array, x: jax.Array) -> jax.Array:
    return s * jnp.cross(jnp.broadcast_to(axis, x.shape), x)


def apply(m: jax.Array, x: jax.Array) -> jax.Array:
    return jax_kernel(composites.apply())(m, x)[0]


def apply_jax(m: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.einsum("irc,ic->ir", m, x)


def test_components_are_the_last_axes() -> None:
    s, axis, x, m = 2.0, random(3), random(5, 3), random(5, 2, 3)
    for run in (lambda f: f, jax.jit):
        assert_close(run(cross)(s, axis, x), cross_jax(s, axis, x))
        assert_close(run(apply)(m, x), apply_jax(m, x))
    total, squares = jax_kernel(composites.gather_sum(), 2, output_dims={"total": 1})(x)
    assert_close(total, x.sum(0, keepdims=True))
    assert_close(squares, (x * x).sum(1))
    (out,) = jax_kernel(composites.first_only())(x)
    assert_close(out, x * jnp.array([1.0, 0.0, 0.0]))


def test_a_composite_value_is_a_sequence_or_an_array() -> None:
    x, axis = random(5, 3), [0.5, -1.0, 2.0]
    expected = cross_jax(2.0, jnp.array(axis), x)
    for given in (axis, tuple(axis), np.array(axis), jnp.array(axis)):
        assert_close(cross(2.0, given, x), expected)
    (named,) = jax_kernel(composites.cross())(s=2.0, p={"axis": axis}, x=x)
    assert_close(named, expected)


@pytest.mark.parametrize("dims", [5, (5,), (5, 3), "x", {"out": 5}, {"out": (5, 3)}])
def test_components_may_be_left_out_of_shapes(dims: Any) -> None:
    x, axis = random(5, 3), random(3)
    assert_close(cross(2.0, axis, x, output_dims=dims), cross_jax(2.0, axis, x))


OTHER_COMPONENTS: dict[str, Callable[[], Any]] = {
    "output_components": lambda: cross(2.0, random(3), random(5, 3), output_dims=(5, 4)),
    "components": lambda: cross(2.0, random(3), random(5, 4)),
    "value_components": lambda: cross(2.0, random(4), random(5, 3)),
    "sequence_components": lambda: cross(2.0, (1.0, 2.0), random(5, 3)),
}


@pytest.mark.parametrize("case", OTHER_COMPONENTS)
def test_other_components_are_refused(case: str, golden_error: Golden) -> None:
    check_refusal(OTHER_COMPONENTS[case], case, golden_error)


def test_derivatives_match_closed_forms() -> None:
    s, axis, x, m = jnp.float64(0.7), random(3), random(4, 3), random(4, 2, 3)
    check_grads(cross, (s, axis, x), order=2)
    check_grads(apply, (m, x), order=2)
    for transform in (jax.jacrev, jax.jacfwd, jax.hessian):
        found = jax.jit(transform(cross, (0, 1, 2)))(s, axis, x)
        assert_close(found, transform(cross_jax, (0, 1, 2))(s, axis, x))
    (ct,) = jax.linear_transpose(lambda t: jax.jvp(lambda x: cross(s, axis, x), (x,), (t,))[1], x)(
        x
    )
    assert_close(ct, jax.linear_transpose(lambda x: cross_jax(s, axis, x), x)(x)[0])
    flow = jax.linearize(lambda axis: cross(s, axis, x), axis)[1]
    assert_close(flow(axis), cross_jax(s, axis, x))


@pytest.mark.parametrize("axes", [(None, 0, 0), (None, None, 0), (None, 0, None), (0, None, None)])
def test_batches_agree_with_reference(axes: Any) -> None:
    whole = (random(2), random(2, 3), random(2, 5, 3))
    args = [a if axis == 0 else a[0] for a, axis in zip(whole, axes, strict=True)]
    found = jax.jit(jax.vmap(cross, axes))(*args)
    assert_close(found, jax.vmap(cross_jax, axes)(*args))

    def loss(f: Any, *args: Any) -> Any:
        return jnp.sum(jax.vmap(f, axes)(*args) ** 2)

    for k in range(3):
        found = jax.grad(loss, k + 1)(cross, *args)
        assert_close(found, jax.grad(loss, k + 1)(cross_jax, *args))


def test_batches_of_batches_with_components() -> None:
    s, axis, x = random(4), random(3, 4), random(3, 2, 5)
    nested = jax.vmap(jax.vmap(cross, (0, None, None)), (None, 1, None), 2)
    reference = jax.vmap(jax.vmap(cross_jax, (0, None, None)), (None, 1, None), 2)
    assert_close(nested(s, axis, x.T[:, 0]), reference(s, axis, x.T[:, 0]))


def rigid(m: Any, t: Any, x: Any) -> tuple[Any, Any]:
    return jax_kernel(composites.rigid, 2, output_dims={"energy": 1})(m, t, x)


def rigid_jax(m: Any, t: Any, x: Any) -> tuple[Any, Any]:
    y = x @ m.T + t
    return y, 0.5 * jnp.sum(y * y).reshape(1)


def test_kernels_from_source_agree_with_reference() -> None:
    m, t, x = random(3, 3), random(3), random(4, 3)
    assert_close(jax.jit(rigid)(m, t, x), rigid_jax(m, t, x))
    for transform in (jax.jacrev, jax.jacfwd, jax.hessian):
        found = jax.jit(transform(rigid, (0, 1, 2)))(m, t, x)
        assert_close(found, jax.jit(transform(rigid_jax, (0, 1, 2)))(m, t, x))
    batches = (random(2, 3, 3), jnp.stack([t, 2 * t]), random(2, 4, 3))
    for axes in ((0, 0, 0), (0, None, None), (None, 0, None)):
        given = [a if axis == 0 else a[0] for a, axis in zip(batches, axes, strict=True)]
        assert_close(jax.vmap(rigid, axes)(*given), jax.jit(jax.vmap(rigid_jax, axes))(*given))
        found, expected = (jax.jacrev(jax.vmap(f, axes), (0, 1, 2)) for f in (rigid, rigid_jax))
        assert_close(found(*given), jax.jit(expected)(*given))


def test_values_of_the_language_are_taken() -> None:
    m, t, x = kc.mat33d(0, 1, 0, 0, 0, 1, 1, 0, 0), kc.vec3d(1, 2, 3), random(4, 3)
    assert_close(rigid(m, t, x)[0], x[:, jnp.array([1, 2, 0])] + jnp.array([1.0, 2.0, 3.0]))


def test_arrays_of_elements_are_updated_in_a_copy() -> None:
    call = jax_kernel(composites.gather_sum(), 2, in_out_argnames="total")
    x, start = random(5, 3), random(1, 3)
    for run in (lambda f: f, jax.jit):
        total, squares = run(call)(x, start)
        assert_close(total, start + x.sum(0))
        assert_close(squares, (x * x).sum(1))
    check_grads(call, (x, start), order=2)


def test_elements_outside_of_the_grid_are_zero() -> None:
    x, axis = random(5, 3), random(3)
    out = cross(2.0, axis, x, output_dims=9)
    assert_close(out, jnp.zeros((9, 3)).at[:5].set(cross_jax(2.0, axis, x)))


@DTYPES
def test_every_dtype_passes_through(dtype: Any) -> None:
    call = jax_kernel(composites.copies(dtype), 2)
    if dtype.kind == "bool":
        array, top = np.array([True, False, True]), True
    else:
        array = np.array([1, 0, 5], dtype.numpy)
        top = float(ml_dtypes.finfo(dtype.numpy).max) if dtype.is_float else dtype.limits[1]
    traced = jnp.asarray(np.asarray(top, dtype.numpy))
    for run in (lambda f: f, jax.jit):
        for value in (top, dtype.numpy.type(top), traced):
            if run is jax.jit and value is top:
                continue
            out, same = run(call)(array, value)
            assert out.dtype == same.dtype == dtype.numpy
            np.testing.assert_array_equal(out, array)
            np.testing.assert_array_equal(same, np.full(3, top, dtype.numpy))
    out, _ = jax.vmap(call, (0, None))(jnp.asarray(array)[None].repeat(2, 0), traced)
    np.testing.assert_array_equal(out, np.stack([array, array]))


@pytest.mark.parametrize("dtype", [s for s in SCALARS if s.is_integer], ids=str)
def test_integers_out_of_range_are_refused(dtype: Any) -> None:
    call = jax_kernel(composites.copies(dtype), 2)
    x = jnp.zeros(3, dtype.numpy)
    for value in (dtype.limits[0] - 1, dtype.limits[1] + 1):
        with pytest.raises(kc.KernelArgumentError, match=r"'value'.*out of range"):
            call(x, value)


@pytest.mark.parametrize("dtype", [s for s in SCALARS if s.is_float], ids=str)
def test_every_float_type_is_differentiable(dtype: Any) -> None:
    call = jax_kernel(composites.copies(dtype), 2)
    x, value = jnp.array([1.0, 0.5, 2.0], dtype.numpy), jnp.asarray(3.0, dtype.numpy)
    weight = jnp.array([1.0, 2.0, 4.0], dtype.numpy)
    _, pull = jax.vjp(call, x, value)
    gx, gv = pull((weight, weight))
    assert_close(gx, weight)
    assert gv.dtype == dtype.numpy
    assert float(gv) == 7.0
