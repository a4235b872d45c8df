"""Operators of Python between data arrays, values and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelcore.base.lazy import Deferred

# A launch, which is above this package, applies them.
array_arithmetic: Any = Deferred("kernelcore.launch.array_arithmetic")

Method = Callable[[Any, Any], Any]


def _methods(symbol: str) -> tuple[Method, Method, Method]:
    """The methods of an operator: array first, array second, and in place."""

    def forward(self: Any, other: Any) -> Any:
        return array_arithmetic.combined(symbol, self, other)

    def reflected(self: Any, other: Any) -> Any:
        return array_arithmetic.combined(symbol, other, self)

    def in_place(self: Any, other: Any) -> Any:
        return array_arithmetic.updated(symbol, self, other)

    return forward, reflected, in_place


class ElementOperators:
    """Operators on every element, under NumPy's rules of broadcasting; a Tape records them."""

    __slots__ = ()

    # NumPy's arrays leave operators with such an array to it.
    __array_priority__ = 1000.0

    __add__, __radd__, __iadd__ = _methods("+")
    __sub__, __rsub__, __isub__ = _methods("-")
    __mul__, __rmul__, __imul__ = _methods("*")
    __truediv__, __rtruediv__, __itruediv__ = _methods("/")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _methods("//")
    __mod__, __rmod__, __imod__ = _methods("%")
    __pow__, __rpow__, __ipow__ = _methods("**")

    def __neg__(self: Any) -> Any:
        return array_arithmetic.negated(self)

    def __pos__(self: Any) -> Any:
        return self
