"""The loop over a range of grid points, row by row along the last axis, without a division a point.

Gangs start at multiples of their size. Whole gangs of packed arrays run the body that is made for
them; the points before and behind them, and rows of arrays that are not packed, run another one.
In a row with a middle the points behind them may be a gang that is moved back, if no thread adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.llvm.blocks import add_edges
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.simd.gang_loop import (
    Body,
    emit_gangs,
    emit_masked_gangs,
    emit_overlapping_gangs,
    minimum,
)
from kernelcore.codegen.simd.strip_loop import Strips, emit_strips
from kernelcore.codegen.simd.tile_loop import Tile, emit_tile


@dataclass(frozen=True, slots=True)
class Middle:
    """Code of whole gangs for packed arrays in the middle of a row.

    Attributes:
        body: Emits it.
        begins: Emits whether the middle may begin with ``e.point``, as i1.
        ends: Emits whether the middle may end with it.
        reach: How many points at least are before the middle, and how many behind it.
        overlaps: Whether the last gang of a row may begin with points that have run, which then
            store nothing.
    """

    body: Body
    begins: Callable[[], str]
    ends: Callable[[], str]
    reach: int
    overlaps: bool


@dataclass(frozen=True, slots=True)
class RowCode:
    """Code of the gangs of a row, ``e.gang`` adjacent points from ``e.point`` on.

    Attributes:
        general: Emits points for arrays of any strides.
        general_lanes: How many of them are a gang, under a mask where there are several.
        packed: Emits a whole gang for packed arrays; None without such code.
        is_packed: Whether the arrays are packed, as i1.
        tail: Emits the points of packed arrays that are no whole gang, in place of ``general``;
            None without such code.
        tail_lanes: How many of them are a gang, under a mask where there are several.
        leaves_gangs: Whether it takes whole gangs, too, not ``packed``, as i1.
        tiles: Take whole gangs of several rows together, where each is possible.
        middle: Takes whole gangs but those at the ends of a row; None without such code.
        strips: Take whole gangs together, where that pays; None without such code.
    """

    general: Body
    general_lanes: int = 1
    packed: Body | None = None
    is_packed: str = "false"
    tail: Body | None = None
    tail_lanes: int = 0
    leaves_gangs: str = "false"
    tiles: Sequence[Tile] = ()
    middle: Middle | None = None
    strips: Strips | None = None


def emit_rows(e: Emitter, begin: str, dims: Sequence[str], code: RowCode, done: str) -> None:
    """Emit code for the grid points from ``begin`` on, with ``e.point`` set; leave for ``done``.

    Args:
        e: Emitter, at the start of the loop.
        begin: The first point, as i64, which is before ``%end``.
        dims: Extents of the grid, as i64.
        code: What runs a row.
        done: Label of the block after the loop.
    """
    start = unravel(e, begin, dims)
    before, row, row_end = e.block, e.label("row"), e.label("row_end")
    e.jump_into(row)
    position, first = e.phi("i64", (begin, before)), e.phi("i64", (start[-1], before))
    outer = [e.phi("i64", (index, before)) for index in start[:-1]]
    room = e.op(f"sub i64 {dims[-1]}, {first}")
    count = minimum(e, room, e.op(f"sub i64 %end, {position}"))
    last = e.op(f"add nuw nsw i64 {first}, {count}")
    rest = first
    for tile in code.tiles:
        with e.gangs_of(tile.gang):
            rest = emit_tile(e, outer, (position, rest), dims, tile)
    _emit_row(e, outer, (rest, last), code, row_end)
    e.start_block(row_end)
    position_next = e.op(f"add nuw nsw i64 {position}, {count}")
    outer_next = _advance(e, outer, dims[:-1])
    following = (position_next, "0", *outer_next)
    add_edges(e, (position, first, *outer), following, e.block)
    e.branch(e.op(f"icmp slt i64 {position_next}, %end"), row, done)


def _emit_row(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], code: RowCode, row_end: str
) -> None:
    """The points of a row; one block runs those before and those behind its whole gangs."""
    first, last = bounds
    if code.packed is None:
        emit_gangs(e, outer, first, last, code.general)
        e.jump(row_end)
        return
    if code.leaves_gangs == "true":
        rest = e.label("remainder")
        e.branch(e.op(f"icmp slt i64 {first}, {last}"), rest, row_end)
        e.start_block(rest)
        _emit_remainder(e, outer, bounds, code)
        e.jump(row_end)
        return
    up = e.op(f"add nuw nsw i64 {first}, {e.gang - 1}")
    whole = [e.op(f"and i64 {x}, {-e.gang}") for x in (up, last)]
    if code.middle is not None and code.middle.overlaps:
        room = e.op(f"sub i64 {last}, {whole[0]}")
        whole[1] = e.op(
            f"select i1 {e.op(f'icmp sge i64 {room}, {e.gang}')}, i64 {last}, i64 {whole[1]}"
        )
    has_gangs = e.op(f"and i1 {code.is_packed}, {e.op(f'icmp slt i64 {whole[0]}, {whole[1]}')}")
    if code.leaves_gangs != "false":
        has_gangs = e.op(f"and i1 {has_gangs}, {e.op(f'xor i1 {code.leaves_gangs}, true')}")
    head_end = e.op(f"select i1 {has_gangs}, i64 {whole[0]}, i64 {last}")
    before, remainder, check = e.block, e.label("remainder"), e.label("check")
    e.branch(e.op(f"icmp slt i64 {first}, {head_end}"), remainder, check)
    e.start_block(remainder)
    run_first, run_last = e.phi("i64", (first, before)), e.phi("i64", (head_end, before))
    _emit_remainder(e, outer, (run_first, run_last), code)
    after_run = e.block
    e.jump_into(check)
    reached = e.phi("i64", (head_end, before), (run_last, after_run))
    gangs = e.label("gangs")
    e.branch(e.op(f"icmp eq i64 {reached}, {last}"), row_end, gangs)
    e.start_block(gangs)
    if code.strips is not None:
        _emit_with_strips(e, outer, (whole[0], whole[1]), code.packed, code.strips)
    elif code.middle is not None:
        _emit_with_middle(e, outer, (whole[0], whole[1]), code.packed, code.middle)
    else:
        emit_gangs(e, outer, whole[0], whole[1], code.packed)
    block = e.block
    e.branch(e.op(f"icmp eq i64 {whole[1]}, {last}"), row_end, remainder)
    e.add_edge(run_first, whole[1], block)
    e.add_edge(run_last, last, block)


def _emit_with_middle(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], body: Body, middle: Middle
) -> None:
    """The gangs of a row between ``bounds``; ``body`` emits those that are not in the middle.

    The loop behind ``border`` runs the gangs before the middle, then, after the loop of the middle,
    those behind it; in a row without a middle it runs all at once. ``high``, where the second run
    begins, is before ``last``, so that only the last run ends there.
    """
    first, last = bounds
    low = e.op(f"add nuw nsw i64 {first}, {-(-middle.reach // e.gang) * e.gang}")
    high = e.op(f"and i64 {e.op(f'sub nsw i64 {last}, {middle.reach}')}, {-e.gang}")
    before, try_low, try_high, border = (e.block, *map(e.label, ("begins", "ends", "border")))
    e.branch(e.op(f"icmp slt i64 {low}, {high}"), try_low, border)
    e.start_block(try_low)
    begins, first_block = _at(e, outer, low, middle.begins), e.block
    e.branch(begins, try_high, border)
    e.start_block(try_high)
    ends = _at(e, outer, e.op(f"sub nsw i64 {high}, 1"), middle.ends)
    end_of_border = e.op(f"select i1 {ends}, i64 {low}, i64 {last}")
    block, inside, done = e.block, e.label("inside"), e.label("gangs_done")
    e.jump_into(border)
    run_first = e.phi("i64", (first, before), (first, first_block), (first, block))
    run_last = e.phi("i64", (last, before), (last, first_block), (end_of_border, block))
    if middle.overlaps:
        limit = e.op(f"sub i64 {last}, {e.gang}")
        emit_overlapping_gangs(e, outer, (run_first, run_last), limit, body)
    else:
        emit_gangs(e, outer, run_first, run_last, body)
    e.branch(e.op(f"icmp eq i64 {run_last}, {last}"), done, inside)
    e.start_block(inside)
    emit_gangs(e, outer, low, high, middle.body)
    e.add_edge(run_first, high, e.block)
    e.add_edge(run_last, last, e.block)
    e.jump(border)
    e.start_block(done)


def _emit_with_strips(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], body: Body, strips: Strips
) -> None:
    """The gangs of a row between ``bounds``; ``body`` emits one of them alone."""
    if strips.pays is None:
        emit_strips(e, outer, bounds, strips)
        return
    first, last = bounds
    are_many = e.op(f"icmp sgt i64 {e.op(f'sub i64 {last}, {first}')}, {e.gang}")
    together, alone, done = map(e.label, ("strips", "alone", "gangs_done"))
    e.branch(e.op(f"and i1 {strips.pays}, {are_many}"), together, alone)
    e.start_block(together)
    emit_strips(e, outer, bounds, strips)
    e.jump(done)
    e.start_block(alone)
    emit_gangs(e, outer, first, last, body)
    e.jump(done)
    e.start_block(done)


def _at(e: Emitter, outer: Sequence[str], position: str, condition: Callable[[], str]) -> str:
    """What ``condition`` emits for the point at ``position`` of a row."""
    e.point = tuple(e.op(f"trunc nuw nsw i64 {i} to i32") for i in (*outer, position))
    with e.gangs_of(1):
        return condition()


def _emit_remainder(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], code: RowCode
) -> None:
    """Points of a row that are no whole gang; there is at least one."""
    if code.packed is None or code.tail is None:
        with e.gangs_of(code.general_lanes):
            emit_masked_gangs(e, outer, bounds, code.general)
        return
    tail, general, done = e.label("tail"), e.label("general"), e.label("remainder_done")
    e.branch(code.is_packed, tail, general)
    bodies = ((tail, code.tail_lanes, code.tail), (general, code.general_lanes, code.general))
    for label, lanes, body in bodies:
        e.start_block(label)
        with e.gangs_of(lanes):
            emit_masked_gangs(e, outer, bounds, body)
        e.jump(done)
    e.start_block(done)


def unravel(e: Emitter, position: str, dims: Sequence[str]) -> list[str]:
    """The index along every axis of a row-major ``position``."""
    indices: list[str] = []
    for extent in reversed(dims[1:]):
        indices.append(e.op(f"urem i64 {position}, {extent}"))
        position = e.op(f"udiv i64 {position}, {extent}")
    return [position, *reversed(indices)]


def _advance(e: Emitter, indices: Sequence[str], dims: Sequence[str]) -> list[str]:
    """``indices`` one row on; the first axis never overflows."""
    following: list[str] = []
    carry = "true"
    for index, extent in zip(reversed(indices), reversed(dims), strict=True):
        stepped = e.op(f"add nuw nsw i64 {index}, {e.op(f'zext i1 {carry} to i64')}")
        carry = e.op(f"icmp eq i64 {stepped}, {extent}")
        following.append(e.op(f"select i1 {carry}, i64 0, i64 {stepped}"))
    return following[::-1]
