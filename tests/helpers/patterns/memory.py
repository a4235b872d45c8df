"""Patterns of memory: in-place updates, overwriting, gather, scatter, stencils."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, F64_2D, I32, each, pattern, vectors


@pattern(vectors(4, 4), lambda x, o: (o * x,))
@kc.kernel
def in_place_scale(x: F64, o: F64):
    i = kc.tid()
    o[i] *= x[i]


def powers_in_place(x: np.ndarray, o: np.ndarray) -> tuple[np.ndarray]:
    for k in range(3):
        o = o * x + 0.1 * k * o * o
    return (o,)


@pattern(vectors(4, 4), powers_in_place)
@kc.kernel
def in_place_in_loop(x: F64, o: F64):
    i = kc.tid()
    for k in range(3):
        o[i] = o[i] * x[i] + 0.1 * kc.float64(k) * o[i] * o[i]


@pattern(vectors(4), each(lambda v: v**4 + np.sin(v * v)), outputs=["o"])
@kc.kernel
def overwrite_then_read(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * x[i]
    v = o[i]
    o[i] = v * v + kc.sin(v)


@pattern(vectors(4), each(lambda v: np.sin(v)))
@kc.kernel
def stored_twice(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * x[i]
    o[i] = kc.sin(x[i])


@pattern(vectors(4, 4), lambda x, h: (np.cos(h),), outputs=["o"])
@kc.kernel
def added_then_stored(x: F64, h: F64, o: F64):
    i = kc.tid()
    o[i] += kc.sin(x[i])
    o[i] = kc.cos(h[i])


def sums_of_rows(x: np.ndarray) -> tuple[np.ndarray]:
    return (np.stack([np.sin(x) + x * k for k in range(3)], axis=1),)


@pattern(vectors(4), sums_of_rows, output_dims={"o": (4, 3)}, launch_dims=4)
@kc.kernel
def stored_then_added_in_loop(x: F64, o: F64_2D):
    i = kc.tid()
    for k in range(o.shape[1]):
        o[i, k] = kc.sin(x[i])
        o[i, k] += x[i] * kc.float64(k)


def stencil(u: np.ndarray, w: float) -> tuple[np.ndarray]:
    right = np.zeros_like(u)
    down = np.zeros_like(u)
    right[:, :-1] = u[:, 1:] - u[:, :-1]
    down[:-1] = u[1:] - u[:-1]
    return (0.5 * u * u + w * np.sqrt(right**2 + down**2 + 0.01),)


@pattern(lambda rng: [rng.uniform(0.0, 1.0, (4, 5)), 0.7], stencil)
@kc.kernel
def tv_stencil(u: F64_2D, w: kc.float64, e: F64_2D):
    i, j = kc.tid()
    ux = kc.float64(0.0)
    uy = kc.float64(0.0)
    if j + 1 < u.shape[1]:
        ux = u[i, j + 1] - u[i, j]
    if i + 1 < u.shape[0]:
        uy = u[i + 1, j] - u[i, j]
    e[i, j] = 0.5 * u[i, j] * u[i, j] + w * kc.sqrt(ux * ux + uy * uy + 0.01)


def triangle(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray]:
    return (np.array([sum(np.sin(a[i, j] * x[j]) for j in range(i + 1)) for i in range(len(x))]),)


@pattern(
    lambda rng: [rng.uniform(-1, 1, (4, 4)), rng.uniform(-1, 1, 4)],
    triangle,
    launch_dims="x",
)
@kc.kernel
def nested_in_row(a: F64_2D, x: F64, y: F64):
    i = kc.tid()
    s = kc.float64(0.0)
    for j in range(i + 1):
        s += kc.sin(a[i, j] * x[j])
    y[i] = s


def row_recurrence(x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray]:
    h = h.copy()
    for t in range(h.shape[1] - 1):
        h[:, t + 1] = np.tanh(h[:, t] * x + h[:, t + 1])
    return (h,)


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 3), rng.uniform(-1, 1, (3, 5))],
    row_recurrence,
)
@kc.kernel
def recurrence_in_memory(x: F64, h: F64_2D):
    i = kc.tid()
    for t in range(h.shape[1] - 1):
        h[i, t + 1] = kc.tanh(h[i, t] * x[i] + h[i, t + 1])


def gathered(x: np.ndarray, index: np.ndarray) -> tuple[np.ndarray]:
    return (np.array([x[k] * x[k] * x[i] for i, k in enumerate(index)]),)


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 5), np.array([3, 0, 3, 1, 3], np.int32)],
    gathered,
)
@kc.kernel
def gather(x: F64, index: I32, y: F64):
    i = kc.tid()
    k = index[i]
    y[i] = x[k] * x[k] * x[i]


def scattered(x: np.ndarray, index: np.ndarray) -> tuple[np.ndarray]:
    out = np.zeros(3)
    np.add.at(out, index, np.exp(x))
    return (out,)


@pattern(
    lambda rng: [rng.uniform(-1, 1, 6), np.array([0, 2, 0, 1, 2, 0], np.int32)],
    scattered,
    output_dims=3,
)
@kc.kernel
def scatter_add(x: F64, index: I32, out: F64):
    i = kc.tid()
    kc.atomic_add(out, index[i], kc.exp(x[i]))


@pattern(vectors(3, 3), lambda x, o: (o + x * x,), outputs=(), in_out=("o",))
@kc.kernel
def accumulate_in_place(x: F64, o: F64):
    i = kc.tid()
    o[i] += x[i] * x[i]


def two_outputs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(x) * y, np.array([np.sum(x * y * y)])


@pattern(vectors(4, 4), two_outputs, output_dims={"total": 1})
@kc.kernel
def map_and_sum(x: F64, y: F64, out: F64, total: F64):
    i = kc.tid()
    out[i] = kc.sin(x[i]) * y[i]
    total[0] += x[i] * y[i] * y[i]


@pattern(vectors(5), each(lambda v: np.sqrt(v - 0.8) if v > 0.8 else v**3))
@kc.kernel
def guarded_branch(x: F64, y: F64):
    i = kc.tid()
    y[i] = kc.sqrt(x[i] - 0.8) if x[i] > 0.8 else x[i] ** 3.0


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 4).astype(np.float32)],
    lambda x: (np.sin(x.astype(np.float64)) * x.astype(np.float64) ** 2,),
)
@kc.kernel
def through_a_cast(x: kc.array(dtype=kc.float32), y: F64):
    i = kc.tid()
    v = kc.float64(x[i])
    y[i] = kc.sin(v) * v * v
