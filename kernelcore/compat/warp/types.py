"""``warp.types``: types of the kernel language, and questions about them."""

from __future__ import annotations

from math import prod
from numbers import Integral, Real
from typing import Any

import kernelcore as kc
from kernelcore.language.composite_types import matrix as matrix
from kernelcore.language.composite_types import quaternion as quaternion
from kernelcore.language.composite_types import transformation as transformation
from kernelcore.language.composite_types import vector as vector
from kernelcore.language.types import *  # noqa: F403
from kernelcore.language.types import ArrayOf, Dense, Scalar, StructType, type_of
from kernelcore.runtime.array.indexed_array import IndexedArray


def type_is_float(t: Any) -> bool:
    """Whether ``t`` is the type of a scalar that is a float."""
    found = type_of(t)
    return isinstance(found, Scalar) and found.is_float


def type_is_int(t: Any) -> bool:
    """Whether ``t`` is the type of an integer."""
    found = type_of(t)
    return isinstance(found, Scalar) and found.is_integer


def type_is_scalar(t: Any) -> bool:
    """Whether ``t`` is the type of a number."""
    return type_is_int(t) or type_is_float(t)


def _kind_is(t: Any, kind: str) -> bool:
    found = type_of(t)
    return isinstance(found, Dense) and found.kind == kind


def type_is_vector(t: Any) -> bool:
    """Whether ``t`` is the class of a vector."""
    return _kind_is(t, "vector")


def type_is_matrix(t: Any) -> bool:
    """Whether ``t`` is the class of a matrix."""
    return _kind_is(t, "matrix")


def type_is_quaternion(t: Any) -> bool:
    """Whether ``t`` is the class of a quaternion."""
    return _kind_is(t, "quaternion")


def type_is_transformation(t: Any) -> bool:
    """Whether ``t`` is the class of a transform."""
    return _kind_is(t, "transform")


def type_is_composite(t: Any) -> bool:
    """Whether ``t`` is the class of a vector, matrix, quaternion or transform."""
    return isinstance(type_of(t), Dense)


def type_is_struct(t: Any) -> bool:
    """Whether ``t`` is the class of a struct."""
    return isinstance(type_of(t), StructType)


def type_is_value(t: Any) -> bool:
    """Whether ``t`` is the type of a scalar or of a composite."""
    return isinstance(type_of(t), Scalar | Dense)


def type_is_array(t: Any) -> bool:
    """Whether ``t`` is the type of an array."""
    return isinstance(type_of(t), ArrayOf)


def is_array(x: Any) -> bool:
    """Whether ``x`` is an array or the type of one."""
    return isinstance(x, kc.Array | IndexedArray) or type_is_array(x)


def is_float(x: Any) -> bool:
    """Whether ``x`` is a float, of Python or of a type of the kernel language."""
    return isinstance(x, Real) and not isinstance(x, Integral)


def is_int(x: Any) -> bool:
    """Whether ``x`` is an integer, of Python or of a type of the kernel language."""
    return isinstance(x, Integral) and not isinstance(x, bool)  # pyright: ignore


def is_scalar(x: Any) -> bool:
    """Whether ``x`` is a number."""
    return is_int(x) or is_float(x)


def is_vector(x: Any) -> bool:
    """Whether ``x`` is a vector."""
    return type_is_vector(type(x))


def is_matrix(x: Any) -> bool:
    """Whether ``x`` is a matrix."""
    return type_is_matrix(type(x))


def is_quaternion(x: Any) -> bool:
    """Whether ``x`` is a quaternion."""
    return type_is_quaternion(type(x))


def is_transformation(x: Any) -> bool:
    """Whether ``x`` is a transform."""
    return type_is_transformation(type(x))


def is_composite(x: Any) -> bool:
    """Whether ``x`` is a vector, matrix, quaternion or transform."""
    return type_is_composite(type(x))


def is_struct(x: Any) -> bool:
    """Whether ``x`` is a value of a struct."""
    return type_is_struct(type(x))


def is_value(x: Any) -> bool:
    """Whether ``x`` is a number, a bool or a composite."""
    return is_scalar(x) or type(x).__name__ in ("bool", "bool_") or is_composite(x)


def is_tile(x: Any) -> bool:
    """False: there are no tiles."""
    return False


type_is_tile = is_tile


def type_size(t: Any) -> int:
    """The number of scalars in a value of ``t``; 1 for a struct."""
    found = type_of(t)
    return prod(found.extents) if isinstance(found, Dense) else 1


def type_size_in_bytes(t: Any) -> int:
    """The bytes of a value of ``t`` in an array."""
    return kc.dtype_to_numpy(t).itemsize


def type_scalar_type(t: Any) -> Any:
    """The type of the components of ``t``; ``t`` itself if it has none."""
    found = type_of(t)
    return found.dtype if isinstance(found, Dense) else t


def type_ctype(t: Any) -> Any:
    """The type of ``ctypes`` of the same layout as the scalar type ``t``."""
    found: Any = kc.types.scalar_of(t)
    return found._type_


def types_equal(a: Any, b: Any) -> bool:
    """Whether two types are one."""
    return type_of(a) == type_of(b)


def type_repr(t: Any) -> str:
    """The name of a type."""
    found = type_of(t)
    return repr(t if found is None else found)
