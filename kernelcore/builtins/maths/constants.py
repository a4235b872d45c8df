"""Constants of mathematics to 60 digits, and how they are taken apart into floats."""

from __future__ import annotations

from fractions import Fraction

# Sources: OEIS A000796, A002162, A007525, A002392, A002285 and A007524.
PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494")
LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009")
LOG2_E = Fraction("1.442695040888963407359924681001892137426645954152985934135449407")
LN10 = Fraction("2.302585092994045684017991454684364207601101488628772976033327900")
LOG10_E = Fraction("0.434294481903251827651128918916605082294397005803666566114453783")
LOG10_2 = Fraction("0.301029995663981195213738894724493026768189881462108541310427461")


def split(number: Fraction, *bits: int) -> tuple[float, ...]:
    """``number`` as a sum of floats of ``bits`` bits each, in decreasing order.

    Products with integers of up to 53, or in float32 24, bits less these are exact.
    """
    parts: list[float] = []
    for count in bits:
        exponent = count - _binary_digits(number)
        scale = Fraction(2) ** exponent
        part = Fraction(int(number * scale)) / scale
        parts.append(float(part))
        number -= part
    return tuple(parts)


def halves(number: Fraction, bits: int) -> tuple[float, float]:
    """``number`` as a float of ``bits`` bits, and the rest."""
    (high,) = split(number, bits)
    return high, float(number - Fraction(high))


def _binary_digits(number: Fraction) -> int:
    """The exponent of the power of two above ``number``, which is positive."""
    digits = number.numerator.bit_length() - number.denominator.bit_length()
    return digits + (number >= Fraction(2) ** digits)
