"""asin, acos, atan, atan2: polynomials around 0, and the angles between them to twice the bits."""

from __future__ import annotations

import math

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.coefficients import ASIN, ATAN
from kernelcore.builtins.maths.compensated import (
    Pair,
    fast_two_sum,
    polynomial,
    quotient,
    square_root,
    two_sum,
)
from kernelcore.builtins.maths.constants import PI, halves
from kernelcore.builtins.maths.formats import copy_sign, format_of, sign_bit

# tan(pi / 8): from here on an angle is measured from pi / 4.
_DIAGONAL = math.sqrt(2.0) - 1.0


def asin(x: Value) -> Value:
    """Angle in [-pi/2, pi/2] with a sine: within 1 ulp."""
    size = abs(x)
    tail, root = _small_or_root(size)
    small = size + tail
    right = _right_angle(x)
    head = fast_two_sum(right.high, root * -2.0)
    large = head.high + (head.low + (right.low - tail * 2.0))
    return copy_sign((size <= 0.5).where(small, large), x)


def acos(x: Value) -> Value:
    """Angle in [0, pi] with a cosine: within 1 ulp."""
    size = abs(x)
    tail, root = _small_or_root(size)
    right = _right_angle(x)
    head = fast_two_sum(right.high, -x)
    small = head.high + (head.low + (right.low - (x < 0.0).where(-tail, tail)))
    double = Pair(root * 2.0, tail * 2.0)
    back = fast_two_sum(right.high * 2.0, -double.high)
    behind = back.high + (back.low + (right.low * 2.0 - double.low))
    large = (x < 0.0).where(behind, double.rounded())
    return (size <= 0.5).where(small, large)


def atan(x: Value) -> Value:
    """Angle in [-pi/2, pi/2] with a tangent: within 1 ulp."""
    size, limit = abs(x), 2.0 ** (format_of(x).digits + 8)
    size = (size > limit).where(limit, size)
    one = x.like(1.0)
    steep = size > 1.0
    angle = _angle(steep.where(one, size), steep.where(size, one), steep, None)
    return copy_sign(angle, x)


def atan2(y: Value, x: Value) -> Value:
    """Angle in [-pi, pi] of a point: within 1.5 ulp; at the limits as C has it (C99, F.9.1.4)."""
    down, across = abs(y), abs(x)
    steep = down > across
    short, long = steep.where(across, down), steep.where(down, across)
    # Of infinities only which of the two are matters, of two zeros nothing.
    is_infinite = long.equals(math.inf)
    short = is_infinite.where(short.equals(math.inf).where(1.0, short * 0.0), short)
    long = (is_infinite | long.equals(0.0)).where(1.0, long)
    # Products of the longer one must not overflow, nor lose digits.
    most = format_of(x).bias * 7 // 8
    factor = (long > 2.0**most).where(x.like(2.0 ** -(most // 4)), 1.0)
    factor = (long < 2.0**-most).where(2.0 ** (most // 4), factor)
    angle = _angle(short * factor, long * factor, steep, sign_bit(x).differs(0))
    return copy_sign(angle, y)


def _small_or_root(size: Value) -> tuple[Value, Value]:
    """``asin`` of ``size`` up to 1/2 less ``size``, else of ``root``, and that root.

    Source: FreeBSD, e_asin.c: asin(x) = pi/2 - 2 * asin(sqrt((1 - x) / 2)).
    """
    is_small = size <= 0.5
    rest = 0.5 - size * 0.5
    root = square_root(Pair(rest, size.like(0.0)))
    t = is_small.where(size, root.high)
    z = is_small.where(size * size, rest)
    term = (t * z) * polynomial(z, ASIN[size.type])
    return is_small.where(term, term + root.low), root.high


def _right_angle(x: Value) -> Pair:
    high, low = halves(PI / 2, format_of(x).digits)
    return Pair(x.like(high), x.like(low))


def _angle(short: Value, long: Value, steep: Value, behind: Value | None) -> Value:
    """The angle with the tangent ``short / long``, at most 1, from the next half axis.

    ``steep`` says that this is the vertical one, ``behind`` that the point lies to the left.
    """
    diagonal = short > long * _DIAGONAL
    zero = short.like(0.0)
    less, more = two_sum(short, -long), two_sum(long, short)
    t = quotient(
        Pair(diagonal.where(less.high, short), diagonal.where(less.low, zero)),
        Pair(diagonal.where(more.high, long), diagonal.where(more.low, zero)),
    )
    z = t.high * t.high
    tail = (t.high * z).times_plus(polynomial(z, ATAN[z.type]), t.low)
    eighths = diagonal.where(short.like(1.0), 0.0)
    turned = steep
    eighths = steep.where(2.0 - eighths, eighths)
    if behind is not None:
        eighths = behind.where(4.0 - eighths, eighths)
        turned = steep.differs(behind)
    high, low = halves(PI / 4, format_of(short).digits - 2)
    head = fast_two_sum(eighths * high, turned.where(-t.high, t.high))
    rest = head.low + eighths.times_plus(low, turned.where(-tail, tail))
    return head.high + rest
