"""Functions of the language with the arguments that tests call them on: expressions, literals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kernelcore as kc

F64 = kc.array(dtype=kc.float64)
F32 = kc.array(dtype=kc.float32)
F64_2D = kc.array2d(dtype=kc.float64)
I32 = kc.array(dtype=kc.int32)

X = np.array([0.5, -1.5, 2.0, 3.25])
M = np.arange(6.0).reshape(2, 3)

CASES: list[tuple[kc.Function, list[tuple[Any, ...]]]] = []


def case(*calls: tuple[Any, ...]) -> Callable[[Callable[..., Any]], kc.Function]:
    """Check the decorated function on these arguments."""

    def register(pyfunc: Callable[..., Any]) -> kc.Function:
        function = kc.func(pyfunc)
        CASES.append((function, list(calls)))
        return function

    return register


SCALE = 2
OFFSET = 0.25
STRICT = True


@case((1.5, 2.5), (-3.0, 0.5))
def arithmetic(x: kc.float64, y: kc.float64):
    return x + y * 2 - (x - 1) / y + x**2 - y % 2 + x // y


@case((7, 3), (-7, 3), (7, -3))
def integer_arithmetic(a: int, b: int):
    return a // b, a % b, a * b - a, (a & b) | 5 ^ a, a << 2, a >> 1, ~a, -a, +b


@case((3, 2.0), (0, -1.0))
def casts(n: int, x: kc.float64):
    return kc.float64(n) + x, int(x), bool(n), kc.float64(kc.int64(n) + 2**33)


@case((1.0,), (5.0,), (9.0,))
def chained_comparison(x: kc.float64):
    return 0.0 < x < 4.0, 4.0 < x <= 9.0 != x, x == 5.0


@case((True, False), (True, True), (False, False))
def logic(a: bool, b: bool):
    return a and b, a or b, not a, (a and not b) or (b and not a)


@case((0.0,), (2.0,))
def ternary(x: kc.float64):
    y = 1.0 if x > 1.0 else -1.0
    z = x * x if x > 1.0 else x - 3.0
    return y * x, z


@case((1.0, 2.0))
def tuples(x: kc.float64, y: kc.float64):
    x, y = y, x
    (a, b), c = (x, 2.0), y
    return a, b * y, c


@kc.func
def square(x):
    return x * x


@kc.func
def scaled(x, factor=3.0, *, shift=0):
    return factor * x + shift


@kc.func
def extent(m: F64_2D) -> tuple[int, int]:
    return m.shape[0], m.shape[1]


@kc.func
def first_above(x: F64, bound):
    for i in range(len(x)):
        if x[i] > bound:
            return i
    return len(x)


@case((1.5, 2))
def calls_specialise_by_type(x: kc.float64, n: int):
    return square(x), square(n), scaled(x), scaled(x, shift=2, factor=n * 1.0 if False else 2)


@case((M, X))
def calls_with_arrays(m: F64_2D, x: F64):
    rows, cols = extent(m)
    return rows * 10 + cols, first_above(x, 1), square(square(x[0]))


@case((1.5,))
def constants_of_outer_scopes(x: kc.float64):
    y = x * SCALE + OFFSET + np.pi
    if STRICT:
        y += 1
    else:
        y = does_not_exist  # noqa: F821  # pyright: ignore
    return y


@case((1.5, -2.5))
def python_functions(x: kc.float64, y: kc.float64):
    return abs(y), min(x, y), max(x, y, 3, -1.0), pow(x, 2), round(x * 3.0)


@case((1.5, 0.5))
def built_ins(x: kc.float64, y: kc.float64):
    z = kc.sin(x) * kc.exp(-y) + kc.sqrt(2) + kc.atan2(y=x, x=y)
    return z, kc.where(x > y, x, 0), kc.clamp(x, 0, 1), kc.float64(kc.floor(2.5))


@kc.func
def halves(x):
    out = 0.0
    for _ in range(3):
        if out > 2.0:
            break
        out += 0.5 * x
    return out


@case((2.0,), (-2.0,))
def calls_with_literals_stay_weak(x: kc.float64):
    y = 1.5
    if x > 0.0:
        y = halves(2.5)
    return y * x + halves(1.0)


@case((2.0,))
def annotated_variables(x: kc.float64):
    a: kc.float64 = 1
    b: int = 3
    for _ in range(3):
        a = a * x
    return a, b // 2


@case((3.0,))
def not_of_a_number(x: kc.float64):
    n = 0
    if x:
        n = 1
    while not n > 4:
        n += 2
    return n


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
