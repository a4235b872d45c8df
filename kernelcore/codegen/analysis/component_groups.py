"""Component groups: accesses of the components of one element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernelcore.builtins.reference import is_narrow
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import array_type, element_indices, walk_regions
from kernelcore.passes.access.accumulation_plan import form_of

# The accesses of one element, by each of them.
ComponentGroups = Mapping[Eqn, tuple[Eqn, ...]]

# Runs of fewer additions are made one by one: half of a register stays empty.
LEAST_ADJACENT = 8


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


def adjacent_sums(func: Func) -> ComponentGroups:
    """Additions in SHARED form to adjacent elements of packed arrays, in order, by each of them.

    They may be made together, in the place of the last one: no other addition to the array stands
    between them.
    """
    runs = (run for region in walk_regions(func.body) for run in _runs(region))
    return {eqn: run for run in runs for eqn in run}


def _runs(region: Region) -> Iterator[tuple[Eqn, ...]]:
    """The runs of ``adjacent_sums`` in ``region``."""
    open_runs: dict[Atom, tuple[object, dict[int, Eqn]]] = {}
    ended: list[dict[int, Eqn]] = []
    for eqn in region.eqns:
        if not eqn.regions and eqn.op.kind not in (OpKind.ATOMIC_ADD, OpKind.SNIPPET):
            continue
        place = _place_in_row(eqn)
        for array, (row, run) in list(open_runs.items()):
            goes_on = place is not None and (
                eqn.inputs[0] is not array or (place[0] == row and place[1] not in run)
            )
            if not goes_on:
                ended.append(open_runs.pop(array)[1])
        if place is not None:
            open_runs.setdefault(eqn.inputs[0], (place[0], {}))[1][place[1]] = eqn
    ended += [run for _, run in open_runs.values()]
    for run in ended:
        if len(run) >= LEAST_ADJACENT and max(run) - min(run) < len(run):
            yield tuple(run.values())


def element_in_row(eqn: Eqn) -> int:
    """The number, in its row, of the element that ``eqn``, one of ``adjacent_sums``, adds to."""
    place = _place_in_row(eqn)
    assert place is not None
    return place[1]


def _place_in_row(eqn: Eqn) -> tuple[object, int] | None:
    """The row to which ``eqn`` adds in SHARED form, and the element's number in it, if known."""
    if eqn.op.kind is not OpKind.ATOMIC_ADD or form_of(eqn) is not AddForm.SHARED:
        return None
    type_, indices = array_type(eqn), element_indices(eqn)
    if is_narrow(type_.dtype) or not indices:
        return None
    if type_.components:
        number = component_of(eqn)
        return None if number is None else (indices[: type_.outer_ndim], number)
    last = indices[-1]
    return (indices[:-1], int(last.value)) if isinstance(last, Const) else None
