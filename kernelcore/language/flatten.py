"""The parameters of the IR that a parameter of the language stands for: their names and types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from kernelcore.language.types import (
    ArrayOf,
    ArrayType,
    Dense,
    Element,
    Scalar,
    SourceType,
    StructType,
    int32,
    stored,
)


def named_leaves(name: str, type_: SourceType) -> list[tuple[str, Scalar | ArrayType]]:
    """The IR parameters of parameter ``name`` of the concrete type ``type_``: names and types.

    Names are such as ``s.pos``, ``a.mass`` and ``a.indices[0]``.
    """
    match type_:
        case Scalar():
            return [(name, type_)]
        case Dense():
            return [(name, ArrayType(type_.scalar, len(type_.extents), type_.extents))]
        case StructType(fields=fields):
            return [leaf for n, member in fields for leaf in named_leaves(f"{name}.{n}", member)]
        case ArrayOf(element=Scalar() | Dense() | StructType() as element, ndim=ndim):
            element = stored(element) if isinstance(element, StructType) else element
            tables = [f"{name}.indices[{k}]" for k in range(ndim if type_.is_indexed else 0)]
            return [
                *((leaf, _with_dims(t, ndim)) for leaf, t in named_leaves(name, element)),
                *((table, ArrayType(int32, 1)) for table in tables),
            ]
        case _:
            raise AssertionError(f"{type_} is a pattern")


def leaf_names(name: str, type_: SourceType) -> list[str]:
    """The names of the IR parameters of parameter ``name``."""
    return [leaf for leaf, _ in named_leaves(name, type_)]


def leaf_offsets(element: Element) -> list[int]:
    """Where the parts of an element lie that are arrays of the IR: bytes from its start."""
    if not isinstance(element, StructType):
        return [0]
    places = cast("Mapping[str, Any]", element.numpy.fields or {})
    return [
        places[name][1] + inner
        for name, member in stored(element).fields
        if not isinstance(member, ArrayOf)
        for inner in leaf_offsets(member)
    ]


def leaf_types(type_: SourceType) -> list[Scalar | ArrayType]:
    """The types of the IR parameters of a parameter of the concrete type ``type_``."""
    return [leaf for _, leaf in named_leaves("", type_)]


def scalars_of(type_: SourceType | ArrayType) -> tuple[Scalar, ...]:
    """The scalars of a value of ``type_``, in order; arrays have none."""
    match type_:
        case Scalar():
            return (type_,)
        case Dense():
            return (type_.scalar,) * type_.size
        case StructType(fields=fields):
            return tuple(s for _, member in fields for s in scalars_of(member))
        case _:
            return ()


def _with_dims(leaf: Scalar | ArrayType, ndim: int) -> ArrayType:
    """An array of ``ndim`` dimensions with elements like ``leaf``."""
    if isinstance(leaf, Scalar):
        return ArrayType(leaf, ndim)
    return ArrayType(leaf.dtype, ndim + leaf.ndim, leaf.components)
