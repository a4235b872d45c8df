"""What is known of a value in a kernel from the source alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from kernelcore.base.dataclass import dataclass
from kernelcore.language.composite import value_class
from kernelcore.language.scalars import scalar_of_numpy
from kernelcore.language.types import Dense, Scalar, boolean, float32, int32, type_of


@dataclass(frozen=True, slots=True)
class Elements:
    """The type of an array."""

    element: ValueType
    ndim: int


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The type of a struct, by its fields."""

    fields: Mapping[str, ValueType]


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of the shape of an array."""


ValueType = Scalar | Dense | Elements | Fields | Shape | tuple["ValueType", ...] | None


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of an operation.

    Attributes:
        type: Its type; None if the source does not tell.
        is_positive: Whether it is certainly not negative.
    """

    type: ValueType
    is_positive: bool = False

    @property
    def scalar(self) -> Scalar | None:
        """The type of a scalar, or of the components of a vector or matrix."""
        return scalar_in(self.type)


def scalar_in(given: ValueType) -> Scalar | None:
    """The scalar that a type is or consists of; None for others."""
    if isinstance(given, Dense):
        return given.scalar if isinstance(given.dtype, Scalar) else None
    return given if isinstance(given, Scalar) else None


def type_of_value(value: Any) -> ValueType:
    """The type of a value on the host, as a kernel takes it."""
    if isinstance(value, tuple):
        return tuple(map(type_of_value, cast("tuple[Any, ...]", value)))
    if isinstance(value, bool | np.bool_):
        return boolean
    if isinstance(value, np.generic):
        return scalar_of_numpy(cast("np.generic[Any]", value).dtype)
    if isinstance(value, int | float):
        return float32 if isinstance(value, float) else int32
    found = type_of(cast("object", type(value)))
    return found if isinstance(found, Dense) else None


def sample_of(given: ValueType) -> Any:
    """A value of the type ``given``, for which the host can run built-in functions; or None."""
    if isinstance(given, Scalar):
        return given(1)
    if isinstance(given, Dense) and isinstance(given.dtype, Scalar):
        return value_class(given)()
    return None
