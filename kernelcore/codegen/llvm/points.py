"""The loop over the points of a launch on a CPU, with the bodies of the kernel that it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kernelcore.base.dataclass import replace
from kernelcore.codegen.analysis.component_groups import (
    adjacent_sums,
    rows_apart,
    whole_elements,
)
from kernelcore.codegen.analysis.independent_loops import IndependentLoop
from kernelcore.codegen.analysis.kept_rows import KeptRows
from kernelcore.codegen.analysis.loop_dependence import VectorLoop, vector_loops
from kernelcore.codegen.analysis.prefetch import first_accesses, first_in_rows
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, blocked_loops
from kernelcore.codegen.analysis.row_tiling import is_idempotent
from kernelcore.codegen.analysis.uniformity import (
    collapsed_strides,
    lane_strides,
    row_major_accesses,
)
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter, Facts
from kernelcore.codegen.llvm.packed import MAX_EQNS_OF_TWO_BODIES, all_apart, all_equal, as_packed
from kernelcore.codegen.llvm.tiles import tile_of
from kernelcore.codegen.reduction import accumulate
from kernelcore.codegen.simd.column_walks import ColumnWalks
from kernelcore.codegen.simd.cost_model import outer_loops
from kernelcore.codegen.simd.gang_loop import Body
from kernelcore.codegen.simd.grid_loop import Middle, RowCode, emit_rows
from kernelcore.codegen.simd.kept_rows import bind_rows, make_rows
from kernelcore.codegen.simd.loop_collapse import Collapsed, emit_collapsed
from kernelcore.codegen.simd.partial_sums import any_long
from kernelcore.codegen.simd.squares import ROWS, Squares
from kernelcore.codegen.simd.strategy import (
    VectorStrategy,
    bodies_for,
    loops_in_parts,
    rows_of_own_length,
)
from kernelcore.codegen.simd.strip_loop import Strips, strips_of
from kernelcore.codegen.simd.tile_loop import Tile
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import LOOPS
from kernelcore.ir.walk import assertions, eqns_inside, walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.dense_middle import DenseMiddle

_L = TypeVar("_L", VectorLoop, IndependentLoop)


def emit_points(
    e: Emitter, func: Func, dims: Sequence[str], done: str, strategy: VectorStrategy
) -> None:
    """The loop over the grid, with the bodies that are worth their time to compile.

    It is left for block ``done``, where arrays have any strides.
    """
    arrays = {p: p.type for p in func.params if isinstance(p.type, ArrayType) and p.type.ndim}
    found = {param: e.array(param) for param in arrays}
    eqns = list(walk_eqns(func.body))
    has_packed = e.gang > 1 or (bool(arrays) and len(eqns) <= MAX_EQNS_OF_TWO_BODIES)

    e.grid_rows = dims[-2] if len(dims) > 1 else "1"
    in_parts = loops_in_parts(func)
    independent = outer_loops(func) if strategy.loop_lanes > 1 else dict[Eqn, IndependentLoop]()
    independent = _without(independent, in_parts)
    # Sums have one order for arrays of any strides.
    ordered = {eqn: loop for eqn, loop in independent.items() if loop.adds}

    def general() -> None:
        e.bind_all(found)
        with e.special_loops({}, {}, ordered, in_parts):
            e.region(func.body)

    if not has_packed:
        emit_rows(e, "%begin", dims, RowCode(general), done)
        e.bind_all(found)
        return
    packed_arrays = {p: as_packed(type_, found[p]) for p, type_ in arrays.items()}
    loops = vector_loops(func) if strategy.loop_lanes > 1 else dict[Eqn, VectorLoop]()
    # Where threads have rows of their own length, short ones are made in order, in vectors.
    own_lengths = rows_of_own_length(func)
    loops = _without(loops, [eqn for eqn in in_parts if eqn not in own_lengths])
    blocked = _blocked(e, func, in_parts)
    bodies = bodies_for(func, strategy)

    has_panels = e.gang > 1 and bool(in_parts)
    has_panels = has_panels and all(loop.most_in_panels for loop in in_parts.values())
    # Where sums of long rows have parts, the tail alone makes them: it runs whole gangs, too. With
    # panels, tiles run these rows.
    split = {
        eqn: loop
        for eqn, loop in in_parts.items()
        if bodies.has_tail and loop.is_ordered_if_short and not has_panels
    }

    def body_with(**kind: Any) -> Body:
        along = {eqn: replace(loop, **kind) for eqn, loop in blocked.items() if eqn in split}

        def body() -> None:
            e.bind_all(packed_arrays)
            with e.special_loops(loops, {**blocked, **along}, independent, in_parts):
                e.region(func.body)

        return body

    packed = body_with(by_rows=None)
    tail = body_with(has_blocks=False) if bodies.has_tail else None
    is_packed = all_equal(e, found, packed_arrays)
    walks = [] if bodies.walks is None else [bodies.walks]
    squares = [] if bodies.squares is None else [bodies.squares.blocked]
    is_packed = all_apart(
        e, is_packed, [*blocked.values(), *independent.values(), *walks, *squares]
    )
    if bodies.kept is not None:
        is_packed = all_apart(e, is_packed, [bodies.kept])
        is_packed, memory = make_rows(e, bodies.kept, bodies.tail_lanes, is_packed)
        tail = _keeping_tail(e, bodies.kept, memory, packed_arrays)
    tiles: list[Tile] = []
    if has_panels or (strategy.tile_rows > 1 and not in_parts):
        rows = strategy.tile_rows
        for gangs in _tile_gangs(e, strategy, dims, is_packed):
            forms = gangs.is_possible, in_parts, gangs.may_be_short
            with e.gangs_of(gangs.lanes):
                tiles.append(tile_of(e, func, rows, packed_arrays, *forms))
    if bodies.squares is not None:
        tiles.append(_square_tile(e, bodies.squares, packed_arrays, is_packed))
    middle = None if bodies.middle is None else _middle(e, func, bodies.middle, packed_arrays)
    strips = None if bodies.walks is None else _strips(e, func, bodies.walks, packed_arrays)
    # Rows outside of tiles have gangs of their own only where those have another size.
    takes_all = tiles and tail is not None and all(tile.gang == e.gang for tile in tiles)
    takes_all = takes_all or bodies.leaves_rest_to_threads
    leaves_gangs = "true" if takes_all else any_long(e, func, split)
    code = RowCode(
        general,
        bodies.general_lanes,
        packed,
        is_packed,
        tail,
        bodies.tail_lanes,
        leaves_gangs,
        tiles,
        middle,
        strips,
    )
    begin = "%begin"
    if bodies.collapse_limit:
        collapsed = _collapsed(e, func, packed_arrays, bodies.collapse_limit)
        begin = emit_collapsed(e, dims, collapsed, is_packed, done)
    emit_rows(e, begin, dims, code, done)
    e.bind_all(found)


class _TileGangs(NamedTuple):
    """The gangs of a tile.

    Attributes:
        lanes: How many threads are a gang.
        is_possible: Whether the launch may run them, as i1.
        may_be_short: Whether rows may be shorter than a gang.
    """

    lanes: int
    is_possible: str
    may_be_short: bool


def _tile_gangs(
    e: Emitter, strategy: VectorStrategy, dims: Sequence[str], is_packed: str
) -> list[_TileGangs]:
    """The gangs of the tiles for long rows and, if there are any, of those for short ones."""
    lanes, short = strategy.tile_gang, strategy.short_tile_lanes
    if not short:
        return [_TileGangs(lanes, is_packed, may_be_short=True)]
    # Masked loads are slow without registers for masks (docs/decisions/303).
    has_quick_masks = e.facts.least_masked_bytes == 1
    most = short if has_quick_masks else lanes - 1
    is_short = e.op(f"icmp sle i64 {dims[-1]}, {most}")
    is_long = e.op(f"xor i1 {is_short}, true")
    for_long, for_short = (e.op(f"and i1 {is_packed}, {one}") for one in (is_long, is_short))
    return [_TileGangs(lanes, for_long, has_quick_masks), _TileGangs(short, for_short, True)]


def _blocked(e: Emitter, func: Func, in_parts: Collection[Eqn]) -> dict[Eqn, BlockedLoop]:
    """The loops that run along rows of packed arrays; in single threads, those ``in_parts``."""
    if e.gang == 1 and not in_parts:
        return {}
    found = blocked_loops(func, lane_strides(func))
    return {eqn: loop for eqn, loop in found.items() if e.gang > 1 or eqn in in_parts}


def _without(loops: Mapping[Eqn, _L], others: Collection[Eqn]) -> dict[Eqn, _L]:
    """``loops`` but those that are among ``others``, or have one of them inside."""
    return {
        eqn: loop
        for eqn, loop in loops.items()
        if not any(e in others for e in (eqn, *eqns_inside(eqn)))
    }


def _collapsed(e: Emitter, func: Func, packed: Mapping[Var, ArrayValue], limit: int) -> Collapsed:
    """Gangs of ``func`` that go on from row to row, for packed arrays."""
    strides, row_major = collapsed_strides(func), row_major_accesses(func)

    def body() -> None:
        e.bind_all(packed)
        with e.as_lanes(replace(e.lane_facts, strides=strides, row_major=row_major)):
            e.region(func.body)

    shaped = {eqn.inputs[0] for eqn in row_major}
    return Collapsed(body, {p: array for p, array in packed.items() if p in shaped}, limit)


def _square_tile(
    e: Emitter, squares: Squares, packed: Mapping[Var, ArrayValue], is_packed: str
) -> Tile:
    """Gangs of the rows of ``squares``, for packed arrays."""
    gang = _gang_of(e, squares.func, packed)

    def body() -> None:
        with e.special_loops({}, {squares.loop: squares.blocked}):
            gang()

    return Tile(ROWS, e.gang, None, lambda: None, body, is_packed, overlaps_tail=False)


def _middle(e: Emitter, func: Func, found: DenseMiddle, packed: Mapping[Var, ArrayValue]) -> Middle:
    """Gangs of the middle of rows of ``func``, for packed arrays."""

    def holds(condition: Region) -> str:
        e.bind_all(packed)
        e.region(condition)
        return e.value_at(condition.yields[0], 1)

    body = _gang_of(e, found.func, packed)
    begins, ends = (partial(holds, condition) for condition in (found.first, found.last))
    return Middle(body, begins, ends, max(found.reach, 1), is_idempotent(func))


def _strips(e: Emitter, func: Func, walks: ColumnWalks, packed: Mapping[Var, ArrayValue]) -> Strips:
    """Gangs that walk down columns together, for packed arrays."""

    return strips_of(e, func, walks, [_gang_of(e, part.func, packed) for part in walks.parts])


def _gang_of(e: Emitter, func: Func, packed: Mapping[Var, ArrayValue]) -> Body:
    """A gang of ``func``, another form of the kernel, for packed arrays."""
    strides = lane_strides(func)
    plan = accumulate.plan_of_form(e, func, strides)

    def body() -> None:
        e.bind_all(packed)
        with e.other_code(strides, with_facts_of_gangs(func, e.facts), plan):
            e.region(func.body)

    return body


def _keeping_tail(
    e: Emitter, kept: KeptRows, memory: Mapping[Var, str], packed: Mapping[Var, ArrayValue]
) -> Body:
    """The tail that keeps values of rows in ``memory``, for packed arrays."""
    func = kept.func
    strides, in_parts = lane_strides(func), loops_in_parts(func)
    plan = accumulate.plan_of_form(e, func, strides)
    along = {
        eqn: replace(loop, has_blocks=loop.has_blocks and not loop.is_ordered_if_short)
        for eqn, loop in blocked_loops(func, strides).items()
    }

    def body() -> None:
        e.bind_all(packed)
        bind_rows(e, kept, memory)
        numbers = {eqn: at for at, eqn in enumerate(assertions(func))}
        facts = with_facts_of_gangs(func, replace(e.facts, assertions=numbers))
        with e.other_code(strides, facts, plan), e.special_loops({}, along, {}, in_parts):
            e.region(func.body)

    return body


def with_facts_of_gangs(func: Func, facts: Facts) -> Facts:
    """``facts``, with what gangs that run ``func`` need besides."""
    has_loops = any(eqn.op.kind in LOOPS for eqn in walk_eqns(func.body))
    return replace(
        facts,
        gathers=facts.gathers and not has_loops,
        elements=whole_elements(func),
        rows=rows_apart(func),
        adjacent_sums=adjacent_sums(func),
        first_accesses=first_accesses(func) | first_in_rows(func),
    )
