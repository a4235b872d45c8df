"""What arrays hold after a launch: what it loaded from them, or only what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.arithmetic import add, range_len, sub
from kernelcore.ir.builder import zero
from kernelcore.ir.core import NO_ATTRS, Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import STORE, WRITES, OpKind
from kernelcore.ir.walk import atoms_in, replace_body, rewrite, walk_eqns
from kernelcore.language.types import ArrayType, Scalar, int32
from kernelcore.passes.access.effects import Access, AccessMap, component_named, shares_loop
from kernelcore.passes.access.index_offsets import base_and_offset, definitions


def has_what_was_loaded(accesses: AccessMap, array: Atom) -> bool:
    """Whether a launch that starts with the final elements of ``array`` loads what it loaded.

    That is proven of elements that a thread stores before it loads them, and of one loop that
    stores each element once and loads those of iterations before, as a recurrence in time does.
    No other thread touches the elements of a thread.
    """
    found = accesses.of(array)
    writes = [a for a in found if a.eqn.op.kind in WRITES]
    if array in accesses.snippets or any(a.eqn.op.kind is not OpKind.STORE for a in writes):
        return False
    # What is stored before anything is loaded depends on no element of the array.
    first_load = next(n for n, a in enumerate(found) if a.eqn.op.kind is OpKind.LOAD)
    initial = [a for a in found[:first_load] if not a.path]
    rows = {accesses.index_keys(a) for a in found}
    if initial and len(rows) == 1:
        return True
    stores = [a for a in writes if a not in initial]
    return len(stores) == 1 and _is_recurrence(accesses, found, stores[0], initial)


def _is_recurrence(
    accesses: AccessMap, found: list[Access], store: Access, initial: list[Access]
) -> bool:
    """Whether ``store`` runs once per iteration, and no load is of what it stores afterwards."""
    if len(store.path) != 1 or store.path[0][0].op.kind is not OpKind.FOR:
        return False
    loop = store.path[0][0]
    step = loop.inputs[2]
    if not isinstance(step, Const) or step.value <= 0:
        return False
    order = {eqn: n for n, eqn in enumerate(walk_eqns(accesses.func.body))}
    defined = definitions(accesses.func)
    counter = loop.regions[0].params[0]
    places = [base_and_offset(i, defined) for i in store.indices]
    moving = [p for p, (base, _) in enumerate(places) if base is counter]
    fixed = [p for p in range(len(places)) if p not in moving]
    if len(moving) != 1 or not all(_is_fixed(accesses, store.indices[p]) for p in fixed):
        return False
    at = moving[0]

    def is_earlier(load: Access) -> bool:
        """Whether ``load`` is of an element that the loop has stored, or never stores."""
        if loop not in _loops(load):
            return order[load.eqn] > order[store.eqn]
        base, offset = base_and_offset(load.indices[at], defined)
        last = places[at][1]
        if order[load.eqn] < order[store.eqn]:
            last -= 1
        return base is counter and offset <= last

    keys = accesses.index_keys(store)
    loads = [a for a in found if a is not store and a not in initial]
    return all(
        is_earlier(a) and all(accesses.index_keys(a)[p] == keys[p] for p in fixed) for a in loads
    )


def _loops(access: Access) -> list[Eqn]:
    return [eqn for eqn, _ in access.path]


def _is_fixed(accesses: AccessMap, index: Atom) -> bool:
    """Whether ``index`` has one value in all iterations: it is uniform or the launch index."""
    return accesses.is_uniform(index) or accesses.decides(index)


@dataclass(frozen=True, slots=True)
class ArrayAxis:
    """The extent of an array parameter on one axis."""

    array: Atom
    axis: int


@dataclass(frozen=True, slots=True)
class GridAxis:
    """The extent of the launch on one axis."""

    axis: int


_ZERO, _ONE = (Const(int32, number) for number in (0, 1))
# The extent that an index goes through, from 0 on.
Range: TypeAlias = ArrayAxis | GridAxis
# Whether an axis of an array is as long as what an index goes through.
Covers: TypeAlias = Callable[[ArrayAxis, Range], bool]


def first_writes(accesses: AccessMap, array: Atom, goes_through: Covers) -> list[Eqn] | None:
    """The writes by which a launch first reaches the elements of ``array``, which are all of them.

    None where elements may be loaded, or keep what they held before. If some of these writes are
    additions, each element is reached once by one of them before anything else is done to it.

    Args:
        accesses: Those of the kernel.
        array: A parameter.
        goes_through: Whether an axis of the array is as long as what an index goes through.
    """
    found, type_ = accesses.of(array), array.type
    if array in accesses.snippets or not isinstance(type_, ArrayType):
        return None
    used, defined = atoms_in(accesses.func.body), definitions(accesses.func)
    adds = [a for a in found if a.eqn.op.kind is OpKind.ATOMIC_ADD and a.eqn.out not in used]
    stores = [a for a in found if a.eqn.op.kind is OpKind.STORE]
    if len(adds) + len(stores) < len(found) or (adds and not accesses.owned(array)):
        return None
    chosen: list[Eqn] = []
    for component in product(*map(range, type_.components)):
        parts = [a for a in found if component_named(a) in (component, None)]
        first = next(
            (a for a in parts if _is_whole(accesses, a, component, goes_through, defined)), None
        )
        if first is None or (adds and not _is_first(accesses, first, parts)):
            return None
        chosen.append(first.eqn)
    return chosen


def _is_first(accesses: AccessMap, first: Access, parts: Sequence[Access]) -> bool:
    """Whether none of ``parts`` reaches an element before ``first``, which does so once."""
    keys = accesses.index_keys(first)
    return first is parts[0] and all(
        accesses.index_keys(a) == keys and a.path == first.path
        for a in parts
        if shares_loop(a, first)
    )


def _is_whole(
    accesses: AccessMap,
    access: Access,
    component: tuple[int, ...],
    goes_through: Covers,
    defined: Mapping[Var, Eqn],
) -> bool:
    """Whether ``access`` runs in every thread, for all elements of its array together."""
    is_in_loops = all(eqn.op.kind is OpKind.FOR for eqn, _ in access.path)
    if not is_in_loops or component_named(access) != component:
        return False
    ranges: dict[Atom, Range | None] = {
        eqn.regions[0].params[0]: range_of(eqn, defined) for eqn, _ in access.path
    }
    outer = access.indices[: access.outer_ndim]
    # A loop over something else may make no iteration, or several.
    if len({*map(accesses.key, outer)}) < len(outer) or not ranges.keys() <= {*outer}:
        return False
    for axis, index in enumerate(outer):
        made = defined.get(index) if isinstance(index, Var) else None
        is_launch_index = made is not None and made.op.kind is OpKind.TID
        found = GridAxis(made.attrs["axis"]) if made and is_launch_index else ranges.get(index)
        if found is None or not goes_through(ArrayAxis(access.eqn.inputs[0], axis), found):
            return False
    return True


def range_of(loop: Eqn, defined: Mapping[Var, Eqn]) -> Range | None:
    """What the index of ``loop`` goes through from 0 on, forwards or backwards."""

    def maker(atom: Atom) -> Eqn | None:
        return defined.get(atom) if isinstance(atom, Var) else None

    start, stop, step = loop.inputs[:3]
    if _is_number(step, -1) and _is_number(stop, -1):
        last = maker(start)
        if last is None or last.op is not sub.op or not _is_number(last.inputs[1], 1):
            return None
        count = maker(last.inputs[0])
        if count is None:
            return None
        # The adjoint of a loop over n counts down from ``range_len(0, n, 1) - 1``.
        is_length = count.op is range_len.op
        start, stop, step = count.inputs if is_length else (_ZERO, last.inputs[0], _ONE)
    made = maker(stop)
    if not (_is_number(start, 0) and _is_number(step, 1)) or made is None:
        return None
    return ArrayAxis(made.inputs[0], made.attrs["axis"]) if made.op.kind is OpKind.DIM else None


def _is_number(atom: Atom, value: int) -> bool:
    return isinstance(atom, Const) and atom.value == value


def with_stores(func: Func, first: Iterable[Eqn]) -> Func:
    """``func`` whose additions ``first`` store instead; their elements were zero before."""

    def change(eqn: Eqn) -> Eqn | Region:
        if eqn.op.kind is not OpKind.ATOMIC_ADD or eqn.outputs[0] not in made:
            return eqn
        *place, value = eqn.inputs
        assert isinstance(value.type, Scalar)
        # The sum of zero and a negative zero is zero.
        total = Var(value.type, "total")
        plus_zero = Eqn(add.op, (value, zero(value.type)), (total,), NO_ATTRS, (), eqn.loc)
        store = Eqn(STORE, (*place, total), (), NO_ATTRS, (), eqn.loc)
        return Region((), (plus_zero, store), (zero(value.type),))

    made = {out for eqn in first for out in eqn.outputs}
    return replace_body(func, rewrite(func.body, change)) if made else func
