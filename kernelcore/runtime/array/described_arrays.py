"""Arrays that are fields of the elements of an array: what memory holds of them, and their lives.

An element has the address and the extents of each (``language.types.descriptor``), which keep
nothing alive: the array of structs keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from kernelcore._native import ArrayMemory
from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.language.conversion import describe
from kernelcore.language.types import ArrayOf, Element, StructType, has_layout
from kernelcore.runtime.device import Device
from kernelcore.runtime.device_memory import device_holding

if TYPE_CHECKING:
    from kernelcore.runtime.array.array import Array
    from kernelcore.runtime.structs import StructValue


def descriptor_of(type_: ArrayOf, array: Array) -> tuple[int, tuple[int, ...]]:
    """The address and the extents of ``array``, of the type ``type_``.

    Raises:
        KernelTypeError: It has another type, gaps between its elements, or is read-only.
    """
    if type_.is_indexed or array.element != type_.element or array.ndim != type_.ndim:
        raise KernelTypeError(
            f"expected {type_}, found an array of {array.element} of {array.ndim} dimensions",
            remedy="give an array of the type of the field",
        )
    if not array.is_contiguous:
        raise KernelTypeError(
            f"expected an array whose elements lie in order, found strides {array.strides}",
            remedy="give array.contiguous()",
        )
    if array.is_read_only:
        raise KernelTypeError(
            "expected an array that kernels may write, found a read-only one",
            remedy="give a copy",
        )
    return array.ptr if array.size else 0, array.shape


def held_by(value: Any) -> Iterator[Any]:
    """The arrays that the structs of ``value`` hold: a struct, an array of them, or a sequence."""
    if isinstance(value, list | tuple):
        for one in cast("Sequence[Any]", value):
            yield from held_by(one)
    elif isinstance(
        struct := getattr(cast("object", type(value)), "kernel_type", None), StructType
    ):
        for name, member in struct.fields:
            field = getattr(value, name)
            if isinstance(member, StructType):
                yield from held_by(field)
            elif isinstance(member, ArrayOf) and field is not None:
                yield field
    elif hasattr(value, "kept"):
        yield from value.kept


def require_on(device: Device, arrays: Sequence[Any]) -> None:
    """Refuse arrays whose addresses mean nothing on ``device``.

    Raises:
        KernelArgumentError: Naming the device of one.
    """
    for array in arrays:
        found = device_holding(array)
        if found != device:
            raise KernelArgumentError(
                f"expected fields that are arrays on {device}, found one on {found}",
                remedy=f"give array.to('{device}') to the struct",
            )


def struct_in(dtype: type[StructValue], record: Any, kept: Sequence[Any]) -> StructValue:
    """The struct that ``record`` holds, with arrays of ``kept`` at its addresses.

    Raises:
        KernelArgumentError: An address is of none of them.
    """
    fields: dict[str, Any] = {}
    for name, member in dtype.kernel_type.fields:
        value = record[name]
        if isinstance(member, ArrayOf):
            value = _array_at(int(value["address"]), tuple(value["shape"].tolist()), kept)
        elif not has_layout(member):
            value = struct_in(dtype._classes[name], value, kept)  # pyright: ignore[reportPrivateUsage]
        fields[name] = value
    return dtype(**fields)


def _array_at(address: int, shape: tuple[int, ...], kept: Sequence[Any]) -> Any:
    if address == 0:
        return None
    for array in kept:
        memory = array if isinstance(array, ArrayMemory) else ArrayMemory(array)
        if memory.ptr == address and memory.extents[: len(shape)] == shape:
            return array
    raise KernelArgumentError(
        f"the element names an array of shape {shape} that was not given to this array of structs",
        remedy="assign a struct that holds the array to the element",
    )


def require_portable(element: Element, array: object) -> None:
    """Refuse to pickle elements that hold arrays, whose addresses mean nothing elsewhere.

    Raises:
        KernelTypeError: A field of ``element`` is an array.
    """
    if not has_layout(element):
        raise KernelTypeError(
            f"expected an array that can be pickled, found {describe(array)} of {element}, which "
            "holds arrays",
            remedy="pickle the structs, array.list()",
        )
