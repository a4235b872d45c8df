"""Integer literals are Python integers: what operators give on them, exactly."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from kernelcore.builtins import BUILTINS
from kernelcore.builtins.syntax import BINARY, COMPARE, UNARY
from kernelcore.ir.op import Op

# No type holds an integer of more bits; shifts and powers stop there.
_MAX_BITS = 1024


def fold_integers(op: Op, values: Sequence[int]) -> int | None:
    """``op`` on Python integers; None for other operations and other results.

    Raises:
        ZeroDivisionError: A quotient or remainder by zero.
        ValueError: A negative shift count.
    """
    function = _FOLDS.get(op)
    return None if function is None else function(*values)


def power(base: int, exponent: int) -> int:
    """``base ** exponent`` where ``exponent`` is not negative; too large where it is too large."""
    return base ** (exponent if abs(base) < 2 else min(exponent, _MAX_BITS))


def _shifted(value: int, count: int) -> int:
    return value << min(count, _MAX_BITS)


_FOLDS: Mapping[Op, Callable[..., int]] = MappingProxyType(
    {
        BINARY[ast.Add].op: int.__add__,
        BINARY[ast.Sub].op: int.__sub__,
        BINARY[ast.Mult].op: int.__mul__,
        BINARY[ast.FloorDiv].op: int.__floordiv__,
        BINARY[ast.Mod].op: int.__mod__,
        BINARY[ast.BitAnd].op: int.__and__,
        BINARY[ast.BitOr].op: int.__or__,
        BINARY[ast.BitXor].op: int.__xor__,
        BINARY[ast.LShift].op: _shifted,
        BINARY[ast.RShift].op: int.__rshift__,
        UNARY[ast.USub].op: int.__neg__,
        UNARY[ast.UAdd].op: int.__pos__,
        UNARY[ast.Invert].op: int.__invert__,
        COMPARE[ast.Lt].op: int.__lt__,
        COMPARE[ast.LtE].op: int.__le__,
        COMPARE[ast.Gt].op: int.__gt__,
        COMPARE[ast.GtE].op: int.__ge__,
        COMPARE[ast.Eq].op: int.__eq__,
        COMPARE[ast.NotEq].op: int.__ne__,
        BUILTINS["abs"].op: int.__abs__,
    }
)
