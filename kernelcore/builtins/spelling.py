"""Operations on whole arrays, spelled in functions of the Python array API.

A spelling is called as ``spelling(xp, t, *arrays)``: ``xp`` is a namespace of array functions,
``t`` the type of the last operand; the operands are arrays that broadcast. Besides the functions of
the array API, ``xp`` has ``scalar(t, value)``, an array without dimensions, and ``astype(x, t)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kernelcore.base.dataclass import dataclass
from kernelcore.language.types import Scalar

# What frameworks' own elementary functions may err by, where a spelling allows them.
LIBRARY_ULP = 5

Spell = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Spelling:
    """An operation in functions of the array API.

    Attributes:
        by_kind: By kind of scalar (``Scalar.kind``) what computes it on arrays.
        ulp: By how much results may err; 0 where they have the bits of ``ref``, as long as the
            framework rounds each basic operation of its own once.
        is_exact_anywhere: Whether it takes no floating-point instruction, so that the bits do not
            depend on how the framework treats those.
    """

    by_kind: Mapping[str, Spell]
    ulp: int = 0
    is_exact_anywhere: bool = False

    def takes(self, t: Scalar) -> bool:
        """Whether there is one for operands of type ``t``."""
        return t.kind in self.by_kind

    def keeps_bits(self, t: Scalar, *, rounds_once: bool) -> bool:
        """Whether results for operands of type ``t`` have the bits of ``ref``.

        ``rounds_once`` says that the framework rounds each basic operation on floats once.
        """
        return self.ulp == 0 and (rounds_once or self.is_exact_anywhere or not t.is_float)

    def __call__(self, xp: Any, t: Scalar, *operands: Any) -> Any:
        return self.by_kind[t.kind](xp, t, *operands)


def spelled(
    *,
    float: str | Spell = "",
    int: str | Spell = "",
    uint: str | Spell = "",
    bool: str | Spell = "",
    ulp: int = 0,
    is_exact_anywhere: bool = False,
) -> Spelling:
    """Per kind of operand a function of the array API, or a composition; ``uint`` is ``int``'s."""
    given = {"float": float, "int": int, "uint": uint or int, "bool": bool}
    found = {kind: _named(f) if isinstance(f, str) else f for kind, f in given.items() if f}
    return Spelling(MappingProxyType(found), ulp, is_exact_anywhere)


def elementary(name: str) -> Spelling:
    """The framework's own function of floats, which errs by at most ``LIBRARY_ULP``."""
    return spelled(float=name, ulp=LIBRARY_ULP)


def _named(name: str) -> Spell:
    def spell(xp: Any, t: Scalar, *operands: Any) -> Any:
        del t
        return getattr(xp, name)(*operands)

    return spell


def sum_of(xp: Any, x: Any, y: Any) -> Any:
    """What an addition to an element leaves."""
    return xp.add(x, y)


def identity(xp: Any, t: Scalar, x: Any) -> Any:
    """The operand itself."""
    del xp, t
    return x


def select(xp: Any, t: Scalar, c: Any, x: Any, y: Any) -> Any:
    """``x`` where ``c`` holds, else ``y``."""
    del t
    return xp.where(c, x, y)


def sign(xp: Any, t: Scalar, x: Any) -> Any:
    """-1, 0 or 1; NaN stays, and -0.0 becomes 0.0."""
    zero, one = xp.scalar(t, 0), xp.scalar(t, 1)
    still = xp.where(xp.equal(x, zero), zero, x if t.is_float else one)
    if t.kind == "uint":
        return still
    up = xp.where(xp.greater(x, zero), one, still)
    return xp.where(xp.less(x, zero), xp.scalar(t, -1), up)


def minimum(xp: Any, t: Scalar, x: Any, y: Any) -> Any:
    """The smaller one, NaN if either is; of two equal ones ``y``."""
    return _extremum(xp, t, xp.less(x, y), x, y)


