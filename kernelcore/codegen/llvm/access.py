"""Loads, stores, and additions to elements that belong to one thread, by one thread or a gang."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.codegen.analysis.component_groups import component_number
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.reduction.element_add import summed
from kernelcore.codegen.simd import component_groups, rows_apart, vector_access
from kernelcore.codegen.simd.masked_control import both
from kernelcore.ir.core import Eqn
from kernelcore.ir.walk import array_type


def emit_load(e: Emitter, eqn: Eqn) -> list[str]:
    """One element of an array."""
    if eqn in e.row_buffers:
        dtype, address = array_type(eqn).dtype, e.row_buffers[eqn]
        if eqn in e.rows_in_place:
            return [vector_access.load_adjacent(e, dtype, e.lanes, address, e.mask)]
        return [memory.load(e, dtype, address)]
    if e.lanes > 1:
        return [component_groups.load(e, eqn) if e.lane_facts.vector_loop else _load(e, eqn)]
    dtype, address = memory.element(e, eqn)
    return [memory.load(e, dtype, address)]


def _load(e: Emitter, eqn: Eqn) -> str:
    """An element per lane; the first load of one that lies apart loads its other components."""
    unit = e.facts.rows.get(eqn, (eqn,))
    if eqn is not unit[0] and eqn in e.component_groups:
        return e.component_groups[eqn]
    where = vector_access.site(e, eqn)
    if eqn is unit[0]:
        # Another body of the kernel may have loaded them.
        for part in unit:
            e.component_groups.pop(part, None)
        if len(unit) > 1 and rows_apart.can_load(e, where, eqn):
            e.component_groups.update(rows_apart.load(e, unit))
            return e.component_groups[eqn]
    return vector_access.load(e, where)


def emit_store(e: Emitter, eqn: Eqn) -> list[str]:
    """Write one element of an array."""
    if eqn in e.row_buffers:
        with e.at(e.gang):
            value = e.value(eqn.inputs[-1])
            memory.store(e, array_type(eqn).dtype, value, e.row_buffers[eqn])
        return []
    element = e.facts.elements.get(eqn, (eqn,))
    if eqn is not element[-1]:
        return []
    parts = _by_component(element)
    if all(e.is_uniform(*part.inputs[1:]) for part in parts):
        with e.at(1):
            for part in parts:
                dtype, address = memory.element(e, part)
                memory.store(e, dtype, e.value(part.inputs[-1]), address)
        return []
    values = [e.value_at(part.inputs[-1], e.gang) for part in parts]
    with e.under(both(e, e.mask, e.lane_facts.store_mask) if e.lane_facts.store_mask else e.mask):
        _store_parts(e, parts[0], [vector_access.site(e, part) for part in parts], values)
    return []


def emit_owned_addition(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to an element that no other thread touches, and give its old value."""
    if e.gang == 1 or eqn in e.row_buffers:
        dtype = array_type(eqn).dtype
        address = e.row_buffers.get(eqn) or memory.element(e, eqn)[1]
        old = memory.load(e, dtype, address)
        memory.store(e, dtype, summed(e, dtype, old, e.value(eqn.inputs[-1])), address)
        return [old]
    element = e.facts.elements.get(eqn, (eqn,))
    if eqn is not element[-1]:
        # Nobody uses the old value of what is written later.
        return ["poison"]
    by_component: dict[int, list[Eqn]] = {}
    for part in element:
        by_component.setdefault(component_number(part) if len(element) > 1 else 0, []).append(part)
    parts = [by_component[number] for number in sorted(by_component)]
    sites = [vector_access.site(e, same[0]) for same in parts]
    olds = [vector_access.load(e, where) for where in sites]
    news = list(olds)
    with e.at(e.gang):
        for number, same in enumerate(parts):
            for part in same:
                value = e.value(part.inputs[-1])
                news[number] = summed(e, sites[number].dtype, news[number], value)
    _store_parts(e, parts[0][0], sites, news)
    return [olds[0]]


def _store_parts(
    e: Emitter, first: Eqn, sites: Sequence[vector_access.Site], values: Sequence[str]
) -> None:
    """Write one component, or all components of one element per lane, as a whole where possible.

    ``first`` writes the first component.
    """
    if len(sites) > 1 and sites[0].period == len(sites):
        vector_access.store_elements(e, sites[0], values)
        return
    if len(sites) > 1 and rows_apart.can_store(e, first):
        rows_apart.store(e, sites[0], values)
        return
    for where, value in zip(sites, values, strict=True):
        vector_access.store(e, where, value)


def _by_component(element: Sequence[Eqn]) -> list[Eqn]:
    return sorted(element, key=component_number) if len(element) > 1 else list(element)
