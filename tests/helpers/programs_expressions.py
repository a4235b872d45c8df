"""Functions that exercise expressions, calls and constants."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.programs import F64, F64_2D, M, X, case

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
