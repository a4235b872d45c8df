"""Binary formats of floats, as elementary functions use them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.constants import LN2, LOG10_2, halves
from kernelcore.language.types import Scalar, float32, float64, int32, int64


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        integer: The signed integer of the same width.
        digits: Bits of the significand, the first one included.
        bias: What is added to the exponent.
        ln2: log(2) in two parts; a product of the first with an exponent is exact.
        log10_2: log10(2) likewise.
    """

    integer: Scalar
    digits: int
    bias: int
    ln2: tuple[float, float]
    log10_2: tuple[float, float]

    @property
    def fraction_bits(self) -> int:
        """Bits of the significand that are stored."""
        return self.digits - 1

    @property
    def least_normal(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def rounding(self) -> float:
        """The number that rounds another one to an integer when it is added and subtracted."""
        return 1.5 * 2.0**self.fraction_bits


FORMATS: Mapping[Scalar, Format] = MappingProxyType(
    {
        float32: Format(int32, 24, 127, halves(LN2, 15), halves(LOG10_2, 15)),
        float64: Format(int64, 53, 1023, halves(LN2, 41), halves(LOG10_2, 41)),
    }
)


def format_of(x: Value) -> Format:
    """The format of a float."""
    return FORMATS[x.type]


def nearest_integer(x: Value) -> tuple[Value, Value]:
    """The integer next to ``x``, halves to even, as a float and as an integer.

    ``abs(x)`` is below 2**21 in float32, and below 2**50 in float64.
    """
    format_ = format_of(x)
    raised = x + format_.rounding
    return raised - format_.rounding, _count(raised)


def rounded_product(x: Value, factor: float) -> tuple[Value, Value]:
    """An integer next to ``x * factor``, as ``nearest_integer`` gives it."""
    format_ = format_of(x)
    raised = x.times_plus(factor, format_.rounding)
    return raised - format_.rounding, _count(raised)


def _count(raised: Value) -> Value:
    format_ = format_of(raised)
    bits = format_.fraction_bits
    return raised.bits() - ((format_.bias + bits << bits) + (1 << bits - 1))


def power_of_two(exponent: Value, format_: Format) -> Value:
    """2 raised to an integer, where that is a normal number."""
    return ((exponent + format_.bias) << format_.fraction_bits).as_float()


def scaled(x: Value, exponent: Value) -> Value:
    """``x * 2**exponent`` for ``x`` near 1, rounded once; it may be subnormal or overflow."""
    if x.on.scales:
        return Value(x.on, x.type, x.on.scaled(x.type, x.raw, exponent.raw))
    format_ = format_of(x)
    half = exponent >> 1
    return x * power_of_two(half, format_) * power_of_two(exponent - half, format_)


def copy_sign(magnitude: Value, sign: Value) -> Value:
    """``magnitude``, whose own sign bit is 0, with the sign of ``sign``."""
    return (magnitude.bits() | sign_bit(sign)).as_float()


def sign_bit(x: Value) -> Value:
    """The sign bit of ``x`` alone, as an integer."""
    return x.bits() & -(1 << x.type.bits - 1)
