"""The loop over a range of grid points, row by row along the last axis, without a division a point.

Gangs start at multiples of their size. Whole gangs of packed arrays run the body that is made for
them; the points before and behind them, and rows of arrays that are not packed, run another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.codegen.llvm.blocks import add_edges
from kernelcore.codegen.llvm.emitter import Emitter

Body = Callable[[], None]
# Tiles of as many times their rows go down one column of gangs before they go on along the row:
# what the rows share, a strip of an array that is as wide as a gang, stays in the second cache
# (docs/decisions/281).
TILES_OF_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Tile:
    """Code of the gangs of several neighbouring rows, from ``e.point`` on.

    Attributes:
        rows: How many rows.
        prepare: Emits what tiles below each other share, for so many rows, an i64.
        body: Emits it for packed arrays.
        is_possible: Whether the launch allows it, as i1.
        overlaps_tail: Whether the last gang of a row may begin with points that have run, which
            then store nothing (docs/decisions/003).
        masks_tail: Whether the last gang of a row is under a mask instead.
        single: Emits a gang of one row; with it no row is left that fills no tile.
    """

    rows: int
    prepare: Callable[[str], None]
    body: Body
    is_possible: str
    overlaps_tail: bool
    masks_tail: bool = False
    single: Body | None = None


@dataclass(frozen=True, slots=True)
class Middle:
    """Code of whole gangs for packed arrays in the middle of a row.

    Attributes:
        body: Emits it.
        begins: Emits whether the middle may begin with ``e.point``, as i1.
        ends: Emits whether the middle may end with it.
        border: How many whole gangs are before the middle, and how many behind it.
    """

    body: Body
    begins: Callable[[], str]
    ends: Callable[[], str]
    border: int


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
        tile: Takes whole gangs of several rows together; None without such code.
        middle: Takes whole gangs but those at the ends of a row; None without such code.
    """

    general: Body
    general_lanes: int = 1
    packed: Body | None = None
    is_packed: str = "false"
    tail: Body | None = None
    tail_lanes: int = 0
    leaves_gangs: str = "false"
    tile: Tile | None = None
    middle: Middle | None = None


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
    if code.tile is not None:
        rest = _emit_tile(e, outer, (position, first), dims, code.tile)
    _emit_row(e, outer, (rest, last), code, row_end)
    e.start_block(row_end)
    position_next = e.op(f"add nuw nsw i64 {position}, {count}")
    outer_next = _advance(e, outer, dims[:-1])
    following = (position_next, "0", *outer_next)
    add_edges(e, (position, first, *outer), following, e.block)
    e.branch(e.op(f"icmp slt i64 {position_next}, %end"), row, done)


def _emit_tile(
    e: Emitter, outer: Sequence[str], start: tuple[str, str], dims: Sequence[str], tile: Tile
) -> str:
    """The gangs of some rows from ``start`` on, at least whole ones, if a tile begins there.

    Args:
        e: Emitter, at the start of a row.
        outer: The indices of the row.
        start: The first point, and its index in the row.
        dims: Extents of the grid, as i64, at least two.
        tile: The code.

    Returns:
        The index in the row behind the points that these tiles or earlier ones have run.
    """
    position, first = start
    whole = e.op(f"and i64 {dims[-1]}, {-e.gang}")
    taken = dims[-1] if tile.overlaps_tail or tile.masks_tail else whole
    # Tiles have run the gangs of all rows before this point.
    reached = e.slot("i64")
    e.text.slots.append(f"  store i64 0, ptr {reached}")
    is_taken = e.op(f"icmp slt i64 {position}, {e.op(f'load i64, ptr {reached}')}")
    in_range = e.op(f"udiv i64 {e.op(f'sub i64 %end, {position}')}, {dims[-1]}")
    rows = minimum(e, in_range, e.op(f"sub i64 {dims[-2]}, {outer[-1]}"))
    rows = minimum(e, rows, str(tile.rows * TILES_OF_BLOCK))
    if tile.single is None:
        rows = e.op(f"and i64 {rows}, {-tile.rows}")
    begins = tile.is_possible
    for needed in (
        f"xor i1 {is_taken}, true",
        f"icmp eq i64 {first}, 0",
        f"icmp ne i64 {taken if tile.masks_tail else whole}, 0",
        f"icmp ne i64 {rows}, 0",
    ):
        begins = e.op(f"and i1 {begins}, {e.op(needed)}")
    before, inside, rest = e.block, e.label("tile"), e.label("rest")
    e.branch(begins, inside, rest)
    e.start_block(inside)
    end = e.op(f"add nuw nsw i64 {position}, {e.op(f'mul nuw nsw i64 {rows}, {dims[-1]}')}")
    e.effect(f"store i64 {end}, ptr {reached}")
    last = e.op(f"add nuw nsw i64 {outer[-1]}, {rows}")

    def down() -> None:
        tile.prepare(rows)
        _emit_tiles_below(e, last, tile)

    if tile.masks_tail:
        _emit_masked_gangs(e, outer, ("0", dims[-1]), down)
    elif tile.overlaps_tail:
        _emit_overlapping_gangs(e, outer, dims[-1], down)
    else:
        _emit_gangs(e, outer, "0", whole, down)
    after = e.block
    e.jump_into(rest)
    is_done = e.phi("i1", (is_taken, before), ("true", after))
    return e.op(f"select i1 {is_done}, i64 {taken}, i64 {first}")


