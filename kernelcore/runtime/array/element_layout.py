"""Elements of data arrays: their layout in NumPy, and conversion from and to Python objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from kernelcore import _native
from kernelcore._native import ArrayMemory
from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.language.composite import Composite, value_class
from kernelcore.language.conversion import describe, scalar_of_numpy, take_array, take_scalar
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import (
    ArrayOf,
    Dense,
    Element,
    Scalar,
    StructType,
    can_be_stored,
    float32,
    has_layout,
    type_of,
    uint8,
)
from kernelcore.runtime.array.described_arrays import struct_in
from kernelcore.runtime.array.foreign_memory import (
    check_layout,
    is_foreign,
    numpy_of,
    refuse_masked,
    unusable,
)

Numbers = np.ndarray[Any, np.dtype[Any]]


def element_of(dtype: object) -> tuple[Element, Any]:
    """The element type that ``dtype`` stands for, and the dtype of its arrays: a Scalar or a class.

    Raises:
        KernelTypeError: It is no type of an element.
    """
    given: Any = dtype
    found = type_of(dtype)
    if found is None:
        found = _scalar_of(given)
    match found:
        case Scalar():
            return found, found
        case Dense() if not found.is_pattern:
            return found, value_class(found)
        case StructType() if can_be_stored(found) and not isinstance(dtype, StructType):
            return found, given
        case _:
            raise KernelTypeError(
                f"expected the dtype of an array, found {dtype!r}",
                remedy="use float, int, bool, a type such as kc.float64 or kc.vec3, or a struct",
            )


def _scalar_of(dtype: Any) -> Scalar | None:
    """The scalar with the layout of a NumPy dtype, given as dtype, class or name."""
    is_class = isinstance(dtype, type) and issubclass(dtype, np.generic)
    if not is_class and not isinstance(dtype, np.dtype | str):
        return None
    try:
        return scalar_of_numpy(np.dtype(cast("Any", dtype)))
    except TypeError:
        return None


def numpy_layout(element: Element) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The NumPy dtype of an array of ``element``, and the extents of its trailing axes."""
    if isinstance(element, Dense):
        return element.scalar.numpy, element.extents
    return element.numpy, ()


def component_ndim(element: Element, data: Numbers) -> int:
    """The number of trailing axes of ``data`` that are components of ``element``.

    Raises:
        KernelArgumentError: ``data`` has another layout.
    """
    layout, extents = numpy_layout(element)
    ndim = data.ndim - len(extents)
    if data.dtype != layout or ndim < 0 or data.shape[ndim:] != extents:
        raise KernelArgumentError(
            f"expected the layout of {element}, found {describe(data)}",
            remedy="make arrays with kc.array(data, dtype=...)",
        )
    return len(extents)


def element_in(memory: ArrayMemory, source: Any, dtype: Any) -> tuple[Element, Any, int]:
    """The element type of memory, the dtype of its arrays, and the number of component axes.

    Args:
        memory: The memory.
        source: The object that exported it, for messages.
        dtype: The expected type of the elements.

    Raises:
        KernelArgumentError: The elements are of another type.
    """
    if memory.scalar_index < 0:
        raise unusable(memory, source)
    element, known = element_of(dtype)
    layout, extents = numpy_layout(element)
    check_layout(memory, f"memory of {element} to share", layout, extents)
    return element, known, len(extents)


def member_dtype(dtype: Any, name: str) -> Any:
    """The dtype of arrays of field ``name`` of the struct class ``dtype``."""
    member = dtype.kernel_type.field(name)
    is_inner = isinstance(member, StructType | ArrayOf)
    return element_of(dtype._classes[name] if is_inner else member)[1]


def has_gradient(element: Element) -> bool:
    """Whether a part of ``element`` is a float."""
    return any(scalar.is_float for scalar in scalars_of(element))


def inferred(data: Any) -> Any:
    """The default dtype of an array of ``data``.

    Raises:
        KernelTypeError: Its elements are not in the kernel language.
    """
    first: Any = data
    while isinstance(first, list | tuple) and first:
        first = cast("Sequence[Any]", first)[0]
    kind: Any = cast("Any", first).__class__
    if isinstance(type_of(kind), Dense | StructType):
        return kind
    found = scalar_of_numpy(as_numpy(data).dtype)
    if found is None:
        raise KernelTypeError(
            f"no dtype for {describe(data)}", remedy="give dtype, such as kc.float32 or kc.vec3"
        )
    return float32 if isinstance(data, list | tuple) and not data else found


def as_numpy(data: Any) -> Numbers:
    """``data`` as a NumPy array, without a copy where possible.

    Raises:
        KernelTypeError: NumPy cannot read it as an array.
    """
    if isinstance(data, ArrayMemory):
        numpy = getattr(data, "numpy", None)
        return numpy_of(data) if numpy is None else numpy()
    refuse_masked("array", data)
    try:
        # DLPack covers dtypes that NumPy lacks, and tensors that refuse ``__array__``.
        return numpy_of(ArrayMemory(data)) if is_foreign(data) else np.asarray(data)
    except (BufferError, TypeError, ValueError) as error:
        raise KernelTypeError(
            f"expected an array or nested sequences, found {describe(data)}: {error}"
        ) from None


def zeroed(shape: tuple[int, ...], layout: np.dtype[Any]) -> Numbers:
    """Zeros in memory that kernelcore allocates."""
    size_bytes = math.prod(shape) * layout.itemsize
    memory = _native.zeroed(ArrayMemory, (size_bytes,), uint8.index)
    return numpy_of(memory).view(layout).reshape(shape)


