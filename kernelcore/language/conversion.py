"""Python objects as components: what a scalar, a vector or a field takes, and as which number."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_index
from typing import Any, cast

import numpy as np

from kernelcore.base.errors import KernelTypeError
from kernelcore.language.types import Scalar, scalar_of_numpy

# Not numpy.typing's name for it: that module takes two milliseconds to import.
Array = np.ndarray[Any, np.dtype[Any]]

# A number converts to its own rank and to higher ones; the reverse would lose information.
_RANKS = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def describe(value: object) -> str:
    """``value`` in words, for error messages."""
    if value is None or isinstance(value, bool | int | float | str):
        return f"{value!r}"
    if isinstance(value, np.generic | np.ndarray):
        array = np.asarray(cast("Any", value))
        if array.ndim == 0:
            return f"{array} of dtype {array.dtype}"
        return f"an array of shape {array.shape} and dtype {array.dtype}"
    if isinstance(value, list | tuple):
        return f"{cast('Sequence[object]', value)!r}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def is_number(value: object) -> bool:
    """Whether ``value`` is one number: of Python, of NumPy, or an array without dimensions."""
    if isinstance(value, bool | int | float):
        return True
    return getattr(value, "shape", None) == () and hasattr(value, "__array__")


def take_scalar(dtype: Scalar, value: object) -> Any:
    """``value`` as a NumPy scalar of ``dtype``: bools become integers, and these floats.

    Raises:
        KernelTypeError: It is no number, its kind loses something, or it is out of range.
    """
    number: Any = value
    if not isinstance(value, bool | int | float) or isinstance(value, np.generic):
        number = _item(dtype, value)
    kind = "bool" if isinstance(number, bool) else "int" if isinstance(number, int) else "float"
    if _RANKS[kind] > _RANKS[dtype.kind]:
        raise _refused(dtype, kind, describe(value))
    if dtype.is_integer:
        return dtype.numpy.type(_in_range(dtype, int(number), int(number)))
    try:
        with np.errstate(all="ignore"):
            return dtype.numpy.type(number if dtype.kind == "bool" else float(number))
    except OverflowError:
        raise KernelTypeError(
            f"expected {dtype}, found an integer of {number.bit_length()} bits",
            remedy="give a number that a float can hold",
        ) from None


def take_array(dtype: Scalar, value: object, shape: tuple[int, ...]) -> Array:
    """``value``, a sequence or an array, as a new array of ``shape`` and ``dtype``.

    Raises:
        KernelTypeError: Another shape, or components that ``take_scalar`` refuses.
    """
    if isinstance(value, list | tuple | np.void):
        return _take_sequence(dtype, cast("Sequence[object]", value), shape)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise KernelTypeError(
            f"expected shape {shape}, found {describe(value)}: {error}",
            remedy="give a sequence or an array of that shape",
        ) from None
    found = scalar_of_numpy(array.dtype)
    if array.shape != shape or found is None:
        raise KernelTypeError(
            f"expected {dtype} components of shape {shape}, found {describe(value)}",
            remedy="give a sequence or an array of that shape",
        )
    if _RANKS[found.kind] > _RANKS[dtype.kind]:
        raise _refused(dtype, found.kind, describe(value))
    if dtype.is_integer and array.size > 0:
        _in_range(dtype, int(array.min()), int(array.max()))
    with np.errstate(all="ignore"):
        return np.array(array, dtype.numpy)


def converted(dtype: Scalar, array: Array) -> Array:
    """A copy of ``array`` as a cast in a kernel gives it: floats saturate as integers, NaN is 0."""
    source = scalar_of_numpy(array.dtype)
    if dtype.is_integer and source is not None and source.is_float:
        whole = [dtype(float(x)) for x in array.ravel()]
        return np.array(whole, dtype.numpy).reshape(array.shape)
    with np.errstate(all="ignore"):
        return np.array(array, dtype.numpy)


def checked_index(name: str, data: Array, index: Any) -> Any:
    """``index`` of ``data`` if it is integers and slices that leave at least one component.

    Raises:
        KernelTypeError: It is something else, or leaves none.
        IndexError: It is out of range.
    """
    places = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
    if not all(isinstance(place, slice) or hasattr(place, "__index__") for place in places):
        raise KernelTypeError(
            f"{name}: expected integers or slices as indices, found {index!r}",
            remedy="index an array with numpy.asarray(value) for anything else",
        )
    exact = tuple(cast("Any", p) if isinstance(p, slice) else as_index(p) for p in places)
    if np.size(data[exact]) == 0:
        raise KernelTypeError(
            f"{name}: the slice {index!r} has no components", remedy="take at least one"
        )
    return exact


def component_texts(data: Array) -> list[str]:
    """The items of an array as text, in the shortest form that gives the same numbers."""
    if data.ndim == 1:
        return [str(component) for component in data]
    return [f"[{', '.join(component_texts(row))}]" for row in data]


def places_of(letters: str) -> range | None:
    """The places of components that are named by letters at equal distances, as in ``zyx``."""
    if not letters or not set(letters) <= set("xyzw"):
        return None
    places = ["xyzw".index(letter) for letter in letters]
    step = places[1] - places[0] if len(places) > 1 else 1
    found = range(places[0], places[0] + step * len(places), step) if step else range(0)
    return found if list(found) == places else None


def _take_sequence(dtype: Scalar, value: Sequence[object], shape: tuple[int, ...]) -> Array:
    if not shape or len(value) != shape[0]:
        expected = f"{shape[0]} components" if shape else "one number"
        raise KernelTypeError(
            f"expected {expected}, found {len(value)}: {describe(value)}",
            remedy="give every component",
        )
    result = np.zeros(shape, dtype.numpy)
    for i in range(len(value)):
        one = value[i]
        result[i] = take_array(dtype, one, shape[1:]) if len(shape) > 1 else take_scalar(dtype, one)
    return result


def _item(dtype: Scalar, value: object) -> bool | int | float:
    """The Python number in a NumPy scalar or an array without dimensions."""
    if is_number(value):
        array = np.asarray(value)
        found = scalar_of_numpy(array.dtype)
        if found is not None:
            return found.python(array[()])
    raise KernelTypeError(
        f"expected {dtype}, found {describe(value)}", remedy="give a number of Python or NumPy"
    )


def _in_range(dtype: Scalar, lowest: int, highest: int) -> int:
    low, high = dtype.limits
    if lowest < low or highest > high:
        raise KernelTypeError(
            f"expected {dtype}, found {lowest if lowest < low else highest}",
            remedy=f"give integers from {low} to {high}",
        )
    return lowest


def _refused(dtype: Scalar, kind: str, found: str) -> KernelTypeError:
    remedy = "compare with zero: x != 0"
    if kind == "float" and dtype.is_integer:
        remedy = "round it first, or convert it with int(...) or astype"
    return KernelTypeError(f"expected {dtype}, found {found}", remedy=remedy)
