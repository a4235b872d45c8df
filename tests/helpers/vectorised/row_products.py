"""Kernels that read rows of an array alike for all rows of the grid: tiles transpose them once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernelcore as kc
from kernelcore.codegen.simd.strategy import VectorStrategy
from tests.helpers.vectorised.case import (
    BLOCKS,
    F32,
    F32_2D,
    F64_2D,
    IDEMPOTENT,
    LOOP,
    LOOPS,
    NARROW_TILES,
    TAIL,
    TILE,
    TILES,
    TWO_LOOPS,
    Case,
)

F32_3D = kc.array3d[float]


@kc.kernel
def row_product(a: F32_2D, b: F32_2D, bias: F32, y: F32_2D):
    i, j = kc.tid()
    total = bias[j]
    for k in range(a.shape[1]):
        total += a[i, k] * b[j, k]
    y[i, j] = total


@kc.kernel
def row_distance(a: F64_2D, b: F64_2D, y: F64_2D):
    """Rows are read from their end, without the first element."""
    i, j = kc.tid()
    total, largest = kc.float64(0.0), kc.float64(0.0)
    for k in range(a.shape[1] - 1, 0, -1):
        d = a[i, k] - b[j, k]
        total += d * d
        largest = kc.max(largest, kc.abs(d))
    y[i, j] = total + largest


@kc.kernel
def weighted_rows(a: F32_2D, b: F32_2D, w: F32_2D, y: F32_2D):
    """Two loops: one that reads two arrays along rows, and one that reads one."""
    i, j = kc.tid()
    largest = -1.0e30
    for k in range(a.shape[1]):
        largest = kc.max(largest, w[j, k] * (a[i, k] - b[j, k]))
    total = 0.0
    for k in range(a.shape[1]):
        total += kc.exp(b[j, k] - largest)
    y[i, j] = total


@kc.kernel
def both_products(a: F32_2D, b: F32_2D, c: F32_2D, y: F32_2D):
    """One loop reads rows of lanes, the other one what lies beside each other for them."""
    i, j = kc.tid()
    total, other = 0.0, 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[j, k]
    for k in range(a.shape[1]):
        other += a[i, k] * c[k, j]
    y[i, j] = total - other


@kc.kernel
def row_products(a: F32_3D, b: F32_3D, y: F32_3D):
    """A batch; each has rows of its own."""
    g, i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[2]):
        total += a[g, i, k] * b[g, j, k]
    y[g, i, j] = total


@kc.kernel
def far_rows(a: F32_2D, b: F32_2D, y: F32_2D):
    """Which rows of ``b`` are read depends on the row of the grid."""
    i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[i + j, k]
    y[i, j] = total


def operands(trips: int, *extra: int) -> Callable[..., list[Any]]:
    """Operands with rows of ``trips`` elements; ``extra`` arrays are read along rows, too."""

    def of(*grid: int) -> list[Any]:
        *outer, m, n = grid
        rows = [(*outer, n, trips) for _ in range(1 + len(extra))]
        return [(*outer, m, trips), *rows, grid]

    return of


# Launches of fewer rows than panels pay for, of as many, of whole tiles and of some rows more, with
# columns that are a part of a gang, a gang, and more.
GRIDS = ((3, 5), (15, 4), (16, 1), (19, 5), (36, 16), (70, 3))
FORMS = (
    *TILES,
    VectorStrategy(16, tile_rows=8),
    VectorStrategy(64, tile_rows=2),
    *NARROW_TILES,
    *LOOPS,
)
DECIDED = TAIL | TILE | IDEMPOTENT | BLOCKS


def _with_bias(trips: int) -> Callable[..., list[Any]]:
    return lambda m, n: [(m, trips), (n, trips), (n,), (m, n)]


CASES = [
    *(
        Case(row_product, _with_bias(trips), DECIDED | LOOP, FORMS, GRIDS, variant=trips)
        for trips in (1, 31, 32, 43)
    ),
    # Rows that are as long as panels have room for, and longer.
    *(
        Case(row_product, _with_bias(trips), DECIDED | LOOP, FORMS[3:6], ((17, 2),), variant=trips)
        for trips in (4096, 4097)
    ),
    *(
        Case(row_distance, operands(trips), DECIDED, FORMS, GRIDS, variant=trips)
        for trips in (2, 40)
    ),
    Case(weighted_rows, operands(37, 1), DECIDED | LOOP, FORMS, GRIDS[1:]),
    Case(
        both_products,
        lambda m, n: [(m, 40), (n, 40), (40, n), (m, n)],
        DECIDED | TWO_LOOPS,
        FORMS,
        (*GRIDS[2:], (40, 5)),
    ),
    Case(row_products, operands(35), DECIDED | LOOP, FORMS, ((2, 17, 5), (3, 4, 7))),
    Case(
        far_rows,
        lambda m, n: [(m, 33), (m + n, 33), (m, n)],
        DECIDED | LOOP,
        FORMS,
        ((33, 5),),
    ),
]
