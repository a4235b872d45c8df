"""Arrays at addresses: their elements follow each other in memory, as those of new arrays do."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernelcore.builtins.syntax import BINARY
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.value import ArrayView, Axis
from kernelcore.ir.core import Atom, Const
from kernelcore.ir.op import ARRAY_AT
from kernelcore.language.flatten import leaf_offsets, leaf_types
from kernelcore.language.types import ArrayOf, ArrayType, Element, uint64

_ADD = BINARY[ast.Add].op


def packed_array(
    scope: Scope, element: Element, address: Atom, extents: Sequence[Atom]
) -> ArrayView:
    """The array of ``element`` and of ``extents``, which are integers, at ``address``, a uint64."""
    arrays: list[Atom] = []
    types = leaf_types(ArrayOf(element, len(extents)))
    for type_, offset in zip(types, leaf_offsets(element), strict=True):
        assert isinstance(type_, ArrayType)
        start = scope.builder.emit(_ADD, address, Const(uint64, offset)) if offset else address
        arrays.append(
            scope.builder.emit(
                ARRAY_AT,
                start,
                *extents,
                name="array",
                dtype=type_.dtype,
                components=type_.components,
                spacing=element.numpy.itemsize,
            )
        )
    return ArrayView(element, tuple(arrays), tuple(Axis() for _ in extents))
