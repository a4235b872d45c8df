"""Kernels of one axis whose threads run as gangs."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.language.composite_types import matrix, vector
from tests.helpers.vectorised.case import (
    ANY_STRIDES,
    COLLAPSE,
    EVERY_GANG,
    F32,
    F32_2D,
    F64_2D,
    GRIDS,
    I8,
    I32,
    LOOP,
    NONE,
    ROWS,
    SCALAR,
    TAIL,
    TILE,
    VEC3,
    Case,
)

BOOLS, MAT33, F16 = kc.array(bool, 1), kc.array(kc.mat33, 1), kc.array(kc.float16, 1)
VEC19, MAT34 = vector(19, kc.float32), matrix((3, 4), kc.float32)
# Elements that are adjacent, by the smallest that processors access under a mask.
MASKED = tuple(
    VectorStrategy(lanes, least_masked_bytes=least)
    for lanes in (4, 16, 64)
    for least in (1, 4, NO_MASKS)
)


@kc.kernel
def diverging(x: F32, y: F32, steps: I32):
    i = kc.tid()
    v = x[i]
    n = 0
    while kc.abs(v) < 8.0:
        n += 1
        if n % 3 == 0:
            continue
        if n > 20:
            break
        v = v * 1.5 + 0.25
        if v < -4.0:
            steps[i] = -n
            return
    for k in range(i % 7):
        if k == 5:
            break
        v += x[k] * kc.float32(n)
    for k in range(i, 2 * i, 3):
        v -= x[k % 5]
    y[i] = v
    steps[i] = n


@kc.kernel
def matrices(m: MAT33, v: VEC3, w: VEC3, out: F32):
    i = kc.tid()
    u = m[i] @ v[i]
    w[i] += u
    if u[0] > 0.0:
        v[i] = kc.cross(u, w[i])
        m[i][1] = u
    out[i] = v[i][2] if i % 2 == 0 else m[i][i % 3, 1]


@kc.kernel
def waves(x: VEC3, y: VEC3, total: F32):
    i = kc.tid()
    v = x[i]
    if v[0] > 0.0:
        v = kc.vec3(kc.sin(v[1]), kc.exp(-v[0]), kc.pow(kc.abs(v[2]), 1.5))
        y[i] += v
    total[i] = kc.tanh(kc.dot(v, v)) + kc.log(1.0 + kc.abs(v[1]))


@kc.kernel
def attraction(x: VEC3, is_fixed: BOOLS, force: VEC3):
    i = kc.tid()
    here, total = x[i], kc.vec3(0.0, 0.0, 0.0)
    for j in range(8):
        d = x[j] - here
        r = kc.sqrt(kc.dot(d, d) + 0.25)
        total += d * (kc.exp(-r) / (r * r * r))
    if not is_fixed[i]:
        force[i] = total


@kc.kernel
def scattered(at: I32, x: F32, count: I32, seen: I32, last: F32):
    i = kc.tid()
    k = at[i]
    kc.atomic_add(count, k % 5, 1)
    if x[k] > 0.0:
        seen[i] = k
    x[k] = x[k] * 2.0 + kc.float32(i)
    last[0] = 3.0


@kc.kernel
def counted(x: I32, count: I32, seen: I32):
    i = kc.tid()
    # A gang looks for its lanes by the same instruction.
    k = kc.ctz(x[i] * 9)
    seen[i] = k
    kc.atomic_add(count, k % 4, 1)


@kc.kernel
def some_keep_theirs(x: kc.array(dtype=Any), pairs: kc.array2d(dtype=Any)):
    i = kc.tid()
    for _ in range(i % 4):
        return
    x[i] = x[i] + x.dtype(1)
    x[i] = x[i] + x.dtype(1)
    pairs[i, 0] = x[i]
    pairs[i, 1] = x[i]


@kc.kernel
def reversing(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    """Adds the components of one array to those of another in reverse order, and swaps both."""
    i = kc.tid()
    v, w = x[i], y[i]
    for k in range(len(v)):
        w[k] += v[len(v) - 1 - k]
    x[i] = w
    y[i] = v


@kc.kernel
def mixed(x: F32_2D, wide: F64_2D, half: F16, small: I8, flags: BOOLS, moved: VEC3, y: F32_2D):
    i, j = kc.tid()
    total = y[i, j]
    for k in range(3):
        if x[i, j] > kc.float32(k) - 1.0:
            total += x[i, j] * kc.float32(half[j]) + kc.float32(k)
            wide[i, j] += kc.float64(total)
    if flags[j]:
        y[i, j] = total
        if i == 0:
            half[j] = half[j] * kc.float16(0.5)
            small[j] = small[j] + kc.int8(3)
            flags[j] = x[i, j] > 0.0
            moved[j] = kc.vec3(total, moved[j][0], x[i, j])


@kc.kernel
def smoothed(x: F32_2D, w: F32, kept: I8, wide: F64_2D, y: F32_2D):
    i, j = kc.tid()
    total = y[i, j]
    for k in range(w.shape[0]):
        if x[i, j + k] > 0.0:
            total += w[k] * x[i, j + k]
        if total > 4.0:
            break
    if kept[j] > 0:
        y[i, j] = total
        wide[i, j] += kc.float64(total)


@kc.kernel
def convolved(x: F32, w: F32, here: F32, y: F32):
    i = kc.tid()
    total = here[i]
    for k in range(w.shape[0]):
        total += w[k] * x[i + k]
    y[i] = total


@kc.kernel
def attracted(x: F32, w: F32, f: F32):
    i = kc.tid()
    total = kc.float32(0.0)
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        s = 1.0 / kc.sqrt(d * d + 0.01)
        total += w[j] * d * s * s * s + d * kc.tanh(d * s)
    f[i] = total


@kc.kernel
def iterated(x: F32, y: F32):
    i = kc.tid()
    v, n = x[i], 0
    while kc.abs(v * v - 2.0) > 1e-3 and n < 20:
        v = 0.5 * (v + 2.0 / v)
        n += 1
    y[i] = v + kc.float32(n)


@kc.kernel
def summed(x: F32_2D, y: F32_2D, sums: F32):
    i, j = kc.tid()
    for k in range(3):
        kc.atomic_add(sums, 0, x[i, j] * y[i, j + k])


@kc.kernel
def losses(x: F32, y: F32, sums: F32):
    i = kc.tid()
    v = kc.sin(x[i]) * kc.exp(y[i]) + kc.tanh(x[i])
    kc.atomic_add(sums, 0, v * kc.log(1.0 + v * v))


@kc.kernel
def scattered_losses(x: F32, y: F32, sums: F32):
    i = kc.tid()
    v = kc.sin(x[i]) * kc.exp(y[i]) + kc.tanh(x[i])
    kc.atomic_add(sums, i * i % 3, v * kc.log(1.0 + v * v))


@kc.kernel
def shared_vectors(
    x: F32, n: I32, sums: kc.array(VEC19, 1), table: F64_2D, some: kc.array(MAT34, 1)
):
    i = kc.tid()
    total = VEC19()
    for c in range(19):
        total[c] = x[i] * kc.float32(c + 1)
    for k in range(sums.shape[0]):
        kc.atomic_add(sums, k, total * kc.float32(k + 1))
        if x[i] > 0.0:
            kc.atomic_add(sums, k // 2, total)
            for c in kc.static(tuple(range(11, 2, -1))):
                kc.atomic_add(table, k, c, kc.float64(x[i]))
            kc.atomic_add(table, 4 - k, 5, 1.0)
        kc.atomic_add(some, k, MAT34(x[i]))
    for k in range(n[i]):
        kc.atomic_add(sums, k, total)


@kc.kernel
def totals_of_rows(x: F32_2D, sums: F32):
    i, j = kc.tid()
    kc.atomic_add(sums, i, x[i, j])


@kc.kernel
def totals_of_columns(x: F32_2D, w: F32, sums: F32):
    i, j = kc.tid()
    kc.atomic_add(sums, j, x[i, j] * w[j])


@kc.kernel
def scaled_columns(x: F32_2D, w: F32, shift: F64_2D, y: F32_2D):
    i, j = kc.tid()
    kept = y[i, j]
    if x[i, j] > 0.0:
        kept = x[i, j] * w[j] + kc.float32(shift[i, 0])
    y[i, j] = kept


@kc.kernel
def spread_sums(x: F32_2D, sums: F32):
    i, j = kc.tid()
    for k in range(3):
        kc.atomic_add(sums, (j + k * i) % 7, x[i, j] * float(k + 1))


@kc.kernel
def sums_of_neighbours(x: F32_2D, sums: F32_2D):
    i, j = kc.tid()
    kc.atomic_add(sums, i, j, 0.3 * x[i, j])
    kc.atomic_add(sums, i, j + 1, 0.7 * x[i, j])
    kc.atomic_add(sums, i, j + 2, -x[i, j])


def permutation(n: int) -> np.ndarray:
    return np.random.default_rng(n).permutation(n).astype(np.int32)


# What sums of floats have in common: the order of points, chunk by chunk.
SUMS: Any = {"forms": (VectorStrategy(16),), "oracle": SCALAR}
# And of others: gang after gang, whatever the strides.
SUMS_OF_GANGS: Any = {"forms": (VectorStrategy(16),), "oracle": VectorStrategy(16)}
FEW_ROWS = ((3,), (65,), (150,))

CASES = [
    Case(diverging, lambda n: [(max(n, 7),), (n,), (n,)], TAIL | LOOP, EVERY_GANG),
    Case(matrices, lambda n: [(n,)] * 4, NONE, EVERY_GANG),
    Case(waves, lambda n: [(n,)] * 3, ANY_STRIDES),
    Case(attraction, lambda n: [(max(n, 8),), (n,), (n,)], ANY_STRIDES | LOOP),
    Case(scattered, lambda n: [permutation(n), (n,), (6,), (n,), (1,)], NONE),
    Case(counted, lambda n: [(n,), (4,), (n,)], ANY_STRIDES),
    *(
        Case(
            some_keep_theirs.overload([kc.array(dtype=dtype), kc.array2d(dtype=dtype)]),
            lambda n: [(n,), (n, 2)],
            ANY_STRIDES,
            EVERY_GANG,
            FEW_ROWS,
            variant=dtype,
        )
        for dtype in (kc.float16, kc.bfloat16, kc.uint8, kc.int16, kc.float32, kc.float64)
    ),
    *(
        Case(
            reversing.overload([kc.array(dtype=vector(length=count, dtype=dtype))] * 2),
            lambda n: [(n,)] * 2,
            NONE,
            grids=FEW_ROWS,
            variant=f"{count}-{dtype}",
        )
        for dtype in (kc.uint8, kc.float16, kc.float32, kc.float64)
        for count in (3, 5, 7)
    ),
    Case(
        mixed,
        lambda m, n: [(m, n), (m, n), (n,), (n,), (n,), (n,), (m, n)],
        NONE,
        MASKED,
        [(1, n) for n in (3, 4, 5, 15, 17, 21, 63, 69)],
    ),
    Case(
        smoothed,
        lambda m, n: [(m, n + 2), (3,), (n,), (m, n), (m, n)],
        TAIL | COLLAPSE,
        grids=GRIDS,
    ),
    Case(convolved, lambda n: [(n + 2,), (3,), (n,), (n,)], TAIL | LOOP),
    Case(attracted, lambda n: [(n,)] * 3, ANY_STRIDES | LOOP, grids=ROWS[:-1]),
    Case(iterated, lambda n: [(n,)] * 2, ANY_STRIDES),
    Case(
        summed,
        lambda m, n: [(m, n), (m, n + 2), (3,)],
        TAIL,
        grids=[(1, *row) for row in ROWS],
        **SUMS,
    ),
    Case(losses, lambda n: [(n,), (n,), (3,)], ANY_STRIDES, **SUMS),
    Case(scattered_losses, lambda n: [(n,), (n,), (3,)], ANY_STRIDES, **SUMS),
    Case(
        shared_vectors,
        lambda n: [(n,), np.arange(n, dtype=np.int32) % 4, (5,), (5, 14), (5,)],
        ANY_STRIDES | TAIL | LOOP,
        (VectorStrategy(16), VectorStrategy(16, least_masked_bytes=8)),
        FEW_ROWS,
        VectorStrategy(16, least_masked_bytes=NO_MASKS),
    ),
    Case(
        totals_of_rows,
        lambda m, n: [(m, n), (m,)],
        ANY_STRIDES | TAIL | TILE,
        grids=GRIDS,
        **SUMS_OF_GANGS,
    ),
    Case(
        totals_of_columns,
        lambda m, n: [(m, n), (n,), (n,)],
        TAIL | TILE,
        grids=GRIDS,
        **SUMS,
    ),
    Case(scaled_columns, lambda m, n: [(m, n), (n,), (m, 1), (m, n)], TAIL | TILE, MASKED, GRIDS),
    Case(
        spread_sums,
        lambda m, n: [(m, n), (7,)],
        ANY_STRIDES | TAIL | LOOP,
        grids=GRIDS,
        **SUMS_OF_GANGS,
    ),
    Case(
        sums_of_neighbours,
        lambda m, n: [(m, n), (m, n + 2)],
        ANY_STRIDES | TAIL | TILE,
        grids=GRIDS,
        **SUMS_OF_GANGS,
    ),
]
