"""Component groups: accesses of the components of one element, and writes to all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from kernelcore.builtins.reference import is_narrow
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region
from kernelcore.ir.op import MESSAGES, REPEATABLE, WRITES, AddForm, OpKind
from kernelcore.ir.walk import (
    array_type,
    atoms_in,
    element_indices,
    eqns_inside,
    used_atoms,
    walk_regions,
)
from kernelcore.passes.access.accumulation_plan import adds_apart, form_of

# The accesses of one element, by each of them.
ComponentGroups = Mapping[Eqn, tuple[Eqn, ...]]

# Elements of at most this many components are loaded whole and sorted by shuffles.
MAX_INTERLEAVED = 16
# Elements of 64-bit numbers with fewer components gain nothing as rows (docs/decisions/292).
LEAST_WIDE_STORED = 6
# A thread may end there.
_MAY_END = MESSAGES | {OpKind.WHILE}
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


def component_number(eqn: Eqn) -> int:
    """The number of the component that ``eqn`` accesses, which is known."""
    number = component_of(eqn)
    assert number is not None
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


def rows_apart(func: Func) -> dict[Eqn, Sequence[Eqn]]:
    """The accesses that gangs make together as rows of elements that lie apart, by each of them.

    Loads of one element, if they name at least half of the components from the lowest to the
    highest that they name, and stores to all components of one.
    """
    found: dict[Eqn, Sequence[Eqn]] = {}
    for region in walk_regions(func.body):
        loads = filter(_is_mostly_named, _loaded_together(region))
        stores = filter(_writes_all, _stored_together(region))
        for unit in (*loads, *filter(lambda run: is_stored_as_row(run[0]), stores)):
            found.update(dict.fromkeys(unit, unit))
    return found


def _loaded_together(region: Region) -> Iterator[Sequence[Eqn]]:
    """Loads of known components of one element, with no store between them.

    A store to another array ends them, too: arrays may share memory.
    """
    units: dict[object, list[Eqn]] = {}
    for eqn in region.eqns:
        if eqn.op.kind is OpKind.LOAD:
            if _is_component(eqn):
                units.setdefault(_element(eqn), []).append(eqn)
        elif any(_may_store(part) for part in (eqn, *eqns_inside(eqn))):
            yield from units.values()
            units.clear()
    yield from units.values()


def _may_store(eqn: Eqn) -> bool:
    """Whether ``eqn`` may write to any array: launches see to it that some additions do not."""
    return (eqn.op.kind in WRITES and not adds_apart(eqn)) or eqn.op.kind is OpKind.SNIPPET


def _is_mostly_named(unit: Sequence[Eqn]) -> bool:
    numbers = {component_number(eqn) for eqn in unit}
    return len(numbers) > 1 and 2 * len(numbers) > max(numbers) - min(numbers)


def is_stored_as_row(eqn: Eqn) -> bool:
    """Whether the element that ``eqn`` writes to has components enough to be written as a row."""
    return array_type(eqn).dtype.size_bytes <= 4 or _count(eqn) >= LEAST_WIDE_STORED


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


def whole_elements(func: Func) -> Mapping[Eqn, Sequence[Eqn]]:
    """The writes that together write every component of one element, by each of them.

    They may be made together, in the place of the last one.
    """
    used = atoms_in(func.body)
    found: dict[Eqn, Sequence[Eqn]] = {}
    for region in walk_regions(func.body):
        for run in (*_stored_together(region), *_added_together(region, used)):
            if _writes_all(run):
                found.update((eqn, tuple(run)) for eqn in run)
    return found


def _writes_all(run: Sequence[Eqn]) -> bool:
    """Whether the writes ``run`` to one element write every component."""
    return len({component_of(eqn) for eqn in run}) == _count(run[0])


def _stored_together(region: Region) -> Iterator[Sequence[Eqn]]:
    """Stores to different components of one element with no effect between them."""
    run: list[Eqn] = []
    for eqn in region.eqns:
        if eqn.op.kind in REPEATABLE:
            continue
        is_known = eqn.op.kind is OpKind.STORE and _is_component(eqn)
        goes_on = is_known and bool(run) and _element(run[0]) == _element(eqn)
        if run and not (goes_on and component_of(eqn) not in map(component_of, run)):
            yield run
            run = []
        if is_known:
            run.append(eqn)
    if run:
        yield run


def _added_together(region: Region, used: set[Atom]) -> Iterator[Sequence[Eqn]]:
    """Additions to components of one element, whose array nothing between them uses.

    Whoever runs code with OWNED additions has seen to it that their array shares no memory with
    another one (``exclusive`` in ``kernelcore/compiler/describe_launch.py``).
    """
    runs: dict[Atom, list[Eqn]] = {}
    for eqn in region.eqns:
        if any(part.op.kind in _MAY_END for part in (eqn, *eqns_inside(eqn))):
            yield from runs.values()
            runs.clear()
            continue
        is_known = (
            eqn.op.kind is OpKind.ATOMIC_ADD
            and form_of(eqn) is AddForm.OWNED
            and eqn.out not in used
            and _is_component(eqn)
        )
        for atom in used_atoms(eqn):
            goes_on = is_known and atom in runs and _element(runs[atom][0]) == _element(eqn)
            if atom in runs and not goes_on:
                yield runs.pop(atom)
        if is_known:
            runs.setdefault(eqn.inputs[0], []).append(eqn)
    yield from runs.values()


def _is_component(eqn: Eqn) -> bool:
    """Whether ``eqn`` accesses a known component, which may be accessed with the others."""
    return 1 < _count(eqn) <= MAX_INTERLEAVED and component_of(eqn) is not None


def _count(eqn: Eqn) -> int:
    """The number of components of the elements that ``eqn`` accesses."""
    return prod(array_type(eqn).components)


def _element(eqn: Eqn) -> tuple[Atom, ...]:
    """The array that ``eqn`` accesses, and the indices of the element."""
    return eqn.inputs[: 1 + array_type(eqn).outer_ndim]
