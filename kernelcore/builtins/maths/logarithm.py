"""log and its relatives: exponent times a constant, and a polynomial in (m - 1) / (m + 1)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.coefficients import LOG
from kernelcore.builtins.maths.compensated import (
    Pair,
    fast_two_sum,
    polynomial,
    two_product,
    two_sum,
)
from kernelcore.builtins.maths.constants import LOG2_E, LOG10_E
from kernelcore.builtins.maths.formats import format_of


class Parts(NamedTuple):
    """A positive number as ``(1 + f) * 2**exponent``, ``1 + f`` next to 1."""

    f: Value
    exponent: Value


def log(x: Value) -> Value:
    """Natural logarithm: within 1 ulp."""
    return _with_limits(x, _natural(normal_parts(x), x.like(0.0)))


def log2(x: Value) -> Value:
    """Logarithm to base 2: within 1 ulp, exact for powers of two."""
    parts = normal_parts(x)
    return _with_limits(x, _to_base(parts, LOG2_E, Pair(parts.exponent, x.like(0.0))))


def log10(x: Value) -> Value:
    """Logarithm to base 10: within 1 ulp."""
    parts = normal_parts(x)
    high, low = format_of(x).log10_2
    return _with_limits(
        x, _to_base(parts, LOG10_E, Pair(parts.exponent * high, parts.exponent * low))
    )


def log1p(x: Value) -> Value:
    """``log(1 + x)``: within 1 ulp."""
    result = log_of_sum(two_sum(x.like(1.0), x))
    result = x.equals(-1.0).where(-math.inf, result)
    same = (abs(x) < 2.0 ** -format_of(x).digits).where(x, result)
    return x.equals(math.inf).where(x, same)


def log_of_sum(x: Pair, doublings: Value | None = None) -> Value:
    """``log(x.high + x.low)``, and log(2) for each of the ``doublings``; ``x`` is normal."""
    parts = parts_of(x.high)
    if doublings is not None:
        parts = Parts(parts.f, parts.exponent + doublings)
    result = _natural(parts, x.low / x.high)
    return (x.high < 0.0).where(math.nan, result)


def normal_parts(x: Value) -> Parts:
    """Parts of a number that may be subnormal."""
    format_ = format_of(x)
    is_small = x < format_.least_normal
    parts = parts_of(is_small.where(x * 2.0**format_.digits, x))
    return Parts(parts.f, parts.exponent - is_small.where(x.like(format_.digits), 0.0))


def parts_of(x: Value) -> Parts:
    format_ = format_of(x)
    bits = x.bits()
    least = int(math.sqrt(0.5) * 2.0**format_.digits) - (1 << format_.fraction_bits)
    count = (bits - (format_.bias - 1 << format_.fraction_bits) - least) >> format_.fraction_bits
    mantissa = (bits - (count << format_.fraction_bits)).as_float()
    return Parts(mantissa - 1.0, count.to(x.type))


def _series(f: Value) -> tuple[Value, Value]:
    """``h = f**2 / 2`` and ``c`` where ``log(1 + f) = f - h + c``.

    Source: FreeBSD, e_log.c.
    """
    half_square = f * f * 0.5
    s = f.over(f + 2.0)
    z = s * s
    return half_square, s * z.times_plus(polynomial(z, LOG[f.type]), half_square)


def _natural(parts: Parts, correction: Value) -> Value:
    high, low = format_of(parts.f).ln2
    half_square, rest = _series(parts.f)
    small = rest + parts.exponent.times_plus(low, correction)
    return parts.exponent * high - ((half_square - small) - parts.f)


def _to_base(parts: Parts, factor: Fraction, exponent: Pair) -> Value:
    """``log(1 + f) * factor + exponent``."""
    f = parts.f
    half_square, rest = _series(f)
    head = fast_two_sum(f, -half_square)
    natural = fast_two_sum(head.high, head.low + rest)
    high = f.like(float(factor))
    exact = Fraction(f.type(float(factor)).item())
    product = two_product(natural.high, high)
    low = natural.high * float(factor - exact) + natural.low * high
    total = fast_two_sum(exponent.high, product.high)
    return total.high + (total.low + ((product.low + low) + exponent.low))


def _with_limits(x: Value, result: Value) -> Value:
    """``result``, and what logarithms are at 0, infinity, NaN and below 0."""
    result = x.equals(math.inf).where(x, result)
    result = x.equals(0.0).where(-math.inf, result)
    return (x >= 0.0).where(result, math.nan)