def _emit_tiles_below(e: Emitter, last: str, tile: Tile) -> None:
    """The tiles below each other from ``e.point`` to before row ``last``, an i64."""
    start = e.wide_indices[e.point[-2]]
    if tile.single is None:
        _emit_below(e, start, last, tile.rows, tile.body)
        return
    rows = e.op(f"and i64 {e.op(f'sub i64 {last}, {start}')}, {-tile.rows}")
    behind = e.op(f"add nuw nsw i64 {start}, {rows}")
    _emit_below(e, start, behind, tile.rows, tile.body)
    _emit_below(e, behind, last, 1, tile.single)


def _emit_below(e: Emitter, first: str, last: str, rows: int, body: Body) -> None:
    """``body`` for every ``rows`` rows from ``first`` to before ``last``, i64, if there are any."""
    *outer, _, column = e.point
    before, head, inside, done = e.block, e.label("tiles"), e.label("tile"), e.label("tiles_end")
    e.jump_into(head)
    position = e.phi("i64", (first, before))
    e.branch(e.op(f"icmp slt i64 {position}, {last}"), inside, done)
    e.start_block(inside)
    index = e.op(f"trunc nuw nsw i64 {position} to i32")
    e.point = (*outer, index, column)
    e.wide_indices[index] = position
    body()
    e.add_edge(position, e.op(f"add nuw nsw i64 {position}, {rows}"), e.block)
    e.jump(head)
    e.start_block(done)


def _emit_row(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], code: RowCode, row_end: str
) -> None:
    """The points of a row; one block runs those before and those behind its whole gangs."""
    first, last = bounds
    if code.packed is None:
        _emit_gangs(e, outer, first, last, code.general)
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
    if code.middle is not None:
        _emit_with_middle(e, outer, (whole[0], whole[1]), code.packed, code.middle)
    else:
        _emit_gangs(e, outer, whole[0], whole[1], code.packed)
    block = e.block
    e.branch(e.op(f"icmp eq i64 {whole[1]}, {last}"), row_end, remainder)
    e.add_edge(run_first, whole[1], block)
    e.add_edge(run_last, last, block)


def _emit_with_middle(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], body: Body, middle: Middle
) -> None:
    """The gangs of a row between ``bounds``; ``body`` emits those that are not in the middle."""
    margin = middle.border * e.gang
    low = e.op(f"add nuw nsw i64 {bounds[0]}, {margin}")
    high = e.op(f"sub nsw i64 {bounds[1]}, {margin}")
    before, try_low, try_high, found = (e.block, *map(e.label, ("begins", "ends", "middle")))
    e.branch(e.op(f"icmp slt i64 {low}, {high}"), try_low, found)
    e.start_block(try_low)
    begins, first_block = _at(e, outer, low, middle.begins), e.block
    e.branch(begins, try_high, found)
    e.start_block(try_high)
    ends = _at(e, outer, e.op(f"sub nsw i64 {high}, 1"), middle.ends)
    size = e.op(f"select i1 {ends}, i64 {e.op(f'sub i64 {high}, {low}')}, i64 0")
    block = e.block
    e.jump_into(found)
    count = e.phi("i64", ("0", before), ("0", first_block), (size, block))

    def either() -> None:
        inside, border, done = e.label("inside"), e.label("border"), e.label("gang_end")
        behind = e.op(f"sub i64 {e.wide_indices[e.point[-1]]}, {low}")
        e.branch(e.op(f"icmp ult i64 {behind}, {count}"), inside, border)
        e.start_block(inside)
        middle.body()
        e.jump(done)
        e.start_block(border)
        body()
        e.jump_into(done)

    _emit_gangs(e, outer, bounds[0], bounds[1], either)


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
            _emit_masked_gangs(e, outer, bounds, code.general)
        return
    first, last = bounds
    tail, general, done = e.label("tail"), e.label("general"), e.label("remainder_done")
    # A gang adds up as a tree: which points share a gang must not depend on where chunks begin. A
    # single point has the same sum either way.
    several = e.op(f"icmp sgt i64 {e.op(f'sub i64 {last}, {first}')}, 1")
    e.branch(e.op(f"and i1 {several}, {code.is_packed}"), tail, general)
    bodies = ((tail, code.tail_lanes, code.tail), (general, code.general_lanes, code.general))
    for label, lanes, body in bodies:
        e.start_block(label)
        with e.gangs_of(lanes):
            _emit_masked_gangs(e, outer, bounds, body)
        e.jump(done)
    e.start_block(done)


