"""The loop over gangs that go on from one row of the grid to the next, where rows are short."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.llvm.blocks import add_edges
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter
from kernelcore.codegen.simd.grid_loop import unravel
from kernelcore.ir.core import Var
from kernelcore.language.types import int32

# The largest gang: along an axis of this extent or more, it crosses at most one end.
MOST_LANES = 64
# Fraction bits that make reciprocals exact for indices below twice ``MOST_LANES``.
_BITS = 16


@dataclass(frozen=True, slots=True)
class Collapsed:
    """Code of a gang anywhere in the grid.

    Attributes:
        body: Emits it, with the launch indices of all lanes in ``e.point``.
        arrays: Those whose elements are adjacent if they have the shape of the grid.
        limit: The number of whole gangs per row below which collapsing pays.
    """

    body: Callable[[], None]
    arrays: Mapping[Var, ArrayValue]
    limit: int


def emit_collapsed(
    e: Emitter, dims: Sequence[str], collapsed: Collapsed, is_packed: str, done: str
) -> str:
    """Emit code for whole gangs from ``%begin`` on, if that pays; the first point that is left.

    The code leaves for ``done`` where no point is left.

    Args:
        e: Emitter; ``%begin < %end`` holds.
        dims: Extents of the grid, as i64, at least two.
        collapsed: The code.
        is_packed: Whether the arrays are packed, as i1.
        done: Label of the block after the loop over the grid.
    """
    pays = e.op(f"and i1 {is_packed}, {_pays(e, dims, collapsed)}")
    size = e.op(f"and i64 {e.op('sub i64 %end, %begin')}, {-e.gang}")
    some = e.op(f"and i1 {pays}, {e.op(f'icmp ne i64 {size}, 0')}")
    before, start, rows = e.block, e.label("collapsed"), e.label("rows")
    e.branch(some, start, rows)
    e.start_block(start)
    limit = e.op(f"add nuw nsw i64 %begin, {size}")
    _emit_gangs(e, dims, limit, collapsed)
    after = e.block
    e.branch(e.op(f"icmp eq i64 {limit}, %end"), done, rows)
    e.start_block(rows)
    left = e.phi("i64", ("%begin", before), (limit, after))
    return left


def _pays(e: Emitter, dims: Sequence[str], collapsed: Collapsed) -> str:
    """Whether rows have a remainder, and elements of the next row follow those of this one."""
    result = e.op(f"icmp ne i64 {e.op(f'and i64 {dims[-1]}, {e.gang - 1}')}, 0")
    tests = [f"icmp ult i64 {dims[-1]}, {collapsed.limit * e.gang}"]
    for array in collapsed.arrays.values():
        outer = len(dims)
        axes = zip(array.shape[1:outer], dims[1:], strict=True)
        tests += [f"icmp eq i64 {found}, {extent}" for found, extent in axes]
        for (stride, inner), extent in zip(
            pairwise(array.strides[:outer]), array.shape[1:outer], strict=True
        ):
            tests.append(f"icmp eq i64 {stride}, {e.op(f'mul i64 {inner}, {extent}')}")
    for test in tests:
        result = e.op(f"and i1 {result}, {e.op(test)}")
    return result


def _emit_gangs(e: Emitter, dims: Sequence[str], limit: str, collapsed: Collapsed) -> None:
    axes = [_axis(e, extent) for extent in dims[1:]]
    first = [e.op(f"trunc nuw nsw i64 {i} to i32") for i in unravel(e, "%begin", dims)]
    before, gang, leave = e.block, e.label("gang"), e.label("gangs_end")
    e.jump_into(gang)
    position = e.phi("i64", ("%begin", before))
    indices = [e.phi("i32", (index, before)) for index in first]
    with e.at(e.gang):
        starts = [e.splat("i32", i) for i in indices]
        lanes = ", ".join(f"i32 {k}" for k in range(e.gang))
        e.point = tuple(_moved(e, starts, axes, f"<{lanes}>"))
    e.wide_indices = {}
    collapsed.body()
    with e.at(1):
        following = _moved(e, indices, axes, str(e.gang))
    position_next = e.op(f"add nuw nsw i64 {position}, {e.gang}")
    add_edges(e, (position, *indices), (position_next, *following), e.block)
    e.branch(e.op(f"icmp slt i64 {position_next}, {limit}"), gang, leave)
    e.start_block(leave)


@dataclass(frozen=True, slots=True)
class _Axis:
    """An extent of the grid as i32, whether it is short, and its reciprocal if it is."""

    extent: str
    is_short: str
    reciprocal: str


def _axis(e: Emitter, extent: str) -> _Axis:
    is_short = e.op(f"icmp ult i64 {extent}, {MOST_LANES}")
    short = e.op(f"trunc i64 {extent} to i32")
    up = e.op(f"add i32 {short}, {(1 << _BITS) - 1}")
    return _Axis(short, is_short, e.op(f"udiv i32 {up}, {short}"))


def _moved(e: Emitter, indices: Sequence[str], axes: Sequence[_Axis], by: str) -> list[str]:
    """``indices`` moved on ``by`` points, 64 at most, ``e.lanes`` wide; it is within the grid."""
    ty, found = e.wide("i32"), list[str]()
    bits = e.const(int32, _BITS)
    for index, axis in zip(reversed(indices[1:]), reversed(axes), strict=True):
        extent, reciprocal = (
            x if e.lanes == 1 else e.splat("i32", x) for x in (axis.extent, axis.reciprocal)
        )
        moved = e.op(f"add {ty} {index}, {by}")
        product = e.op(f"mul {ty} {moved}, {reciprocal}")
        quotient = e.op(f"lshr {ty} {product}, {bits}")
        wraps = e.op(f"icmp uge {ty} {moved}, {extent}")
        once = e.op(f"zext {e.wide('i1')} {wraps} to {ty}")
        by = e.op(f"select i1 {axis.is_short}, {ty} {quotient}, {ty} {once}")
        found.insert(0, e.op(f"sub {ty} {moved}, {e.op(f'mul {ty} {by}, {extent}')}"))
    return [e.op(f"add {ty} {indices[0]}, {by}"), *found]
