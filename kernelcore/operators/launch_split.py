"""Operations cut along axes of their launch, for devices that run a part each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.compiler.launch_descriptor import Binding, Role
from kernelcore.language.types import int32
from kernelcore.operators.operation import Extent, Operand, Operation, Shape, evaluate
from kernelcore.passes.access.launch_parts import (
    Parts,
    Window,
    extents_of,
    launch_parts,
    multiple,
    outer_ndim,
    parts_of_axis,
)
from kernelcore.passes.launch_part import LaunchPart, launch_part


@dataclass(frozen=True, slots=True)
class AxisSplit:
    """How one axis of a launch is cut.

    Attributes:
        parts: The same by kernel parameter.
        operands: The operands of which a part takes a window; it takes the others whole.
        results: The results, hidden ones included, of which a part makes a window.
        sums: The visible results to which every part adds.
        extrema: The visible results of which the greatest ("max") or least ("min") counts.
        added: The results to whose borders a part adds; other borders are read only.
    """

    parts: Parts
    operands: Mapping[int, Window]
    results: Mapping[int, Window]
    sums: frozenset[int]
    extrema: Mapping[int, str]
    added: frozenset[int]

    @property
    def key(self) -> Any:
        """What tells splits of one axis apart."""
        extents = self.parts.extents
        return None if extents is None else tuple(extents.items())


class LocalExtent(NamedTuple):
    """An extent of a part.

    It is ``whole``, or if ``axis`` is not -1, what one device has of it where this axis of the
    launch is cut, with ``border`` elements around it.
    """

    whole: Extent
    axis: int
    border: int


@dataclass(frozen=True, slots=True)
class LocalOperation:
    """What one device runs: the operands of the whole, then numbers.

    Attributes:
        operation: It.
        starts: Launch axes whose first index is one of these numbers, an int32 each.
        extents: Launch axes whose extent in the whole launch is one of them, behind those.
        sizes: Extents of the part that are numbers too, behind those.
    """

    operation: Operation
    starts: tuple[int, ...]
    extents: tuple[int, ...]
    sizes: tuple[LocalExtent, ...] = ()


def axis_splits(op: Operation) -> Mapping[int, AxisSplit]:
    """The axes of the launch of ``op`` that can be cut."""
    return op.once("axis_splits", lambda: _axis_splits(op))


def usable_splits(op: Operation, shapes: Sequence[Any]) -> Mapping[int, AxisSplit]:
    """The axes of the launch that can be cut, for operands of these shapes."""
    grid = evaluate(op.grid, shapes)
    made = [evaluate(r.shape, shapes) for r in op.results]

    def fits(axis: int, split: AxisSplit) -> bool:
        arrays = ((shapes, split.operands), (made, split.results))
        return all(known[k][w.axis] == grid[axis] for known, ws in arrays for k, w in ws.items())

    return {a: split for a, split in axis_splits(op).items() if fits(a, split)}


def shaped_splits(
    op: Operation, shapes: Sequence[Any], numbers: Mapping[int, int] = MappingProxyType({})
) -> Mapping[int, AxisSplit]:
    """The axes of the launch that can be cut for operands of these shapes, which parts know.

    Arrays need not have the extent of the launch, as those of ``usable_splits`` do. ``numbers`` has
    values of operands that are extents of other arrays.
    """
    grid = evaluate(op.grid, shapes)
    made = [evaluate(r.shape, shapes) for r in op.results]
    arrays = {
        k: shapes[b.operand] if b.operand >= 0 else made[b.result]
        for k, (p, b) in enumerate(zip(op.func.params, op.bindings, strict=True))
        if outer_ndim(p)
    }

    def split(axis: int) -> AxisSplit | None:
        extents = extents_of(op.func, arrays, grid[axis])
        for k, bound in enumerate(op.bindings):
            value = numbers.get(bound.operand)
            found = None if value is None else multiple(value, grid[axis])
            if found is not None:
                extents[k, -1] = found
        key = ("axis_split", axis, tuple(extents.items()))

        def find() -> AxisSplit | None:
            parts = parts_of_axis(op.func, axis, extents)
            return None if parts is None else _axis_split(op, parts)

        return op.once(key, find)

    found = ((axis, split(axis)) for axis in range(len(grid)))
    return {axis: one for axis, one in found if one is not None}


def _axis_splits(op: Operation) -> Mapping[int, AxisSplit]:
    found = ((axis, _axis_split(op, parts)) for axis, parts in launch_parts(op.func).items())
    return {axis: split for axis, split in found if split is not None}


def _axis_split(op: Operation, parts: Parts) -> AxisSplit | None:
    operands: dict[int, Window] = {}
    results: dict[int, Window] = {}
    sums: set[int] = set()
    extrema: dict[int, str] = {}
    added: set[int] = set()
    for k, bound in enumerate(op.bindings):
        window = parts.windows.get(k)
        if window is not None:
            if bound.operand >= 0:
                operands[bound.operand] = window
            if bound.result >= 0:
                results[bound.result] = window
            if k in parts.added:
                added.add(bound.result)
        elif k in parts.sums or k in parts.extrema:
            if bound.role is Role.SCRATCH:
                return None
            if k in parts.sums:
                sums.add(bound.result)
            else:
                extrema[bound.result] = parts.extrema[k]
    taken = [b.operand for b in op.bindings if b.operand >= 0]
    if len(taken) != len(set(taken)) or any(
        not w.is_own and op.bindings[k].role is Role.SCRATCH for k, w in parts.windows.items()
    ):
        return None
    return AxisSplit(parts, operands, results, frozenset(sums), extrema, frozenset(added))


def is_launch_of_parts(op: Operation, axis: int, split: AxisSplit) -> bool:
    """Whether a part of launch axis ``axis`` is the same kernel over parts of arrays."""
    is_in_step = all(not w.more for w in split.parts.windows.values()) and not split.parts.shift
    return is_in_step and _part(op, {axis: split}, ())[1]


def _part(
    op: Operation, cut: Mapping[int, AxisSplit], guarded: tuple[int, ...]
) -> tuple[LaunchPart, bool]:
    """The kernel of a part, and whether it is that of ``op``."""
    key = ("part", tuple((a, s.key) for a, s in cut.items()), guarded)
    part: LaunchPart = op.once(
        key, lambda: launch_part(op.func, {a: s.parts for a, s in cut.items()}, guarded)
    )
    windows = [w for s in cut.values() for w in s.parts.windows.values()]
    return part, not part.starts and not part.extents and all(w.is_own for w in windows)


def local_operation(
    op: Operation,
    cut: Mapping[int, AxisSplit],
    grid: Sequence[int],
    guarded: Sequence[int] = (),
) -> LocalOperation:
    """``op`` on one device: a part of the launch, of shape ``grid``, cut along the axes ``cut``.

    The operands and results that are cut along them are windows. Along the axes ``guarded`` the
    part has points beyond the ends of the launch.
    """
    key = ("local", tuple((a, s.key) for a, s in cut.items()), tuple(grid), tuple(guarded))
    return op.once(key, lambda: _local_operation(op, cut, tuple(grid), tuple(guarded)))


def _local_operation(
    op: Operation,
    cut: Mapping[int, AxisSplit],
    grid: tuple[int, ...],
    guarded: tuple[int, ...],
) -> LocalOperation:
    part, is_same = _part(op, cut, guarded)
    names = [*(f"start_{a}" for a in part.starts), *(f"extent_{a}" for a in part.extents)]
    count = len(op.operands)
    numbers = tuple(Operand(name, int32) for name in names)
    values = tuple(Binding(Role.VALUE, count + n) for n in range(len(names)))
    made = Operation(
        op.func if is_same else part.func,
        (*op.operands, *numbers),
        op.results,
        op.visible,
        (*op.bindings, *values),
        tuple(map(Extent.literal, grid)),
    )
    return LocalOperation(made, part.starts, part.extents)


def sized_local_operation(op: Operation, axes: Sequence[int]) -> LocalOperation:
    """``op`` on one device, cut along the launch axes ``axes``, for parts of any shape.

    Its numbers are extents (``Operand.is_size``), and a call gives its shapes among them.
    """
    return op.once(("local", tuple(axes)), lambda: _sized_local_operation(op, tuple(axes)))


def _sized_local_operation(op: Operation, axes: tuple[int, ...]) -> LocalOperation:
    splits = axis_splits(op)
    local = _local_operation(op, {a: splits[a] for a in axes}, (), ())
    made, first = local.operation, len(local.operation.operands)
    sizes: dict[LocalExtent, int] = {}

    def size(whole: Extent, axis: int, border: int) -> Extent:
        if whole.operand < 0 and axis < 0:
            return whole
        found = sizes.setdefault(LocalExtent(whole, axis, border), first + len(sizes))
        return Extent.size(found)

    def shape(index: int, whole: Shape) -> Shape:
        windows = {w.axis: (a, w) for a in axes if (w := splits[a].results.get(index)) is not None}
        cut = {k: (a, w.below + w.above) for k, (a, w) in windows.items()}
        return tuple(size(e, *cut.get(k, (-1, 0))) for k, e in enumerate(whole))

    grid = tuple(size(e, a if a in axes else -1, 0) for a, e in enumerate(op.grid))
    results = tuple(replace(r, shape=shape(k, r.shape)) for k, r in enumerate(op.results))
    numbers = [replace(o, is_size=True) for o in made.operands[len(op.operands) :]]
    numbers += [Operand(f"size_{k}", int32, is_size=True) for k in range(len(sizes))]
    operands = (*op.operands, *numbers)
    return replace(
        local,
        operation=replace(made, operands=operands, results=results, grid=grid, derived={}),
        sizes=tuple(sizes),
    )
