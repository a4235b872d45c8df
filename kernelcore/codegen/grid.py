"""The loop over a range of grid points: rows along the last axis, no division per point."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.codegen.emitter import Emitter

Body = Callable[[], None]


def emit_points(e: Emitter, dims: Sequence[str], loop_suffix: str, body: Body, done: str) -> None:
    """Emit ``body`` for every grid point, with ``e.point`` set, and leave for block ``done``.

    Args:
        e: Emitter, at the start of the loop; ``%begin < %end`` holds.
        dims: Extents of the grid, as i64.
        loop_suffix: Metadata of the branch that closes the loop along the last axis.
        body: Emits one grid point.
        done: Label of the block after the loop.
    """
    start = _unravel(e, "%begin", dims)
    before, row, point = e.block, e.label("row"), e.label("point")
    e.jump(row)
    e.place(row)
    position, first = e.phi("i64"), e.phi("i64")
    outer = [e.phi("i64") for _ in dims[:-1]]
    for phi, value in zip(
        (position, first, *outer), ("%begin", start[-1], *start[:-1]), strict=True
    ):
        e.add_edge(phi, value, before)
    room = e.op(f"sub i64 {dims[-1]}, {first}")
    count = _min(e, room, e.op(f"sub i64 %end, {position}"))
    last = e.op(f"add nuw nsw i64 {first}, {count}")
    e.jump(point)
    e.place(point)
    inner = e.phi("i64")
    e.add_edge(inner, first, row)
    # Extents are below 2**31, so that an index never changes when it is shortened.
    e.point = tuple(e.op(f"trunc nuw nsw i64 {i} to i32") for i in (*outer, inner))
    e.wide_indices = dict(zip(e.point, (*outer, inner), strict=True))
    body()
    following = e.op(f"add nuw nsw i64 {inner}, 1")
    e.add_edge(inner, following, e.block)
    leave = e.label("row_end")
    more = e.op(f"icmp slt i64 {following}, {last}")
    e.effect(f"br i1 {more}, label %{point}, label %{leave}{loop_suffix}")
    e.place(leave)
    position_next = e.op(f"add nuw nsw i64 {position}, {count}")
    outer_next = _advance(e, outer, dims[:-1])
    for phi, value in zip(
        (position, first, *outer), (position_next, "0", *outer_next), strict=True
    ):
        e.add_edge(phi, value, e.block)
    e.branch(e.op(f"icmp slt i64 {position_next}, %end"), row, done)


def _unravel(e: Emitter, position: str, dims: Sequence[str]) -> list[str]:
    indices: list[str] = []
    for extent in reversed(dims[1:]):
        indices.append(e.op(f"urem i64 {position}, {extent}"))
        position = e.op(f"udiv i64 {position}, {extent}")
    return [position, *reversed(indices)]


def _advance(e: Emitter, indices: Sequence[str], dims: Sequence[str]) -> list[str]:
    """``indices`` one row on; only the first axis never turns over."""
    following: list[str] = []
    carry = "true"
    for index, extent in zip(reversed(indices), reversed(dims), strict=True):
        stepped = e.op(f"add nuw nsw i64 {index}, {e.op(f'zext i1 {carry} to i64')}")
        carry = e.op(f"icmp eq i64 {stepped}, {extent}")
        following.append(e.op(f"select i1 {carry}, i64 0, i64 {stepped}"))
    return following[::-1]


def _min(e: Emitter, x: str, y: str) -> str:
    return e.op(f"select i1 {e.op(f'icmp slt i64 {x}, {y}')}, i64 {x}, i64 {y}")
