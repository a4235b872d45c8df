"""Angles less a multiple of pi/2: by subtraction, and for large angles by Payne and Hanek."""

from __future__ import annotations

from typing import NamedTuple

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.compensated import Pair, fast_two_sum, product, two_sum
from kernelcore.builtins.maths.constants import PI, halves, split
from kernelcore.builtins.maths.formats import rounded_product
from kernelcore.language.types import float32, float64, int32, int64

# Up to these limits the products of the quotient and the parts of pi/2 below are exact.
LIMITS = {float32: 1e5, float64: 1.5e6}

_TURNS = float(2 / PI)
_FUSED = split(PI / 2, 24, 24, 24)
_THIRDS = split(PI / 2, 33, 33, 53)
_HALVES = halves(PI / 2, 53)

# Binary digits of 2/pi after 64 zeros, in words. Source: OEIS A060294.
_TWO_OVER_PI = (
    "0000000000000000a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561"
    "b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e41"
    "3991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b7"
    "4f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6bab"
    "f0cfbc209af4361d"
)
_WORDS = tuple(
    int.from_bytes(bytes.fromhex(_TWO_OVER_PI[at : at + 16]), signed=True)
    for at in range(0, len(_TWO_OVER_PI), 16)
)
_LOW_HALF = (1 << 32) - 1


class Reduced(NamedTuple):
    """An angle in about [-pi/4, pi/4], and how many quarter turns it lacks, modulo 4.

    ``rest`` is what rounding took from ``angle``, where that matters.
    """

    angle: Value
    rest: Value | None
    turns: Value


def reduce_small(x: Value, is_sensitive: bool = False) -> Reduced:
    """``x``, which is within the limit of its type; with a rest in float32 if ``is_sensitive``."""
    if x.type == float64:
        n, turns = rounded_product(x, _TURNS)
        first, second, third = _THIRDS
        near = two_sum(x - n * first, n * -second)
        angle = fast_two_sum(near.high, n.times_plus(-third, near.low))
        return Reduced(angle.high, angle.low, turns)
    if is_sensitive or not x.on.fused:
        wide = x.to(float64)
        n, turns = rounded_product(wide, _TURNS)
        first, second, _ = _THIRDS
        return _narrowed((wide - n * first) - n * second, wide.like(0.0), turns)
    n, turns = rounded_product(x, _TURNS)
    for part in _FUSED:
        x = n.times_plus(-part, x)
    return Reduced(x, None, turns)


def _narrowed(angle: Value, rest: Value, turns: Value) -> Reduced:
    """An angle of float64 in float32."""
    near = angle.to(float32)
    lost = (angle - near.to(float64)) + rest
    return Reduced(near, lost.to(float32), turns.to(int32))


def reduce_large(x: Value) -> Reduced:
    """``x`` of at least ``LIMITS[float32]``; infinities and NaN give NaN.

    Source: M. Payne and R. Hanek, Radian reduction for trigonometric functions, 1983.
    """
    if x.type == float32:
        return _reduce_large_float32(x)
    bits = x.bits()
    significand = (bits & (1 << 52) - 1) | 1 << 52
    # Digits of 2/pi before this one give multiples of 4 turns.
    first = (bits.shift_right(52) & 0x7FF) - (1075 - 62)
    word, shift = first >> 6, first & 63
    words = [(word + k).lookup(_WORDS) for k in range(4)]
    digits = [_digits(words[k], words[k + 1], shift) for k in range(3)]
    low, middle = _product(significand, digits[2]), _product(significand, digits[1])
    second = middle[1] + low[0]
    carry = (middle[1] & low[0] | (middle[1] | low[0]) & (second ^ -1)).shift_right(63)
    top = significand * digits[0] + middle[0] + carry
    turns = (top + (1 << 61)).shift_right(62)
    # The next 117 binary digits, as a fraction of a turn between -1/2 and 1/2.
    head = top << 2 | second.shift_right(62)
    tail = second << 2 | low[1].shift_right(62)
    high = fast_two_sum(
        (head >> 32).to(float64) * 2.0**-32, (head & _LOW_HALF).to(float64) * 2.0**-64
    )
    part = fast_two_sum(high.high, tail.shift_right(11).to(float64) * 2.0**-117 + high.low)
    angle = _radians(part)
    negative = x < 0.0
    # Infinities become NaN.
    near = angle.high + (x - x)
    return Reduced(
        negative.where(-near, near),
        negative.where(-angle.low, angle.low),
        negative.where(-turns, turns),
    )


def _reduce_large_float32(x: Value) -> Reduced:
    """As ``reduce_large``; here 62 binary digits of a turn are enough."""
    bits = x.bits()
    significand = (bits & (1 << 23) - 1 | 1 << 23).to(int64)
    first = (bits.shift_right(23) & 0xFF).to(int64) - (150 - 62)
    word, shift = first >> 6, first & 63
    words = [(word + k).lookup(_WORDS) for k in range(3)]
    digits = [_digits(words[k], words[k + 1], shift) for k in range(2)]
    top = significand * digits[0] + (significand * digits[1].shift_right(32)).shift_right(32)
    turns = (top + (1 << 61)).shift_right(62)
    angle = (top << 2).to(float64) * float(PI / 2**65)
    negative = x < 0.0
    # Infinities become NaN.
    angle = negative.where(-angle, angle) + (x - x).to(float64)
    return _narrowed(angle, angle.like(0.0), negative.where(-turns, turns))


def _digits(first: Value, second: Value, shift: Value) -> Value:
    """The 64 binary digits after the first ``shift`` of two words."""
    # A shift by 64 is undefined, hence two shifts.
    return first << shift | second.shift_right(1).shift_right(shift ^ 63)


def _radians(part: Pair) -> Pair:
    """Quarter turns as radians."""
    high, low = _HALVES
    return product(part, Pair(part.high.like(high), part.high.like(low)))


def _product(x: Value, y: Value) -> tuple[Value, Value]:
    """The upper and the lower 64 bits of the product of ``x`` below 2**53 and an unsigned ``y``."""
    x_high, x_low = x.shift_right(32), x & _LOW_HALF
    y_high, y_low = y.shift_right(32), y & _LOW_HALF
    across = x_low * y_high
    middle = (x_low * y_low).shift_right(32) + (across & _LOW_HALF) + x_high * y_low
    return x_high * y_high + across.shift_right(32) + middle.shift_right(32), x * y
