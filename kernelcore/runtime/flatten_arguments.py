"""Flattened arguments: one object per parameter of the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base.errors import KernelArgumentError, KernelError
from kernelcore.language.composite import Composite
from kernelcore.language.conversion import describe, take_array
from kernelcore.language.flatten import leaf_names, leaf_types
from kernelcore.language.types import (
    ArrayOf,
    Dense,
    Element,
    Scalar,
    SourceType,
    StructType,
    element_type,
    stored,
)
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import numpy_layout
from kernelcore.runtime.array.indexed_array import IndexedArray
from kernelcore.runtime.device_memory import device_holding
from kernelcore.runtime.structs import struct_fields


def leaves(type_: SourceType, value: Any, name: str = "argument") -> list[Any]:
    """An argument flattened: one object per IR parameter, in the order of ``leaf_names``.

    Scalars and plain arrays stay as they are, unchecked. A vector, matrix, quaternion or transform
    becomes a C-contiguous array of its components; views of values are read-only. An Array without
    dimensions is passed by reference.

    Args:
        type_: The declared type of the parameter; no pattern.
        value: The argument.
        name: Its name in errors.

    Raises:
        KernelArgumentError: ``value`` does not fit.
    """
    match type_:
        case Dense():
            return [_components(type_, value, name)]
        case StructType():
            members = [(f"{name}.{n}", m) for n, m in type_.fields]
            values = field_values(type_, value, name)
            return [
                leaf
                for (inner, member), one in zip(members, values, strict=True)
                for leaf in leaves(member, one, inner)
            ]
        case ArrayOf(is_indexed=True):
            return _indexed_leaves(type_, value, name)
        case ArrayOf(is_flat=True):
            return [_flat(value, type_, name)]
        case ArrayOf():
            return _array_leaves(type_, value, name)
        case _:
            return [value]


def cotangent_leaves(type_: SourceType, value: Any, name: str = "cotangent") -> list[Any]:
    """Arrays of cotangents, one or None per IR parameter; those of integers are None.

    Args:
        type_: The declared type of the parameter of the primal.
        value: None; an array (of a value, of its shape); for a struct a mapping from fields; for
            an array of structs a structured array or a mapping.
        name: Its name in errors.

    Raises:
        KernelArgumentError: ``value`` does not fit.
    """
    kinds = leaf_types(type_)
    if value is None:
        return [None] * len(kinds)
    match type_:
        case StructType(fields=fields):
            if not isinstance(value, Mapping):
                raise KernelArgumentError(
                    f"{name}: expected a mapping from fields to arrays, found {describe(value)}",
                    remedy=f"give {{{', '.join(repr(n) for n, _ in fields)}}} or some of these",
                )
            given = cast("Mapping[str, Any]", value)
            return [
                leaf
                for n, member in fields
                for leaf in cotangent_leaves(member, given.get(n), f"{name}.{n}")
            ]
        case ArrayOf(element=StructType() as element):
            found = _struct_arrays(element, value, name)
            found += [None] * (len(kinds) - len(found))
            pairs = zip(found, kinds, strict=True)
            return [a if element_type(k).is_float else None for a, k in pairs]
        case ArrayOf(is_indexed=True):
            return [value, *[None] * (len(kinds) - 1)]
        case ArrayOf(is_flat=True):
            return [_flat(value, type_, name)]
        case _:
            return [value]


def _flat(value: Any, type_: ArrayOf, name: str) -> Any:
    """The elements of an array of any rank as one dimension, in its own memory."""
    ndim = getattr(value, "ndim", None)
    extents = type_.element.extents if isinstance(type_.element, Dense) else ()
    if ndim is None or ndim == (1 if isinstance(value, Array) else 1 + len(extents)):
        return value
    array = value if isinstance(value, Array) else Array.sharing(value, type_.element)
    try:
        return array.reshape(-1)
    except KernelError:
        raise KernelArgumentError(
            f"{name}: expected a contiguous array, found shape {array.shape} with gaps",
            remedy="launch over a contiguous copy, or call kc.op(kernel), which takes any strides",
        ) from None


def _components(type_: Dense, value: Any, name: str) -> Any:
    if isinstance(value, Array) and value.element == type_ and value.ndim == 0:
        return value
    if isinstance(value, Composite) and value.kernel_type == type_:
        return np.ascontiguousarray(value)
    if isinstance(value, Composite):
        raise KernelArgumentError(
            f"{name}: expected {type_}, found {value.kernel_type}",
            remedy=f"convert it: {type_}(...)",
        )
    try:
        is_flat = len(type_.extents) == 2 and np.shape(value) == (type_.size,)
        shape = (type_.size,) if is_flat else type_.extents
        return take_array(type_.scalar, value, shape).reshape(type_.extents)
    except KernelError as error:
        raise KernelArgumentError(
            f"{name}: expected {type_}: {error.message}", remedy=error.remedy
        ) from None


def field_values(type_: StructType, value: Any, name: str) -> list[Any]:
    """The fields of a struct given as an argument, in order; all its arrays are there.

    Raises:
        KernelArgumentError: ``value`` does not fit.
    """
    if isinstance(value, Array) and value.element == type_ and value.ndim == 0:
        value = value.fields
    try:
        values = struct_fields(type_, value)
    except KernelError as error:
        raise KernelArgumentError(f"{name}: {error.message}", remedy=error.remedy) from None
    pairs = zip(type_.fields, values, strict=True)
    return [
        empty_array(member) if one is None and isinstance(member, ArrayOf) else one
        for (_, member), one in pairs
    ]


def empty_array(type_: ArrayOf) -> Any:
    """What a kernel gets for None in place of an array: one without elements."""
    outer = (0,) * type_.ndim
    match type_.element:
        case Scalar() as element:
            return np.zeros(outer, element.numpy)
        case Dense() as element:
            return np.zeros((*outer, *element.extents), element.scalar.numpy)
        case StructType() as element:
            return np.zeros(outer, element.numpy)
        case _:
            return None


def _indexed_leaves(type_: ArrayOf, value: Any, name: str) -> list[Any]:
    if not isinstance(value, IndexedArray):
        raise KernelArgumentError(
            f"{name}: expected an indexed array, found {describe(value)}",
            remedy="give kc.indexedarray(data, [indices, ...])",
        )
    data = _array_leaves(type_, value.data, name)
    try:
        return [*data, *value.tables_on(device_holding(data[0]), type_.ndim)]
    except KernelError as error:
        raise KernelArgumentError(f"{name}: {error.message}", remedy=error.remedy) from None


def _array_leaves(type_: ArrayOf, value: Any, name: str) -> list[Any]:
    if isinstance(value, IndexedArray):
        raise KernelArgumentError(
            f"{name}: expected an array, found an indexed array",
            remedy="annotate the parameter with kc.indexedarray(dtype=...)",
        )
    if not isinstance(type_.element, StructType):
        return [value]
    found = _struct_arrays(type_.element, value, name)
    if isinstance(value, Mapping):
        _check_extents(found, type_, name)
    return found


def _check_extents(fields: Sequence[Any], type_: ArrayOf, name: str) -> None:
    """Refuse fields of an array of structs that differ in shape: kernels ask one of them."""
    # What has no shape is no array, and refused by who reads it.
    shaped = [
        (leaf, tuple(field.shape)[: type_.ndim])
        for leaf, field in zip(leaf_names(name, type_), fields, strict=False)
        if hasattr(field, "shape")
    ]
    for leaf, shape in shaped:
        first, expected = shaped[0]
        if shape != expected:
            raise KernelArgumentError(
                f"{leaf}: expected the extents of {first}, {expected}, found {shape}",
                remedy="the fields of an array of structs have its shape",
            )


def _struct_arrays(type_: StructType, value: Any, name: str) -> list[Any]:
    """One array per leaf field of an array of structs."""
    arrays = _field_arrays(value)
    if arrays is None:
        raise KernelArgumentError(
            f"{name}: expected an array of struct {type_}, found {describe(value)}",
            remedy=f"give a NumPy array of dtype {type_}.numpy_dtype(), or an array per field",
        )
    result: list[Any] = []
    for field, member in stored(type_).fields:
        inner = f"{name}.{field}"
        if field not in arrays:
            raise KernelArgumentError(
                f"{inner}: field '{field}' of struct {type_} is missing, found {', '.join(arrays)}",
                remedy=f"give a NumPy array of dtype {type_}.numpy_dtype(), or an array per field",
            )
        if isinstance(member, StructType):
            result.extend(_struct_arrays(member, arrays[field], inner))
            continue
        if isinstance(value, np.ndarray):
            _check_field(cast("Element", member), arrays[field], inner, cast("Any", value).ndim)
        result.append(arrays[field])
    return result


def _field_arrays(value: Any) -> Mapping[str, Any] | None:
    """An array per field of an array of structs; None for anything else."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if isinstance(value, Array):
        return value.fields
    given: object = value
    names = value.dtype.names if isinstance(given, np.ndarray) else None
    return None if names is None else {n: value[n] for n in names}


def _check_field(member: Element, view: Any, name: str, ndim: int) -> None:
    """Refuse a field of a structured array whose type is not ``member``."""
    dtype, extents = numpy_layout(member)
    if view.dtype != dtype or view.shape[ndim:] != extents:
        shape = f" and shape {view.shape[ndim:]}" if view.ndim > ndim else ""
        raise KernelArgumentError(
            f"{name}: expected {member}, found a field of dtype {view.dtype}{shape}",
            remedy="make the array with the dtype that numpy_dtype() of the struct gives",
        )
    if any(stride % dtype.itemsize for stride in view.strides):
        raise KernelArgumentError(
            f"{name}: its elements do not lie at whole multiples of {dtype.itemsize} bytes",
            remedy="make the array with the dtype that numpy_dtype() of the struct gives",
        )
