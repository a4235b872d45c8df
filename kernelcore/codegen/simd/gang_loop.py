"""The loop over the gangs of a row, from ``e.point`` of one to that of the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.codegen.llvm.emitter import Emitter

Body = Callable[[], None]


def emit_masked_gangs(
    e: Emitter, outer: Sequence[str], bounds: tuple[str, str], body: Body
) -> None:
    """The points of a row from the first of ``bounds`` to before the second; there is at least one.

    Gangs are under a mask, and begin at multiples of their size: partial sums are adjacent there.
    """
    first, last = bounds
    if e.gang == 1:
        emit_gangs(e, outer, first, last, body)
        return
    count = e.op(f"trunc nuw nsw i64 {e.op(f'sub i64 {last}, {first}')} to i32")

    def masked() -> None:
        position = e.wide_indices[e.point[-1]]
        recorded = minimum(e, e.op(f"sub nsw i64 {last}, {position}"), str(e.gang))
        behind = e.op(f"sub nsw i64 {position}, {first}")
        start = e.splat("i32", e.op(f"trunc nsw i64 {behind} to i32"))
        place = e.op(f"add <{e.gang} x i32> {start}, {_lane_numbers(e)}")
        # Unsigned, places before the first point are large.
        mask = e.op(f"icmp ult <{e.gang} x i32> {place}, {e.splat('i32', count)}")
        with e.as_lanes(replace(e.lane_facts, mask=mask, recorded=recorded)):
            body()

    emit_gangs(e, outer, e.op(f"and i64 {first}, {-e.gang}"), last, masked)


def emit_gangs(
    e: Emitter, outer: Sequence[str], first: str, last: str, body: Body, step: str = ""
) -> None:
    """The gangs from point ``first`` to before ``last`` of a row; there is at least one.

    ``step`` is how far they are apart, an i64; as many points as they have, if it is empty.
    """
    before, point, leave = e.block, e.label("point"), e.label("run_end")
    e.jump_into(point)
    inner = e.phi("i64", (first, before))
    # Extents are below 2**31, so that an index never changes when it is shortened.
    e.point = tuple(e.op(f"trunc nuw nsw i64 {i} to i32") for i in (*outer, inner))
    e.wide_indices = dict(zip(e.point, (*outer, inner), strict=True))
    body()
    following = e.op(f"add nuw nsw i64 {inner}, {step or e.gang}")
    e.add_edge(inner, following, e.block)
    e.branch(e.op(f"icmp slt i64 {following}, {last}"), point, leave)
    e.start_block(leave)


def emit_overlapping_gangs(
    e: Emitter,
    outer: Sequence[str],
    bounds: tuple[str, str],
    limit: str,
    body: Body,
    mask: str | None = None,
) -> None:
    """The points of a row from the first of ``bounds`` to before the second; there is at least one.

    No gang begins behind point ``limit``: the last one of the row is moved back to end with it. Its
    first threads have run before: they load once more, and store nothing. ``mask`` is the active
    lanes, None for all.
    """

    def moved() -> None:
        position = e.wide_indices[e.point[-1]]
        start = minimum(e, position, limit)
        distance = e.op(f"trunc nuw nsw i64 {e.op(f'sub i64 {position}, {start}')} to i32")
        index = e.op(f"trunc nuw nsw i64 {start} to i32")
        e.point = (*e.point[:-1], index)
        e.wide_indices[index] = start
        new = f"icmp ule <{e.gang} x i32> {e.splat('i32', distance)}, {_lane_numbers(e)}"
        with e.as_lanes(replace(e.lane_facts, mask=mask, store_mask=e.op(new))):
            body()

    emit_gangs(e, outer, *bounds, moved)


def lanes_before(e: Emitter, count: str) -> str:
    """A mask of the first ``count`` lanes of a gang, or of all; an i64."""
    few = e.op(f"trunc nuw nsw i64 {minimum(e, count, str(e.gang))} to i32")
    return e.op(f"icmp ult <{e.gang} x i32> {_lane_numbers(e)}, {e.splat('i32', few)}")


def _lane_numbers(e: Emitter) -> str:
    return f"<{', '.join(f'i32 {k}' for k in range(e.gang))}>"


def minimum(e: Emitter, x: str, y: str) -> str:
    """The smaller one of two i64."""
    return e.op(f"select i1 {e.op(f'icmp slt i64 {x}, {y}')}, i64 {x}, i64 {y}")


def maximum(e: Emitter, x: str, y: str) -> str:
    """The larger one of two i64."""
    return e.op(f"select i1 {e.op(f'icmp slt i64 {x}, {y}')}, i64 {y}, i64 {x}")
