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

The grid of an addition has two axes, either of which may be the last one, along which lanes lie.
Where ``ct_a[i, k] += g[i, j] * b[k, j]`` is summed over ``j``, lanes along ``i`` share ``b[k, j]``.
Elements of ``g``, kept or copied in columns, are adjacent for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add, fma, mul, sub
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
from kernelcore.language.types import ArrayType, Scalar, float32, float64, int32
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
        func: The kernel that makes them for a piece. One of its launch axes goes through the
            iterations of the loop, in the order of its index; the other one is ``axis``.
        axis: The launch axis of the threads that the elements of a thread here belong to; None if
            all threads of a piece add to the same elements.
        is_last: Whether ``axis`` is the last axis of ``func``; its index is then relative to the
            start of the piece.
        bounds: Those of the loop, the same in all threads.
    """

    func: Func
    axis: int | None
    is_last: bool
    bounds: Bounds

    @property
    def arrays(self) -> tuple[Var, ...]:
        """The arrays that it adds to."""
        eqns = (e for e in self.func.body.eqns if e.op is ATOMIC_ADD)
        return tuple(dict.fromkeys(a for e in eqns if isinstance(a := e.inputs[0], Var)))


@dataclass(frozen=True, slots=True)
class Kept:
    """What the threads of a piece keep.

    Attributes:
        var: The value.
        in_columns: Whether its array is column-major: the first axis is the column.
    """

    var: Var
    in_columns: bool


@dataclass(frozen=True, slots=True)
class GatheredSums:
    """A kernel whose sums are gathered.

    Attributes:
        func: The kernel.
        first: It without the gathered additions; None if nothing is left to do.
        kept: The arrays of two axes that hold what ``first`` computes for ``sums``; they are
            parameters of both behind those of ``func``.
        piece: Their further parameters.
        sums: The additions.
    """

    func: Func
    first: Func | None
    kept: Mapping[Kept, Var]
    piece: Piece
    sums: tuple[GatheredSum, ...]

    @property
    def funcs(self) -> tuple[Func, ...]:
        """The kernels that run for a piece, in order."""
        return (*(() if self.first is None else (self.first,)), *(s.func for s in self.sums))

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters of these kernels."""
        return (*self.func.params, *self.kept.values(), *self.piece.params)

    @property
    def arrays(self) -> tuple[Var, ...]:
        """The arrays to which additions are gathered."""
        return tuple(dict.fromkeys(a for one in self.sums for a in one.arrays))

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        """The bounds of all loops with gathered additions."""
        return tuple(dict.fromkeys(s.bounds for s in self.sums))


def gathered_sums(
    func: Func, is_better: Callable[[Func, Func], bool] = lambda one, other: False
) -> GatheredSums | None:
    """``func``, which has a plan of its accumulations, with all sums gathered that can be.

    Args:
        func: A kernel.
        is_better: Whether lanes suit the first kernel of an addition better than the second one;
            without a preference the loop is the last axis.
    """
    if func.rank < 2 or not any(e.op.kind is OpKind.FOR for e in func.body.eqns):
        return None
    source = Source(func)
    found: dict[tuple[Eqn, frozenset[int]], list[Addition]] = {}
    for loop in func.body.eqns:
        for addition in source.additions_of(loop):
            found.setdefault((loop, addition.axes), []).append(addition)
    if not found:
        return None
    groups = list(found.values())
    pairs = [(_Layout(source, g, is_last=False), _Layout(source, g, is_last=True)) for g in groups]
    trial = _Gathering(source, [layout for pair in pairs for layout in pair])

    def chosen(loop_last: _Layout, axis_last: _Layout) -> _Layout:
        is_turned = axis_last.axis is not None and is_better(
            trial.sum(axis_last).func, trial.sum(loop_last).func
        )
        return axis_last if is_turned else loop_last

    layouts = [chosen(*pair) for pair in pairs]
    gathering = _Gathering(source, layouts)
    first = gathering.first({a.eqn for group in groups for a in group})
    sums = tuple(map(gathering.sum, layouts))
    return GatheredSums(func, first, gathering.array_of, gathering.piece, sums)


class _Layout:
    """Additions of one loop with an order of their launch axes.

    Attributes:
        group: The additions.
        axis: The launch axis that decides their elements, if one does.
        is_last: Whether ``axis`` comes behind the loop.
        kept: What they need of the threads of a piece.
    """

    def __init__(self, source: Source, group: Sequence[Addition], *, is_last: bool) -> None:
        rank = source.func.rank
        self.group, self.is_last = group, is_last
        self.axis = next(iter(group[0].axes), None)
        in_columns = is_last and self.axis == rank - 2
        found = [v for a in group for v in a.kept]
        if in_columns:
            # Elements of a row, which these lanes would gather, are copied, too.
            loads = (e for a in group for e in a.outside if e.op.kind is OpKind.LOAD)
            found += [e.out for e in loads if source.axes_of(e) >= {rank - 2, rank - 1}]
        self.kept = {v: Kept(v, in_columns) for v in found}


