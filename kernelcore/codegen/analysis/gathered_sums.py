"""Gathered sums: additions that many threads make to one element become loops over these threads.

    b, i = kc.tid()                                     g[b, i] = value
    value = ...
    for k in range(n):                                  over (i, k):
        ct_w[i, k] += value * x[b, k]        becomes        for b: total += g[b, i] * x[b, k]
        ct_x[b, k] += value * w[i, k]                       ct_w[i, k] += total
                                                        over (b, k):
                                                            for i: total += g[b, i] * w[i, k]
                                                            ct_x[b, k] += total

Code runs a piece of the grid at a time: rows, or a part of one row. First all threads of the piece
run the kernel without these additions, and keep what these need in memory. Then the additions run
as kernels of their own over other grids, in which each element belongs to one thread. Every element
gets what the threads of a piece add to it, in the order of the threads, as one total.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add, sub
from kernelcore.builtins.reference import nothing_added
from kernelcore.codegen.analysis.gatherable import Addition, Source
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import (
    ATOMIC_ADD,
    LOAD,
    STORE,
    TID,
    WRITES,
    OpKind,
)
from kernelcore.ir.walk import array_type, clone_eqn, substitute, walk_eqns
from kernelcore.language.types import ArrayType, Scalar, int32
from kernelcore.passes.simplify.dead_code import dce

# Start, stop and step of a loop.
Bounds = tuple[Atom, Atom, Atom]


@dataclass(frozen=True, slots=True)
class Piece:
    """What the code of a piece knows of it, as parameters behind those of the kernel.

    Attributes:
        leading: The launch index of the piece on every axis but the last two.
        rows: The first row and the end of the rows, on the last axis but one.
        columns: Likewise on the last axis.
    """

    leading: tuple[Var, ...]
    rows: tuple[Var, Var]
    columns: tuple[Var, Var]

    @property
    def params(self) -> tuple[Var, ...]:
        return (*self.leading, *self.rows, *self.columns)


@dataclass(frozen=True, slots=True)
class GatheredSum:
    """Additions of one loop whose elements the same launch axis decides.

    Attributes:
        func: The kernel that makes them for a piece. The last one of its launch axes goes through
            the iterations of the loop, in the order of its index; the one before is ``axis``.
        axis: The launch axis of the threads that the elements of a thread here belong to; None if
            all threads of a piece add to the same elements.
        bounds: Those of the loop, the same in all threads.
    """

    func: Func
    axis: int | None
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class GatheredSums:
    """A kernel whose sums are gathered.

    Attributes:
        func: The kernel.
        first: It without the gathered additions; None if nothing is left to do.
        kept: Arrays of rows and columns that hold what ``first`` computes for ``sums``; they are
            parameters of both behind those of ``func``.
        piece: Their further parameters.
        sums: The additions.
    """

    func: Func
    first: Func | None
    kept: tuple[Var, ...]
    piece: Piece
    sums: tuple[GatheredSum, ...]

    @property
    def funcs(self) -> tuple[Func, ...]:
        """The kernels that run for a piece, in order."""
        return (*(() if self.first is None else (self.first,)), *(s.func for s in self.sums))

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters of these kernels."""
        return (*self.func.params, *self.kept, *self.piece.params)

    @property
    def arrays(self) -> tuple[Var, ...]:
        """The arrays to which additions are gathered."""
        eqns = (e for one in self.sums for e in one.func.body.eqns if e.op is ATOMIC_ADD)
        return tuple(dict.fromkeys(a for e in eqns if isinstance(a := e.inputs[0], Var)))

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        """The bounds of all loops with gathered additions."""
        return tuple(dict.fromkeys(s.bounds for s in self.sums))


def gathered_sums(func: Func) -> GatheredSums | None:
    """``func``, which has a plan of its accumulations, with all sums gathered that can be."""
    if func.rank < 2:
        return None
    source = Source(func)
    found: dict[tuple[Eqn, frozenset[int]], list[Addition]] = {}
    for loop in func.body.eqns:
        for addition in source.additions_of(loop):
            found.setdefault((loop, addition.axes), []).append(addition)
    if not found:
        return None
    additions = [a for group in found.values() for a in group]
    kept = tuple(dict.fromkeys(v for a in additions for v in a.kept))
    gathering = _Gathering(source, kept)
    first = gathering.first({a.eqn for a in additions})
    sums = tuple(gathering.sum(group) for group in found.values())
    return GatheredSums(func, first, tuple(gathering.array_of.values()), gathering.piece, sums)


