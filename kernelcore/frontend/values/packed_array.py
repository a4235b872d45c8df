"""Arrays at addresses, which kernels are given or find in the elements of arrays of structs.

Their elements follow each other in memory, as those of new arrays do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice

from kernelcore.builtins.syntax import BINARY
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.value import (
    ArrayView,
    Axis,
    CompositeValue,
    Hole,
    Leaf,
    PackedArray,
    Value,
    build,
)
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import ARRAY_AT
from kernelcore.language.flatten import leaf_offsets, leaf_types, scalars_of
from kernelcore.language.types import (
    ArrayOf,
    ArrayType,
    Dense,
    Element,
    Member,
    Scalar,
    StructType,
    descriptor,
    has_layout,
    uint64,
)

_ADD = BINARY[ast.Add].op


def packed_array(element: Element, address: Atom, extents: Sequence[Atom]) -> ArrayView:
    """The array of ``element`` and of ``extents``, which are integers, at ``address``, a uint64."""
    types = leaf_types(ArrayOf(element, len(extents)))
    arrays = [
        PackedArray(address, tuple(extents), offset, element.numpy.itemsize, type_)
        for type_, offset in zip(types, leaf_offsets(element), strict=True)
        if isinstance(type_, ArrayType)
    ]
    return ArrayView(element, tuple(arrays), tuple(Axis() for _ in extents))


def array_of(scope: Scope, array: Var | PackedArray | Hole) -> Var:
    """The array of the IR that ``array`` is."""
    if isinstance(array, Var):
        return array
    assert isinstance(array, PackedArray)
    assert isinstance(array.address, Var | Const)
    extents = [n for n in array.extents if isinstance(n, Var | Const)]
    start: Atom = array.address
    if array.offset:
        start = scope.builder.emit(_ADD, start, Const(uint64, array.offset))
    return scope.builder.emit(
        ARRAY_AT,
        start,
        *extents,
        name="array",
        dtype=array.type.dtype,
        components=array.type.components,
        spacing=array.spacing,
    )


def element_value(type_: Element, scalars: Iterator[Leaf]) -> Value:
    """The value of an element of an array, of its scalars in memory."""
    if not isinstance(type_, StructType) or has_layout(type_):
        return build(type_, scalars)
    return CompositeValue(type_, tuple(_member(m, scalars) for _, m in type_.fields))


def _member(type_: Member, scalars: Iterator[Leaf]) -> Value:
    is_array = isinstance(type_, ArrayOf)
    return described_array(type_, scalars) if is_array else element_value(type_, scalars)


def described_array(type_: ArrayOf, scalars: Iterator[Leaf]) -> ArrayView:
    """The array whose descriptor has ``scalars``."""
    assert isinstance(type_.element, Scalar | Dense | StructType)
    loaded = [s for s in islice(scalars, len(scalars_of(descriptor(type_)))) if isinstance(s, Var)]
    return packed_array(type_.element, loaded[0], loaded[1:])