class _Gathering:
    """Makes the kernels of a piece."""

    def __init__(self, source: Source, layouts: Sequence[_Layout]) -> None:
        self.source, func = source, source.func
        kept = dict.fromkeys(k for layout in layouts for k in layout.kept.values())
        self.array_of = {k: _kept_array(k.var) for k in kept}
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

    def place(self, kept: Kept, places: Sequence[Atom]) -> tuple[Atom, ...]:
        """The array of ``kept`` and its indices for the thread at ``places`` of the piece."""
        row, column = places
        return (self.array_of[kept], *((column, row) if kept.in_columns else (row, column)))

    def first(self, gathered: Collection[Eqn]) -> Func | None:
        """The kernel without the additions ``gathered``, which keeps what these need."""
        func, builder = self.source.func, Builder()
        for eqn in func.body.eqns:
            builder.append(_without(eqn, gathered))
        if self.array_of:
            starts = {func.rank - 2: self.piece.rows[0], func.rank - 1: self.piece.columns[0]}
            places = [
                builder.emit(sub.op, builder.emit(TID, axis=axis), start)
                for axis, start in starts.items()
            ]
            for kept in self.array_of:
                builder.emit_effect(STORE, *self.place(kept, places), kept.var)
        made = self.kernel("first", builder.eqns, func.grid_rank)
        return made if any(e.op.kind in WRITES for e in walk_eqns(made.body)) else None

    def sum(self, layout: _Layout) -> GatheredSum:
        """The kernel that makes the additions of ``layout`` for a piece."""
        source, group, builder = self.source, layout.group, Builder()
        rank, axis, loop = source.func.rank, layout.axis, group[0].loop
        index: list[Atom] = [*self.piece.leading, Var(int32, "row"), Var(int32, "column")]
        bounds = {rank - 2: self.piece.rows, rank - 1: self.piece.columns}
        starts = {at: first for at, (first, _) in bounds.items()}
        # Indices relative to the piece.
        known: dict[int, Atom] = {}
        if axis is not None:
            del bounds[axis]
            index[axis] = builder.emit(TID, axis=int(layout.is_last))
        if axis is not None and layout.is_last:
            known[axis] = index[axis]
            index[axis] = builder.emit(add.op, index[axis], starts[axis])
        env: dict[Var, Atom] = {var: index[at] for var, at in source.axis.items()}
        place = builder.emit(TID, axis=0 if layout.is_last else 2 - len(bounds))
        needed = {e for a in group for e in a.outside if e.op.kind is not OpKind.TID}
        needed -= {e for e in needed if e.out in layout.kept}
        outside = [e for e in source.func.body.eqns if e in needed]
        work = {e for a in group for e in a.work}
        inside = [e for e in loop.regions[0].eqns if e in work]
        # Elements may be named by values that an iteration computes anew.
        for eqn in (*outside, *inside):
            if source.is_uniform(eqn.out):
                builder.append(clone_eqn(eqn, env))
        env[loop.regions[0].params[0]] = _from_lowest(builder, loop, place, env)
        body = [e for e in (*outside, *inside) if not source.is_uniform(e.out)]

        # Additions to one element have one total.
        elements: dict[tuple[Atom, ...], list[Addition]] = {}
        for addition in group:
            elements.setdefault(addition.eqn.inputs[:-1], []).append(addition)

        def values(totals: Sequence[Atom]) -> list[Atom]:
            """The ``totals`` with what the thread ``index`` adds."""
            places = [
                known.get(at) or builder.emit(sub.op, index[at], start)
                for at, start in (starts.items() if layout.kept else ())
            ]
            for var, kept in layout.kept.items():
                env[var] = builder.emit(LOAD, *self.place(kept, places))
            for eqn in body:
                builder.append(clone_eqn(eqn, env))
            found = list(totals)
            for at, additions in enumerate(elements.values()):
                for addition in additions:
                    value = substitute(addition.eqn.inputs[-1], env)
                    found[at] = _added(builder, found[at], value)
            return found

        loops = [(_var(index[at]), *bounds[at]) for at in sorted(bounds)]
        nothing = [_nothing(a[0].eqn) for a in elements.values()]
        totals = _looped(builder, loops, nothing, values)
        for (first, *_), total in zip(elements.values(), totals, strict=True):
            array, *places = (substitute(a, env) for a in first.eqn.inputs[:-1])
            builder.loc = first.eqn.loc
            builder.emit(ATOMIC_ADD, array, *places, total, **first.eqn.attrs)
        start, stop, step = loop.inputs[:3]
        made = self.kernel("sums", builder.eqns, 3 - len(bounds))
        return GatheredSum(made, axis, layout.is_last, (start, stop, step))


def _var(atom: Atom) -> Var:
    assert isinstance(atom, Var)
    return atom


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


def _added(builder: Builder, total: Atom, value: Atom) -> Atom:
    """``total + value``, rounded once if ``value`` is a product and the processor can."""
    product = next((e for e in builder.eqns if e.op is mul.op and e.out == value), None)
    if product is None or value.type not in (float32, float64) or not native.has_fma:
        return builder.emit(add.op, total, value)
    return builder.emit(fma.op, *product.inputs, total)


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
