"""The vectorisation strategy of a kernel: gangs of threads, vectorised loops, or scalar code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernelcore.base.config import config
from kernelcore.base.dataclass import dataclass
from kernelcore.base.host import Host
from kernelcore.codegen.analysis.independent_loops import IndependentLoop
from kernelcore.codegen.analysis.panels import LEAST_ROWS_TRANSPOSED, panel_loads
from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.row_tiling import can_tile_rows, fewest_rows, may_run_fewer_rows
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.reduction.accumulation import adds_in_order
from kernelcore.codegen.simd.bodies import (
    Bodies,
    choose_bodies,
    gaining_middle,
    joins_rows,
    walks_of,
)
from kernelcore.codegen.simd.cost_model import (
    TILE_ROWS,
    best_gang,
    best_tile,
    lanes_of_register,
    obstacle_to_gangs,
    outer_loops,
    packs,
    suits_loop_lanes,
)
from kernelcore.codegen.simd.gang_work import innermost_loops
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.squares import ROWS, squares_of
from kernelcore.ir.core import Atom, Eqn, Func
from kernelcore.ir.op import ATOMICS, AddForm, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.access.accumulation_plan import are_known, form_of, launch_values

# Strips wider than this gain little (docs/decisions/309).
POINTS_OF_WALKS = 1024

# Gangs of short rows, and the narrowest gangs to which they are an alternative
# (docs/decisions/315).
GANG_OF_SHORT_ROWS = 8
LEAST_GANG_OF_SHORT_ROWS = 32


@dataclass(frozen=True, slots=True)
class VectorStrategy:
    """How a kernel uses SIMD registers: a lane is a thread, or an iteration of a loop.

    Attributes:
        gang: Threads that run in lockstep, a power of two up to 64.
        loop_lanes: Iterations of vectorised loops that run at once, 1 or ``LOOP_LANES``; more than
            1 in single threads only.
        tile_rows: Rows of the grid that a gang runs together, 1 or a few.
        least_masked_bytes: The smallest elements for which the processor has masked accesses.
        packed_bytes: The size of the registers in which single threads pack operations that they
            apply to several values alike; 0 if they do not.
        gathers: Whether an instruction of the processor loads elements anywhere.
        tile_lanes: Threads of a gang that runs several rows; 0 for ``gang``.
        short_tile_lanes: The same for short rows: of at most as many threads, or of fewer than
            ``tile_lanes`` where masks are slow; 0 for ``tile_lanes``.
    """

    gang: int = 1
    loop_lanes: int = 1
    tile_rows: int = 1
    least_masked_bytes: int = 1
    packed_bytes: int = 0
    gathers: bool = False
    tile_lanes: int = 0
    short_tile_lanes: int = 0

    @property
    def tile_gang(self) -> int:
        """Threads that run in lockstep where several rows run together."""
        return self.tile_lanes or self.gang


SCALAR_CODE = VectorStrategy()
# The sizes of gangs that tests compare.
LANES = (1, 4, 8, 16, 32, 64)
# Sums that depend on the gang assume registers of this size, on every processor.
FLOAT_LANES_OF_SUMS = 16
# Operations without a vector form: kernels with one of them run single threads.
_SCALAR_ONLY = ATOMICS | {OpKind.SNIPPET, OpKind.PRINT, OpKind.ARRAY_AT}


def choose_strategy(func: Func, host: Host) -> VectorStrategy:
    """The strategy that the cost model expects to be fastest for ``func`` on ``host``."""
    gang = _gang_for(func, host)
    if gang > 1:
        return in_gangs(func, gang, host)
    if config.optimize and (suits_loop_lanes(func) or rows_of_own_length(func)):
        return VectorStrategy(loop_lanes=LOOP_LANES, least_masked_bytes=host.least_masked_bytes)
    has_packs = config.optimize and not loops_in_parts(func)
    if has_packs and packs(func, host.register_bytes).regions:
        return VectorStrategy(packed_bytes=host.register_bytes)
    return SCALAR_CODE


def _gang_for(func: Func, host: Host) -> int:
    if not config.optimize or not has_vector_form(func):
        return 1
    middle = gaining_middle(func)
    has_middle = middle is not None
    if not adds_in_order(func):
        # Sums must not depend on the processor.
        return best_gang(func, FLOAT_LANES_OF_SUMS, has_middle=has_middle)
    may_be_short = func.rank > 1 and not joins_rows(func)
    lanes = host.float_lanes
    gang = best_gang(func, lanes, has_middle=has_middle, may_be_short=may_be_short)
    if gang == 1 and middle is not None:
        return best_gang(middle.func, lanes, has_middle=True)
    if gang == 1 and squares_of(func, host.least_masked_bytes) is not None:
        return lanes_of_register(func, lanes)
    return gang


@dataclass(frozen=True, slots=True)
class ShortLoops:
    """How launches use SIMD registers whose loops have fewer iterations than vectors of them.

    Attributes:
        strategy: Gangs of threads.
        bounds: Those of the loops, which the launch decides.
    """

    strategy: VectorStrategy
    bounds: tuple[tuple[Atom, ...], ...]


def short_loops(func: Func, chosen: VectorStrategy, host: Host) -> ShortLoops | None:
    """How launches run ``func``, whose loops are vectorised, if these are short (decision 296).

    None if they run it as others do: gangs do not suit, or would add in another order.
    """
    obstacle = obstacle_to_gangs(func) if chosen.loop_lanes > 1 else None
    if obstacle is None or obstacle.loop is None or not has_vector_form(func):
        return None
    known, bounds = launch_values(func), [loop.inputs[:3] for loop in outer_loops(func)]
    if not (all(are_known(some, known) for some in bounds) and adds_in_order(func)):
        return None
    gang = best_gang(func, host.float_lanes, has_short_loops=True)
    if gang == 1:
        return None
    return ShortLoops(in_gangs(func, gang, host), tuple(bounds))


@dataclass(frozen=True, slots=True)
class ShortRows:
    """How launches use SIMD registers whose rows fill a part of a gang.

    Attributes:
        strategy: Narrower gangs of threads.
        most_points: The longest rows, along the last launch axis.
    """

    strategy: VectorStrategy
    most_points: int


def short_rows(func: Func, chosen: VectorStrategy, host: Host) -> ShortRows | None:
    """How launches run ``func``, in wide gangs, if its rows are short (decision 315).

    None if they run it as others do: gangs that run several rows, or go on in the next one, are
    full all the same.
    """
    is_wide = chosen.gang >= LEAST_GANG_OF_SHORT_ROWS
    eqns = list(walk_eqns(func.body))
    if func.rank < 2 or not is_wide or not innermost_loops(eqns) or joins_rows(func):
        return None
    # Tiles differ between processors, sums must not.
    rows = chosen.tile_rows
    if not adds_in_order(func):
        rows, *_ = best_tile(func, chosen.gang, FLOAT_LANES_OF_SUMS)
    if rows > 1:
        return None
    least, gathers = host.least_masked_bytes, host.gathers
    narrow = VectorStrategy(GANG_OF_SHORT_ROWS, least_masked_bytes=least, gathers=gathers)
    return ShortRows(narrow, chosen.gang // 2)


def in_gangs(func: Func, gang: int, host: Host) -> VectorStrategy:
    """Gangs of ``gang`` threads, with the best tiles."""
    rows, lanes, short_lanes = best_tile(func, gang, host.float_lanes)
    return VectorStrategy(
        gang,
        1,
        rows,
        host.least_masked_bytes,
        gathers=host.gathers,
        tile_lanes=lanes,
        short_tile_lanes=short_lanes,
    )


def bodies_for(func: Func, strategy: VectorStrategy) -> Bodies:
    """The copies of the body of ``func`` that ``strategy`` needs."""
    least = strategy.least_masked_bytes
    return choose_bodies(func, strategy.gang, strategy.tile_rows, strategy.tile_gang, least)


def loops_in_parts(func: Func) -> Mapping[Eqn, IndependentLoop]:
    """The loops whose sums have parts, as gangs add that run the iterations of a row as lanes.

    The order of a sum must not depend on the strategy, so ``func`` alone decides.
    """
    if func.keeps_bits or next(scalar_only(func), None) is not None:
        return {}
    return _in_parts_of_gangs(func)


def _in_parts_of_gangs(func: Func) -> Mapping[Eqn, IndependentLoop]:
    """The loops whose sums have parts if ``func`` runs in gangs."""
    rows = [(eqn, loop.by_rows) for eqn, loop in blocked_loops(func, lane_strides(func)).items()]
    return {eqn: loop for eqn, loop in rows if loop is not None and loop.adds}


def panel_rows(func: Func) -> int:
    """The fewest rows of the grid for which ``func`` has panels or squares; 0 for neither."""
    if not can_tile_rows(func):
        return 0
    if squares_of(func) is not None:
        return ROWS
    strides = lane_strides(func)
    blocked = blocked_loops(func, strides)
    if any(loop.has_panels for loop in blocked.values()):
        return LEAST_ROWS_TRANSPOSED
    if not panel_loads(func, strides, blocked):
        return 0
    return fewest_rows(TILE_ROWS[0]) if may_run_fewer_rows(func) else TILE_ROWS[0]


def points_at_once(func: Func) -> int:
    """The fewest adjacent points a thread should claim at once; 0 if it does not matter.

    Gangs that walk down columns together read long parts of rows then.
    """
    return POINTS_OF_WALKS if walks_of(func) is not None else 0


def has_vector_form(func: Func) -> bool:
    """Whether every operation of ``func`` can run for a gang of threads, with the bits it keeps."""
    if next(scalar_only(func), None) is not None or rows_of_own_length(func):
        return False
    return not (func.keeps_bits and _in_parts_of_gangs(func))


def rows_of_own_length(func: Func) -> list[Eqn]:
    """The loops along rows that differ in length among threads, where one thread runs at a time."""
    found = blocked_loops(func, lane_strides(func))
    return [eqn for eqn, loop in found.items() if loop.has_own_lengths]


def scalar_only(func: Func) -> Iterator[Eqn]:
    """The operations of ``func`` that only single threads can run."""
    eqns = walk_eqns(func.body)
    return (eqn for eqn in eqns if eqn.op.kind in _SCALAR_ONLY or _is_atomic(eqn))


def _is_atomic(eqn: Eqn) -> bool:
    """Whether ``eqn`` adds to elements that the kernel also reads or stores."""
    return eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) is AddForm.ATOMIC
