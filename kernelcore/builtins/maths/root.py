"""rsqrt, cbrt and hypot."""

from __future__ import annotations

import math

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.coefficients import CBRT
from kernelcore.builtins.maths.compensated import (
    Pair,
    polynomial,
    product,
    square_root,
    two_product,
    two_sum,
)
from kernelcore.builtins.maths.formats import copy_sign, format_of, power_of_two
from kernelcore.language.types import float32, float64

# A multiple of 3 that makes every exponent positive.
_LIFT = 1077


def rsqrt(x: Value) -> Value:
    """``1 / sqrt(x)``: within 1.5 ulp."""
    return 1.0 / x.sqrt()


def cbrt(x: Value) -> Value:
    """Cube root: within 1 ulp."""
    format_, size = format_of(x), abs(x)
    thirds = -(-format_.digits // 3)
    is_small = size < format_.least_normal
    bits = is_small.where(size * 2.0 ** (3 * thirds), size).bits()
    exponent = (bits >> format_.fraction_bits) - format_.bias
    # A product and a shift divide by 3.
    third = ((exponent + _LIFT) * 21846 >> 16) - _LIFT // 3
    m = (bits - (third * 3 << format_.fraction_bits)).as_float()
    root = _root_of_mantissa(m)
    third = third - is_small.where(third.like(thirds), 0)
    result = copy_sign(root * power_of_two(third, format_), x)
    is_usual = (size > 0.0) & (size < math.inf)
    return is_usual.where(result, x + x)


def hypot(x: Value, y: Value) -> Value:
    """``sqrt(x**2 + y**2)``: within 1 ulp; infinite if one of them is."""
    if x.type == float32:
        # No square overflows.
        across, down = x.to(float64), y.to(float64)
        near = (across * across + down * down).sqrt().to(float32)
    else:
        near = _length(abs(x), abs(y))
    is_infinite = abs(x).equals(math.inf) | abs(y).equals(math.inf)
    return is_infinite.where(math.inf, near)


def _root_of_mantissa(m: Value) -> Value:
    """Cube root of a number in [1, 8): of an inverse root by Newton's method, then corrected."""
    inverse = polynomial(m, CBRT[m.type])
    for _ in range(1 if m.type == float32 else 2):
        rest = 1.0 - m * inverse * inverse * inverse
        series = polynomial(rest, (1 / 3, 2 / 9, 14 / 81))
        inverse = inverse.times_plus(rest * series, inverse)
    square = inverse * inverse
    root = m * square
    cube = product(two_product(root, root), Pair(root, root.like(0.0)))
    return root + ((m - cube.high) - cube.low) * (square * (1 / 3))


def _length(x: Value, y: Value) -> Value:
    larger = (x < y).where(y, x)
    factor = (larger > 2.0**500).where(x.like(2.0**-600), 1.0)
    factor = (larger < 2.0**-450).where(2.0**600, factor)
    back = (larger > 2.0**500).where(x.like(2.0**600), 1.0)
    back = (larger < 2.0**-450).where(2.0**-600, back)
    first, second = (two_product(v * factor, v * factor) for v in (x, y))
    total = two_sum(first.high, second.high)
    root = square_root(Pair(total.high, total.low + (first.low + second.low)))
    return root.rounded() * back
