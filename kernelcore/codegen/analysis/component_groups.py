"""Accesses of the components of one element, which code may make as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.ir.core import Atom, Const, Eqn, Region
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_regions
from kernelcore.language.types import ArrayType

# By each of them, the accesses of one element.
Units = Mapping[Eqn, tuple[Eqn, ...]]


def component(type_: ArrayType, indices: Sequence[Atom]) -> int | None:
    """Which component of an element ``indices`` name, if that is known."""
    number = 0
    for extent, index in zip(type_.components, indices[type_.outer_ndim :], strict=True):
        if not (isinstance(index, Const) and 0 <= index.value < extent):
            return None
        number = number * extent + int(index.value)
    return number


def component_of(eqn: Eqn) -> int | None:
    """Which component the access ``eqn`` names, if that is known."""
    array = eqn.inputs[0].type
    assert isinstance(array, ArrayType)
    return component(array, eqn.inputs[1 : 1 + array.ndim])


def units(body: Region, kind: OpKind) -> Units:
    """The accesses of ``kind`` in ``body``, those of one element in one region together."""
    found: dict[Eqn, tuple[Eqn, ...]] = {}
    for region in walk_regions(body):
        elements: dict[object, list[Eqn]] = {}
        for eqn in region.eqns:
            if eqn.op.kind is kind:
                array = eqn.inputs[0].type
                assert isinstance(array, ArrayType)
                is_known = component_of(eqn) is not None
                element = eqn.inputs[: 1 + array.outer_ndim] if is_known else eqn
                elements.setdefault(element, []).append(eqn)
        for unit in elements.values():
            found.update(dict.fromkeys(unit, tuple(unit)))
    return found
