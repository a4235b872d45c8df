"""Rough costs of the ways to vectorise a kernel: how wide gangs are, and which bodies there are.

docs/decisions/005 has the figure behind each constant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.analysis.independent_loops import IndependentLoop, independent_loops
from kernelcore.codegen.analysis.loop_dependence import VectorLoop, vector_loops
from kernelcore.codegen.analysis.pack_search import packing
from kernelcore.codegen.analysis.packs import Packing
from kernelcore.codegen.analysis.row_blocks import accesses_in_blocks, blocked_loops
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.analysis.uniformity import (
    Strides,
    lane_strides,
    row_strides,
    stride_of,
)
from kernelcore.codegen.llvm.instruction_cost import (
    SLOW,
    instructions_of,
    integer_quotients,
    slow_instructions,
)
from kernelcore.codegen.reduction.element_add import MAX_LANES, MOST_INTEGERS_UNROLLED
from kernelcore.codegen.simd.component_groups import is_row
from kernelcore.codegen.simd.gang_work import (
    GangWork,
    body_of,
    innermost_bodies,
    innermost_loops,
    is_component_group,
    is_mostly_64_bit,
    moving_axes,
    scattered_accesses,
    scattered_rows,
    work_in,
)
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.ir.core import Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, LOOPS, OpKind
from kernelcore.ir.walk import array_type, captured_vars, element_indices, eqns_inside, walk_eqns

# Minimum arithmetic per element that lanes access one by one, where lanes are iterations.
WORK_PER_ELEMENT_OF_ITERATIONS = 4
# Without loops, from LEAST_CHAIN instructions on a value takes four registers, which hide the
# latency of dependent instructions. Beyond LONGEST_CHAIN instructions, two.
LEAST_CHAIN = 30
LONGEST_CHAIN = 400
# Kernels that sort component groups keep more values: beyond this many instructions, one register.
LONGEST_CHAIN_OF_COMPONENTS = 100
# Sizes of a kernel in equations beyond which LLVM's time counts: packed and general bodies only,
# then one register per value, then a scalar general body also where threads have loops, then no
# gangs.
MAX_EQNS_OF_MANY_BODIES = 200
MAX_EQNS_OF_WIDE_VALUES = 600
MAX_EQNS_OF_NARROW_GANGS = 2000
MAX_EQNS_OF_GANGS = 8000
# Kernels of fewer pure equations have no packs.
LEAST_PACKED = 8
# Rows that blocks transpose together at least: fewer wait for what an iteration hands to the next.
LEAST_ROWS = 8
# The same where blocks only load rows of one array and there are 16 registers: sums in two or more
# registers wait for less.
LEAST_ROWS_OF_ONE_ARRAY = 16
# Rows that a gang may run together, and the registers for the values that their loops use. Where
# registers hold FLOAT_LANES_OF_MANY_REGISTERS there are 32 of them, else 16: what a loop carries
# takes at most half of these, and the rest of what it uses may come from memory.
TILE_ROWS = (8, 4, 2)
REGISTERS_OF_TILE = 16
# The most instructions of an iteration that the rows of a tile run where there are 16 registers:
# more of them spill what they compute.
MOST_INSTRUCTIONS_OF_TILES = 16
# Registers of a row of a tile (docs/decisions/294).
REGISTERS_OF_ROW = 2
# The most instructions of kernels that have tiles for rows of one register, too, which are one more
# body, and the least lanes of such a register (docs/decisions/302).
MOST_INSTRUCTIONS_OF_SHORT_TILES, LEAST_LANES = 16, 4
# Where rows have a middle, gangs fill one register, or have this many threads (docs/decisions/200).
LEAST_LANES_WITH_MIDDLE = 8
# Registers per value of rows that are no tile, where there are 32 and where there are 16.
REGISTERS_ALONE, FEW_REGISTERS_ALONE = 8, 4
FLOAT_LANES_OF_MANY_REGISTERS, CARRIED_OF_FEW_REGISTERS = 16, 8
# Instructions on shared values that the passes for straight kernels may leave in every gang, or in
# every thread, and the cost of an index there.
FEW_SHARED_BY_GANG, FEW_SHARED_BY_THREAD = 24, 8
PER_INDEX = 2


@dataclass(frozen=True, slots=True)
class GangObstacle:
    """Why the threads of a kernel run one by one although its operations have a vector form.

    Attributes:
        is_uniform: Whether no thread asks for its index, so that all compute the same. Such
            kernels are launched with one point, which a gang does not run.
        eqns: How many equations the kernel has, where these are too many; else 0.
        work: The work of the part with too little arithmetic for its scattered elements.
        scattered: The accesses of these elements.
        in_loop: Whether that part is the body of a loop.
        loop: A loop whose iterations, as lanes, access neighbours where threads would not.
    """

    is_uniform: bool = False
    eqns: int = 0
    work: GangWork | None = None
    scattered: tuple[Eqn, ...] = ()
    in_loop: bool = False
    loop: Eqn | None = None


def obstacle_to_gangs(func: Func) -> GangObstacle | None:
    """What speaks against gangs for ``func``; None if nothing does."""
    eqns, strides = list(walk_eqns(func.body)), lane_strides(func)
    return _obstacle(func, eqns, innermost_bodies(eqns), strides, scattered_accesses(func, strides))


def _obstacle(
    func: Func,
    eqns: Sequence[Eqn],
    bodies: Sequence[Sequence[Eqn]],
    strides: Strides,
    scattered: Collection[Eqn],
) -> GangObstacle | None:
    if not any(e.op.kind is OpKind.TID for e in eqns):
        return GangObstacle(is_uniform=True)
    if len(eqns) > MAX_EQNS_OF_GANGS:
        return GangObstacle(eqns=len(eqns))
    for part in bodies or [eqns]:
        work = work_in(part, strides, scattered)
        if not work.suits_gangs(in_loop=bool(bodies)):
            found = tuple(e for e in part if e in scattered)
            return GangObstacle(False, 0, work, found, bool(bodies))
    for loop in outer_loops(func) if scattered and suits_loop_lanes(func) else ():
        found = tuple(e for e in eqns_inside(loop) if e in scattered)
        if found:
            return GangObstacle(scattered=found, loop=loop)
    return None


def best_gang(
    func: Func,
    float_lanes: int,
    *,
    has_middle: bool = False,
    may_be_short: bool = False,
    has_short_loops: bool = False,
) -> int:
    """The best gang for ``func`` where a register holds ``float_lanes`` float32; 1 for none.

    Gangs are narrow where rows have a middle with code of its own, and where they ``may_be_short``:
    else most of a short row would be its ends. Short loops gain nothing as vectors.
    """
    eqns = list(walk_eqns(func.body))
    strides, bodies = lane_strides(func), innermost_bodies(eqns)
    scattered = scattered_accesses(func, strides)
    obstacle = _obstacle(func, eqns, bodies, strides, scattered)
    if obstacle is not None and not (has_short_loops and obstacle.loop is not None):
        return 1
    lanes = lanes_of_register(func, float_lanes)
    in_blocks = accesses_in_blocks(blocked_loops(func, strides))
    if in_blocks:
        return max(lanes, _least_rows(func, in_blocks, float_lanes))
    tile = _tile_of_two_registers(func, float_lanes)
    if tile is not None:
        if adds(func):
            return tile[1]
        # Rows alone read as long parts of the rows of an array as they can.
        has_many = float_lanes >= FLOAT_LANES_OF_MANY_REGISTERS
        return min(lanes * (REGISTERS_ALONE if has_many else FEW_REGISTERS_ALONE), MAX_LANES)
    if has_middle:
        return max(lanes, LEAST_LANES_WITH_MIDDLE)
    if _mostly_adds_integers(eqns, strides, scattered):
        return min(lanes, MOST_INTEGERS_UNROLLED)
    few = 1 if may_be_short and float_lanes >= FLOAT_LANES_OF_MANY_REGISTERS else 2
    return lanes * _registers(func, bodies, strides, scattered, few)


def lanes_of_register(func: Func, float_lanes: int) -> int:
    """How many values of ``func`` a register of ``float_lanes`` float32 holds."""
    is_wide = is_mostly_64_bit(list(walk_eqns(func.body)), lane_strides(func))
    return float_lanes // (2 if is_wide else 1)


def _least_rows(func: Func, in_blocks: Collection[Eqn], float_lanes: int) -> int:
    """The fewest rows of a gang whose blocks make the accesses ``in_blocks``.

    More rows go through more of the first cache, which those of several arrays share, and leave
    fewer registers to the rows of a tile.
    """
    has_few = float_lanes < FLOAT_LANES_OF_MANY_REGISTERS
    is_one = len({eqn.inputs[0] for eqn in in_blocks}) == 1
    only_loads = all(eqn.op.kind is OpKind.LOAD for eqn in in_blocks) and not adds(func)
    has_room = has_few and is_one and only_loads and not can_tile_rows(func)
    return LEAST_ROWS_OF_ONE_ARRAY if has_room else LEAST_ROWS


def _registers(
    func: Func,
    bodies: Sequence[Sequence[Eqn]],
    strides: Strides,
    scattered: Collection[Eqn],
    few: int,
) -> int:
    """Registers per value, so that the processor has independent work while it waits.

    Kernels with little work have ``few``, those that access rows of components lane by lane one
    (docs/decisions/292).
    """
    eqns = list(walk_eqns(func.body))
    whole = work_in(eqns, strides, scattered)
    if len(eqns) > MAX_EQNS_OF_WIDE_VALUES:
        return 1
    innermost = [e for part in bodies or [eqns] for e in part]
    rows = scattered_rows(func, strides)
    if any(e in rows for e in innermost):
        return 1
    if any(is_component_group(e, strides) for e in innermost):
        waits = whole.slow > 0 and whole.instructions <= LONGEST_CHAIN_OF_COMPONENTS
        return 2 if waits and not bodies else 1
    longest = max(work_in(part, strides, ()).instructions for part in bodies or [eqns])
    if whole.scattered or longest > LONGEST_CHAIN:
        return 2
    return 4 if bodies or longest >= LEAST_CHAIN else few


def _mostly_adds_integers(
    eqns: Sequence[Eqn], strides: Strides, scattered: Collection[Eqn]
) -> bool:
    """Whether little work comes with additions of integers to elements anywhere."""
    added = (e for e in eqns if e.op.kind is OpKind.ATOMIC_ADD and e in scattered)
    if not any(array_type(e).dtype.is_integer for e in added):
        return False
    has_loops = any(e.op.kind in LOOPS for e in eqns)
    return not has_loops and work_in(eqns, strides, ()).instructions < LEAST_CHAIN


def outer_loops(func: Func) -> Mapping[Eqn, IndependentLoop]:
    """The loops of ``func`` whose independent iterations are lanes where loops are vectorised.

    All their accesses are of neighbours or shared, so that they gain.
    """
    is_long = sum(1 for _ in walk_eqns(func.body)) > MAX_EQNS_OF_MANY_BODIES
    return {} if is_long else independent_loops(func, LOOP_LANES)


def suits_loop_lanes(func: Func) -> bool:
    """Whether ``func`` has loops that can be vectorised, and all of them gain.

    Loops inside of those with independent iterations run as vectors only for the last of these.
    """
    outer = outer_loops(func)
    inside = {eqn for loop in outer for eqn in eqns_inside(loop)}
    loops = [body for loop, body in vector_loops(func).items() if loop not in inside]
    return bool(outer or loops) and all(map(gains_as_vector, loops))


def gains_as_vector(loop: VectorLoop) -> bool:
    """Whether the arithmetic of ``loop`` outweighs the elements that it accesses one by one."""
    groups = {*loop.loads.values(), *loop.additions.values()}
    scattered = [group for group in groups if _is_anywhere(group[0], loop.strides)]
    elements = sum(1 if is_row(group[0]) else len(group) for group in scattered)
    work = work_in(list(walk_eqns(loop.region)), loop.strides, ())
    return work.instructions >= WORK_PER_ELEMENT_OF_ITERATIONS * max(elements, 1)


def _is_anywhere(eqn: Eqn, strides: Strides) -> bool:
    """Whether the elements that ``eqn`` accesses have no fixed distance."""
    return any(stride_of(strides, i) is None for i in element_indices(eqn))


@lru_cache(maxsize=4)
def packs(func: Func, register_bytes: int) -> Packing:
    """The operations of ``func`` that single threads pack into vectors."""
    pure = [e for e in walk_eqns(func.body) if e.op.kind is OpKind.PURE]
    if len(pure) < LEAST_PACKED:
        return Packing()
    cost = {e: len(instructions_of(e)) + SLOW * slow_instructions(e) for e in pure}
    return packing(func, register_bytes, cost)


def best_tile(func: Func, gang: int, float_lanes: int) -> tuple[int, int, int]:
    """Rows that gangs of ``func`` run together, 1 for none, and how many threads are a gang there.

    The last is their number where rows are no longer than that, 0 for the same. ``gang`` threads
    are a gang where rows run alone. Gangs of a kernel that adds have one size, as each adds up what
    its threads add.
    """
    tile = _tile_of_two_registers(func, float_lanes)
    if tile is None or (adds(func) and tile[1] != gang):
        return rows_per_tile(func, gang, float_lanes), gang, 0
    rows, lanes = tile
    pure = [e for e in walk_eqns(func.body) if e.op.kind is OpKind.PURE]
    is_little = sum(len(instructions_of(e)) for e in pure) <= MOST_INSTRUCTIONS_OF_SHORT_TILES
    short = lanes // REGISTERS_OF_ROW
    return rows, lanes, short if is_little and short >= LEAST_LANES and not adds(func) else 0


def _tile_of_two_registers(func: Func, float_lanes: int) -> tuple[int, int] | None:
    """The tile whose rows have ``REGISTERS_OF_ROW`` registers: its rows, and threads of a row.

    Rows share loads that do not depend on the row, registers those that do not depend on the lane.
    None if these are fewer registers than rows of the largest tile, or if innermost loops add to
    elements: of several registers, one is added to another before lanes are.
    """
    eqns = list(walk_eqns(func.body))
    if any(e.op.kind is OpKind.ATOMIC_ADD for body in innermost_bodies(eqns) for e in body):
        return None
    lanes = REGISTERS_OF_ROW * lanes_of_register(func, float_lanes)
    rows = rows_per_tile(func, lanes, float_lanes)
    return (rows, lanes) if REGISTERS_OF_ROW * rows >= TILE_ROWS[0] else None


def adds(func: Func) -> bool:
    """Whether ``func`` adds to elements."""
    return any(e.op.kind is OpKind.ATOMIC_ADD for e in walk_eqns(func.body))


def rows_per_tile(func: Func, gang: int, float_lanes: int) -> int:
    """Rows that gangs of ``gang`` threads run together: as many as registers hold, 1 for none.

    A tile loads once what its rows load alike; the values that loops carry take registers per row.
    """
    eqns = list(walk_eqns(func.body))
    loops = innermost_loops(eqns)
    if not loops or not can_tile_rows(func):
        return 1
    along, across, used, carried = lane_strides(func), row_strides(func), 1, 0
    in_rows = (loop.by_rows for loop in blocked_loops(func, along).values())
    if any(loop is not None and loop.adds and not loop.most_in_panels for loop in in_rows):
        # Their sums have an order of their own (docs/decisions/256).
        return 1
    has_few = float_lanes < FLOAT_LANES_OF_MANY_REGISTERS
    for loop in loops:
        body = body_of(loop)
        if not any(moving_axes(e, along) and not moving_axes(e, across) for e in body):
            return 1
        if has_few and work_in(body, along, ()).instructions > MOST_INSTRUCTIONS_OF_TILES:
            return 1
        inside, outside = (
            sum(along[v] is None and across[v] != 0 for v in found)
            for found in (loop.regions[-1].params, captured_vars(loop))
        )
        used, carried = max(used, inside + outside), max(carried, inside)
    lanes = gang * (2 if is_mostly_64_bit(eqns, along) else 1)
    room = REGISTERS_OF_TILE * float_lanes // (lanes * used)
    if carried and has_few:
        room = min(room, CARRIED_OF_FEW_REGISTERS * float_lanes // (lanes * carried))
    return next((rows for rows in TILE_ROWS if rows <= room), 1)


def is_straight(func: Func, gang: int) -> bool:
    """Whether passes that hoist code out of loops, or unroll them, have nothing to gain.

    The loop over the points of a row counts, too; it takes ``gang`` at a time.
    """
    eqns, strides = list(walk_eqns(func.body)), lane_strides(func)
    if any(eqn.op.kind in LOOPS for eqn in eqns):
        return False
    pure = [e for e in eqns if e.op.kind is OpKind.PURE and strides[e.out] == 0]
    quotients = sum(slow_instructions(e) + integer_quotients(e) for e in pure)
    shared = sum(len(instructions_of(e)) for e in pure) + SLOW * quotients
    if gang > 1:
        return shared <= FEW_SHARED_BY_GANG
    indices = [i for e in eqns if e.op.kind in ACCESSES for i in element_indices(e)]
    moved = sum(isinstance(i, Var) and strides[i] == 0 for i in indices)
    return shared + PER_INDEX * moved <= FEW_SHARED_BY_THREAD
