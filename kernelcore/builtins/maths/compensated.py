"""Sums, products and quotients with what rounding lost: pairs of a result and a small rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.language.types import float64


class Pair(NamedTuple):
    """The number ``high + low``; ``low`` is of the size of the rounding of ``high``."""

    high: Value
    low: Value

    def rounded(self) -> Value:
        """The nearest single Value."""
        return self.high + self.low


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """``c[0] + c[1] * x + c[2] * x**2 + ...`` by Horner's rule."""
    *rest, last = coefficients
    total = x.like(last)
    for coefficient in reversed(rest):
        total = total.times_plus(x, coefficient)
    return total


def fast_two_sum(x: Value, y: Value) -> Pair:
    """``x + y`` exactly, where ``abs(x) >= abs(y)`` or ``x == 0``.

    Source: T. J. Dekker, A floating-point technique for extending the available precision, 1971.
    """
    total = x + y
    return Pair(total, y - (total - x))


def two_sum(x: Value, y: Value) -> Pair:
    """``x + y`` exactly.

    Source: D. E. Knuth, The Art of Computer Programming, volume 2, theorem 4.2.2B.
    """
    total = x + y
    of_y = total - x
    return Pair(total, (x - (total - of_y)) + (y - of_y))


def two_product(x: Value, y: Value) -> Pair:
    """``x * y`` exactly, if nothing overflows or is subnormal.

    Source: T. J. Dekker, 1971, where a fused operation does not give the rest at once.
    """
    near = x * y
    if x.on.fused:
        return Pair(near, x.times_plus(y, -near))
    (a, b), (c, d) = _halves(x), _halves(y)
    return Pair(near, ((a * c - near) + a * d + b * c) + b * d)


def _halves(x: Value) -> Pair:
    """``x`` as a sum of two numbers whose products are exact."""
    scaled = x * (2.0**27 + 1 if x.type == float64 else 2.0**12 + 1)
    high = scaled - (scaled - x)
    return Pair(high, x - high)


def product(x: Pair, y: Pair) -> Pair:
    """``x * y``."""
    near = two_product(x.high, y.high)
    return fast_two_sum(near.high, near.low + (x.high * y.low + x.low * y.high))


def quotient(x: Pair, y: Pair) -> Pair:
    """``x / y``, with one division."""
    return _quotient(x, y, 1.0 / y.high)


def moderate_quotient(x: Pair, y: Pair) -> Pair:
    """``quotient`` for divisors from 2**-32 to 2**32."""
    return _quotient(x, y, y.high.like(1.0).over(y.high))


def _quotient(x: Pair, y: Pair, inverse: Value) -> Pair:
    near = x.high * inverse
    back = two_product(near, y.high)
    rest = ((x.high - back.high) - back.low) + (x.low - near * y.low)
    return Pair(near, rest * inverse)


def square_root(x: Pair) -> Pair:
    """``sqrt(x)``; NaN below 0."""
    near = x.high.sqrt()
    back = two_product(near, near)
    rest = ((x.high - back.high) - back.low) + x.low
    return Pair(near, near.equals(0.0).where(0.0, rest / (near + near)))
