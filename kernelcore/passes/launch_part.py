"""One part of a launch as a kernel of its own, over windows of the arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add, mul, sub
from kernelcore.builtins.logic import greater_equal, less, logical_and
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, CAST, TID, OpKind
from kernelcore.ir.walk import rewrite
from kernelcore.language.types import int32
from kernelcore.passes.access.launch_parts import Parts, Window, indices_of
from kernelcore.passes.pipeline import tidy
from kernelcore.passes.simplify.dead_code import dce, drop_unused_params


@dataclass(frozen=True, slots=True)
class LaunchPart:
    """A kernel that runs a part of a launch.

    Attributes:
        func: The kernel: the parameters of the whole, then those below.
        starts: Launch axes whose first index, as the whole counts, is a parameter.
        extents: Launch axes whose extent, as the whole has it, is a parameter.
    """

    func: Func
    starts: tuple[int, ...]
    extents: tuple[int, ...]


def launch_part(func: Func, cut: Mapping[int, Parts], guarded: Collection[int] = ()) -> LaunchPart:
    """``func`` for a part of the launch axes ``cut``.

    Arrays with a window hold that window alone, and its threads count from 0 on these axes. Along
    the axes ``guarded`` a part has threads beyond the ends of the launch, which do nothing.
    """
    builder = Builder()
    builder.loc = func.loc
    own = {axis: builder.emit(TID, axis=axis, name="own") for axis in cut}
    start = {axis: Var(int32, f"start_{axis}") for axis in cut}
    extent = {axis: Var(int32, f"extent_{axis}") for axis in cut}
    windows = {
        func.params[k]: {
            a: w for a, parts in cut.items() if (w := parts.windows.get(k)) is not None
        }
        for k in range(len(func.params))
    }
    known = {axis: indices_of(func, parts.extents) for axis, parts in cut.items()}

    def change(eqn: Eqn) -> Eqn | Region:
        if eqn.op.kind is OpKind.TID and eqn.attrs["axis"] in cut:
            axis = eqn.attrs["axis"]
            return Eqn(add.op, (own[axis], start[axis]), eqn.outputs, loc=eqn.loc)
        found = windows.get(eqn.inputs[0]) if eqn.inputs else None  # pyright: ignore
        if not found:
            return eqn
        if eqn.op.kind is OpKind.DIM:
            axes = [a for a, w in found.items() if w.axis == eqn.attrs["axis"]]
            return whole_extent(extent[axes[0]], found[axes[0]]) if axes else eqn
        return moved(eqn, found) if eqn.op.kind in ACCESSES else eqn

    def whole_extent(of_launch: Atom, window: Window) -> Region:
        inner = Builder()
        made = scaled(inner, of_launch, window.times)
        made = inner.emit(add.op, made, Const(int32, window.more)) if window.more else made
        return Region((), tuple(inner.eqns), (made,))

    def moved(eqn: Eqn, found: Mapping[int, Window]) -> Region:
        """The access ``eqn`` at the place that its element has in the windows ``found``."""
        inner = Builder()
        inner.loc = eqn.loc
        inputs = list(eqn.inputs)
        for axis, window in found.items():
            index = inputs[1 + window.axis]
            near = known[axis].near(index)
            assert near is not None
            by_shift = window.times * cut[axis].shift
            if near.shift is not None:
                place: Atom = scaled(inner, own[axis], window.times)
                by = near.shift - by_shift + window.below
                place = inner.emit(add.op, place, Const(int32, by)) if by else place
                if index.type != int32:
                    place = inner.emit(CAST, place, dtype=index.type)
            else:
                first: Atom = scaled(inner, start[axis], window.times)
                by = window.below + near.more - by_shift
                if by:
                    first = inner.emit(sub.op, first, Const(int32, by))
                if near.unwrapped is not None:
                    index = near.unwrapped
                if index.type != int32:
                    first = inner.emit(CAST, first, dtype=index.type)
                place = inner.emit(sub.op, index, first)
                if place.type != inputs[1 + window.axis].type:
                    place = inner.emit(CAST, place, dtype=inputs[1 + window.axis].type)
            inputs[1 + window.axis] = place
        inner.append(replace(eqn, inputs=tuple(inputs)))
        return Region((), tuple(inner.eqns), eqn.outputs)

    body = rewrite(func.body, change)
    inside: list[Atom] = []
    for axis in guarded:
        place = builder.emit(add.op, own[axis], start[axis])
        inside.append(builder.emit(greater_equal.op, place, Const(int32, 0)))
        inside.append(builder.emit(less.op, place, extent[axis]))
    if inside:
        is_inside = reduce(lambda a, b: builder.emit(logical_and.op, a, b), inside)
        builder.emit_if(is_inside, Region((), body.eqns), Region((), ()))
    eqns = (*builder.eqns, *(() if inside else body.eqns))
    params = (*func.params, *start.values(), *extent.values())
    whole = replace(func, name=f"{func.name}_part", body=Region(params, eqns))
    count = len(func.params)
    made, kept = drop_unused_params(dce(tidy(whole)), range(count))
    axes = tuple(cut)
    return LaunchPart(
        made,
        tuple(axes[k - count] for k in kept if count <= k < count + len(axes)),
        tuple(axes[k - count - len(axes)] for k in kept if k >= count + len(axes)),
    )


def scaled(builder: Builder, value: Atom, by: int) -> Atom:
    """``by`` times ``value``, an int32."""
    return builder.emit(mul.op, value, Const(int32, by)) if by > 1 else value