class _Gathering:
    """Makes the kernels of a piece."""

    def __init__(self, source: Source, kept: Sequence[Var]) -> None:
        self.source, func = source, source.func
        self.array_of = {v: _kept_array(v) for v in kept}
        leading = tuple(Var(int32, f"launch_index{axis}") for axis in range(func.rank - 2))
        rows, columns = (
            (Var(int32, f"first_{what}"), Var(int32, f"{what}_end")) for what in ("row", "column")
        )
        self.piece = Piece(leading, rows, columns)
        self.params = (*func.params, *self.array_of.values(), *self.piece.params)

    def kernel(self, name: str, eqns: Sequence[Eqn], grid_rank: int) -> Func:
        """A kernel of these equations; what has no effect is left out."""
        func, body = self.source.func, Region(self.params, tuple(eqns))
        name = f"{func.name}_{name}"
        return dce(replace(func, name=name, body=body, grid_rank=grid_rank, param_locs=()))

    def places(self, builder: Builder, index: Sequence[Atom]) -> list[Atom]:
        """Where the kept values of the thread with ``index`` on the last two axes are."""
        starts = (self.piece.rows[0], self.piece.columns[0])
        return [builder.emit(sub.op, i, start) for i, start in zip(index, starts, strict=True)]

    def first(self, gathered: Collection[Eqn]) -> Func | None:
        """The kernel without the additions ``gathered``, which keeps what these need."""
        func, builder = self.source.func, Builder()
        for eqn in func.body.eqns:
            builder.append(_without(eqn, gathered))
        if self.array_of:
            last = (func.rank - 2, func.rank - 1)
            places = self.places(builder, [builder.emit(TID, axis=axis) for axis in last])
            for var, array in self.array_of.items():
                builder.emit_effect(STORE, array, *places, var)
        made = self.kernel("first", builder.eqns, func.grid_rank)
        return made if any(e.op.kind in WRITES for e in walk_eqns(made.body)) else None

    def sum(self, group: Sequence[Addition]) -> GatheredSum:
        """The kernel that makes the additions ``group`` of one loop for a piece."""
        source, loop, builder = self.source, group[0].loop, Builder()
        rank, axis = source.func.rank, next(iter(group[0].axes), None)
        index = [*self.piece.leading, Var(int32, "row"), Var(int32, "column")]
        bounds = {rank - 2: self.piece.rows, rank - 1: self.piece.columns}
        if axis is not None:
            del bounds[axis]
            index[axis] = builder.emit(TID, axis=0, name=index[axis].name)
        env: dict[Var, Atom] = {var: index[at] for var, at in source.axis.items()}
        place = builder.emit(TID, axis=2 - len(bounds))
        needed = {e for a in group for e in a.outside if e.op.kind is not OpKind.TID}
        outside = [e for e in source.func.body.eqns if e in needed]
        for eqn in outside:
            if source.is_uniform(eqn.out):
                builder.append(clone_eqn(eqn, env))
        env[loop.regions[0].params[0]] = _from_lowest(builder, loop, place, env)
        work = {e for a in group for e in a.work}
        body = [e for e in outside if not source.is_uniform(e.out)]
        body += [e for e in loop.regions[0].eqns if e in work]

        # Additions to one element have one total.
        elements: dict[tuple[Atom, ...], list[Addition]] = {}
        for addition in group:
            elements.setdefault(addition.eqn.inputs[:-1], []).append(addition)

        def values(totals: Sequence[Atom]) -> list[Atom]:
            """The ``totals`` with what the thread ``index`` adds."""
            kept = dict.fromkeys(v for a in group for v in a.kept)
            places = self.places(builder, index[-2:]) if kept else []
            env.update({v: builder.emit(LOAD, self.array_of[v], *places) for v in kept})
            for eqn in body:
                builder.append(clone_eqn(eqn, env))
            found = list(totals)
            for at, additions in enumerate(elements.values()):
                for addition in additions:
                    value = substitute(addition.eqn.inputs[-1], env)
                    found[at] = builder.emit(add.op, found[at], value)
            return found

        loops = [(index[at], *bounds[at]) for at in sorted(bounds)]
        nothing = [_nothing(a[0].eqn) for a in elements.values()]
        totals = _looped(builder, loops, nothing, values)
        for (first, *_), total in zip(elements.values(), totals, strict=True):
            array, *places = (substitute(a, env) for a in first.eqn.inputs[:-1])
            builder.loc = first.eqn.loc
            builder.emit(ATOMIC_ADD, array, *places, total, **first.eqn.attrs)
        start, stop, step = loop.inputs[:3]
        made = self.kernel("sums", builder.eqns, 3 - len(bounds))
        return GatheredSum(made, axis, (start, stop, step))


def _kept_array(var: Var) -> Var:
    """The array that holds ``var`` of the threads of a piece."""
    assert isinstance(var.type, Scalar)
    return Var(ArrayType(var.type, 2), var.name)


def _without(eqn: Eqn, gathered: Collection[Eqn]) -> Eqn:
    """``eqn``, without those of ``gathered`` in its body if it is a loop."""
    if eqn.op.kind is not OpKind.FOR:
        return eqn
    (body,) = eqn.regions
    rest = tuple(e for e in body.eqns if e not in gathered)
    return replace(eqn, regions=(replace(body, eqns=rest),))


def _from_lowest(builder: Builder, loop: Eqn, place: Var, env: Mapping[Var, Atom]) -> Var:
    """The index of ``loop`` that is ``place`` behind the lowest one."""
    start, stop, step = loop.inputs[:3]
    assert isinstance(step, Const)
    lowest = substitute(start if step.value == 1 else stop, env)
    if step.value == -1:
        one = Const(int32, 1)
        is_known = isinstance(lowest, Const)
        lowest = Const(int32, lowest.value + 1) if is_known else builder.emit(add.op, lowest, one)
    is_zero = isinstance(lowest, Const) and lowest.value == 0
    return place if is_zero else builder.emit(add.op, place, lowest)


def _nothing(eqn: Eqn) -> Const:
    """What leaves any sum as it is to which ``eqn`` adds."""
    dtype = array_type(eqn).dtype
    return Const(dtype, nothing_added(dtype))


def _looped(
    builder: Builder,
    loops: Sequence[tuple[Var, Var, Var]],
    carried: Sequence[Atom],
    body: Callable[[Sequence[Atom]], Sequence[Atom]],
) -> Sequence[Atom]:
    """What ``loops``, each an index, its first value and its end, make of ``carried``."""
    if not loops:
        return body(carried)
    (index, start, end), *inner = loops
    params = tuple(Var(a.type, "total") for a in carried)
    with builder.region() as eqns:
        yields = tuple(_looped(builder, inner, params, body))
    region = Region((index, *params), tuple(eqns), yields)
    return builder.emit_for(start, end, Const(int32, 1), carried, region)
