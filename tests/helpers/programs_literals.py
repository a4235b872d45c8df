"""Functions that exercise literals: integers without end, floats as precise as they are used."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.programs import F32, F64, X, case

BIG = 2**70


@case((1.5,))
def integer_literals_are_exact(x: kc.float64):
    a = x * (4611686018427387904 * 4) + x * (1 << 64) + x * (10**18 * 10)
    b = x * BIG - x * (3**50 // 7 % 1000) + (BIG >> 60) * x
    return a, b, 2**63 > 2**63 - 1, 2**70 == 1 << 70, x * abs(-(2**70))


@case((0,))
def the_least_integer(n: int):
    least = kc.int64(-9223372036854775808)
    most = kc.int64(2**63 - 1)
    return (least + most) * kc.int64(n + 1), most == 9223372036854775807


@case((True,), (False,))
def chosen_literals_are_as_precise_as_their_cast(c: bool):
    s = 0.1 if c else 0.3
    t: kc.float64 = s
    u = kc.float64(kc.where(c, 0.1, 0.3))
    exact = kc.float64(0.1) if c else kc.float64(0.3)
    return 1e12 * (kc.float64(s) - exact), 1e12 * (t - exact), 1e12 * (u - exact)


@case((3,), (0,))
def carried_literals_are_as_precise_as_their_cast(n: int):
    s = 0.1
    for _ in range(n):
        s = s * 0.1 + 0.2
    exact = kc.float64(0.1)
    for _ in range(n):
        exact = exact * 0.1 + 0.2
    return 1e12 * (kc.float64(s) - exact)


@kc.func
def third(x):
    if x > 0.5:
        return x / 3.0
    return 0.1


@case((1.0,), (0.0,))
def results_of_literals_are_as_precise_as_their_cast(x: kc.float64):
    return 1e12 * (kc.float64(third(1.0)) - kc.float64(1.0) / 3.0), third(x)


@case((X.astype(np.float32), X), (X[:0].astype(np.float32), X))
def a_cast_leaves_other_uses_narrow(x: F32, y: F64):
    s = 1.0
    r = 0.25 if len(x) > 2 else 0.5
    for i in range(len(x)):
        y[i] = kc.float64(s) + kc.float64(r)
        s = s * x[i]
        x[i] = r * x[i]
    return s


@case((True, np.full(1, 0.5, np.float32)), (False, np.full(1, 0.5, np.float32)))
def integers_that_meet_floats_stay_integers(c: bool, x: F32):
    t = 16777217 if c else 5
    u = t - 16777216
    v = kc.where(c, 16777217, 16777218) - 16777216
    s = t
    for _ in range(2):
        s = s + 0.5 * x[0]
    x[0] = u * x[0] + v
    half = (u + 0.5) * kc.float64(x[0])
    return x[0], half, t // 2, s


@kc.func
def excess(x, count):
    return x * (count - 16777216)


@case((np.full(1, 0.5, np.float32),))
def integer_arguments_stay_integers(x: F32):
    return excess(x[0], 16777217), excess(kc.float64(x[0]), 3.5)


@case((2.0, 1), (2.0, -1))
def an_integer_and_a_float_join(x: kc.float64, n: int):
    count = 0
    for _ in range(3):
        count += 1
    y = count
    if n > 0:
        y = x
    return y * x, count // 2


@case((0.5, 1), (0.5, 3))
def sums_that_start_at_an_integer(x: kc.float64, n: int):
    s = 0 if n > 2 else 1
    for _ in range(n):
        for _ in range(2):
            s += x
    return s
