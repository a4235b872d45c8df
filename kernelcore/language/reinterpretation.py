"""Which types can be seen as which by their bits, and values of the host seen so."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.language.composite import value_class
from kernelcore.language.conversion import describe
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import (
    Dense,
    Element,
    Scalar,
    StructType,
    boolean,
    float32,
    float64,
    has_layout,
    int8,
    int16,
    int32,
    int64,
    is_pattern,
    scalar_of_numpy,
    type_of,
    unsigned,
)

USAGE = "write bitcast(x, kc.uint32), for example"
# The types of literals by their sizes; which float of 16 bits is meant, none says.
_INTEGERS = {t.bits: t for t in (int8, int16, int32, int64)}
_FLOATS = {t.bits: t for t in (float32, float64)}


def bits_as(x: Any, dtype: Any) -> Any:
    """The bits of ``x`` as a value of ``dtype``, or an array of NumPy as one of them.

    Raises:
        KernelTypeError: The sizes differ, or one of the types has bits without a meaning.
    """
    target = target_type(dtype, describe(dtype), None)
    value: Any = x
    if type(value) in (bool, int, float):
        value = literal_type(value, target, None)(value)
    own = type_of(getattr(value, "kernel_type", None))
    source = own if isinstance(own, Dense | StructType) else _scalar_type(value)
    check_sizes(source, target, None)
    if isinstance(value, np.ndarray):
        return cast("Any", value).view(target.numpy)
    data = np.asarray(value.to_numpy() if isinstance(source, StructType) else value).tobytes()
    if isinstance(target, StructType):
        return dtype.from_numpy(np.frombuffer(data, target.numpy))
    numbers = np.frombuffer(data, scalars_of(target)[0].numpy)
    if isinstance(target, Scalar):
        return numbers[0]
    made: Any = value_class(target)
    return made._of(numbers.reshape(target.extents).copy())


def target_type(dtype: object, found: str, loc: SrcLoc | None) -> Element:
    """The type that ``dtype`` stands for.

    Raises:
        KernelTypeError: None, or several.
    """
    target = type_of(dtype)
    if not isinstance(target, Scalar | Dense | StructType) or is_pattern(target):
        raise KernelTypeError(f"bitcast() takes a type as dtype, found {found}", loc, USAGE)
    return target


def literal_type(value: int | float, target: Element, loc: SrcLoc | None) -> Scalar:
    """The type of the literal ``value`` where its bits are those of a ``target``.

    Raises:
        KernelTypeError: There is none of that size.
    """
    bits = 8 * size_bytes(target, loc)
    kind = "float" if isinstance(value, float) else "int"
    found = (_FLOATS if kind == "float" else _INTEGERS).get(bits)
    if found is None or isinstance(value, bool):
        raise KernelTypeError(
            f"bitcast(): the literal {value} has no type of {bits} bits",
            loc,
            "give it one, for example float16(1.0)",
        )
    # Integers beyond the largest are those of the unsigned type.
    return found if kind == "float" or value <= found.limits[1] else unsigned(bits)


def check_sizes(source: Element, target: Element, loc: SrcLoc | None) -> None:
    """Check that both have bits with a meaning, and as many.

    Raises:
        KernelTypeError: They have not.
    """
    sizes = [size_bytes(type_, loc) for type_ in (source, target)]
    if sizes[0] != sizes[1]:
        raise KernelTypeError(
            f"bitcast() from {source} of {8 * sizes[0]} bits to {target} of {8 * sizes[1]} bits",
            loc,
            "the sizes must agree; to convert the value, call the type: float(x)",
        )


def size_bytes(type_: Element, loc: SrcLoc | None) -> int:
    """The bytes of a value of ``type_``, each of which belongs to a number.

    Raises:
        KernelTypeError: Some do not, or ``type_`` holds an array.
    """
    if not has_layout(type_):
        raise KernelTypeError(
            f"bitcast(): struct {type_} holds arrays", loc, "cast the fields that are numbers"
        )
    scalars = scalars_of(type_)
    if boolean in scalars:
        raise KernelTypeError(
            f"bitcast(): a bool has no bits of its own{_within(type_)}",
            loc,
            "convert it: int(x), or x != 0 for the other direction",
        )
    size = sum(s.size_bytes for s in scalars)
    if isinstance(type_, StructType) and size != type_.numpy.itemsize:
        raise KernelTypeError(
            f"bitcast(): struct {type_} has bytes between its fields that belong to none",
            loc,
            "order the fields by size, the largest first, or fill the gap with a field",
        )
    return size


def _within(type_: Element) -> str:
    return "" if isinstance(type_, Scalar) else f", as {type_} has"


def _scalar_type(x: Any) -> Scalar:
    """The type of a number, or of the elements of an array."""
    dtype: Any = getattr(x, "dtype", None)
    found = scalar_of_numpy(cast("Any", dtype)) if isinstance(dtype, np.dtype) else None
    if found is None:
        raise KernelTypeError(
            f"bitcast() takes a number, a vector, a matrix or a struct, found {describe(x)}",
            remedy="see an array through another type by array.view(dtype)",
        )
    return found
