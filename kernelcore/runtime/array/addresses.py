"""Arrays over memory that a program names by its address."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.types import StructType
from kernelcore.runtime.array.allocation import Shape, extents_of
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import element_of, numpy_layout
from kernelcore.runtime.device import Device

Deleter = Callable[[int, int], object]


def at_address(
    ptr: int,
    dtype: Any,
    shape: Shape | None,
    strides: Sequence[int] | None,
    capacity: int | None,
    device: Device,
    deleter: Deleter | None,
) -> Array:
    """An array over the memory at ``ptr``; the arguments are those of ``kc.array``.

    Raises:
        KernelArgumentError: No shape or dtype, negative strides, or less memory than elements.
    """
    if shape is None or dtype is None:
        raise KernelArgumentError(
            "array: ptr: expected shape and dtype with it", remedy="give both"
        )
    element, known = element_of(dtype)
    layout, extents = numpy_layout(element)
    outer = extents_of("array", shape)
    whole = (*outer, *extents)
    steps = np.empty(whole, layout).strides if strides is None else _steps(outer, strides, element)
    used = 0
    if math.prod(whole) > 0:
        used = sum((n - 1) * step for n, step in zip(whole, steps, strict=True)) + layout.itemsize
    if capacity is not None and used > capacity:
        raise KernelArgumentError(
            f"array: ptr: expected at least {used} bytes, found a capacity of {capacity}",
            remedy="give a smaller shape, or other strides",
        )
    if ptr == 0 and used > 0:
        raise KernelArgumentError(
            f"array: ptr: expected the address of {used} bytes, found 0",
            remedy="give the address of memory that stays while the array is used",
        )
    size = used if capacity is None else capacity
    if device.is_cpu:
        kind: Any = ctypes.c_byte * used
        memory = kind.from_address(ptr) if used else kind()
        _delete_after(memory, deleter, ptr, size)
        return Array.over(np.ndarray(whole, layout, memory, 0, steps), known)
    if isinstance(element, StructType):
        raise KernelArgumentError(
            f"array: ptr: structs at an address of {device} are not supported",
            remedy="make the array with kc.zeros and copy into it",
        )
    holder = _DeviceMemory(ptr, whole, layout.str, steps)
    _delete_after(holder, deleter, ptr, size)
    return Array.sharing(holder, known)


class _DeviceMemory:
    """Memory of a GPU at an address, for consumers of ``__cuda_array_interface__``."""

    def __init__(
        self, ptr: int, shape: tuple[int, ...], typestr: str, strides: tuple[int, ...]
    ) -> None:
        self.__cuda_array_interface__ = {
            "data": (ptr, False),
            "shape": shape,
            "strides": strides,
            "typestr": typestr,
            "version": 3,
        }


def _steps(outer: tuple[int, ...], strides: Sequence[int], element: Any) -> tuple[int, ...]:
    """``strides`` with those of the components of an element."""
    layout, extents = numpy_layout(element)
    given = tuple(int(step) for step in strides)
    if len(given) != len(outer) or any(step < 0 for step in given):
        raise KernelArgumentError(
            f"array: strides: expected {len(outer)} numbers of bytes of at least 0, found {given}",
            remedy="give the bytes between neighbours along each dimension of shape",
        )
    return (*given, *np.empty(extents, layout).strides)


def _delete_after(holder: Any, deleter: Deleter | None, ptr: int, size: int) -> None:
    """Call ``deleter`` when ``holder`` is gone, but not when the process ends."""
    if deleter is not None:
        weakref.finalize(holder, deleter, ptr, size).atexit = False
