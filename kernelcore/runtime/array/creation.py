"""Functions that make data arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from kernelcore.base.config import config
from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.keywords import checked_keywords
from kernelcore.language.conversion import describe, scalar_of_numpy
from kernelcore.language.types import Dense, Element, Scalar, boolean, element_type, has_layout
from kernelcore.runtime.array import unset_elements
from kernelcore.runtime.array.addresses import at_address
from kernelcore.runtime.array.allocation import Shape, check_ndim, extents_of, zeros_of
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import (
    Numbers,
    as_numpy,
    element_of,
    inferred,
    numpy_layout,
    take_elements,
    with_components,
)
from kernelcore.runtime.device import Device, require_device
from kernelcore.runtime.hooks import capture_sink, new_arrays_require_gradients, observer


@partial(checked_keywords, name="array")
def make(
    data: Any = None,
    dtype: Any = None,
    shape: Shape | None = None,
    *,
    ndim: int | None = None,
    copy: bool = True,
    device: str | None = None,
    requires_grad: bool = False,
    grad: Array | None = None,
    pinned: bool = False,
    ptr: int | None = None,
    strides: Sequence[int] | None = None,
    capacity: int | None = None,
    deleter: Callable[[int, int], object] | None = None,
    retain_grad: bool = False,
) -> Array:
    """What ``kc.array`` makes of its arguments; see ``Array``."""
    if ptr is not None:
        if data is not None:
            raise KernelArgumentError("array: found data and ptr", remedy="give one of them")
        target = require_device("array", device)
        result = at_address(ptr, dtype, shape, strides, capacity, target, deleter)
    elif strides is not None or capacity is not None or deleter is not None:
        raise KernelArgumentError(
            "array: strides, capacity and deleter describe memory at ptr, and there is no ptr",
            remedy="give ptr, or data whose strides are the array's",
        )
    elif data is None:
        if shape is None:
            raise KernelArgumentError(
                "array: expected data or a shape, found neither",
                remedy="give data, or dtype and ndim alone to annotate a parameter",
            )
        result = zeros(shape, float if dtype is None else dtype, device, pinned=pinned)
    else:
        result = _of_data(data, dtype, shape, copy, device)
        if pinned:
            made = Array.pinned_zeros(result.shape, *element_of(result.dtype))
            made.writer(result)()
            result = made
    if ndim is not None and result.ndim != ndim:
        raise KernelArgumentError(
            f"array: expected {ndim} dimensions, found {result.ndim}",
            remedy=f"the data have the shape {result.shape}, less components",
        )
    check_ndim(result.ndim)
    result.requires_grad = requires_grad or grad is not None
    if grad is not None:
        result.grad = grad
    return _retaining(result, retain_grad)


def _retaining(made: Array, is_wanted: bool) -> Array:
    """``made``, which retains its gradient if ``is_wanted``."""
    if is_wanted:
        made.retain_grad = True
    return made


def _of_data(data: Any, dtype: Any, shape: Shape | None, copy: bool, device: str | None) -> Array:
    """An array with the elements of ``data``, or of its memory."""
    target = require_device("array", device)
    wanted = None if dtype is Any else dtype
    is_nested = isinstance(data, list | tuple)
    if copy or isinstance(data, list | tuple | np.ndarray | Array):
        if wanted is None:
            wanted = data.dtype if isinstance(data, Array) else inferred(data)
        element, known = element_of(wanted)
        if isinstance(element, Dense):
            # Nested sequences of vectors have components of their own.
            data = with_components(element, as_numpy(data))
        result = Array.over(take_elements(element, data) if copy else _shared(element, data), known)
    else:
        result = Array.sharing(data, wanted)
    if shape is not None:
        result = Array.over(result.reshape(extents_of("array", shape)).numpy(), result.dtype)
    if copy or is_nested:
        result = result if target == result.device else _placed(result, target)
        result.keep(data)
    elif device is not None and result.device != target:
        raise KernelArgumentError(
            f"array: expected memory of {target} to share, found memory of {result.device}",
            remedy="leave copy=False out",
        )
    return result


def _placed(array: Array, device: Device) -> Array:
    """A copy of ``array`` on ``device``, made at once: new arrays are not recorded."""
    found = Array.zeros(array.shape, array.element, array.dtype, device)
    found.writer(array)()
    return found


def _shared(element: Element, data: Any) -> Numbers:
    """A view of the memory of ``data``, which keeps no arrays; nested sequences are copied."""
    if isinstance(data, list | tuple):
        return take_elements(element, data)
    array = as_numpy(data)
    layout, extents = numpy_layout(element)
    is_inner = array.ndim >= len(extents) and array.shape[array.ndim - len(extents) :] == extents
    if array.dtype == layout and is_inner and has_layout(element):
        return array
    raise KernelArgumentError(
        f"array: expected memory of {element} to share, found {describe(array)}",
        remedy="convert it first, or leave copy=False out",
    )


# The value of arrays that are not written after they are made.
_ZEROS: Any = object()


def _new(
    name: str,
    shape: Shape | None,
    n: int | None,
    dtype: Any,
    device: str | None,
    pinned: bool,
    value: Any,
    requires_grad: bool,
    retain_grad: bool,
) -> Array:
    """A new array with ``value`` in every element."""
    target = require_device(name, device)
    if (shape is None) == (n is None):
        raise KernelArgumentError(
            f"{name}: expected a shape", remedy=f"write kc.{name}(n) or kc.{name}((rows, columns))"
        )
    given: Any = n if shape is None else shape
    observing = observer.get()
    made = None if observing is None else observing.make_array(given, dtype, name != "empty")
    if made is None:
        made = zeros_of(name, extents_of(name, given), dtype, target, pinned)
        if name == "empty" and config.mode == "python" and target.is_cpu:
            unset_elements.fill(made._data)  # pyright: ignore[reportPrivateUsage]
    if value is not _ZEROS:
        if isinstance(made, Array) and capture_sink() is None:
            # Not recorded by a Tape: the gradient of a new array is that of its first elements.
            made.writer(_component(made.element, value))()
        else:
            made.fill_(_component(getattr(made, "element", None), value))
    wanted = requires_grad or (new_arrays_require_gradients.get() and _is_float(made))
    made.requires_grad = wanted
    return _retaining(made, retain_grad)


def _is_float(array: Any) -> bool:
    element = getattr(array, "element", None)
    return isinstance(element, Scalar | Dense) and element_type(element).is_float


def _component(element: Any, value: Any) -> Any:
    """``value`` for all components; of bools, 0 and 1 stand for False and True."""
    scalar = element.scalar if isinstance(element, Dense) else element
    is_number = isinstance(value, int) and value in (0, 1)
    return bool(value) if scalar == boolean and is_number else value


def _creator(name: str, value: Any, doc: str):
    """A function that makes arrays with ``value`` in every component."""

    def create(
        shape: Shape | None = None,
        dtype: Any = float,
        device: str | None = None,
        requires_grad: bool = False,
        pinned: bool = False,
        retain_grad: bool = False,
        *,
        n: int | None = None,
    ) -> Array:
        return _new(name, shape, n, dtype, device, pinned, value, requires_grad, retain_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return checked_keywords(create)


_ARGS = """

    Args:
        shape: The extents; a number for one dimension.
        dtype: The type of an element: a scalar type, or the class of a composite or struct.
        device: Where, such as 'cpu' or 'cuda:0'; by default that of ``get_device``.
        requires_grad: Whether a Tape computes its gradient.
        pinned: Whether to use pinned memory of the host, which needs a GPU. Copies between it and a
            GPU are queued, as launches are: wait for them before the host touches it.
        retain_grad: Whether a backward pass leaves the gradient of an array that a launch wrote;
            see ``Array.retain_grad``. It needs ``requires_grad``.
        n: Another name for the extent of one dimension.

    Raises:
        KernelArgumentError: No shape, a negative extent, no such device, or no gradient to retain.
        KernelTypeError: There are no arrays of ``dtype``.
    """
zeros = _creator("zeros", _ZEROS, "An array of zeros." + _ARGS)
empty = _creator(
    "empty",
    _ZEROS,
    "An array to be written before it is read; it holds zeros, except in Python mode." + _ARGS,
)
ones = _creator("ones", 1, "An array of ones, in every component of an element." + _ARGS)


@checked_keywords
def full(
    shape: Shape | None = None,
    value: Any = 0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
    pinned: bool = False,
    retain_grad: bool = False,
    *,
    n: int | None = None,
) -> Array:
    """An array of elements ``value``; ``dtype`` is its type by default, numbers have 32 bits.

    The other arguments are those of ``zeros``.
    """
    wanted = _type_of_value(value) if dtype is None else dtype
    return _new("full", shape, n, wanted, device, pinned, value, requires_grad, retain_grad)


def _type_of_value(value: Any) -> Any:
    given: object = value
    if isinstance(given, np.generic):
        return value.dtype
    if isinstance(given, bool | int | float):
        return element_of(type(given))[1]
    return inferred(value)


@checked_keywords
def from_numpy(
    arr: Numbers,
    dtype: Any = None,
    shape: Shape | None = None,
    device: str | None = None,
    requires_grad: bool = False,
    retain_grad: bool = False,
    *,
    copy: bool = True,
) -> Array:
    """An array of a NumPy array; ``dtype`` is that of NumPy if none is given.

    Args:
        arr: The elements; structs of a structured dtype.
        dtype: The type of an element.
        shape: The shape, if not that of ``arr``.
        device: Where, such as 'cpu' or 'cuda:0'; by default that of ``get_device``.
        requires_grad: Whether a Tape computes its gradient.
        retain_grad: Whether a backward pass leaves it; see ``Array.retain_grad``.
        copy: Whether to copy; without, the memory is shared, and read-only memory stays so.

    Raises:
        KernelTypeError: Elements that ``dtype`` cannot take.
        KernelArgumentError: Another shape, memory that cannot be shared, or no gradient to retain.
    """
    is_here = require_device("from_numpy", device).is_cpu
    is_tracked = requires_grad or retain_grad
    is_plain = dtype is None and shape is None and is_here and not is_tracked
    given: Any = arr
    if is_plain and isinstance(given, np.ndarray) and scalar_of_numpy(arr.dtype) is not None:
        check_ndim(arr.ndim)
        return Array.sharing(arr, copy=copy)
    made = make(arr, dtype, shape, copy=copy, device=device, requires_grad=requires_grad)
    return _retaining(made, retain_grad)


def from_dlpack(source: Any, dtype: Any = None) -> Array:
    """An array over the memory of any array in CPU memory that exports DLPack.

    Args:
        source: The array, or the capsule of an export, which is used up.
        dtype: The type of an element; components are the last dimensions of ``source``.

    Raises:
        KernelArgumentError: No export, another device, or elements that are not of ``dtype``.
    """
    return Array.sharing(source, dtype)


def to_dlpack(array: Array) -> Any:
    """A DLPack capsule of the memory of ``array``; new code passes the array itself."""
    return array.__dlpack__()


def dtype_from_numpy(numpy_dtype: Any) -> Any:
    """The scalar type of the same layout as a NumPy dtype.

    Raises:
        KernelTypeError: There is none.
    """
    return element_of(np.dtype(numpy_dtype))[1]


def dtype_to_numpy(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype of an element; that of a vector or matrix is a subarray."""
    return element_of(dtype)[0].numpy
