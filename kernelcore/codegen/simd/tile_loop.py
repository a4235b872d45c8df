"""The loop over the gangs of several rows of the grid together, tile after tile down a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.analysis.panels import LEAST_ROWS_TRANSPOSED
from kernelcore.codegen.analysis.row_tiling import fewest_rows
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.simd.gang_loop import (
    Body,
    emit_gangs,
    emit_masked_gangs,
    emit_overlapping_gangs,
    lanes_before,
    maximum,
    minimum,
)
from kernelcore.ir.core import Var

# Tiles of as many times their rows go down one column of gangs before they go on along the row:
# what the rows share, a strip of an array that is as wide as a gang, stays in the second cache
# (docs/decisions/281).
TILES_OF_BLOCK = 32


class Strips(Protocol):
    """Code of what the tiles of several adjacent gangs share (``panel_copies.py``)."""

    def gangs(self) -> str:
        """Emit how many gangs are a strip, an i64, at the start of a row."""
        ...

    def copy(self, rows: str, gangs: str, last: str) -> None:
        """Emit what the ``rows`` rows of ``gangs`` gangs from ``e.point`` on share.

        The last gang of the row begins at column ``last``. All are i64.
        """


@dataclass(frozen=True, slots=True)
class Tile:
    """Code of the gangs of several neighbouring rows, from ``e.point`` on.

    Attributes:
        rows: How many rows.
        gang: How many threads of a row.
        strips: What tiles of several gangs share; None without such code.
        prepare: Emits what tiles below each other share.
        body: Emits it for packed arrays.
        is_possible: Whether the launch allows it, as i1.
        overlaps_tail: Whether the last gang of a row may begin with points that have run, which
            then store nothing (docs/decisions/003).
        masks_short: Whether these overlapping gangs are under the mask of the columns of a row,
            which may be shorter than a gang.
        masks_tail: Whether gangs are under a mask instead, so that the last one may be partial.
        single: Emits a gang of one row, for rows that fill no tile; None leaves these to other
            code.
        last: In ``body`` the last row that there is, an int32, where that may run fewer rows than
            ``rows``; else None.
    """

    rows: int
    gang: int
    strips: Strips | None
    prepare: Body
    body: Body
    is_possible: str
    overlaps_tail: bool
    masks_short: bool = False
    masks_tail: bool = False
    single: Body | None = None
    last: Var | None = None


def emit_tile(
    e: Emitter, outer: Sequence[str], start: tuple[str, str], dims: Sequence[str], tile: Tile
) -> str:
    """The gangs, at least the whole ones, of the rows from ``start`` on that fill tiles, if any.

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
    rows = _rows_of_block(e, rows, tile)
    begins = tile.is_possible
    for needed in (
        f"xor i1 {is_taken}, true",
        f"icmp eq i64 {first}, 0",
        f"icmp ne i64 {taken if tile.masks_tail or tile.masks_short else whole}, 0",
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
        tile.prepare()
        _emit_tiles_below(e, last, tile)

    last_gang, active = e.op(f"sub i64 {taken}, {e.gang}"), None
    limit = last_gang
    if tile.masks_short:
        limit, active = maximum(e, last_gang, "0"), lanes_before(e, taken)

    def strip(first: str, end: str) -> None:
        if tile.masks_tail:
            emit_masked_gangs(e, outer, (first, end), down)
        elif tile.overlaps_tail:
            emit_overlapping_gangs(e, outer, (first, end), limit, down, active)
        else:
            emit_gangs(e, outer, first, end, down)

    if tile.strips is None:
        strip("0", taken)
    else:
        _emit_strips(e, outer, (taken, rows, last_gang), tile.strips, strip)
    after = e.block
    e.jump_into(rest)
    is_done = e.phi("i1", (is_taken, before), ("true", after))
    return e.op(f"select i1 {is_done}, i64 {taken}, i64 {first}")


def _emit_strips(
    e: Emitter,
    outer: Sequence[str],
    extents: tuple[str, str, str],
    strips: Strips,
    body: Callable[[str, str], None],
) -> None:
    """``body`` for each strip of a row, from a column on to before another one.

    ``extents`` are the number of columns, that of rows that run together, and the column at which
    the last gang begins, i64, negative where a row is shorter than a gang.
    """
    columns, rows, last = extents
    gangs = strips.gangs()
    width = e.op(f"mul nuw nsw i64 {gangs}, {e.gang}")

    def strip() -> None:
        first = e.wide_indices[e.point[-1]]
        end = minimum(e, e.op(f"add nuw nsw i64 {first}, {width}"), columns)
        left = e.op(f"add i64 {e.op(f'sub i64 {end}, {first}')}, {e.gang - 1}")
        strips.copy(rows, e.op(f"udiv i64 {left}, {e.gang}"), last)
        body(first, end)

    emit_gangs(e, outer, "0", columns, strip, width)


def _rows_of_block(e: Emitter, left: str, tile: Tile) -> str:
    """How many of the rows that are ``left`` the tiles of one block run, all i64."""
    most = tile.rows * TILES_OF_BLOCK
    if tile.single is None:
        rows = minimum(e, left, str(most))
        whole = e.op(f"and i64 {rows}, {-tile.rows}")
        if tile.last is None:
            return whole
        more = e.op(f"and i64 {rows}, {tile.rows - 1}")
        pays = e.op(f"icmp uge i64 {more}, {fewest_rows(tile.rows)}")
        return e.op(f"select i1 {pays}, i64 {rows}, i64 {whole}")
    # A few rows more need no panels of their own.
    is_last = e.op(f"icmp slt i64 {left}, {most + LEAST_ROWS_TRANSPOSED}")
    return e.op(f"select i1 {is_last}, i64 {left}, i64 {most}")


def _emit_tiles_below(e: Emitter, last: str, tile: Tile) -> None:
    """The tiles below each other from ``e.point`` to before row ``last``, an i64."""
    start = e.wide_indices[e.point[-2]]
    if tile.last is not None:
        e.bind(tile.last, e.op(f"trunc nuw nsw i64 {e.op(f'sub i64 {last}, 1')} to i32"))
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
