"""exp and its relatives: 2**n times a polynomial on half an octave to both sides of 1."""

from __future__ import annotations

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.coefficients import EXP
from kernelcore.builtins.maths.compensated import Pair, fast_two_sum, polynomial, two_sum
from kernelcore.builtins.maths.constants import LN2, LN10
from kernelcore.builtins.maths.formats import (
    Format,
    format_of,
    nearest_integer,
    power_of_two,
    rounded_product,
    scaled,
)

_LN2, _LN10 = float(LN2), float(LN10)


def exp(x: Value) -> Value:
    """Exponential: within 1.5 ulp."""
    return scaled(*_number_and_power(within_range(x, 1.0)))


def exp_within(x: Value) -> Value:
    """``exp(x)`` where the result is neither subnormal nor infinite."""
    number, count = _number_and_power(x)
    return number * power_of_two(count, format_of(x))


def _number_and_power(x: Value) -> tuple[Value, Value]:
    """``exp(x)`` as a number in [0.7, 1.42] and the power of two that it is to be scaled by."""
    n, count = rounded_product(x, 1 / _LN2)
    high, low = format_of(x).ln2
    r = n.times_plus(-low, n.times_plus(-high, x))
    return 1.0 + _expm1_reduced(r), count


def exp2(x: Value) -> Value:
    """2 raised to ``x``: within 1.5 ulp, exact for integers."""
    clamped = within_range(x, 1 / _LN2)
    n, count = nearest_integer(clamped)
    return scaled(1.0 + _expm1_reduced((clamped - n) * _LN2), count)


def exp10(x: Value) -> Value:
    """10 raised to ``x``: within 1.5 ulp."""
    clamped = within_range(x, 1 / _LN10)
    n, count = rounded_product(clamped, _LN10 / _LN2)
    high, low = format_of(x).log10_2
    r = n.times_plus(-low, n.times_plus(-high, clamped))
    return scaled(1.0 + _expm1_reduced(r * _LN10), count)


def expm1(x: Value) -> Value:
    """``exp(x) - 1``: within 1.5 ulp."""
    format_ = format_of(x)
    # Below, the result is -1 in every bit.
    power, count = exponential((x < -format_.digits).where(-format_.digits, x))
    difference = two_sum(power.high, -small_power_of_two(-count, format_))
    result = scaled(difference.high + (difference.low + power.low), count)
    return x.equals(0.0).where(x, result)


def small_power_of_two(exponent: Value, format_: Format) -> Value:
    """2 raised to an integer, or 0 where next to 1 it does not matter."""
    matters = exponent > -2 * format_.digits
    return matters.where(power_of_two(exponent, format_), 0.0)


def exponential(x: Value) -> tuple[Pair, Value]:
    """``exp(x)`` as a number in [0.7, 1.42] and the power of two that it is to be scaled by.

    The pair is good to about 4 more bits than its first half.
    """
    x = within_range(x, 1.0)
    n, count = rounded_product(x, 1 / _LN2)
    high, low = format_of(x).ln2
    start = n.times_plus(-high, x)
    moved = n * low
    r = start - moved
    return near_one(r, (start - r) - moved), count


def near_one(r: Value, rest: Value) -> Pair:
    """``exp(r + rest)`` for ``abs(r) <= log(2) / 2``, as a pair; ``rest`` is what rounding lost."""
    term = polynomial(r, EXP[r.type]).times_plus(r * r, rest)
    head = fast_two_sum(r.like(1.0), r)
    total = fast_two_sum(head.high, term)
    return Pair(total.high, total.low + head.low)


def within_range(x: Value, unit: float) -> Value:
    """``x`` held where results are neither 0 nor infinite for sure; ``unit`` is 1 / log(base)."""
    format_ = format_of(x)
    least = -(format_.bias + format_.digits + 2) * _LN2 * unit
    most = (format_.bias + 3) * _LN2 * unit
    above = (x < least).where(least, x)
    return (above > most).where(most, above)


def _expm1_reduced(r: Value) -> Value:
    """``exp(r) - 1`` for ``abs(r) <= log(2) / 2``."""
    return polynomial(r, EXP[r.type]).times_plus(r * r, r)
