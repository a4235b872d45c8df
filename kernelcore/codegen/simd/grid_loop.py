"""The loop over a range of grid points: rows along the last axis, no division per point.

A row is cut where its index is a multiple of the gang: whole gangs run in step, the points at the
ends one by one, as gangs under a mask, or as a whole gang that begins with points that have run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.simd.cost_model import Ends

Body = Callable[[], None]

# Their elements are moved one by one, so that more lanes take longer to compile and hide little.
LANES_OF_ANY_STRIDES = 16
# So few points at the end of a row are sooner done one by one than as a gang under a mask, which
# takes as long as one point per so many lanes.
FEW_POINTS = 3
LANES_PER_POINT = 8


@dataclass(frozen=True, slots=True)
class Band:
    """Code of the gangs of several rows that are neighbours, from ``e.point`` on.

    Attributes:
        rows: How many.
        body: Emits it for packed arrays.
        is_possible: Whether the launch allows it, as i1.
        ends_rows: Whether a gang may begin with points that have run, which then store nothing.
    """

    rows: int
    body: Body
    is_possible: str
    ends_rows: bool = False


@dataclass(frozen=True, slots=True)
class Gangs:
    """Code of ``Emitter.gang`` adjacent grid points, from ``e.point`` on.

    Attributes:
        packed: Emits it for packed arrays.
        is_packed: Whether the arrays are, as i1.
        strided: Emits it for arrays of any strides; None if those go as the ends of rows do.
        ends: How the points at the ends of rows run.
        band: Takes whole gangs of several rows together, if anything does.
    """

    packed: Body
    is_packed: str
    strided: Body | None = None
    ends: Ends = Ends.SINGLE
    band: Band | None = None


def emit_points(
    e: Emitter, begin: str, dims: Sequence[str], point: Body, gangs: Gangs | None, done: str
) -> None:
    """Emit code for the grid points from ``begin`` on, with ``e.point`` set; leave for ``done``.

    Args:
        e: Emitter, at the start of the loop.
        begin: The first point, as i64, which is before ``%end``.
        dims: Extents of the grid, as i64.
        point: Emits one grid point, for one thread.
        gangs: What emits several points at once, if anything does.
        done: Label of the block after the loop.
    """
    start = unravel(e, begin, dims)
    before, row, row_end = e.block, e.label("row"), e.label("row_end")
    e.jump(row)
    e.place(row)
    position, first = e.phi("i64"), e.phi("i64")
    outer = [e.phi("i64") for _ in dims[:-1]]
    entries = zip((position, first, *outer), (begin, start[-1], *start[:-1]), strict=True)
    for phi, value in entries:
        e.add_edge(phi, value, before)
    room = e.op(f"sub i64 {dims[-1]}, {first}")
    count = _min(e, room, e.op(f"sub i64 %end, {position}"))
    last = e.op(f"add nuw nsw i64 {first}, {count}")
    if gangs is None:
        _emit_run(e, outer, first, last, point)
        e.jump(row_end)
    elif gangs.band is None:
        _emit_row(e, outer, (first, last), point, gangs, row_end)
    else:
        rest = _emit_band(e, outer, (position, first), dims, gangs.band)
        _emit_row(e, outer, (rest, last), point, gangs, row_end)
    e.place(row_end)
    position_next = e.op(f"add nuw nsw i64 {position}, {count}")
    outer_next = _advance(e, outer, dims[:-1])
    following = (position_next, "0", *outer_next)
    for phi, value in zip((position, first, *outer), following, strict=True):
        e.add_edge(phi, value, e.block)
    e.branch(e.op(f"icmp slt i64 {position_next}, %end"), row, done)


def _emit_band(
    e: Emitter, outer: Sequence[str], start: tuple[str, str], dims: Sequence[str], band: Band
) -> str:
    """The gangs of the rows from ``start`` on, whole ones at least, if a band begins there.

    Args:
        e: Emitter, at the start of a row.
        outer: The indices of the row.
        start: The first point, and its index in the row.
        dims: Extents of the grid, as i64, at least two.
        band: The code.

    Returns:
        The index in the row from which on points are left, by this band or one that began before.
    """
    position, first = start
    whole = e.op(f"and i64 {dims[-1]}, {-e.gang}")
    taken = dims[-1] if band.ends_rows else whole
    # Bands have run of all rows before this point.
    reached = e.slot("i64")
    e.slots.append(f"  store i64 0, ptr {reached}")
    is_taken = e.op(f"icmp slt i64 {position}, {e.op(f'load i64, ptr {reached}')}")
    size = e.op(f"mul nuw nsw i64 {dims[-1]}, {band.rows}")
    end = e.op(f"add nuw nsw i64 {position}, {size}")
    begins = e.op(f"and i1 {band.is_possible}, {e.op(f'icmp sle i64 {end}, %end')}")
    for needed in (
        f"xor i1 {is_taken}, true",
        f"icmp eq i64 {first}, 0",
        f"icmp ne i64 {whole}, 0",
        f"icmp sge i64 {e.op(f'sub i64 {dims[-2]}, {outer[-1]}')}, {band.rows}",
    ):
        begins = e.op(f"and i1 {begins}, {e.op(needed)}")
    before, together, rest = e.block, e.label("band"), e.label("rest")
    e.branch(begins, together, rest)
    e.place(together)
    e.effect(f"store i64 {end}, ptr {reached}")
    if band.ends_rows:
        _emit_moved_run(e, outer, ("0", dims[-1]), band.body)
    else:
        _emit_run(e, outer, "0", whole, band.body)
    after = e.block
    e.jump(rest)
    e.place(rest)
    is_done = e.phi("i1")
    e.add_edge(is_done, is_taken, before)
    e.add_edge(is_done, "true", after)
    return e.op(f"select i1 {is_done}, i64 {taken}, i64 {first}")


def _emit_row(
    e: Emitter,
    outer: Sequence[str],
    bounds: tuple[str, str],
    point: Body,
    gangs: Gangs,
    row_end: str,
) -> None:
    """The points of a row, those at both ends by the same code."""
    first, last = bounds
    width = e.gang
    up = e.op(f"add nuw nsw i64 {first}, {width - 1}")
    cut = [e.op(f"and i64 {x}, {-width}") for x in (up, last)]
    some = e.op(f"icmp slt i64 {cut[0]}, {cut[1]}")
    if gangs.strided is None:
        some = e.op(f"and i1 {gangs.is_packed}, {some}")
    # The few rows beside bands need no code of their own for whole gangs.
    is_apart = gangs.band is None or gangs.ends is not Ends.PACKED
    # Without a whole gang the first run is the row.
    head_end = e.op(f"select i1 {some}, i64 {cut[0] if is_apart else cut[1]}, i64 {last}")
    before, ends, check = e.block, e.label("ends"), e.label("check")
    has_head = e.op(f"icmp slt i64 {first}, {head_end}")
    e.branch(has_head, ends, check)
    e.place(ends)
    run_first, run_last = e.phi("i64"), e.phi("i64")
    e.add_edge(run_first, first, before)
    e.add_edge(run_last, head_end, before)
    _emit_end(e, outer, (run_first, run_last), point, gangs)
    after_run = e.block
    e.jump(check)
    e.place(check)
    reached = e.phi("i64")
    e.add_edge(reached, head_end, before)
    e.add_edge(reached, run_last, after_run)
    several = e.label("gangs")
    e.branch(e.op(f"icmp eq i64 {reached}, {last}"), row_end, several)
    e.place(several)
    if gangs.ends is Ends.MOVED:
        _emit_moved_run(e, outer, (cut[0], last), gangs.packed)
        e.jump(row_end)
        return
    if is_apart:
        _emit_gangs(e, outer, (cut[0], cut[1]), gangs)
    block = e.block
    e.branch(e.op(f"icmp eq i64 {cut[1]}, {last}"), row_end, ends)
    e.add_edge(run_first, cut[1], block)
    e.add_edge(run_last, last, block)


def _emit_end(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], point: Body, gangs: Gangs
) -> None:
    """Points of a row beside its whole gangs; there is at least one."""
    if gangs.ends is not Ends.PACKED:
        lanes = min(e.gang, LANES_OF_ANY_STRIDES) if gangs.ends is Ends.ANY_STRIDES else 1
        with e.gangs_of(lanes):
            _emit_masked_run(e, outer, bounds, point)
        return
    first, last = bounds
    together, single, done = e.label("together"), e.label("single"), e.label("ends_done")
    # Gangs make sums as trees. Who is in a gang follows from the places of the points alone, not
    # from what ran before them, as bands do; a point alone has the same sum either way.
    begins_gang = e.op(f"icmp eq i64 {e.op(f'and i64 {first}, {e.gang - 1}')}, 0")
    most = max(FEW_POINTS, e.gang // LANES_PER_POINT)
    few = e.op(f"select i1 {begins_gang}, i64 {most}, i64 1")
    several = e.op(f"icmp sgt i64 {e.op(f'sub i64 {last}, {first}')}, {few}")
    e.branch(e.op(f"and i1 {several}, {gangs.is_packed}"), together, single)
    for label, lanes, body in ((together, e.gang, gangs.packed), (single, 1, point)):
        e.place(label)
        with e.gangs_of(lanes):
            _emit_masked_run(e, outer, bounds, body)
        e.jump(done)
    e.place(done)


def _emit_gangs(e: Emitter, outer: Sequence[str], bounds: tuple[str, str], gangs: Gangs) -> None:
    """The gangs of a row, by the code for its arrays; there is at least one."""
    if gangs.strided is None:
        _emit_run(e, outer, *bounds, gangs.packed)
        return
    packed, strided, done = e.label("packed"), e.label("strided"), e.label("gangs_done")
    e.branch(gangs.is_packed, packed, strided)
    narrow = min(e.gang, LANES_OF_ANY_STRIDES)
    for label, lanes, body in ((packed, e.gang, gangs.packed), (strided, narrow, gangs.strided)):
        e.place(label)
        with e.gangs_of(lanes):
            _emit_run(e, outer, *bounds, body)
        e.jump(done)
    e.place(done)


def _emit_masked_run(e: Emitter, outer: Sequence[str], bounds: tuple[str, str], body: Body) -> None:
    """The points of a row from the first of ``bounds`` to before the second; there is at least one.

    Gangs are under a mask, and begin at multiples of their size: partial sums are adjacent there.
    """
    first, last = bounds
    if e.gang == 1:
        _emit_run(e, outer, first, last, body)
        return
    count = e.op(f"trunc nuw nsw i64 {e.op(f'sub i64 {last}, {first}')} to i32")

    def masked() -> None:
        behind = e.op(f"sub nsw i64 {e.wide_indices[e.point[-1]]}, {first}")
        start = e.splat("i32", e.op(f"trunc nsw i64 {behind} to i32"))
        place = e.op(f"add <{e.gang} x i32> {start}, {_lane_numbers(e)}")
        # Unsigned, places before the first point are large.
        with e.under(e.op(f"icmp ult <{e.gang} x i32> {place}, {e.splat('i32', count)}")):
            body()

    _emit_run(e, outer, e.op(f"and i64 {first}, {-e.gang}"), last, masked)


def _emit_moved_run(e: Emitter, outer: Sequence[str], bounds: tuple[str, str], body: Body) -> None:
    """As ``_emit_run`` for points that are no whole gangs: the last gang is moved back.

    There its first threads have run before: they load once more, and store nothing.
    """
    first, last = bounds
    limit = e.op(f"sub i64 {last}, {e.gang}")

    def moved() -> None:
        position = e.wide_indices[e.point[-1]]
        start = _min(e, position, limit)
        again = e.op(f"trunc nuw nsw i64 {e.op(f'sub i64 {position}, {start}')} to i32")
        index = e.op(f"trunc nuw nsw i64 {start} to i32")
        e.point = (*e.point[:-1], index)
        e.wide_indices[index] = start
        new = f"icmp ule <{e.gang} x i32> {e.splat('i32', again)}, {_lane_numbers(e)}"
        with e.storing(e.op(new)):
            body()

    _emit_run(e, outer, first, last, moved)


def _emit_run(e: Emitter, outer: Sequence[str], first: str, last: str, body: Body) -> None:
    """The gangs from point ``first`` to before ``last`` of a row; there is at least one."""
    before, point, leave = e.block, e.label("point"), e.label("run_end")
    e.jump(point)
    e.place(point)
    inner = e.phi("i64")
    e.add_edge(inner, first, before)
    # Extents are below 2**31, so that an index never changes when it is shortened.
    e.point = tuple(e.op(f"trunc nuw nsw i64 {i} to i32") for i in (*outer, inner))
    e.wide_indices = dict(zip(e.point, (*outer, inner), strict=True))
    body()
    following = e.op(f"add nuw nsw i64 {inner}, {e.gang}")
    e.add_edge(inner, following, e.block)
    e.branch(e.op(f"icmp slt i64 {following}, {last}"), point, leave)
    e.place(leave)


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
