"""``array`` as programs written for NVIDIA Warp make and ask for it."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.language.composite import Composite
from kernelcore.language.types import ArrayOf, Dense, Scalar, bfloat16, element_type, type_of


class _ArrayClass:
    """``kernelcore.array``, except that

    - data of one vector or matrix make an array of shape (1,),
    - data of other numbers are converted where ``copy=False`` asks to share them,
    - 16-bit integers without a sign are the bits of bfloat16, if that is the dtype,
    - annotations are instances of it.
    """

    __name__ = "array"

    def __call__(self, data: Any = None, dtype: Any = None, *args: Any, **options: Any) -> Any:
        found = _data(data, dtype)
        if options.get("copy") is False and _is_converted(found, dtype):
            del options["copy"]
        return kc.array(found, dtype, *args, **options)

    def __getitem__(self, dtype: Any) -> Any:
        return kc.array[dtype]

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, kc.Array | ArrayOf)

    def __subclasscheck__(self, cls: type) -> bool:
        return issubclass(cls, kc.Array)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (kc.Array,)


array = _ArrayClass()


def from_numpy(arr: Any, dtype: Any = None, *args: Any, **options: Any) -> kc.Array:
    """``kernelcore.from_numpy``; one vector or matrix makes an array of shape (1,)."""
    return kc.from_numpy(_data(arr, dtype), dtype, *args, **options)


def from_torch(t: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
    """``kernelcore.from_torch``; one vector or matrix makes an array of shape (1,)."""
    element = type_of(dtype) if dtype is not None else None
    is_one = isinstance(element, Dense) and tuple(t.shape) == element.extents
    return kc.from_torch(t[None] if is_one else t, dtype, *args, **options)


def _is_converted(data: Any, dtype: Any) -> bool:
    """Whether an array of ``dtype`` cannot share the memory of ``data``."""
    element = type_of(dtype) if dtype is not None else None
    own = element_type(element) if isinstance(element, Dense | Scalar) else None
    given = getattr(data, "dtype", None)
    return isinstance(given, np.dtype) and own is not None and given != own.numpy


def _data(data: Any, dtype: Any) -> Any:
    """``data`` as ``kernelcore.array`` takes it."""
    element = type_of(dtype) if data is not None and dtype is not None else None
    if element == bfloat16 and getattr(data, "dtype", None) == np.uint16:
        return np.asarray(data).view(bfloat16.numpy)
    given: Any = data
    if isinstance(element, Dense) and isinstance(given, list | tuple | np.ndarray | Composite):
        numbers: Any = np.asarray(data)
        if numbers.shape == element.extents:
            return numbers[None]
    return data
