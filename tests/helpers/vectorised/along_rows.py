"""Kernels of one thread per row: gangs load elements of several rows, and transpose them."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.helpers.vectorised.case import (
    ANY_STRIDES,
    BLOCKS,
    F32,
    F32_2D,
    F64_2D,
    GANGS,
    I32,
    IDEMPOTENT,
    INDEPENDENT,
    LOOP,
    LOOPS,
    TAIL,
    TILE,
    TILES,
    TWO_LOOPS,
    Case,
)

F64 = kc.array1d[kc.float64]
F16_2D, I8_2D, BOOL_2D = (kc.array(t, 2) for t in (kc.float16, kc.int8, bool))


@kc.kernel
def softmax(x: F32_2D, y: F32_2D):
    i = kc.tid()
    n = x.shape[1]
    largest = x[i, 0]
    for k in range(n):
        largest = kc.max(largest, x[i, k])
    total = 0.0
    for k in range(n):
        total += kc.exp(x[i, k] - largest)
    for k in range(n):
        y[i, k] = kc.exp(x[i, k] - largest) / total


@kc.kernel
def backwards(x: F64_2D, w: F32, y: F64_2D):
    i = kc.tid()
    carried = kc.float64(w[i])
    for k in range(y.shape[1] - 2, 0, -1):
        carried = 0.5 * carried + x[i, k - 1] - x[i, k + 1]
        y[i, k] = carried
        y[i, k] = y[i, k] * 2.0


@kc.kernel
def narrow(x: F16_2D, small: I8_2D, is_set: BOOL_2D):
    i = kc.tid()
    total = kc.float16(0.0)
    for k in range(kc.uint8(2), kc.uint8(x.shape[1])):
        total += x[i, kc.int32(k)]
    for j in range(x.shape[1]):
        x[i, j] = x[i, j] - total
        small[i, j] += kc.int8(j)
        is_set[i, j] = x[i, j] > kc.float16(0.0) or is_set[i, j]


@kc.kernel
def row_after_row(x: F32_2D, b: F32, small: I8_2D, wide: F64_2D, y: F32_2D):
    """Independent iterations, some under a condition of the lane, for some of the lanes."""
    i = kc.tid()
    if i % 3 == 1:
        return
    is_large = b[i] > 0.2
    for k in range(y.shape[1] - 1, -1, -1):
        if is_large:
            y[i, k] = x[i, k] * b[i] + kc.float32(i)
        elif x[i, k] > 0.0:
            y[i, k] = kc.exp(x[i, k])
        y[i, k] = y[i, k] * b[0] + kc.float32(k)
    for k in range(1, x.shape[1]):
        small[i, k] = small[i, k] + kc.int8(i)
        wide[i, k] = kc.float64(y[i, k]) / kc.float64(k)


@kc.kernel
def normalised(x: F32_2D, w: F32, y: F32_2D):
    """The adjoint adds to rows in several loops."""
    i = kc.tid()
    mean, spread = 0.0, 0.0
    for k in range(x.shape[1]):
        mean += x[i, k]
    mean = mean / float(x.shape[1])
    for k in range(x.shape[1]):
        spread += (x[i, k] - mean) * (x[i, k] - mean)
    scale = 1.0 / kc.sqrt(spread + 1.0)
    for k in range(x.shape[1]):
        y[i, k] = (x[i, k] - mean) * scale * w[k]


@kc.kernel
def rows_of_a_table(at: I32, table: F32_2D, w: F32, y: F32_2D):
    i = kc.tid()
    if i % 5 != 2:
        for k in range(y.shape[1]):
            y[i, k] += w[k] * table[at[i], k]
            kc.atomic_add(y, i, k, table[at[i], k])


@kc.kernel
def looked_up(at: I32, table: F32_2D, w: F32, y: F32_2D):
    """The adjoint adds to rows that lanes share."""
    i = kc.tid()
    for k in range(y.shape[1]):
        y[i, k] = w[k] * table[at[i], k]


@kc.kernel
def attention(q: F32_2D, keys: F32_2D, y: F32_2D):
    i = kc.tid()
    largest, total = kc.float32(-1e30), kc.float32(0.0)
    for j in range(keys.shape[0]):
        score = kc.float32(0.0)
        for c in range(q.shape[1]):
            score += q[i, c] * keys[j, c]
        before = largest
        largest = kc.max(largest, score)
        scale = kc.exp(before - largest)
        part = kc.exp(score - largest)
        total = total * scale + part
        for c in range(y.shape[1]):
            y[i, c] = y[i, c] * scale + part * keys[j, c]
    for c in range(y.shape[1]):
        y[i, c] = y[i, c] / total


@kc.kernel
def distances(a: F32_2D, b: F32_2D, y: F32_2D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        d = a[i, k] - b[j, k]
        total += d * d
    y[i, j] = total


@kc.kernel
def outer_rows(x: F32_2D, y: F32_2D):
    i = kc.tid()
    for k in range(1, x.shape[1]):
        total = x[i, k]
        for _ in range(2):
            total += x[i, k - 1]
        y[i, k - 1] = total


@kc.kernel
def collected(x: F32_2D, wide: F64_2D, w: F32, small: F32, sums: F32, ends: kc.array1d[kc.float64]):
    """Sums and extrema, up and down the rows; rows of 32 and more have a part per lane."""
    i = kc.tid()
    n = x.shape[1]
    total, least, most = w[0], 3.0, kc.float64(-0.0)
    count = 0
    for k in range(n):
        total += x[i, k] * w[k]
        total -= kc.abs(x[i, k])
        least = kc.min(x[i, k], least)
        count += kc.int32(10.0 * x[i, k])
    for k in range(n - 1, 0, -1):
        most = kc.max(most, wide[i, k])
        small[i] += x[i, k]
    sums[i] = total + least + kc.float32(count)
    ends[i] = most


@kc.kernel
def overwritten(at: I32, x: F64_2D, y: F64_2D):
    """The adjoint adds to rows of ``x`` in a block, with a loop along ``y`` inside."""
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] += x[at[i], k]
        for j in range(x.shape[1]):
            y[i, j] = 0.0


@kc.kernel
def triangular(w: F64_2D, x: F64_2D, y: F64):
    """Threads share a matrix, whose cotangent a row of a thread adds to."""
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        found = x[i, k]
        for j in range(k):
            found += w[k, j] * x[i, j]
        total += found * found
    y[i] = total


def adjoint(kernel: kc.Kernel, wrt: int | list[int], seed: int) -> Any:
    given = [wrt] if isinstance(wrt, int) else wrt
    return optimize(tidy(vjp(kernel.func, given, [seed]).func))


def columns(n: int) -> int:
    """A number of columns that differs with the number of rows: whole blocks, and others."""
    return 3 + 7 * n % 43


def long_columns(n: int) -> int:
    """As many as rows with parts may have, or one less; and with every kind of remainder."""
    return 31 + 5 * n % 47


def square(n: int) -> list[Any]:
    return [(n, columns(n))] * 2


ROWS = ((1,), (4,), (5,), (11,), (16,), (31,), (39,), (70,))
# Elements that processors access under a mask, and those that they do not.
MASKED = tuple(
    VectorStrategy(lanes, least_masked_bytes=least)
    for lanes in (4, 16, 64)
    for least in (1, 4, NO_MASKS)
)

CASES = [
    Case(softmax, square, TAIL | LOOP | BLOCKS | INDEPENDENT, (*MASKED, *LOOPS), ROWS),
    Case(
        backwards,
        lambda n: [(n, columns(n)), (n,), (n, columns(n))],
        TAIL | BLOCKS,
        GANGS,
        ROWS,
    ),
    Case(
        row_after_row,
        lambda n: [(n, columns(n)), (n,), *[(n, columns(n))] * 3],
        TAIL | BLOCKS | INDEPENDENT,
        (*MASKED, *LOOPS),
        ROWS,
    ),
    Case(
        normalised,
        lambda n: [(n, columns(n)), (columns(n),), (n, columns(n))],
        TAIL | TWO_LOOPS | BLOCKS | INDEPENDENT,
        GANGS,
        ROWS,
    ),
    Case(
        adjoint(normalised, 0, 2),
        lambda n: [(n, columns(n)), (columns(n),), *[(n, columns(n))] * 3],
        TAIL | BLOCKS,
        GANGS,
        ROWS,
        variant="adjoint",
    ),
    Case(
        adjoint(normalised, [0, 1], 2),
        lambda n: [
            *((n, columns(n)), (columns(n),), (n, columns(n))),
            *((n, columns(n)), (columns(n),), (n, columns(n))),
        ],
        TAIL | BLOCKS,
        MASKED,
        ROWS,
        variant="adjoint of a shared factor",
    ),
    Case(
        adjoint(looked_up, [1, 2], 3),
        lambda n: [
            *(np.arange(n, dtype=np.int32)[::-1] // 2, (n, columns(n)), (columns(n),)),
            *((n, columns(n)), (n, columns(n)), (columns(n),), (n, columns(n))),
        ],
        TAIL | LOOP | BLOCKS,
        (*MASKED, *LOOPS),
        ROWS,
        variant="adjoint",
    ),
    Case(
        adjoint(triangular, [0, 1], 2),
        lambda n: [(columns(n), columns(n)), (n, columns(n)), (n,)] * 2,
        ANY_STRIDES | TWO_LOOPS | BLOCKS,
        MASKED,
        ROWS,
        variant="adjoint",
    ),
    Case(narrow, lambda n: [(n, columns(n))] * 3, TAIL | BLOCKS, MASKED, ROWS),
    Case(
        rows_of_a_table,
        lambda n: [
            np.arange(n, dtype=np.int32)[::-1] // 2,
            (n, columns(n)),
            (columns(n),),
            (n, columns(n)),
        ],
        TAIL | BLOCKS,
        GANGS,
        ROWS,
    ),
    Case(
        attention,
        lambda n: [(n, 19), (5, 19), (n, 17)],
        TAIL | LOOP | BLOCKS | INDEPENDENT,
        (*GANGS, *LOOPS),
        ROWS,
    ),
    Case(
        distances,
        lambda m, n: [(m, 21), (n, 21), (m, n)],
        TAIL | TILE | IDEMPOTENT | LOOP | BLOCKS,
        TILES,
        ((3, 4), (5, 9), (10, 11)),
    ),
    Case(
        collected,
        lambda n: [*((n, long_columns(n)),) * 2, (long_columns(n),), (n,), (n,), (n,)],
        TAIL | BLOCKS,
        (VectorStrategy(), *MASKED),
        ROWS,
    ),
    Case(
        adjoint(overwritten, 1, 2),
        lambda n: [np.arange(n, dtype=np.int32)[::-1] // 2, *[(n, columns(n))] * 4],
        ANY_STRIDES | TAIL | BLOCKS,
        MASKED,
        ROWS,
        variant="adjoint",
    ),
    Case(outer_rows, square, TAIL | LOOP | BLOCKS | INDEPENDENT, (*GANGS, *LOOPS), ROWS),
    Case(
        adjoint(softmax, 0, 1),
        lambda n: [(n, columns(n))] * 4,
        TAIL | TWO_LOOPS | BLOCKS,
        (*GANGS, *LOOPS),
        ROWS,
        variant="adjoint",
    ),
    Case(
        adjoint(attention, 0, 2),
        lambda n: [(n, 19), (5, 19), (n, 17), (n, 19), (n, 17)],
        TWO_LOOPS | BLOCKS,
        GANGS,
        ((5,), (39,)),
        variant="adjoint",
    ),
]