def _emit_masked_gangs(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], body: Body
) -> None:
    """The points of a row from the first of ``bounds`` to before the second; there is at least one.

    Gangs are under a mask, and begin at multiples of their size: partial sums are adjacent there.
    """
    first, last = bounds
    if e.gang == 1:
        _emit_gangs(e, outer, first, last, body)
        return
    count = e.op(f"trunc nuw nsw i64 {e.op(f'sub i64 {last}, {first}')} to i32")

    def masked() -> None:
        behind = e.op(f"sub nsw i64 {e.wide_indices[e.point[-1]]}, {first}")
        start = e.splat("i32", e.op(f"trunc nsw i64 {behind} to i32"))
        place = e.op(f"add <{e.gang} x i32> {start}, {_lane_numbers(e)}")
        # Unsigned, places before the first point are large.
        with e.under(e.op(f"icmp ult <{e.gang} x i32> {place}, {e.splat('i32', count)}")):
            body()

    _emit_gangs(e, outer, e.op(f"and i64 {first}, {-e.gang}"), last, masked)


def _emit_gangs(e: Emitter, outer: Sequence[str], first: str, last: str, body: Body) -> None:
    """The gangs from point ``first`` to before ``last`` of a row; there is at least one."""
    before, point, leave = e.block, e.label("point"), e.label("run_end")
    e.jump_into(point)
    inner = e.phi("i64", (first, before))
    # Extents are below 2**31, so that an index never changes when it is shortened.
    e.point = tuple(e.op(f"trunc nuw nsw i64 {i} to i32") for i in (*outer, inner))
    e.wide_indices = dict(zip(e.point, (*outer, inner), strict=True))
    body()
    following = e.op(f"add nuw nsw i64 {inner}, {e.gang}")
    e.add_edge(inner, following, e.block)
    e.branch(e.op(f"icmp slt i64 {following}, {last}"), point, leave)
    e.start_block(leave)


def _emit_overlapping_gangs(e: Emitter, outer: Sequence[str], extent: str, body: Body) -> None:
    """All points of a row of one gang or more; the last gang is moved back to end with the row.

    Its first threads have run before: they load once more, and store nothing.
    """
    limit = e.op(f"sub i64 {extent}, {e.gang}")

    def moved() -> None:
        position = e.wide_indices[e.point[-1]]
        start = minimum(e, position, limit)
        distance = e.op(f"trunc nuw nsw i64 {e.op(f'sub i64 {position}, {start}')} to i32")
        index = e.op(f"trunc nuw nsw i64 {start} to i32")
        e.point = (*e.point[:-1], index)
        e.wide_indices[index] = start
        new = f"icmp ule <{e.gang} x i32> {e.splat('i32', distance)}, {_lane_numbers(e)}"
        with e.as_lanes(replace(e.lane_facts, store_mask=e.op(new))):
            body()

    _emit_gangs(e, outer, "0", extent, moved)


def _lane_numbers(e: Emitter) -> str:
    return f"<{', '.join(f'i32 {k}' for k in range(e.gang))}>"


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


def minimum(e: Emitter, x: str, y: str) -> str:
    """The smaller one of two i64."""
    return e.op(f"select i1 {e.op(f'icmp slt i64 {x}, {y}')}, i64 {x}, i64 {y}")