def maximum(xp: Any, t: Scalar, x: Any, y: Any) -> Any:
    """The larger one, NaN if either is; of two equal ones ``y``."""
    return _extremum(xp, t, xp.greater(x, y), x, y)


def _extremum(xp: Any, t: Scalar, first: Any, x: Any, y: Any) -> Any:
    # A comparison with a NaN in y is false, which already picks y.
    keep = xp.logical_or(first, xp.not_equal(x, x)) if t.is_float else first
    return xp.where(keep, x, y)


def clamp(xp: Any, t: Scalar, x: Any, lo: Any, hi: Any) -> Any:
    """``min(max(x, lo), hi)``."""
    return minimum(xp, t, maximum(xp, t, x, lo), hi)


def frac(xp: Any, t: Scalar, x: Any) -> Any:
    """``x - trunc(x)``."""
    del t
    return xp.subtract(x, xp.trunc(x))


def reciprocal_root(xp: Any, t: Scalar, x: Any) -> Any:
    """``1 / sqrt(x)``, within 1.5 ulp."""
    return xp.divide(xp.scalar(t, 1.0), xp.sqrt(x))


def floordiv(xp: Any, t: Scalar, x: Any, y: Any) -> Any:
    """Quotient of integers rounded down; 0 where ``y == 0``."""
    quotient, _, by_zero, by_minus = _divided(xp, t, x, y)
    if by_minus is not None:
        quotient = xp.where(by_minus, xp.negative(x), quotient)
    return xp.where(by_zero, xp.scalar(t, 0), quotient)


def mod(xp: Any, t: Scalar, x: Any, y: Any) -> Any:
    """Remainder of integers with the sign of ``y``; 0 where ``y == 0``."""
    quotient, safe, _, _ = _divided(xp, t, x, y)
    return xp.subtract(x, xp.multiply(quotient, safe))


def _divided(xp: Any, t: Scalar, x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Quotient, divisor, where that stands for 0, and where for -1.

    Divisions by 0, and of the smallest integer by -1, may trap: both divisors are replaced by 1.
    """
    by_zero = special = xp.equal(y, xp.scalar(t, 0))
    by_minus = None
    if t.kind == "int":
        by_minus = xp.equal(y, xp.scalar(t, -1))
        special = xp.logical_or(by_zero, by_minus)
    safe = xp.where(special, xp.scalar(t, 1), y)
    return xp.floor_divide(x, safe), safe, by_zero, by_minus


def shifted(name: str) -> Spell:
    """A shift by ``y`` modulo the width."""

    def spell(xp: Any, t: Scalar, x: Any, y: Any) -> Any:
        return getattr(xp, name)(x, xp.bitwise_and(y, xp.scalar(t, t.bits - 1)))

    return spell


def conversion_keeps_bits(source: Scalar, target: Scalar, *, rounds_once: bool) -> bool:
    """Whether ``converted`` has the bits of a cast; see ``Spelling.keeps_bits``."""
    # Denormals, which some frameworks take for zeros, are zeros as integers anyway.
    return rounds_once or not source.is_float or target.is_integer


def converted(xp: Any, source: Scalar, target: Scalar, x: Any) -> Any:
    """``x`` as another type, as a cast of the kernel language: floats saturate as integers."""
    if source == target:
        return x
    if target.kind == "bool":
        return xp.not_equal(x, xp.scalar(source, 0))
    if not (source.is_float and target.is_integer):
        return xp.astype(x, target)
    low, high = target.limits
    # Powers of two, which floats hold exactly; `high` may not be one of them.
    bottom, top = xp.scalar(source, float(low)), xp.scalar(source, float(high + 1))
    is_low, is_high = xp.less(x, bottom), xp.greater_equal(x, top)
    # What is out of range, or NaN, must not be converted.
    inside = xp.logical_and(xp.greater_equal(x, bottom), xp.less(x, top))
    found = xp.astype(xp.where(inside, x, xp.scalar(source, 0.0)), target)
    found = xp.where(is_low, xp.scalar(target, low), found)
    return xp.where(is_high, xp.scalar(target, high), found)
