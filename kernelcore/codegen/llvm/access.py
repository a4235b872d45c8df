"""Loads, stores, and additions to elements that belong to one thread, by one thread or a gang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from kernelcore.codegen.analysis.component_groups import component_of
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.reduction.element_add import summed
from kernelcore.codegen.simd import component_groups, vector_access
from kernelcore.codegen.simd.masked_control import both
from kernelcore.ir.core import Atom, Eqn, Func
from kernelcore.ir.op import REPEATABLE, AddForm, OpKind
from kernelcore.ir.walk import array_type, atoms_in, walk_regions
from kernelcore.passes.access.accumulation_plan import form_of


def emit_load(e: Emitter, eqn: Eqn) -> list[str]:
    """One element of an array."""
    if eqn in e.row_buffers:
        return [memory.load(e, array_type(eqn).dtype, e.row_buffers[eqn])]
    if e.lanes > 1:
        return [
            component_groups.load(e, eqn)
            if e.lane_facts.vector_loop
            else vector_access.load(e, vector_access.site(e, eqn))
        ]
    dtype, address = memory.element(e, eqn)
    return [memory.load(e, dtype, address)]


def emit_store(e: Emitter, eqn: Eqn) -> list[str]:
    """Write one element of an array."""
    if eqn in e.row_buffers:
        with e.at(e.gang):
            value = e.value(eqn.inputs[-1])
            memory.store(e, array_type(eqn).dtype, value, e.row_buffers[eqn])
        return []
    if e.is_uniform(*eqn.inputs[1:]):
        with e.at(1):
            dtype, address = memory.element(e, eqn)
            memory.store(e, dtype, e.value(eqn.inputs[-1]), address)
        return []
    element = e.facts.elements.get(eqn, (eqn,))
    if eqn is element[-1]:
        parts = _by_component(element)
        values = [e.value_at(part.inputs[-1], e.gang) for part in parts]
        with e.under(
            both(e, e.mask, e.lane_facts.store_mask) if e.lane_facts.store_mask else e.mask
        ):
            _store_parts(e, [vector_access.site(e, part) for part in parts], values)
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
    parts = _by_component(element)
    sites = [vector_access.site(e, part) for part in parts]
    olds = [vector_access.load(e, where) for where in sites]
    with e.at(e.gang):
        values = [e.value(part.inputs[-1]) for part in parts]
        news = [
            summed(e, where.dtype, old, value)
            for where, old, value in zip(sites, olds, values, strict=True)
        ]
    _store_parts(e, sites, news)
    return [olds[0]]


def _store_parts(e: Emitter, sites: Sequence[vector_access.Site], values: Sequence[str]) -> None:
    """Write one component, or all components of elements, together where they are adjacent."""
    if len(sites) > 1 and sites[0].period == len(sites):
        vector_access.store_elements(e, sites[0], values)
        return
    for where, value in zip(sites, values, strict=True):
        vector_access.store(e, where, value)


def whole_elements(func: Func) -> Mapping[Eqn, Sequence[Eqn]]:
    """The writes that together write every component of one element, by each of them."""
    used = atoms_in(func.body)
    found: dict[Eqn, Sequence[Eqn]] = {}
    for region in walk_regions(func.body):
        run: list[Eqn] = []
        for eqn in region.eqns:
            if eqn.op.kind in REPEATABLE:
                continue
            if _component(eqn, used) is None:
                run = []
                continue
            if not (run and _continues(run, eqn)):
                run = []
            run.append(eqn)
            if len(run) == prod(array_type(eqn).components):
                found.update((part, tuple(run)) for part in run)
                run = []
    return found


def _component(eqn: Eqn, used: set[Atom]) -> int | None:
    """Which component ``eqn`` writes, if it may be written later with the others."""
    is_store = eqn.op.kind is OpKind.STORE
    is_owned_add = eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) is AddForm.OWNED
    if not (is_store or (is_owned_add and eqn.out not in used)):
        return None
    if not 1 < prod(array_type(eqn).components) <= vector_access.MAX_INTERLEAVED:
        return None
    return component_of(eqn)


def _continues(run: Sequence[Eqn], eqn: Eqn) -> bool:
    """Whether ``eqn`` writes another component of the same element."""
    first, outer = run[0], slice(0, 1 + array_type(eqn).outer_ndim)
    is_same = first.op is eqn.op and first.inputs[outer] == eqn.inputs[outer]
    return is_same and _place(eqn) not in [_place(part) for part in run]


def _place(eqn: Eqn) -> int:
    """The number of the component that ``eqn`` writes."""
    number = component_of(eqn)
    assert number is not None
    return number


def _by_component(element: Sequence[Eqn]) -> list[Eqn]:
    return sorted(element, key=_place) if len(element) > 1 else list(element)
