"""Kernels with loops of independent iterations, which are lanes with the loops inside."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from tests.helpers.vectorised.case import (
    ANY_STRIDES,
    BLOCKS,
    F32,
    F32_2D,
    F64,
    F64_2D,
    I32,
    INDEPENDENT,
    LOOP,
    LOOPS,
    TAIL,
    TWO_LOOPS,
    Case,
)

I8_2D = kc.array(kc.int8, 2)
F16_2D = kc.array(kc.float16, 2)
# No vector, a short one, a long one, both, and each with a remainder.
WIDTHS = (1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 40, 75)


@kc.kernel
def aggregated(start: I32, column: I32, score: F32, x: F32_2D, y: F32_2D):
    """Graph attention without its maximum."""
    i = kc.tid()
    total = 0.0
    for e in range(start[i], start[i + 1]):
        total += kc.exp(score[column[e]])
    for j in range(x.shape[1]):
        found = 0.0
        for e in range(start[i], start[i + 1]):
            found += kc.exp(score[column[e]]) / total * x[column[e], j]
        y[i, j] = found


@kc.kernel
def gathered(at: I32, x: F32_2D, low: int, y: F32_2D):
    """Columns from ``low`` on, up to one that depends on the thread."""
    i = kc.tid()
    for j in range(low, x.shape[1] - i % 3):
        y[i, j + 1] = x[at[i], j] + 0.5 * float(j)


@kc.kernel
def guarded(at: I32, limit: F32, x: F32_2D, y: F32_2D, z: I8_2D, h: F16_2D):
    """Branches on what lanes share, and on what they do not; loads of what is stored."""
    i = kc.tid()
    for j in range(x.shape[1]):
        v = x[at[i], j]
        if limit[i] > 0.0:
            y[i, j] = y[i, j] + v
        if v > limit[j]:
            z[i, j] = z[i, j] + kc.int8(j)
            for k in range(i % 3):
                v += x[at[k], j]
        y[i, j] = 2.0 * y[i, j] - v
        h[i, j] = h[i, j] + kc.float16(v)


@kc.kernel
def planes(at: I32, x: kc.array3d[float], w: F64, y: kc.array(kc.float64, 3)):
    """The inner loop of two has neighbours; a third one is inside."""
    i = kc.tid()
    for a in range(x.shape[1]):
        for b in range(x.shape[2]):
            total = kc.float64(0.0)
            for k in range(w.shape[0]):
                total += w[k] * kc.float64(x[at[(i + k) % 5], a, b])
            y[i, a, b] = total


@kc.kernel
def of_one_point(w: F64_2D, x: F64, y: F64):
    for j in range(w.shape[1]):
        total = kc.float64(0.0)
        for k in range(w.shape[0]):
            total += kc.sin(x[k]) * w[k, j]
        y[j] = total


@kc.kernel
def sums(at: I32, x: F32_2D, y: F32_2D, total: F32):
    i = kc.tid()
    found = 0.0
    for j in range(x.shape[1]):
        y[i, j] = x[at[i], j]
        found += y[i, j]
    total[i] = found


@kc.kernel
def next_to_stored(at: I32, x: F32_2D, y: F32_2D):
    i = kc.tid()
    for j in range(x.shape[1] - 1):
        y[i, j] = y[i, j + 1] + x[at[i], j]


@kc.kernel
def overlapping(x: F32, y: F32):
    i = kc.tid()
    for j in range(20):
        for k in range(3):
            y[j + k] = x[j] + x[k + i]


@kc.kernel
def scattered(at: I32, x: F32_2D, y: F32_2D):
    i = kc.tid()
    for j in range(x.shape[1]):
        y[i, j] = x[at[j], i]


@kc.kernel
def triangular(at: I32, x: F32_2D, y: F32_2D):
    i = kc.tid()
    for j in range(x.shape[1]):
        v = 0.0
        for k in range(j):
            v += x[at[i], k]
        y[i, j] = v


@kc.kernel
def few(at: I32, x: F32_2D, y: F32_2D):
    i = kc.tid()
    for j in range(3):
        y[i, j] = x[at[i], j]


@kc.kernel
def adding(at: I32, x: F32_2D, y: F32_2D):
    i = kc.tid()
    for j in range(x.shape[1]):
        kc.atomic_add(y, at[i], j, x[i, j])


# Loops whose iterations depend on each other, or that gain nothing.
DEPENDENT = (sums, next_to_stored, overlapping, scattered, triangular, few, adding)


def graph(nodes: int, width: int) -> list[Any]:
    rng = np.random.default_rng(nodes)
    start = np.concatenate([[0], np.cumsum(rng.integers(0, 6, nodes))]).astype(np.int32)
    column = rng.integers(0, nodes, start[-1]).astype(np.int32)
    return [start, column, (nodes,), (nodes, width), (nodes, width)]


def rows(n: int) -> np.ndarray:
    """The numbers of some rows."""
    return np.random.default_rng(n).integers(0, 5, n).astype(np.int32)


CASES = [
    *(
        case
        for width in WIDTHS
        for case in (
            Case(
                aggregated,
                lambda n, width=width: graph(n, width),
                TAIL | TWO_LOOPS | BLOCKS | INDEPENDENT,
                LOOPS,
                ((11,),),
                variant=width,
            ),
            Case(
                gathered,
                lambda n, width=width: [rows(n), (5, width), min(2, width - 1), (n, width + 1)],
                TAIL | INDEPENDENT,
                LOOPS,
                ((6,),),
                variant=width,
            ),
            Case(
                guarded,
                lambda n, width=width: [
                    *(rows(n), (max(n, width),), (5, width)),
                    *((n, width), (n, width), (n, width)),
                ],
                ANY_STRIDES | TAIL | LOOP | BLOCKS | INDEPENDENT,
                LOOPS,
                ((6,),),
                variant=width,
            ),
            Case(
                of_one_point,
                lambda n, width=width: [(n + 3, width), (n + 3,), (width,)],
                ANY_STRIDES | LOOP | INDEPENDENT,
                LOOPS,
                ((1,),),
                variant=width,
            ),
        )
    ),
    Case(
        planes,
        lambda n: [rows(5), (5, 3, 41), (4,), (n, 3, 41)],
        ANY_STRIDES | TAIL | LOOP | BLOCKS | INDEPENDENT,
        LOOPS,
        ((7,),),
    ),
]
