"""Values that elementary functions compute with, and the basic operations that make new ones.

A function of this folder is branch-free: it is written once over ``Value``, and an ``Arithmetic``
decides what that gives: LLVM text (``emission.py``), or numbers (``evaluation.py``) with the same
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kernelcore.language.types import Scalar, boolean, float32, float64, int32, int64


class Arithmetic(Protocol):
    """The operations on the ``raw`` contents of Values."""

    @property
    def fused(self) -> bool:
        """Whether ``fused_multiply_add`` is one instruction, and so to be used."""
        ...

    @property
    def estimates(self) -> bool:
        """Whether 'reciprocal' is one instruction, and 'div' tests for operands that are rare."""
        ...

    @property
    def scales(self) -> bool:
        """Whether ``scaled`` is an instruction."""
        ...

    def const(self, scalar: Scalar, value: float) -> Any:
        """``value``, rounded to ``scalar``."""
        ...

    def unary(self, name: str, scalar: Scalar, x: Any) -> Any:
        """'neg', 'abs', 'sqrt' or 'not'; ``scalar`` is the operand's type.

        Where there are ``estimates``, 'reciprocal' too, which is good to 18 bits of float64 and to
        1 ulp of float32, and not too small for a divisor of which all bits are ones.
        """
        ...

    def binary(self, name: str, scalar: Scalar, x: Any, y: Any) -> Any:
        """An operation of two operands of type ``scalar``; shifts and comparisons are signed.

        'add', 'sub', 'mul', 'div'; 'and', 'or', 'xor', 'shl', 'ashr', 'lshr'; 'lt', 'le', 'eq' and
        'ne', where NaN is unequal to all.
        """
        ...

    def fused_multiply_add(self, scalar: Scalar, x: Any, y: Any, z: Any) -> Any:
        """``x * y + z``, rounded once."""
        ...

    def scaled(self, scalar: Scalar, x: Any, exponent: Any) -> Any:
        """``x * 2**exponent``, rounded once; the exponent is an integer of as many bits.

        Only where it ``scales``.
        """
        ...

    def select(self, scalar: Scalar, condition: Any, x: Any, y: Any) -> Any:
        """``x`` where ``condition`` holds, else ``y``."""
        ...

    def reinterpret(self, source: Scalar, target: Scalar, x: Any) -> Any:
        """The bits of ``x`` as another type of the same width."""
        ...

    def convert(self, source: Scalar, target: Scalar, x: Any) -> Any:
        """``x`` as another type: floats round to nearest, integers wrap and keep their sign."""
        ...

    def lookup(self, table: Sequence[int], index: Any) -> Any:
        """The int64 at ``index``, an int64 within ``table``."""
        ...

    def beyond(
        self, limit: float, function: Callable[[Value], Value], x: Value, usual: Value
    ) -> Any:
        """``usual`` where ``abs(x) <= limit``, else ``function(x)``."""
        ...

    def shortened(self, is_usual: Value, usual: Value, whole: Callable[[], Value]) -> Any:
        """``whole()``, which equals ``usual`` where ``is_usual`` holds."""
        ...


_COMPARISONS = frozenset({"lt", "le", "eq", "ne"})


def _operator(name: str, *, is_reflected: bool = False) -> Callable[[Value, Value | float], Value]:
    """A binary operation as a method of Value; reflected, its operands are exchanged."""

    def operate(self: Value, other: Value | float) -> Value:
        x, y = self, self.like(other)
        if is_reflected:
            x, y = y, x
        raw = self.on.binary(name, self.type, x.raw, y.raw)
        return Value(self.on, boolean if name in _COMPARISONS else self.type, raw)

    return operate


class Value:
    """A number of type ``type`` per lane."""

    __slots__ = ("on", "raw", "type")

    def __init__(self, on: Arithmetic, type: Scalar, raw: Any) -> None:
        self.on = on
        self.type = type
        self.raw = raw

    def like(self, number: Value | float) -> Value:
        """``number`` as a Value of this one's type."""
        if isinstance(number, Value):
            assert number.type == self.type
            return number
        return Value(self.on, self.type, self.on.const(self.type, number))

    def _unary(self, name: str) -> Value:
        return Value(self.on, self.type, self.on.unary(name, self.type, self.raw))

    __add__ = _operator("add")
    __radd__ = _operator("add", is_reflected=True)
    __sub__ = _operator("sub")
    __rsub__ = _operator("sub", is_reflected=True)
    __mul__ = _operator("mul")
    __rmul__ = _operator("mul", is_reflected=True)
    __truediv__ = _operator("div")
    __rtruediv__ = _operator("div", is_reflected=True)
    __and__ = _operator("and")
    __or__ = _operator("or")
    __xor__ = _operator("xor")
    __lshift__ = _operator("shl")
    __rshift__ = _operator("ashr")
    shift_right = _operator("lshr")  # zeros move in
    __lt__ = _operator("lt")
    __le__ = _operator("le")
    __gt__ = _operator("lt", is_reflected=True)
    __ge__ = _operator("le", is_reflected=True)

    equals = _operator("eq")  # -0.0 equals 0.0
    differs = _operator("ne")  # NaN differs from itself

    def __neg__(self) -> Value:
        return self._unary("neg")

    def __invert__(self) -> Value:
        return self._unary("not")

    def __abs__(self) -> Value:
        return self._unary("abs")

    def sqrt(self) -> Value:
        """Square root, correctly rounded."""
        return self._unary("sqrt")

    def over(self, divisor: Value) -> Value:
        """``self / divisor``, for operands of moderate size.

        A divisor is from 2**-32 to 2**32, and a quotient from 2**-64 to 2**64, or 0 without a sign.
        Where there are estimates, the steps are those of ``ptxas`` for operands like these, and the
        bits those of a division.
        Source: P. Markstein, Computation of elementary functions on the IBM RISC System/6000
        processor, 1990.
        """
        if not self.on.estimates:
            return self / divisor
        inverse, back = divisor._unary("reciprocal"), -divisor
        rest = back.times_plus(inverse, 1.0)
        if self.type == float64:
            inverse = inverse.times_plus(rest.times_plus(rest, rest), inverse)
            rest = back.times_plus(inverse, 1.0)
        inverse = inverse.times_plus(rest, inverse)
        near = self * inverse
        return inverse.times_plus(back.times_plus(near, self), near)

    def times_plus(self, y: Value | float, z: Value | float) -> Value:
        """``self * y + z``, with one rounding where the target has an instruction for that."""
        y, z = self.like(y), self.like(z)
        if not self.on.fused:
            return self * y + z
        raw = self.on.fused_multiply_add(self.type, self.raw, y.raw, z.raw)
        return Value(self.on, self.type, raw)

    def where(self, x: Value | float, y: Value | float) -> Value:
        """``x`` where this condition holds, else ``y``; one of the two is a Value."""
        model = x if isinstance(x, Value) else y
        assert isinstance(model, Value)
        x, y = model.like(x), model.like(y)
        return Value(self.on, x.type, self.on.select(x.type, self.raw, x.raw, y.raw))

    def bits(self) -> Value:
        """The bits of a float, as a signed integer."""
        target = int64 if self.type == float64 else int32
        return Value(self.on, target, self.on.reinterpret(self.type, target, self.raw))

    def as_float(self) -> Value:
        """The float that has these bits."""
        target = float64 if self.type == int64 else float32
        return Value(self.on, target, self.on.reinterpret(self.type, target, self.raw))

    def to(self, target: Scalar) -> Value:
        """Converted to ``target``."""
        if target == self.type:
            return self
        return Value(self.on, target, self.on.convert(self.type, target, self.raw))

    def lookup(self, table: Sequence[int]) -> Value:
        """The element of ``table`` at this int64 index, which is within it."""
        return Value(self.on, int64, self.on.lookup(table, self.raw))

    def beyond(self, limit: float, function: Callable[[Value], Value], usual: Value) -> Value:
        """``usual`` where ``abs(self) <= limit``, else ``function(self)``, which is rare.

        The function is kept out of line and works lane by lane, for the lanes that need it.
        """
        return Value(self.on, usual.type, self.on.beyond(limit, function, self, usual))

    def shortens(self, usual: Value, whole: Callable[[], Value]) -> Value:
        """``whole()``, which equals ``usual`` where this condition holds, as it mostly does."""
        return Value(self.on, usual.type, self.on.shortened(self, usual, whole))
