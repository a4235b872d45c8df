"""Which values the threads of a gang share, and which grow from each to the next by a fixed step.

A gang is consecutive threads of the grid that run in lockstep: code runs for the active ones, and
a loop iterates until no thread is active. Most gangs stay within a row, which is a run along the
last axis; others span several rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, ENDS_TOGETHER, LOOPS, OpKind
from kernelcore.ir.walk import array_type, atoms_in, bound_vars, element_indices, walk_eqns
from kernelcore.language.types import MAX_GRID_DIMS, Scalar

Strides = Mapping[Var, int | None]
# Integers that grow by more are no multiple in addresses: they may wrap within a gang.
MAX_STRIDE = 1 << 20


@lru_cache(maxsize=8)
def lane_strides(func: Func) -> Strides:
    """By how much every scalar of ``func`` grows from thread to thread of a gang in a row.

    0 means that all active threads have the same value; None that there is no such number. Integers
    grow modulo their width. The stride of a parameter of a loop body holds within one iteration;
    that of a loop's result holds after the loop, which threads may leave in different iterations.
    """
    return _of_threads(func, _along(func, func.rank - 1))


def row_strides(func: Func) -> Strides:
    """By how much every scalar grows from row to row of the grid, which has several axes."""
    return _of_threads(func, _along(func, func.rank - 2))


@lru_cache(maxsize=8)
def collapsed_strides(func: Func) -> Strides:
    """As ``lane_strides``, for gangs that cross rows: no launch index grows by a fixed number."""
    return _of_threads(func, (None,) * func.rank)


def iteration_strides(body: Region, step: int) -> Strides:
    """By how much every scalar of ``body`` grows from iteration to iteration of a loop by ``step``.

    What the loop carries grows by no fixed number. A load from an array that the loop writes is
    taken to give the same value where its indices do.
    """
    outer = {v for v in atoms_in(body) - bound_vars(body) if isinstance(v, Var)}
    known: dict[Var, int | None] = {**dict.fromkeys(outer, 0), **dict.fromkeys(body.params, None)}
    known[body.params[0]] = step
    return _Analysis(body, known).strides


@lru_cache(maxsize=8)
def row_major_accesses(func: Func) -> frozenset[Eqn]:
    """The accesses whose elements are adjacent for gangs that span rows too.

    This holds for packed arrays whose shape equals the grid's except on axis 0, if index k of an
    access is launch index k plus a uniform value. That must hold for inactive threads too, since
    the first thread of a gang gives the address.
    """
    strides = [_of_threads(func, _along(func, axis)) for axis in range(func.rank)]
    stale = _stale_if_inactive(func)

    def follows(index: Atom, position: int) -> bool:
        if isinstance(index, Const) or index in stale:
            return False
        return [s[index] for s in strides] == list(_along(func, position))

    def is_row_major(eqn: Eqn) -> bool:
        outer = element_indices(eqn)[: array_type(eqn).outer_ndim]
        return len(outer) == func.rank and all(follows(a, at) for at, a in enumerate(outer))

    found = (eqn for eqn in walk_eqns(func.body) if eqn.op.kind in ACCESSES)
    return frozenset(eqn for eqn in found if is_row_major(eqn))


def _stale_if_inactive(func: Func) -> set[Atom]:
    """Values that inactive threads of gangs that cross rows may have from an earlier iteration.

    These are what loops carry, and what is computed from it: a thread keeps what it had when it
    left the loop. Values that all threads share are one scalar, which is never stale.
    """
    strides, found, size = collapsed_strides(func), set[Atom](), -1
    while size != len(found):
        size = len(found)
        for eqn in walk_eqns(func.body):
            made = eqn.outputs
            if eqn.op.kind in LOOPS:
                made = (*made, *(v for region in eqn.regions for v in region.params))
            elif found.isdisjoint((*eqn.inputs, *(a for r in eqn.regions for a in r.yields))):
                continue
            found.update(v for v in made if strides.get(v) is None)
    return found


def _of_threads(func: Func, launch_strides: Sequence[int | None]) -> Strides:
    """By how much scalars grow from thread to thread where launch indices grow so."""
    return _Analysis(func.body, dict.fromkeys(func.params, 0), launch_strides).strides


def _along(func: Func, axis: int) -> tuple[int, ...]:
    """By how much the launch indices grow along ``axis``."""
    return tuple(int(k == axis) for k in range(func.rank))


def stride_of(strides: Strides, atom: Atom) -> int | None:
    """By how much a scalar grows, literals included."""
    return 0 if isinstance(atom, Const) else strides[atom]


def ends_together(loop: Eqn, stride: Callable[[Atom], int | None]) -> bool:
    """Whether threads enter ``loop``, a FOR, in different iterations, with one index in each.

    ``stride`` gives by how much a scalar grows from thread to thread.
    """
    start, stop, step = loop.inputs[:3]
    is_down = isinstance(step, Const) and step.value == -1
    return ENDS_TOGETHER in loop.attrs and is_down and stride(stop) == 0 and stride(start) != 0


class _Analysis:
    """An optimistic fixed-point analysis: it restarts until no assumption about a loop fails."""

    def __init__(
        self,
        body: Region,
        known: Mapping[Var, int | None],
        launch_strides: Sequence[int | None] = (0,) * MAX_GRID_DIMS,
    ) -> None:
        self.launch_strides = launch_strides
        self.indices: set[Atom] = set()
        self.strides: dict[Var, int | None] = dict(known)
        self.is_settled = False
        while not self.is_settled:
            self.is_settled = True
            self.region(body)

    def of(self, atom: Atom) -> int | None:
        return stride_of(self.strides, atom)

    def learn(self, var: Var, stride: int | None) -> None:
        """Set the stride of ``var``; None if it contradicts the known one."""
        known = self.strides.get(var, stride)
        self.strides[var] = known if known == stride else None

    def region(self, region: Region) -> None:
        for eqn in region.eqns:
            self.eqn(eqn)

    def eqn(self, eqn: Eqn) -> None:
        match eqn.op.kind:
            case OpKind.IF:
                self.branch(eqn)
            case OpKind.FOR:
                self.loop_over_range(eqn)
            case OpKind.WHILE:
                self.loop_on_condition(eqn)
            case _:
                stride = self.simple(eqn)
                for out in eqn.outputs:
                    self.learn(out, stride)

    def simple(self, eqn: Eqn) -> int | None:
        is_uniform = True
        for atom in eqn.inputs:
            if isinstance(atom, Var) and isinstance(atom.type, Scalar) and self.strides[atom] != 0:
                is_uniform = False
                break
        match eqn.op.kind:
            case OpKind.TID:
                self.indices.add(eqn.out)
                axis: int = eqn.attrs["axis"]
                return self.launch_strides[axis]
            case OpKind.DIM:
                return 0
            case OpKind.PURE:
                return 0 if is_uniform else self.pure(eqn)
            case OpKind.CAST if not is_uniform:
                # Only a launch index is known not to wrap within a gang.
                (source,) = eqn.inputs
                is_integer = isinstance(eqn.out.type, Scalar) and eqn.out.type.is_integer
                return self.of(source) if source in self.indices and is_integer else None
            case OpKind.CAST:
                return 0
            case OpKind.LOAD if is_uniform:
                return 0
            case _:
                return None

    def pure(self, eqn: Eqn) -> int | None:
        rule = eqn.op.stride
        if rule is None or not (isinstance(eqn.out.type, Scalar) and eqn.out.type.is_integer):
            return None
        strides = [self.of(a) for a in eqn.inputs]
        factors = [int(a.value) if isinstance(a, Const) else None for a in eqn.inputs]
        known = [s for s in strides if s is not None]
        if len(known) < len(strides):
            return None
        stride, half = rule(known, factors), 1 << (eqn.out.type.bits - 1)
        if stride is None:
            return None
        stride = (stride + half) % (2 * half) - half
        return stride if abs(stride) <= MAX_STRIDE else None

    def branch(self, eqn: Eqn) -> None:
        for region in eqn.regions:
            self.region(region)
        then, orelse = (region.yields for region in eqn.regions)
        is_uniform = self.of(eqn.inputs[0]) == 0
        for out, a, b in zip(eqn.outputs, then, orelse, strict=True):
            stride = self.of(a)
            self.learn(out, stride if is_uniform and stride == self.of(b) else None)

    def loop_over_range(self, eqn: Eqn) -> None:
        (body,), (start, stop, step) = eqn.regions, eqn.inputs[:3]
        index, *carried = body.params
        if ends_together(eqn, self.of):
            self.learn(index, 0)
            self.forget(carried)
        else:
            self.learn(index, self.of(start) if self.of(step) == 0 else None)
            self.carry(carried, eqn.inputs[3:])
        self.region(body)
        self.carry(carried, body.yields)
        self.leave(eqn, carried, all(self.of(a) == 0 for a in (start, stop, step)))

    def loop_on_condition(self, eqn: Eqn) -> None:
        cond, body = eqn.regions
        self.carry(cond.params, eqn.inputs)
        self.region(cond)
        self.carry(body.params, cond.params)
        self.region(body)
        self.carry(cond.params, body.yields)
        self.leave(eqn, cond.params, self.of(cond.yields[0]) == 0)

    def carry(self, params: Sequence[Var], values: Sequence[Atom]) -> None:
        for param, value in zip(params, values, strict=True):
            if param not in self.strides:
                self.strides[param] = self.of(value)
            elif self.strides[param] not in (None, self.of(value)):
                self.strides[param] = None
                self.is_settled = False

    def forget(self, params: Sequence[Var]) -> None:
        """Threads that begin a loop later than others differ in what it carries."""
        for param in params:
            if self.strides.get(param) is not None:
                self.is_settled = False
            self.strides[param] = None

    def leave(self, eqn: Eqn, carried: Sequence[Var], is_together: bool) -> None:
        for out, param in zip(eqn.outputs, carried, strict=True):
            self.learn(out, self.strides[param] if is_together else None)
