"""Kernels of several axes: gangs cut rows, go on in the next row, or run several rows together."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.helpers.vectorised.case import (
    ANY_STRIDES,
    COLLAPSE,
    F32,
    F32_2D,
    F32_3D,
    F64_2D,
    GRIDS,
    I32,
    IDEMPOTENT,
    LOOP,
    NARROW_TILES,
    SHORT_ROWS,
    TAIL,
    TILE,
    TILES,
    Case,
)

I32_2D, VEC3_2D = kc.array(kc.int32, 2), kc.array(kc.vec3, 2)
STEPS = 5


@kc.kernel
def neighbours(x: F64_2D, y: F64_2D):
    i, j = kc.tid()
    n = y.shape[1]
    up = x[i, j + 1] if i % 2 == 0 else x[i, n - 1 - j]
    if j > 0 and j < n - 1:
        y[i, j] = up + 0.5 * y[i, j]
    else:
        y[i, n - 1 - j] = -up


@kc.kernel
def damped(x: F64_2D, steps: int, y: F64_2D):
    i, j = kc.tid()
    v = x[i, j]
    for _ in range(steps):
        if v < 0.5:
            break
        v = kc.sin(v) * kc.exp(-v) + kc.float64(j % 3)
    if j % 5 != 4:
        y[i, j] = v


# Gangs that go on in the next row


@kc.kernel
def updated(a: kc.float32, x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = a * x[i, j] + y[i, j]


@kc.kernel
def around(x: F32_3D, y: F32_3D):
    i, j, k = kc.tid()
    v = y[i, j, k]
    if i > 0 and j > 0 and j + 1 < x.shape[1]:
        v += x[i - 1, j, k] - x[i, j + 1, k] + x[i, j - 1, k]
    y[i, j, k] = v


@kc.kernel
def crossed(x: VEC3_2D, w: F32_2D, y: VEC3_2D):
    i, j = kc.tid()
    v = x[i, j] * w[i, j]
    y[i, j] = v if j % 2 == 0 else kc.cross(v, y[i, j])


@kc.kernel
def marked(x: kc.array2d(dtype=kc.float16), seen: kc.array2d(dtype=bool)):
    i, j = kc.tid()
    seen[i, j] = x[i, j] > kc.float16(0.5)
    if j == 1:
        x[i, j] = kc.float16(7.0)


# Rows that run together


@kc.kernel
def product(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@kc.kernel
def layer(w: F32_2D, x: F32_2D, y: F32_2D):
    b, i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += w[i, k] * x[b, k]
    y[b, i] = kc.tanh(total)


@kc.kernel
def added_product(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = c[i, j]
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@kc.kernel
def batched(a: F32_3D, b: F32_3D, c: F32_3D):
    n, i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[2]):
        total += a[n, i, k] * b[n, k, j]
    c[n, i, j] = kc.max(total, 0.0)


@kc.kernel
def in_place(a: F32_2D, b: F32_2D, c: F32_2D, counts: I32_2D):
    i, j = kc.tid()
    last, steps = c[i, j], 0
    for k in range(a.shape[1]):
        if a[i, k] > b[k, j]:
            last = last * b[k, j] - a[i, k]
            steps += k
        elif b[k, 0] > 0.5:
            c[i, j] += b[k, 1]
        for m in range(2):
            last += a[i, m] * b[k, j]
    c[i, j] = c[i, j] * last
    counts[i, j] = steps + i


@kc.kernel
def wide(a: F64_2D, b: F64_2D, c: F64_2D):
    i, j = kc.tid()
    total, scale = kc.float64(0.0), b[0, j]
    for k in range(a.shape[1]):
        total = total * scale + a[i, k] / b[k, j]
    c[i, j] = total


@kc.kernel
def backwards_product(a: F32_2D, b: F32_2D, first: int, c: F32_2D):
    """Rows of ``b`` from the last one to row ``first``, beside the column of the thread."""
    i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[1] - 1, first - 1, -1):
        total += a[i, k] * b[k, j + 2]
    c[i, j] = total


@kc.kernel
def stores_in_loop(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        c[i, j] = a[i, k] * b[k, j]


@kc.kernel
def adds_in_loop(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        c[i, j] += a[i, k] * b[k, j]


@kc.kernel
def gathers(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    total = c[i, j]
    for k in range(a.shape[1]):
        total += b[k, n[j]]
    c[i, j] = total


@kc.kernel
def counts_on_column(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    total = c[i, j]
    for k in range(n[j]):
        total += b[k, j]
    c[i, j] = total


@kc.kernel
def stores_where_asked(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    total = c[i, j]
    for k in range(a.shape[1]):
        total += b[k, j]
    if n[j] > 0:
        c[i, j] = total


@kc.kernel
def sums_of_columns(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, k, j, a[i, k] * b[i, j])


@kc.kernel
def sums_of_rows(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, i, 0, a[i, k] * b[i, j])
        kc.atomic_add(sums, i, (j + k) % 3, b[i, j])


@kc.kernel
def sums_of_components(a: F32_2D, b: F32_2D, sums: VEC3_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        if b[i, j] > 0.0:
            kc.atomic_add(sums, k, j, kc.vec3(a[i, k], b[i, j], a[i, k] * b[i, j]))


@kc.kernel
def sums_of_points(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, i, j, a[i, k] * b[i, j])


# Rows that must not run together


@kc.kernel
def sums_of_diagonals(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, (i + k) % 3, j, a[i, k])


@kc.kernel
def sums_of_one_element(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, 0, j, a[i, k])


@kc.kernel
def two_sums_of_columns(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, k, j, a[i, k])
        kc.atomic_add(sums, k, j, b[i, j])


@kc.kernel
def sums_of_iterations(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, k, 0, a[i, k] * b[i, j])


@kc.kernel
def loops_by_row(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(i % a.shape[1]):
        sums[i, j] += b[k, j]


@kc.kernel
def reads_other_rows(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        sums[k, j] = a[i, k]
        a[i, k] = sums[0, j]


@kc.kernel
def stores_where_others_do(a: F32_2D, b: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        if a[i, k] > b[k, j]:
            sums[0, j] = a[i, k]


@kc.kernel
def one_axis(a: F32_2D, b: F32_2D, sums: F32):
    j = kc.tid()
    for k in range(a.shape[1]):
        sums[j] += b[k, j]


UNTILED = (
    *(sums_of_diagonals, sums_of_one_element, two_sums_of_columns, sums_of_iterations),
    *(loops_by_row, reads_other_rows, stores_where_others_do, one_axis),
)


def factors(m: int, n: int) -> list[Any]:
    return [(m, STEPS), (STEPS, n), (m, n)]


def factors_and_numbers(m: int, n: int) -> list[Any]:
    return [(m, STEPS), (STEPS, n), (n,), (m, n)]


def sums(m: int, n: int) -> list[Any]:
    return [(m, STEPS), (m, n), (max(m, STEPS), max(n, 3))]


def adjoint_of_product() -> Any:
    return optimize(tidy(vjp(product.func, [0, 1], [2]).func))


# Whole tiles, rows that are left, and gangs with a remainder.
# The last ones have rows enough for copies of what they read alike.
TILED_GRIDS = (*((h, w) for h in (3, 4, 5) for w in range(2, 10)), (10, 11), (69, 9), (131, 6))
ADDING: Any = {
    "forms": TILES[1:],
    "grids": ((9, 7), (10, 11), (75, 11)),
    "oracle": VectorStrategy(4),
}

CASES = [
    Case(neighbours, lambda m, n: [(m, n + 1), (m, n)], COLLAPSE | TILE, grids=GRIDS),
    Case(damped, lambda m, n: [(m, n), 4, (m, n)], ANY_STRIDES | COLLAPSE, grids=GRIDS),
    *(
        Case(
            updated,
            lambda m, n, k=k: [np.float32(0.5), (m + 2 * k, n), (m, n + k)],
            COLLAPSE | TILE | IDEMPOTENT,
            grids=SHORT_ROWS,
            variant=f"{k} beyond the grid",
        )
        for k in (0, 1)
    ),
    Case(
        around,
        lambda *grid: [grid] * 2,
        COLLAPSE | TILE,
        grids=((5, 7, 3), (9, 1, 1), (2, 3, 70), (1, 1, 200), (30, 2, 2)),
    ),
    Case(crossed, lambda *grid: [grid] * 3, COLLAPSE | TILE, grids=SHORT_ROWS),
    Case(marked, lambda *grid: [grid] * 2, COLLAPSE | TILE, grids=SHORT_ROWS),
    Case(product, factors, TAIL | TILE | IDEMPOTENT | LOOP, (*TILES, *NARROW_TILES), TILED_GRIDS),
    Case(added_product, factors, TAIL | TILE | IDEMPOTENT | LOOP, TILES, TILED_GRIDS),
    Case(
        batched,
        lambda k, m, n: [(k, m, STEPS), (k, STEPS, n), (k, m, n)],
        TAIL | TILE | IDEMPOTENT | LOOP,
        TILES,
        ((3, 5, 11), (2, 4, 7), (2, 37, 9)),
    ),
    Case(
        backwards_product,
        lambda m, n: [(m, STEPS), (STEPS, n + 2), 1, (m, n)],
        TAIL | TILE | IDEMPOTENT | LOOP,
        TILES,
        TILED_GRIDS,
    ),
    Case(
        in_place,
        lambda *g: [*factors(*g), g],
        TAIL | TILE | LOOP,
        (*TILES, *NARROW_TILES),
        TILED_GRIDS,
    ),
    Case(wide, factors, TAIL | TILE | IDEMPOTENT, (*TILES, *NARROW_TILES), TILED_GRIDS),
    Case(stores_in_loop, factors_and_numbers, TAIL | TILE, TILES[1:], ((5, 7),)),
    *(
        Case(kernel, factors_and_numbers, TAIL | TILE | LOOP, TILES[1:], ((5, 7),))
        for kernel in (adds_in_loop, gathers, counts_on_column, stores_where_asked)
    ),
    Case(sums_of_columns, sums, ANY_STRIDES | TAIL | TILE | LOOP, **ADDING),
    Case(sums_of_rows, sums, ANY_STRIDES | TAIL | TILE, **ADDING),
    Case(sums_of_components, sums, ANY_STRIDES | TILE | LOOP, **ADDING),
    Case(sums_of_points, sums, TAIL | TILE | LOOP, **ADDING),
    Case(
        adjoint_of_product(),
        lambda m, n: [*factors(m, n), (m, STEPS), (STEPS, n), (m, n)],
        ANY_STRIDES | TAIL | TILE | LOOP,
        **ADDING | {"grids": [*((9, n) for n in range(4, 9)), (10, 11), (75, 11)]},
    ),
]
