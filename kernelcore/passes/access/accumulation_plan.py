"""Accumulation plan: how kernels add to elements, so that sums never depend on the threads.

Arrays that a kernel only adds to, and whose old elements it does not use, are *accumulated*. A
launch decides per accumulated array how threads share it
(``csrc/core/accumulate/accumulating_run.h``), by what is known here: how much is added
per thread, and which part of the array a chunk can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum, auto
from math import prod

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.reference import is_narrow
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import (
    array_type,
    atoms_in,
    element_indices,
    first_array_at_address,
    replace_body,
    rewrite,
    walk_eqns,
)
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import Access, AccessMap
from kernelcore.passes.access.index_offsets import base_and_offset, computing, definitions
from kernelcore.passes.access.trips import known_trips

# Values that can be computed again wherever their inputs are known.
_PURE = frozenset({OpKind.PURE, OpKind.CAST, OpKind.DIM})

# Forms of additions to memory that nothing else of the kernel accesses.
_APART = frozenset({AddForm.SHARED, AddForm.PARTIAL})

# Partial sums take memory of the stack, and time to add up, per chunk.
MAX_PARTIAL_SITES = 32
# As many arrays as a launch has bits for.
MAX_SHARED_ARRAYS = 64

# How often a loop is taken to repeat: one over an axis of the array, and any other.
AXIS_TRIPS = 1024
OTHER_TRIPS = 8


@dataclass(frozen=True, slots=True)
class OwnElements:
    """How chunks of a launch can add to elements of their own, of all threads.

    The loop that adds has the iterations of an extent, that of axis ``axis`` of array ``param``.
    Chunks divide rows of elements: one for each index on the launch axis ``launch_axis``, or if it
    is -1, for each iteration. They can where there are ``least_trips`` iterations.
    """

    param: int
    axis: int
    launch_axis: int
    least_trips: int


@dataclass(frozen=True, slots=True)
class Accumulated:
    """What a launch knows of an accumulated array.

    Attributes:
        param: The position of the array among the parameters.
        axis: The axis on which a thread reaches only elements near its first launch index: from
            ``low`` before to ``high`` after it; -1 if there is none.
        weight: Additions per thread, as far as is known; 0 if they all end up in partial sums.
        is_deferrable: Whether code can write down its additions instead of making them.
        is_gathered: Whether code adds one total per element for many rows of the grid.
        own: How chunks can add to elements of their own instead, if they can.
    """

    param: int
    axis: int
    low: int
    high: int
    weight: int
    is_deferrable: bool
    is_gathered: bool = False
    own: OwnElements | None = None

    def row(self) -> tuple[int, ...]:
        """The integers of the native ABI."""
        flags = self.is_deferrable | self.is_gathered << 1
        own = self.own or OwnElements(-1, -1, -1, 0)
        shared = (self.param, self.axis, self.low, self.high, self.weight, flags)
        return (*shared, own.param, own.axis, own.launch_axis, own.least_trips)


def plan_accumulations(func: Func) -> Func:
    """Choose the form of every accumulation of ``func``, for native launches."""
    if not any(e.op.kind is OpKind.ATOMIC_ADD for e in walk_eqns(func.body)):
        return func
    if first_array_at_address(func) is not None:
        # They may share memory with the arrays that are added to.
        return unplanned(func)
    accesses, used = AccessMap(func), atoms_in(func.body)
    owned = {array for array in accesses.by_array if accesses.owned(array)}
    accumulated = {p for p in func.params if is_accumulated(accesses, p, used)} - owned
    uniform = launch_values(func)
    sites: list[Eqn] = []

    def form(eqn: Eqn) -> AddForm:
        array = eqn.inputs[0]
        if array in owned:
            return AddForm.OWNED
        if array not in accumulated:
            return AddForm.ATOMIC
        is_fixed = are_known(element_indices(eqn), uniform)
        if is_fixed and not is_narrow(array_type(eqn).dtype) and len(sites) < MAX_PARTIAL_SITES:
            sites.append(eqn)
            return AddForm.PARTIAL
        return AddForm.SHARED

    return _with_forms(func, form)


def mark_owned(func: Func) -> Func:
    """Mark the accumulations into elements that belong to one thread: they need no atomic."""
    if first_array_at_address(func) is not None:
        return unplanned(func)
    accesses = AccessMap(func)
    owned = {array for array in accesses.by_array if accesses.owned(array)}
    return _with_forms(
        func, lambda eqn: AddForm.OWNED if eqn.inputs[0] in owned else AddForm.ATOMIC
    )


def unplanned(func: Func) -> Func:
    """``func`` with atomic accumulations only, which are right whatever shares memory."""
    return _with_forms(func, lambda _: AddForm.ATOMIC)


def form_of(eqn: Eqn) -> AddForm:
    """The form of the accumulation ``eqn``."""
    found = eqn.attrs.get("form", AddForm.ATOMIC)
    assert isinstance(found, AddForm)
    return found


def adds_apart(eqn: Eqn) -> bool:
    """Whether ``eqn`` adds to memory that nothing else of the kernel accesses.

    Arrays in SHARED form share no memory with others, and PARTIAL sums are in the frame.
    """
    return eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) in _APART


class Order(Enum):
    """Which threads may run a kernel."""

    ANY = auto()
    BLOCK = auto()  # those of one block, each a fixed part of the grid
    THREAD = auto()  # one, point by point


def fixed_order(func: Func) -> Order:
    """Who may run ``func``, which has a plan, if sums of floats are to have one order on a GPU."""
    forms: set[AddForm] = set()
    for eqn in walk_eqns(func.body):
        if eqn.op.kind is OpKind.SNIPPET:
            # What its text adds is for its author to know.
            forms.add(AddForm.ATOMIC)
        elif eqn.op.kind is OpKind.ATOMIC_ADD:
            forms |= {form_of(eqn)} if array_type(eqn).dtype.is_float else set()
    if forms & {AddForm.SHARED, AddForm.ATOMIC}:
        return Order.THREAD
    return Order.BLOCK if AddForm.PARTIAL in forms else Order.ANY


def shared_arrays(func: Func) -> tuple[Var, ...]:
    """The accumulated arrays of ``func``, which has a plan; their order is part of the ABI."""
    return _shared_arrays(AccessMap(func))


def _shared_arrays(accesses: AccessMap) -> tuple[Var, ...]:
    def is_shared(param: Var) -> bool:
        eqns = [access.eqn for access in accesses.of(param)]
        snippets = _snippet_kinds(accesses, param)
        return (
            bool(eqns or snippets)
            and snippets <= {OpKind.ATOMIC_ADD}
            and all(map(adds_apart, eqns))
        )

    return tuple(p for p in accesses.func.params if is_shared(p))


def accumulated_arrays(accesses: AccessMap) -> tuple[Accumulated, ...]:
    """What launches know of the accumulated arrays of a kernel, which has a plan."""
    func = accesses.func
    arrays = _shared_arrays(accesses)
    uniform = launch_values(func, with_indices=True) if arrays else set[Atom]()
    defined = definitions(func)
    rows: list[Accumulated] = []
    for at, array in enumerate(arrays):
        assert isinstance(array.type, ArrayType)
        weights = [
            _weight(access, uniform)
            for access in accesses.of(array)
            if form_of(access.eqn) is AddForm.SHARED
        ]
        has_snippets = array in accesses.snippets
        dtype = array.type.dtype
        weight = 0 if is_narrow(dtype) else sum(weights) + OTHER_TRIPS * has_snippets
        axis, low, high = (-1, 0, 0) if has_snippets else _window(accesses, array, defined)
        is_written_down = dtype.is_integer or not (has_snippets or is_narrow(dtype))
        is_deferrable = at < MAX_SHARED_ARRAYS and is_written_down
        rows.append(Accumulated(func.params.index(array), axis, low, high, weight, is_deferrable))
    return tuple(rows)


def defining_eqns(func: Func, atoms: tuple[Atom, ...]) -> tuple[Eqn, ...]:
    """What computes ``atoms``, which have one value per launch, in order."""
    return computing(atoms, definitions(func))


def _with_forms(func: Func, form: Callable[[Eqn], AddForm]) -> Func:
    def mark(eqn: Eqn) -> Eqn:
        is_add = eqn.op.kind is OpKind.ATOMIC_ADD
        return replace(eqn, attrs={**eqn.attrs, "form": form(eqn)}) if is_add else eqn

    return replace_body(func, rewrite(func.body, mark))


def is_accumulated(accesses: AccessMap, array: Var, used: set[Atom]) -> bool:
    """Whether a kernel, which uses the atoms ``used``, only adds to ``array``."""
    eqns = [access.eqn for access in accesses.of(array)]
    return _snippet_kinds(accesses, array) <= {OpKind.ATOMIC_ADD} and (
        all(e.op.kind is OpKind.ATOMIC_ADD and e.out not in used for e in eqns)
    )


def _snippet_kinds(accesses: AccessMap, array: Var) -> set[OpKind]:
    return {kind for found in accesses.snippets.get(array, ()) for kind in found.use.kinds}


def launch_values(func: Func, *, with_indices: bool = False) -> set[Atom]:
    """Values that are the same for the whole launch and can be computed at its start.

    ``with_indices`` adds the indices of loops that all threads run alike.
    """
    return _computed(func, _PURE, with_indices)


def unloaded_values(func: Func) -> set[Atom]:
    """Values that follow from the point and the arguments, but from no element of an array."""
    return _computed(func, _PURE | {OpKind.TID}, with_indices=True)


def _computed(func: Func, kinds: Set[OpKind], with_indices: bool) -> set[Atom]:
    found: set[Atom] = set(func.params)
    for eqn in walk_eqns(func.body):
        if eqn.op.kind in kinds and are_known(eqn.inputs, found):
            found.update(eqn.outputs)
        elif with_indices and eqn.op.kind is OpKind.FOR and are_known(eqn.inputs[:3], found):
            found.add(eqn.regions[0].params[0])
    return found


def are_known(atoms: Sequence[Atom], known: Set[Atom]) -> bool:
    """Whether all ``atoms`` are constants, or among the values that are ``known``."""
    return all(isinstance(a, Const) or a in known for a in atoms)


def _weight(access: Access, uniform: set[Atom]) -> int:
    """About how often a thread makes ``access``."""
    trips = [_trips(eqn, access, uniform) for eqn, _ in access.path if eqn.op.kind is not OpKind.IF]
    return min(prod(trips), AXIS_TRIPS)


def _trips(loop: Eqn, access: Access, uniform: set[Atom]) -> int:
    if loop.op.kind is not OpKind.FOR or loop.regions[0].params[0] not in uniform:
        return OTHER_TRIPS
    known = known_trips(loop)
    if known is not None:
        return known
    return AXIS_TRIPS if any(i in uniform for i in access.indices) else OTHER_TRIPS


def _window(accesses: AccessMap, array: Var, defined: Mapping[Var, Eqn]) -> tuple[int, int, int]:
    """An axis of ``array`` that is indexed by the first launch index and constants only."""
    assert isinstance(array.type, ArrayType)
    for axis in range(array.type.outer_ndim):
        offsets = [_offset(access.indices[axis], defined) for access in accesses.of(array)]
        known = [o for o in offsets if o is not None]
        if len(known) == len(offsets):
            return axis, min(known), max(known)
    return -1, 0, 0


def _offset(index: Atom, defined: Mapping[Var, Eqn]) -> int | None:
    """``c`` where ``index`` is the first launch index plus ``c``."""
    base, offset = base_and_offset(index, defined)
    eqn = defined.get(base) if isinstance(base, Var) else None
    is_first = eqn is not None and eqn.op.kind is OpKind.TID and eqn.attrs["axis"] == 0
    return offset if is_first else None
