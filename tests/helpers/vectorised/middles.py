"""Kernels whose indices wrap or stop at the ends of rows: gangs in the middle have own code."""

from __future__ import annotations

from typing import Any

import kernelcore as kc
from kernelcore.ir.core import Func
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.helpers.vectorised.case import (
    ANY_STRIDES,
    F32,
    F32_2D,
    GANGS,
    IDEMPOTENT,
    LOOP,
    MIDDLE,
    TILE,
    Case,
)

# Rows without a middle, of one gang in the middle, and of several; the greatest gang has 64.
ROWS_2D = (*((2, n) for n in (1, 3, 12, 13, 15, 47, 48, 63, 64, 65)), (3, 131), (2, 200), (1, 261))


@kc.kernel
def wrapped(u: F32_2D, y: F32_2D):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    v = u[(i + 1) % n, j] - u[(i + n - 1) % n, j] + 3.0 * u[i, (m + j + 2) % m]
    y[i, j] = kc.sin(v) * u[i, (j - 1 + m) % m] + u[i, (j - 3) % m]


@kc.kernel
def limited(u: F32_2D, y: F32_2D):
    i, j = kc.tid()
    m = u.shape[1]
    v = u[i, kc.max(j - 1, 0)] - u[i, kc.min(m - 1, j + 5)] * u[kc.max(0, i - 1), j]
    y[i, j] = v * u[i, kc.clamp(j + 1, 0, m - 1)]


@kc.kernel
def chosen(u: F32_2D, at: kc.int32, y: F32_2D):
    i, j = kc.tid()
    m = u.shape[1]
    left = j - 1 if j > 0 else m - 1
    right = j
    if j != m - 1:
        right = j + 1
    v = u[i, left] * u[i, right] + u[i, kc.where(m <= j + 2, 0, j + 2)]
    if j == at:
        v += 5.0
    y[i, j] = v + u[i, kc.where(j == 0, 0, j - 1)]


@kc.kernel
def around(u: F32_2D, w: F32_2D, y: F32_2D):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    total = 0.0
    for a in range(-1, 2):
        for b in range(2, -2, -2):
            total += w[a + 1, b] * u[(i + a + n) % n, (j - b + m) % m] - u[i, kc.max(j - b, 0)]
    y[i, j] = total


@kc.kernel
def of_halves(u: F32_2D, v: F32, y: F32_2D):
    i, j = kc.tid()
    h = kc.int64(v.shape[0])
    k = kc.int64(j)
    y[i, j] = v[(k + 1) % h] * u[i, j] + v[kc.min(k, h - 1)] + u[i, (j + 70) % u.shape[1]]


@kc.kernel
def spread(u: F32_2D, y: F32_2D):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    kc.atomic_add(y, i, (j + 1) % m, u[i, j])
    kc.atomic_add(y, i, j, 0.3 * u[i, j])
    kc.atomic_add(y, (i + 1) % n, kc.max(j - 1, 0), u[i, j] * u[i, j])
    kc.atomic_add(y, 0, 0, u[i, j])


def adjoint_of(kernel: kc.Kernel) -> Func:
    return optimize(tidy(vjp(kernel.func, [0], [len(kernel.func.params) - 1]).func))


def same(*grid: int) -> list[Any]:
    return [grid] * 2


def chosen_at(m: int, n: int) -> list[Any]:
    return [(m, n), n // 2, (m, n)]


AROUND = ANY_STRIDES | TILE | IDEMPOTENT | LOOP | MIDDLE

CASES = [
    Case(wrapped, same, ANY_STRIDES | TILE | IDEMPOTENT | MIDDLE, GANGS, ROWS_2D),
    Case(limited, same, TILE | IDEMPOTENT | MIDDLE, GANGS, ROWS_2D),
    Case(chosen, chosen_at, TILE | MIDDLE, GANGS, ROWS_2D),
    Case(around, lambda m, n: [(m, n), (3, 3), (m, n)], AROUND, GANGS, ROWS_2D),
    Case(
        of_halves,
        lambda m, n: [(m, n), (n // 2 + 1,), (m, n)],
        ANY_STRIDES | TILE | IDEMPOTENT | MIDDLE,
        GANGS,
        ROWS_2D,
    ),
]
# Kernels that add floats: their bits depend on the gang.
ADDING = [
    Case(spread, same, ANY_STRIDES | MIDDLE, GANGS, ROWS_2D),
    Case(adjoint_of(wrapped), lambda *g: [g] * 4, MIDDLE, GANGS, ROWS_2D),
    Case(adjoint_of(limited), lambda *g: [g] * 4, MIDDLE, GANGS, ROWS_2D),
]
