"""Kernels whose arrays have other extents than the launch: pooling, interiors, staggered grids."""

from __future__ import annotations

from typing import Any

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from tests.jax.kernels import F64, F64_2D


@kc.kernel
def pooled(x: F64_2D, o: F64_2D):
    i, j = kc.tid()
    a, b = x[2 * i, j], x[2 * i + 1, j]
    o[i, j] = kc.max(a, b) + a * b


@kc.kernel
def strided(x: F64, o: F64):
    i = kc.tid()
    n = x.shape[0]
    o[i] = x[kc.max(2 * i - 1, 0)] * x[2 * i] + x[kc.min(2 * i + 1, n - 1)] * x[(2 * i + 3) % n]


@kc.kernel
def upsampled(x: F64, o: F64):
    i = kc.tid()
    o[2 * i] = x[i] * x[i]
    o[2 * i + 1] = kc.sin(x[i]) * kc.float64(o.shape[0])


@kc.kernel
def interior(x: F64, o: F64):
    i = kc.tid()
    o[i + 1] = x[i] * x[i + 2] + x[i + 1] * kc.float64(i)


@kc.kernel
def difference(x: F64, o: F64):
    i = kc.tid()
    o[i] = (x[i + 1] - x[i]) * x[i]


@kc.kernel
def energy(x: F64, o: F64):
    i = kc.tid()
    d = x[i + 1] - x[i]
    kc.atomic_add(o, 0, d * d)


@kc.kernel
def at_faces(x: F64, o: F64):
    i = kc.tid()
    n = x.shape[0]
    o[i] = x[kc.max(i - 1, 0)] * x[kc.min(i, n - 1)]


def staggered(x: F64, o: F64):
    n = x.shape[0]
    faces = kc.zeros(n + 1, dtype=kc.float64)
    kc.launch(at_faces, n + 1, [x], [faces])
    kc.launch(difference, n, [faces], [o])


@kc.kernel
def wraps_at_extent(x: F64, y: F64_2D, o: F64):
    i = kc.tid()
    o[i] = x[(i + 1) % y.shape[0]] * x[kc.max(i - 1, 0)] * kc.float64(y.shape[1])


def on(extent: Any, output: Any = None) -> dict[str, Any]:
    """Options of a kernel that is launched on ``extent``."""
    return {"launch_dims": extent, "output_dims": extent if output is None else output}


# Of arrays of 64 elements, or 64 rows of 8.
POOLED = jax_kernel(pooled, **on((32, 8)))
STRIDED = jax_kernel(strided, **on(32))
UPSAMPLED = jax_kernel(upsampled, **on(64, 128))
INTERIOR = jax_kernel(interior, launch_dims=62, in_out_argnames="o")
DIFFERENCE = jax_kernel(difference, **on(63))
ENERGY = jax_kernel(energy, **on(63, 1))
STAGGERED = jax_callable(staggered)
WRAPS = jax_kernel(wraps_at_extent)