def copied(data: Numbers) -> Numbers:
    """A contiguous copy of ``data`` in memory that kernelcore allocates."""
    found = zeroed(data.shape, data.dtype)
    found[...] = data
    return found


def take_elements(element: Element, data: Any) -> Numbers:
    """``data`` as a new array of the layout of ``element``; its numbers are converted.

    Raises:
        KernelTypeError: Its trailing shape is not that of the components, a number is out of
            range, or its kind would lose something.
    """
    dtype, extents = numpy_layout(element)
    if isinstance(element, StructType):
        return _take_structs(element, data)
    array = as_numpy(data)
    if array.shape[array.ndim - len(extents) :] != extents or array.ndim < len(extents):
        raise KernelTypeError(
            f"expected elements of type {element}, found {describe(array)}",
            remedy=f"the trailing shape has to be {extents}",
        )
    if array.size == 0:
        return np.zeros(array.shape, dtype)
    taken = take_array(cast("Scalar", scalar_in(element)), array, array.shape)
    return copied(taken) if taken.__array_interface__["data"][0] % 64 else taken


def with_components(element: Element, data: Numbers) -> Numbers:
    """``data`` with the components of ``element`` as trailing axes.

    Components that lie in a row along the last axis become axes: six numbers are two elements of
    three components. What does not fit is left as it is.
    """
    _, extents = numpy_layout(element)
    if not extents:
        return data
    size = math.prod(extents)
    fits = data.ndim >= len(extents) and data.shape[data.ndim - len(extents) :] == extents
    if not fits and data.ndim > 0 and size and data.shape[-1] and data.shape[-1] % size == 0:
        data = data.reshape((*data.shape[:-1], data.shape[-1] // size, *extents))
    return data


def scalar_in(element: Element) -> Scalar | StructType:
    """The scalar type of ``element``; a struct stands for itself."""
    return element.scalar if isinstance(element, Dense) else element


def _take_structs(element: StructType, data: Any) -> Numbers:
    dtype = element.numpy
    if isinstance(data, list):
        records = [_record(element, item) for item in cast("list[Any]", data)]
        return np.stack(records) if records else np.zeros(0, dtype)
    if _is_value(element, data):
        return np.array(data.to_numpy())
    array = as_numpy(data)
    if array.dtype.names != dtype.names:
        raise KernelTypeError(
            f"expected structs {element}, found {describe(array)}",
            remedy=f"give a list of {element}, or a NumPy array of dtype {element}.numpy_dtype()",
        )
    return array.astype(dtype)


def _record(element: StructType, item: Any) -> Numbers:
    if isinstance(item, list) or _is_value(element, item):
        return _take_structs(element, item)
    return np.array(item, element.numpy)


def _is_value(element: StructType, value: Any) -> bool:
    return type_of(value.__class__) == element


def element_value(dtype: Any, data: Numbers, kept: Sequence[Any]) -> Any:
    """The element in ``data``, an array that has component axes only.

    Its fields that are arrays are among those of ``kept``.
    """
    if isinstance(dtype, Scalar):
        return data[()]
    if issubclass(dtype, Composite):
        return dtype(np.array(data))
    if not has_layout(dtype.kernel_type):
        return struct_in(dtype, data[()], kept)
    return dtype.from_numpy(data[()])


def element_list(dtype: Any, data: Numbers, ndim: int, kept: Sequence[Any]) -> list[Any]:
    """The elements in ``data``, an array of ``ndim`` dimensions, in row-major order."""
    inner = data.shape[ndim:]
    flat = data.reshape((-1 if data.size else 0, *inner))
    if not inner and flat.dtype.names is None:
        return flat.tolist()
    return [element_value(dtype, np.asarray(one), kept) for one in flat]


def elements_to_write(
    element: Element, source: Any, outer: tuple[int, ...]
) -> Callable[[], Numbers]:
    """A function that reads ``source`` as ``broadcast_elements`` does, at the time of its call.

    Raises:
        KernelTypeError, KernelArgumentError: As ``broadcast_elements``, at once.
    """
    values = broadcast_elements(element, source, outer)
    is_array = isinstance(source, ArrayMemory)
    if not is_array or np.may_share_memory(values, as_numpy(source)):
        return lambda: values
    return lambda: broadcast_elements(element, source, outer)


def broadcast_elements(element: Element, value: Any, outer: tuple[int, ...]) -> Numbers:
    """``value``, an element or an array of elements, that NumPy can broadcast to ``outer``.

    A number stands for a vector or matrix with all components equal to it. An array of the same
    layout is not copied.

    Raises:
        KernelTypeError: It is no element.
        KernelArgumentError: Its shape does not broadcast to ``outer``.
    """
    layout, extents = numpy_layout(element)
    if isinstance(value, bool | int | float) and not isinstance(element, StructType):
        return np.asarray(take_scalar(cast("Scalar", scalar_in(element)), value))
    given = as_numpy(value) if isinstance(value, np.ndarray | ArrayMemory) else None
    if (
        given is None
        or given.dtype != layout
        or given.shape[given.ndim - len(extents) :] != extents
    ):
        given = take_elements(element, value)
    lead = given.shape[: given.ndim - len(extents)]
    try:
        fits = np.broadcast_shapes(lead, outer) == outer
    except ValueError:
        fits = False
    if not fits:
        raise KernelArgumentError(
            f"expected elements of shape {outer}, found shape {lead}",
            remedy="give as many elements as are written, or one for all of them",
        )
    return given
