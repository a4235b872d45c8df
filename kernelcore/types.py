"""The types of the kernel language: scalars, arrays, and the stacks that derivatives record on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Scalar:
    """A machine scalar; ``kind`` is 'bool', 'int' or 'float'. Calling it converts on the host."""

    name: str
    kind: str
    bits: int

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in an array; a bool takes one."""
        return max(self.bits // 8, 1)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same layout."""
        return np.dtype(self.name)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    def __call__(self, value: Any) -> Any:
        return self.numpy.type(value)

    def __repr__(self) -> str:
        return self.name


boolean = Scalar("bool", "bool", 1)
int32 = Scalar("int32", "int", 32)
int64 = Scalar("int64", "int", 64)
float32 = Scalar("float32", "float", 32)
float64 = Scalar("float64", "float", 64)

SCALARS: tuple[Scalar, ...] = (boolean, int32, int64, float32, float64)

# What Python's own types mean in an annotation or a cast.
PYTHON_SCALARS: dict[type, Scalar] = {bool: boolean, int: int32, float: float32}

MAX_ARRAY_DIMS = 4
# Indices have 32 bits, so extents of arrays and launches are smaller than this.
MAX_EXTENT = 1 << 31
# Launch dimensions that a kernel can ask for, and those that batching may add in front.
MAX_TID_DIMS = 4
MAX_GRID_DIMS = 8


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A strided array parameter of ``ndim`` dimensions; with none, one element by reference."""

    dtype: Scalar
    ndim: int

    def __repr__(self) -> str:
        return f"array({self.dtype}, {self.ndim})"


@dataclass(frozen=True, slots=True)
class StackType:
    """A private last-in-first-out store of scalars, on which derivatives record values."""

    dtype: Scalar

    def __repr__(self) -> str:
        return f"stack({self.dtype})"


Type = Scalar | ArrayType | StackType


def as_array(type_: ArrayType | Scalar) -> ArrayType:
    """``type_``, a scalar as an array of no dimensions."""
    return type_ if isinstance(type_, ArrayType) else ArrayType(type_, 0)


def element_type(type_: Type) -> Scalar:
    """The scalar that ``type_`` is, or holds."""
    return type_ if isinstance(type_, Scalar) else type_.dtype


# Type classes that signatures of built-ins are written in.
TYPE_CLASSES: dict[str, tuple[Scalar, ...]] = {
    "Bool": (boolean,),
    "Int": (int32, int64),
    "Float": (float32, float64),
    "Number": (int32, int64, float32, float64),
    "Any": SCALARS,
}


def scalar_of(annotation: object) -> Scalar | None:
    """The scalar that ``annotation`` (a Scalar, or bool, int, float) stands for, or None."""
    if isinstance(annotation, Scalar):
        return annotation
    return PYTHON_SCALARS.get(annotation) if isinstance(annotation, type) else None
