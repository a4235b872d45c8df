"""Operators of Python on data arrays: a launch that applies them to every element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelcore.language.composite import Composite
from kernelcore.language.types import StructType, element_type
from kernelcore.launch.map import map as apply
from kernelcore.runtime.array.array import Array


def _add(a: Any, b: Any) -> Any:
    return a + b


def _sub(a: Any, b: Any) -> Any:
    return a - b


def _mul(a: Any, b: Any) -> Any:
    return a * b


def _div(a: Any, b: Any) -> Any:
    return a / b


def _floordiv(a: Any, b: Any) -> Any:
    return a // b


def _mod(a: Any, b: Any) -> Any:
    return a % b


def _pow(a: Any, b: Any) -> Any:
    return a**b


def _neg(a: Any) -> Any:
    return -a


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": _add,
    "-": _sub,
    "*": _mul,
    "/": _div,
    "//": _floordiv,
    "%": _mod,
    "**": _pow,
}


def combined(symbol: str, left: Any, right: Any) -> Any:
    """A new array of ``left symbol right``, one of which is an Array; numbers take its dtype.

    Raises:
        KernelTypeError: Kernels do not combine such elements.
        KernelArgumentError: Shapes do not fit.
    """
    array = left if isinstance(left, Array) else right
    if not (_is_operand(left) and _is_operand(right)):
        return NotImplemented
    return apply(_FUNCTIONS[symbol], _typed(left, array), _typed(right, array))


def updated(symbol: str, array: Array, other: Any) -> Any:
    """``array`` with its elements overwritten by ``array symbol other``.

    Raises:
        KernelTypeError: The result has another dtype.
        KernelArgumentError: The result has another shape.
    """
    if not _is_operand(other):
        return NotImplemented
    array.assign(combined(symbol, array, other))
    return array


def negated(array: Array) -> Array:
    """A new array with the sign of every element changed."""
    return apply(_neg, array)


def _is_operand(value: object) -> bool:
    return isinstance(value, Array | Composite | np.ndarray | np.generic | bool | int | float)


def _typed(value: Any, array: Array) -> Any:
    """``value``, a number of Python as a scalar of the type that ``array`` holds."""
    element = array.element
    if isinstance(element, StructType) or not isinstance(value, bool | int | float):
        return value
    scalar = element_type(element)
    return scalar(value) if scalar.is_float or isinstance(value, int) else value
