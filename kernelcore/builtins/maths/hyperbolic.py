"""sinh and cosh: of exp and its inverse, both with more bits than the result. tanh: a polynomial
around 0, and 1 minus a quotient of exp beyond.
"""

from __future__ import annotations

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.coefficients import TANH
from kernelcore.builtins.maths.compensated import (
    Pair,
    fast_two_sum,
    moderate_quotient,
    polynomial,
    two_sum,
)
from kernelcore.builtins.maths.exponential import exp_within, exponential, small_power_of_two
from kernelcore.builtins.maths.formats import copy_sign, format_of, scaled


def sinh(x: Value) -> Value:
    """Hyperbolic sine: within 1.5 ulp."""
    power, inverse, count = _powers(x)
    difference = two_sum(power.high, -inverse.high)
    result = difference.high + (difference.low + (power.low - inverse.low))
    return copy_sign(scaled(result, count - 1), x)


def cosh(x: Value) -> Value:
    """Hyperbolic cosine: within 1 ulp."""
    power, inverse, count = _powers(x)
    total = fast_two_sum(power.high, inverse.high)
    return scaled(total.high + (total.low + (power.low + inverse.low)), count - 1)


def tanh(x: Value) -> Value:
    """Hyperbolic tangent: within 1.5 ulp."""
    size = abs(x)
    square = size * size
    small = (size * square).times_plus(polynomial(square, TANH[x.type]), size)
    # Beyond, the result is 1 in every bit: exp(-0.8 * digits) is below 2**-(digits + 3).
    most = 0.4 * format_of(x).digits
    held = (size > most).where(most, size)
    power = exp_within(held * -2.0)
    # At most 0.24 is taken from 1, so the last two bits of the quotient do not matter.
    large = 1.0 - (power + power).over(power + 1.0)
    return copy_sign((size < 1.0).where(small, large), x)


def _powers(x: Value) -> tuple[Pair, Pair, Value]:
    """``exp(abs(x))`` and ``exp(-abs(x))``, both to be scaled by the same power of two."""
    power, count = exponential(abs(x))
    inverse = moderate_quotient(Pair(x.like(1.0), x.like(0.0)), power)
    scale = small_power_of_two(count * -2, format_of(x))
    return power, Pair(inverse.high * scale, inverse.low * scale), count
