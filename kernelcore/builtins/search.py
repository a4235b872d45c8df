"""Search in sorted arrays."""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

from kernelcore.builtins.library import library
from kernelcore.language.types import AnyScalar as Scalar
from kernelcore.language.types import ArrayOf

_Array = ArrayOf(None, 1)


@library()
def lower_bound(arr: _Array, value: Scalar) -> Any:
    """Index of the first element of ``arr`` that is not below ``value``; its extent if none is.

    Args:
        arr: Array of one dimension, of scalars of any dtype, in ascending order.
        value: Scalar of the dtype of ``arr``.

    Returns:
        An int32 in [0, extent]; as ``numpy.searchsorted`` with ``side='left'``.
    """
    return lower_bound(arr, 0, arr.shape[0], value)


@library()
def lower_bound(arr: _Array, arr_begin: int, arr_end: int, value: Scalar) -> Any:
    """Index of the first element of ``arr[arr_begin:arr_end]`` that is not below ``value``.

    Args:
        arr: Array of one dimension, of scalars of any dtype, ascending between the two indices.
        arr_begin: First index, an int32.
        arr_end: Index after the last one, an int32.
        value: Scalar of the dtype of ``arr``.

    Returns:
        An int32 in [arr_begin, arr_end], an index of ``arr``; ``arr_end`` if no element qualifies.
    """
    low = arr_begin
    high = arr_end
    while low < high:
        middle = low + (high - low) // 2
        if arr[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
