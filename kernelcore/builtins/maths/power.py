"""pow: 2 raised to y * log2(x), with a logarithm of more bits than the type has."""

from __future__ import annotations

import math
from fractions import Fraction

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.coefficients import EXP_SHORT, LOG_SHORT, LOG_TAIL
from kernelcore.builtins.maths.compensated import (
    Pair,
    fast_two_sum,
    moderate_quotient,
    polynomial,
    product,
    two_product,
    two_sum,
)
from kernelcore.builtins.maths.constants import LN2, LOG2_E, halves
from kernelcore.builtins.maths.exponential import near_one
from kernelcore.builtins.maths.formats import (
    format_of,
    nearest_integer,
    power_of_two,
    scaled,
    sign_bit,
)
from kernelcore.builtins.maths.logarithm import normal_parts, parts_of
from kernelcore.language.types import Scalar, float32, float64

# Of numbers that are not 1, powers beyond are 0 or infinite.
_LARGEST_POWER = 2.0**65
# 2 raised to numbers beyond is infinite, and 0 if they are negative.
_LARGEST_EXPONENT = {float32: 200.0, float64: 1100.0}


def pow(x: Value, y: Value) -> Value:
    """``x`` raised to ``y``: within 1 ulp; at the limits as C has it (C99, F.9.4.4)."""
    if x.type == float32:
        # float64 has half the lanes, but needs far fewer operations.
        magnitude = _short_power(abs(x).to(float64), _held(y).to(float64))
        return _with_limits(x, y, magnitude.to(float32))
    return _with_limits(x, y, _power(abs(x), _held(y)))


def _held(y: Value) -> Value:
    """``y``, held where powers of numbers other than 1 are neither 0 nor infinite."""
    above = (y < -_LARGEST_POWER).where(-_LARGEST_POWER, y)
    return (above > _LARGEST_POWER).where(_LARGEST_POWER, above)


def _short_power(x: Value, y: Value) -> Value:
    """The power of a positive normal number to about 35 bits."""
    parts = parts_of(x)
    s = parts.f.over(parts.f + 2.0)
    z = s * s
    natural = s * z.times_plus(polynomial(z, LOG_SHORT[float64]), 2.0)
    exponent = _clamped(y * natural.times_plus(float(LOG2_E), parts.exponent), float32)
    n, count = nearest_integer(exponent)
    r = (exponent - n) * float(LN2)
    result = (r * r).times_plus(polynomial(r, EXP_SHORT[float64]), r) + 1.0
    return result * power_of_two(count, format_of(x))


def _power(x: Value, y: Value) -> Value:
    """The power of a positive number."""
    logarithm = _binary_logarithm(x)
    near = two_product(y, logarithm.high)
    exponent = _clamped(near.high, float64)
    n, count = nearest_integer(exponent)
    rest = near.low + y * logarithm.low
    # Clamped results are 0 or infinite already.
    rest = exponent.equals(near.high).where(rest, 0.0)
    r = product(fast_two_sum(exponent - n, rest), _pair_like(x, halves(LN2, 53)))
    return scaled(near_one(r.high, r.low).rounded(), count)


def _binary_logarithm(x: Value) -> Pair:
    """log2 of a positive number to about 65 bits."""
    parts = normal_parts(x)
    s = moderate_quotient(Pair(parts.f, x.like(0.0)), two_sum(x.like(2.0), parts.f))
    z = product(s, s)
    high, low = halves(Fraction(2, 3), 53)
    tail = fast_two_sum(x.like(high), z.high * polynomial(z.high, LOG_TAIL[x.type]))
    term = product(z, Pair(tail.high, tail.low + low))
    head = fast_two_sum(x.like(2.0), term.high)
    natural = product(s, Pair(head.high, head.low + term.low))
    scaled_up = product(natural, _pair_like(x, halves(LOG2_E, 53)))
    total = fast_two_sum(parts.exponent, scaled_up.high)
    return fast_two_sum(total.high, total.low + scaled_up.low)


def _pair_like(x: Value, halves: tuple[float, float]) -> Pair:
    return Pair(x.like(halves[0]), x.like(halves[1]))


def _clamped(exponent: Value, result: Scalar) -> Value:
    """``exponent``, held where 2 raised to it is neither 0 nor infinite in ``result``."""
    most = _LARGEST_EXPONENT[result]
    above = (exponent < -most).where(-most, exponent)
    return (above > most).where(most, above)


def _with_limits(x: Value, y: Value, magnitude: Value) -> Value:
    """``magnitude``, the power of ``abs(x)``, with its sign, and powers at the limits."""
    is_usual = (x > 0.0) & (x < math.inf) & y.equals(y)
    return is_usual.shortens(magnitude, lambda: _signed_or_limit(x, y, magnitude))


def _signed_or_limit(x: Value, y: Value, magnitude: Value) -> Value:
    size = abs(x)
    is_zero = size.equals(0.0)
    rises = is_zero.differs(y < 0.0).where(x.like(0.0), math.inf)
    magnitude = (is_zero | size.equals(math.inf)).where(rises, magnitude)
    is_odd = _is_integer(y) & ~_is_integer(y * 0.5)
    sign = is_odd.where(sign_bit(x), sign_bit(x).like(0))
    result = (magnitude.bits() | sign).as_float()
    is_complex = (x < 0.0) & (size < math.inf) & ~_is_integer(y)
    result = (is_complex | x.differs(x) | y.differs(y)).where(math.nan, result)
    return (y.equals(0.0) | x.equals(1.0)).where(1.0, result)


def _is_integer(x: Value) -> Value:
    """Whether it is an integer; infinities are."""
    size, whole = abs(x), 2.0 ** format_of(x).fraction_bits
    return ((size + whole) - whole).equals(size) | (size >= whole)
