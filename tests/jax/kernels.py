"""Kernels of the JAX tests, and how their results are compared."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kernelcore as kc
from jax_ffi import jax_kernel

F64 = kc.array(dtype=kc.float64)
F64_2D = kc.array2d(dtype=kc.float64)
I32 = kc.array(dtype=kc.int32)

RTOL = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 2e-5}


def assert_close(actual: Any, expected: Any) -> None:
    """The leaves are of equal shape and dtype, and equal up to rounding."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert jnp.shape(a) == jnp.shape(e)
        assert jnp.result_type(a) == jnp.result_type(e)
        tol = RTOL.get(np.asarray(e).dtype, 0.0)
        np.testing.assert_allclose(a, e, rtol=tol, atol=10 * tol)


def compiled_text(function: Any, *args: Any) -> str:
    """The optimized HLO of ``function``, jitted."""
    text = jax.jit(function).lower(*args).compile().as_text()
    assert text is not None
    return text


@kc.kernel
def mixed(x: F64, y: F64, s: kc.float64, o: F64, r: F64):
    i = kc.tid()
    o[i] = s * kc.sin(x[i]) * y[i] + x[i] ** 2.0 * y[i] ** 3.0
    r[0] += kc.exp(-x[i] * s) * y[i]


_mixed = jax_kernel(mixed, num_outputs=2, output_dims={"r": 1})


def mixed_kernel(x: Any, y: Any, s: Any) -> tuple[Any, Any]:
    o, r = _mixed(x, y, s)
    return o, r[0]


def mixed_reference(x: Any, y: Any, s: Any) -> tuple[Any, Any]:
    return s * jnp.sin(x) * y + x**2 * y**3, jnp.sum(jnp.exp(-x * s) * y)


@kc.kernel
def neighbour(x: F64, o: F64):
    i = kc.tid()
    j = kc.min(i + 1, x.shape[0] - 1)
    o[i] = x[j] * x[i]


def neighbour_reference(x: Any) -> Any:
    return jnp.concatenate([x[1:], x[-1:]]) * x


@kc.kernel
def row_sums(matrix: F64_2D, sums: F64):
    i, j = kc.tid()
    kc.atomic_add(sums, i, matrix[i, j] * matrix[i, j])


def row_sums_reference(matrix: Any, sums: Any) -> Any:
    return sums + jnp.sum(matrix**2, axis=1)


@kc.kernel
def scale_in_place(x: F64, o: F64):
    i = kc.tid()
    o[i] *= x[i]


@kc.kernel
def lookup(table: F64, indices: I32, output: F64):
    i = kc.tid()
    output[i] = table[indices[i]] * table[indices[i]]


@kc.kernel
def matmul(a: F64_2D, b: F64_2D, c: F64_2D):
    i, j = kc.tid()
    s = kc.float64(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@kc.kernel
def iota(output: I32):
    i = kc.tid()
    output[i] = 3 * i


@kc.kernel
def axpy(x: kc.array(dtype=float), a: float, n: int, o: kc.array(dtype=float)):
    i = kc.tid()
    o[i] = a * x[i] + float(n)


@kc.kernel
def decay(x: F64, r: kc.float64, n: I32, o: F64, count: I32):
    i = kc.tid()
    v = x[i]
    for _ in range(n[i]):
        v = r * v * (1.0 - v)
    o[i] = v
    count[i] = n[i] * 2


decay_kernel = jax_kernel(decay, num_outputs=2)


def decay_reference(x: Any, r: Any, n: Any) -> tuple[Any, Any]:
    v = x
    for k in range(4):
        v = jnp.where(k < n, r * v * (1.0 - v), v)
    return v, n * 2
