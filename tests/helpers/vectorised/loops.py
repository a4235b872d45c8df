"""Kernels with loops whose iterations run in the lanes of SIMD registers."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from tests.helpers.vectorised.case import (
    ANY_STRIDES,
    F32,
    F64,
    I8,
    I32,
    I64,
    LOOP,
    LOOPS,
    TAIL,
    TWO_LOOPS,
    VEC3,
    Case,
)

RADIUS = 0.4


@kc.kernel
def density(x: VEC3, start: I32, neighbour: I32, h: float, rho: F32):
    i = kc.tid()
    here = x[i]
    total = 0.0
    for k in range(start[i], start[i + 1]):
        d = x[neighbour[k]] - here
        near = h * h - kc.dot(d, d)
        if near > 0.0:
            total += near * near * near
    rho[i] = total


@kc.kernel
def every_sum(at: I32, x: VEC3, count: I32, near: VEC3, out: VEC3, n: I32):
    i = kc.tid()
    total, steps = kc.vec3(0.0, -0.0, 1.0), 0
    for k in range(i % 40, -1, -1):
        j = at[k]
        d = x[j] - x[i]
        q = kc.exp(-kc.dot(d, d))
        total -= q * d
        if j % 3 == 0:
            steps += j
            kc.atomic_add(near, j, q * d)
        elif q > 0.5:
            steps -= 1
            total += d
        kc.atomic_add(count, (i + k) % 50, 1)
    out[i] = total
    n[i] = steps


@kc.kernel
def signed_zeros(x: F32, y: F64, z: F32, added: F32):
    i = kc.tid()
    up, down, zero = kc.float64(-0.0), kc.float32(-0.0), kc.float32(0.0)
    for k in range(i):
        up += kc.float64(x[k % 7])
        down -= kc.abs(x[k % 7])
        zero -= x[k % 7]
        kc.atomic_add(added, (i + k) % 50, x[k % 7])
    y[i] = up
    z[i] = down if i % 2 == 0 else zero


@kc.kernel
def guarded(at: I32, x: F32, added: F32, y: F32):
    i = kc.tid()
    total, quotients = 0.0, 0
    for k in range(i % 40):
        j = at[k]
        if j >= 0 and j < 20:
            total += x[j]
            kc.atomic_add(added, j, x[j])
            quotients += 100 // (j - 4)
        if k < 20 and k > 5:
            total -= x[k]
    y[i] = total + kc.float32(quotients)


@kc.kernel
def of_every_width(
    h: kc.array(kc.float16, 1),
    b: kc.array(kc.bfloat16, 1),
    is_used: kc.array(bool, 1),
    small: I8,
    large: kc.array(kc.uint64, 1),
    m: kc.array(kc.mat22, 1),
    at: I32,
    y: F32,
    few: I8,
    count: I8,
    many: kc.array(kc.uint64, 1),
):
    i = kc.tid()
    total, few_left, number = 0.0, kc.int8(3), kc.uint64(5)
    for k in range(i % 40):
        j = at[k]
        total += kc.float32(h[j]) * kc.float32(b[k]) + m[j][0, 1]
        few_left -= small[j] * small[k]
        if is_used[j]:
            number -= large[k] * kc.uint64(7)
            kc.atomic_add(few, j, small[k])
    y[i] = total
    count[i] = few_left
    many[i] = number


@kc.kernel
def near_limits(x: F32, first: I64, last: I64, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(first[i], last[i], kc.int64(3)):
        total += x[k & kc.int64(31)] * kc.float32(k * kc.int64(5) % kc.int64(1000))
    for k in range(last[i], first[i], kc.int64(-5)):
        total -= x[(k * kc.int64(2**62 + 1)) & kc.int64(31)]
    y[i] = total


# Loops whose iterations need those before


@kc.kernel
def stores(x: F32, y: F32):
    for k in range(kc.tid()):
        y[k] = x[k] * x[k]


@kc.kernel
def sees_its_additions(x: F32, y: F32):
    i = kc.tid()
    for k in range(i):
        kc.atomic_add(y, k, x[k] * y[k + 1])


@kc.kernel
def adds_at_two_places(x: F32, y: F32):
    for k in range(kc.tid()):
        kc.atomic_add(y, k, x[k])
        kc.atomic_add(y, 2 * k, x[k])


@kc.kernel
def multiplies(x: F32, y: F32):
    i = kc.tid()
    product = 1.0
    for k in range(i):
        product *= x[k]
    y[i] = product


@kc.kernel
def sees_its_sum(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total += kc.sin(total + x[k])
    y[i] = total


@kc.kernel
def leaves_early(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total += kc.sin(x[k])
        if total > 3.0:
            break
    y[i] = total


@kc.kernel
def asks_for_old_elements(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total += kc.atomic_add(y, k, x[k])
    x[i] = total


@kc.kernel
def checks(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        assert x[k] < 3.0
        total += x[k]
    y[i] = total


@kc.kernel
def adds_in_one_arm_of_what_it_replaces_in_the_other(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total = total + x[k] if x[k] > 0.0 else x[k]
    y[i] = total


SEQUENTIAL = (
    *(stores, sees_its_additions, adds_at_two_places, multiplies, sees_its_sum, leaves_early),
    *(asks_for_old_elements, checks, adds_in_one_arm_of_what_it_replaces_in_the_other),
)


@kc.kernel
def sparse_product(start: I32, column: I32, value: F32, x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(start[i], start[i + 1]):
        total += value[k] * x[column[k]]
    y[i] = total


def particles(points: int) -> list[np.ndarray]:
    """Points in a box, and for each up to 40 others, some of which are near."""
    rng = np.random.default_rng(0)
    x = rng.random((points, 3)).astype(np.float32)
    start = np.concatenate([[0], np.cumsum(rng.integers(0, 41, points))]).astype(np.int32)
    neighbour = rng.integers(0, points, start[-1]).astype(np.int32)
    return [x, start, neighbour]


def numbers_of_every_width(n: int) -> list[Any]:
    large = np.random.default_rng(5).integers(0, 2**63, 120).astype(np.uint64)
    at = np.random.default_rng(6).integers(0, 50, 50).astype(np.int32)
    small = large.astype(np.int8)
    arrays = [(50,), (50,), large % 3 == 0, small, large, (50,), at]
    return [*arrays, (n,), small.copy(), small.copy(), large.copy()]


def indices(n: int) -> list[Any]:
    """Some indices that a branch keeps from being used."""
    choices = [3, 4, 19, 20, -5, 2**30, -(2**31), 2**31 - 1]
    at = np.random.default_rng(3).choice(choices, 40).astype(np.int32)
    return [at, (20,), (20,), (n,)]


def limits(limit: int, n: int) -> list[Any]:
    """Ranges of indices that end at ``limit``, which no index may pass."""
    inner = limit - np.arange(n) if limit > 0 else limit + np.arange(n)
    return [(32,), *np.sort([np.full(n, limit), inner], axis=0), (n,)]


def zeros(n: int) -> list[Any]:
    return [np.full(7, -0.0, np.float32), (n,), (n,), np.full(50, -0.0, np.float32)]


CASES = [
    Case(density, lambda n: [*particles(n), RADIUS, (n,)], LOOP, LOOPS, ((500,),)),
    Case(
        every_sum,
        lambda n: [np.arange(40, dtype=np.int32) * 7 % n, (n,), (50,), (n,), (n,), (n,)],
        ANY_STRIDES | LOOP,
        LOOPS,
        ((70,),),
    ),
    Case(signed_zeros, zeros, ANY_STRIDES | LOOP, LOOPS, ((40,),)),
    Case(guarded, indices, ANY_STRIDES | LOOP, LOOPS, ((70,),)),
    Case(of_every_width, numbers_of_every_width, ANY_STRIDES | LOOP, LOOPS, ((70,),)),
    *(
        Case(
            near_limits,
            lambda n, at=at: limits(at, n),
            TAIL | TWO_LOOPS,
            LOOPS,
            ((60,),),
            variant=at,
        )
        for at in (-(2**63), 2**63 - 1)
    ),
]
