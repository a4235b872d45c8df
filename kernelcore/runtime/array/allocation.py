"""New memory of a given shape, and errors for shapes that there is none of."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from kernelcore.base.errors import KernelArgumentError, KernelMemoryError
from kernelcore.language.types import MAX_ARRAY_DIMS, Element
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import element_of
from kernelcore.runtime.device import Device

Shape = int | Sequence[int]


def extents_of(name: str, shape: Shape) -> tuple[int, ...]:
    """The extents that ``shape`` names, an integer or a sequence of integers.

    Raises:
        KernelArgumentError: It is neither.
    """
    try:
        return (operator.index(shape),)  # pyright: ignore[reportArgumentType]
    except TypeError:
        pass
    try:
        if not isinstance(shape, str | bytes):
            return tuple(operator.index(n) for n in shape)  # pyright: ignore
    except TypeError:
        pass
    raise KernelArgumentError(
        f"{name}: expected an integer or a sequence of integers as shape, found {shape!r}",
        remedy="convert numbers such as 2.7 with int() or round() first",
    )


def check_ndim(ndim: int) -> None:
    """Refuse more dimensions than arrays have.

    Raises:
        KernelArgumentError: There are.
    """
    if ndim > MAX_ARRAY_DIMS:
        raise KernelArgumentError(
            f"array: expected at most {MAX_ARRAY_DIMS} dimensions, found {ndim}",
            remedy="components of vectors and matrices are none if dtype is their class",
        )


def zeros_of(
    name: str, extents: tuple[int, ...], dtype: Any, target: Device, pinned: bool
) -> Array:
    """Zeros for ``name``, a function that makes arrays.

    Raises:
        KernelArgumentError: A negative extent, or pinned memory of a device.
        KernelMemoryError: The array does not fit in memory.
    """
    check_ndim(len(extents))
    if any(extent < 0 for extent in extents):
        raise KernelArgumentError(f"{name}: expected extents of at least 0, found {extents}")
    element, known = element_of(dtype)
    size_bytes = math.prod(extents) * element.numpy.itemsize
    try:
        if size_bytes >= 2**63:
            raise MemoryError
        return _allocated(name, extents, element, known, target, pinned)
    except KernelMemoryError:  # The driver's, which says more.
        raise
    except MemoryError:
        raise KernelMemoryError(
            f"{name}: expected an array that fits in memory, found shape {extents} of {element}, "
            f"{size_bytes} bytes",
            remedy="make it smaller, or work on parts of it",
        ) from None


def _allocated(
    name: str, extents: tuple[int, ...], element: Element, known: Any, target: Device, pinned: bool
) -> Array:
    if not pinned:
        return Array.zeros(extents, element, known, target)
    if not target.is_cpu:
        raise KernelArgumentError(
            f"{name}: pinned: memory of {target} is none of the host",
            remedy="leave pinned out, or give device='cpu'",
        )
    return Array.pinned_zeros(extents, element, known)
