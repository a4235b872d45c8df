"""sinh, cosh and tanh: of exp and its inverse, both with more bits than the result."""

from __future__ import annotations

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.compensated import Pair, fast_two_sum, moderate_quotient, two_sum
from kernelcore.builtins.maths.exponential import (
    exponential,
    exponential_within,
    small_power_of_two,
)
from kernelcore.builtins.maths.formats import copy_sign, format_of, power_of_two, scaled


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
    format_ = format_of(x)
    size = abs(x)
    # Beyond, the result is 1 in every bit.
    held = (size > format_.digits / 2).where(float(format_.digits), size + size)
    power, count = exponential_within(held)
    inverse = power_of_two(-count, format_)
    above, below = two_sum(power.high, -inverse), two_sum(power.high, inverse)
    result = moderate_quotient(
        fast_two_sum(above.high, above.low + power.low), Pair(below.high, below.low + power.low)
    )
    return copy_sign(result.rounded(), x)


def _powers(x: Value) -> tuple[Pair, Pair, Value]:
    """``exp(abs(x))`` and ``exp(-abs(x))``, both to be scaled by the same power of two."""
    power, count = exponential(abs(x))
    inverse = moderate_quotient(Pair(x.like(1.0), x.like(0.0)), power)
    scale = small_power_of_two(count * -2, format_of(x))
    return power, Pair(inverse.high * scale, inverse.low * scale), count
