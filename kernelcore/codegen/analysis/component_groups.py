"""Component groups: accesses of the components of one element."""

from __future__ import annotations

from collections.abc import Mapping

from kernelcore.ir.core import Const, Eqn, Region
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import array_type, element_indices, walk_regions

# The accesses of one element, by each of them.
ComponentGroups = Mapping[Eqn, tuple[Eqn, ...]]


def component_of(eqn: Eqn) -> int | None:
    """The number of the component that the access ``eqn`` names, if it is known."""
    type_, number = array_type(eqn), 0
    indices = element_indices(eqn)[type_.outer_ndim :]
    for extent, index in zip(type_.components, indices, strict=True):
        if not (isinstance(index, Const) and 0 <= index.value < extent):
            return None
        number = number * extent + int(index.value)
    return number


def component_groups(body: Region, kind: OpKind) -> ComponentGroups:
    """The accesses of ``kind`` in ``body``, those of one element in one region together."""
    found: dict[Eqn, tuple[Eqn, ...]] = {}
    for region in walk_regions(body):
        elements: dict[object, list[Eqn]] = {}
        for eqn in region.eqns:
            if eqn.op.kind is kind:
                is_known = component_of(eqn) is not None
                element = eqn.inputs[: 1 + array_type(eqn).outer_ndim] if is_known else eqn
                elements.setdefault(element, []).append(eqn)
        for unit in elements.values():
            found.update(dict.fromkeys(unit, tuple(unit)))
    return found
