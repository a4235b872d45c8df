"""What the forms of a kernel cost, roughly: how many threads run best as a gang.

The figures behind the constants are in docs/decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.builtins.reference import trip_count
from kernelcore.codegen.analysis.component_groups import component_of
from kernelcore.codegen.analysis.loop_dependence import VectorLoop, vector_loops
from kernelcore.codegen.analysis.row_tiling import has_bands
from kernelcore.codegen.analysis.uniformity import (
    Strides,
    crossing_strides,
    lane_strides,
    row_major_accesses,
    row_strides,
)
from kernelcore.codegen.llvm.emitter import scalar_type
from kernelcore.codegen.llvm.instruction_cost import (
    instructions_of,
    integer_quotients,
    slow_instructions,
)
from kernelcore.codegen.simd.component_groups import is_row
from kernelcore.codegen.simd.vector_access import MAX_INTERLEAVED
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, LOOPS, AddForm, OpKind
from kernelcore.ir.walk import array_type, captured_vars, element_indices, walk_eqns
from kernelcore.passes.access.accumulation_plan import form_of

# A gang accesses scattered elements one by one, as single threads do; so many instructions per
# element make up for moving them between registers: where a loop waits for them, and where not.
WORK_PER_ELEMENT_IN_LOOP = 10
WORK_PER_ELEMENT = 4
# Turns in step access an element as single turns do, and wait for sums as they do.
WORK_PER_ELEMENT_IN_STEP = 4
FEWEST_KNOWN_TURNS = 16
# So many instructions a quotient or a root is besides, for a thread that waits for it.
SLOW = 8
# Turns of a loop with fewer results wait for them, unless several are on the way.
SHORT_TURN = 40
# A gang adds its values up in as many steps, or nearly, however many they are.
SHORT_TURN_WITH_TOTALS = 80
# Threads without loops wait for functions, which compute step by step, from so many instructions
# on; beyond so many, with loops or without, several registers per value no longer pay.
LEAST_CHAIN = 30
LONGEST_CHAIN = 400
# Where elements of several components are sorted, a thread has more values at a time.
LONGEST_CHAIN_OF_UNITS = 100
# A float is made an integer with care for what is out of range.
TO_INTEGER = 4
# Beyond so many Eqns the time to compile counts: no gangs of arrays of any strides, then fewer
# registers per value, then one form only.
LONG_FOR_THREE_BODIES = 200
LONG = 600
VERY_LONG = 2000
# Elements of any strides are moved one by one: more lanes take longer to compile and hide little.
NARROW_GANG = 16
# Rows that are taken together, the most first. With more instructions per element that they access
# alike, they gain nothing; so many registers hold what they keep from turn to turn.
ROWS_TOGETHER = (4, 2)
MOST_WORK_PER_ELEMENT_OF_ROWS = 10
REGISTERS_OF_ROWS = 16
# Rows of so many gangs hide what the points beside them cost; as many as there may be.
MANY_GANGS = 16
ANY_ROW = 1 << 31
# Instructions of what all points of a row share: as many may run once more per gang, or per thread.
FEW_SHARED_BY_GANG, FEW_SHARED_BY_THREAD = 24, 8
# An index is multiplied by a stride, and the product added.
PER_INDEX = 2


@dataclass(frozen=True, slots=True)
class Bodies:
    """The copies of a kernel's body besides that for whole gangs of packed arrays.

    Attributes:
        general_lanes: The gang of the body for arrays of any strides: 1, or NARROW_GANG under a
            mask. It also runs the remainder of rows, unless there is a tail.
        has_tail: Whether a masked body for packed arrays runs the remainder of rows.
        collapse_limit: Whole gangs a row below which gangs go on from row to row; 0 for never.
    """

    general_lanes: int = 1
    has_tail: bool = False
    collapse_limit: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """What a thread does.

    Attributes:
        results: Of how many operations.
        instructions: How many compute them.
        slow: Quotients and square roots among them.
        scattered: Accesses of scattered elements.
    """

    results: int
    instructions: int
    slow: int
    scattered: int

    def suits_gangs(self, *, in_loop: bool) -> bool:
        """Whether there is enough to compute per element."""
        if in_loop:
            return self.instructions >= WORK_PER_ELEMENT_IN_LOOP * self.scattered
        return self.instructions + SLOW * self.slow >= WORK_PER_ELEMENT * self.scattered


def best_lanes(func: Func, float_lanes: int) -> int:
    """The lanes of the fastest form of ``func`` where a register holds ``float_lanes`` float32."""
    eqns = list(walk_eqns(func.body))
    if len(eqns) > VERY_LONG:
        return 1
    strides = lane_strides(func)
    loops = _innermost_turns(eqns)
    turns = [_work(turn, strides) for turn in loops]
    whole = _work(eqns, strides)
    if not all(turn.suits_gangs(in_loop=True) for turn in turns):
        return 1
    if not turns and not whole.suits_gangs(in_loop=False):
        return 1
    registers = _registers(eqns, loops, strides)
    return registers * float_lanes // (2 if _is_mostly_wide(eqns, strides) else 1)


def _registers(eqns: Sequence[Eqn], loops: Sequence[Sequence[Eqn]], strides: Strides) -> int:
    """How many registers a value takes, so that the processor has work while it waits."""
    whole = _work(eqns, strides)
    # Where the time goes.
    parts = loops or [eqns]
    if len(eqns) > LONG:
        return 1
    if any(_is_unit(e, strides) for part in parts for e in part):
        waits = whole.slow > 0 and whole.instructions <= LONGEST_CHAIN_OF_UNITS
        return 2 if waits and not loops else 1
    if whole.scattered:
        return 2
    works = [_work(part, strides) for part in parts]
    if max(work.instructions for work in works) > LONGEST_CHAIN:
        return 2
    if not loops:
        return 4 if whole.instructions >= LEAST_CHAIN else 2
    has_totals = any(_is_total(e, strides) for part in parts for e in part)
    short = SHORT_TURN_WITH_TOTALS if has_totals else SHORT_TURN
    return 4 if max(work.results for work in works) <= short else 2


def suits_loop_vectorization(func: Func) -> bool:
    """Whether the loops whose turns can run in step are better off so."""
    loops = vector_loops(func)
    return bool(loops) and all(_gains_in_step(loop, body) for loop, body in loops.items())


def rows_together(func: Func, threads: int, float_lanes: int) -> int:
    """How many rows gangs of ``threads`` best take together, 1 if one by one.

    Rows that access elements alike load them once; what each keeps from turn to turn takes
    registers of ``float_lanes`` float32.
    """
    eqns = list(walk_eqns(func.body))
    loops = _innermost_loops(eqns)
    if not loops or len(eqns) > LONG_FOR_THREE_BODIES or not has_bands(func):
        return 1
    along, across, kept = lane_strides(func), row_strides(func), 1
    for loop in loops:
        turn = _turn(loop)
        alike = [e for e in turn if _moving_axes(e, along) and not _moving_axes(e, across)]
        if _work(turn, along).instructions > MOST_WORK_PER_ELEMENT_OF_ROWS * len(alike):
            return 1
        outer = [*loop.regions[-1].params, *captured_vars(loop)]
        kept = max(kept, sum(along[v] is None and across[v] != 0 for v in outer))
    lanes = threads * kept * (2 if _is_mostly_wide(eqns, along) else 1)
    room = REGISTERS_OF_ROWS * float_lanes // lanes
    return next((rows for rows in ROWS_TOGETHER if rows <= room), 1)


def is_straight(func: Func, threads: int) -> bool:
    """Whether passes that move code out of loops, or unroll them, have nothing to gain.

    The loop over the points of a row counts, too; it takes ``threads`` at a time.
    """
    eqns, strides = list(walk_eqns(func.body)), lane_strides(func)
    if any(eqn.op.kind in LOOPS for eqn in eqns):
        return False
    pure = [e for e in eqns if e.op.kind is OpKind.PURE and strides[e.out] == 0]
    quotients = sum(slow_instructions(e) + integer_quotients(e) for e in pure)
    shared = sum(len(instructions_of(e)) for e in pure) + SLOW * quotients
    if threads > 1:
        return shared <= FEW_SHARED_BY_GANG
    indices = [i for e in eqns if e.op.kind in ACCESSES for i in element_indices(e)]
    moved = sum(isinstance(i, Var) and strides[i] == 0 for i in indices)
    return shared + PER_INDEX * moved <= FEW_SHARED_BY_THREAD


def _gains_in_step(loop: Eqn, body: VectorLoop) -> bool:
    bounds = [int(a.value) for a in loop.inputs[:3] if isinstance(a, Const)]
    if len(bounds) == 3 and trip_count(*bounds) < FEWEST_KNOWN_TURNS:
        return False
    units = {*body.loads.values(), *body.additions.values()}
    scattered = [unit for unit in units if _is_anywhere(unit[0], body.strides)]
    elements = sum(1 if is_row(unit[0]) else len(unit) for unit in scattered)
    work = _work(list(walk_eqns(body.region)), body.strides)
    return work.instructions >= WORK_PER_ELEMENT_IN_STEP * max(elements, 1)


def _is_anywhere(eqn: Eqn, strides: Strides) -> bool:
    """Whether the elements that ``eqn`` accesses lie at no fixed distance."""
    return any(_stride(i, strides) is None for i in element_indices(eqn))


def choose_bodies(func: Func, gang: int, tile_rows: int) -> Bodies:
    """The bodies of ``func`` for gangs of ``gang`` threads, which take ``tile_rows`` together."""
    eqns = list(walk_eqns(func.body))
    if gang == 1 or len(eqns) > LONG_FOR_THREE_BODIES:
        return Bodies()
    collapse_limit = _collapse_limit(func, eqns) if tile_rows == 1 else 0
    if _suits_any_strides(func, eqns):
        return Bodies(min(gang, NARROW_GANG), False, collapse_limit)
    return Bodies(1, _needs_tail(func, eqns), collapse_limit)


def _suits_any_strides(func: Func, eqns: Sequence[Eqn]) -> bool:
    """Whether gangs beat single threads where no elements are adjacent."""
    strides, turns = lane_strides(func), _innermost_turns(eqns)
    for part in turns or [eqns]:
        moving = sum(bool(_moving_axes(e, strides)) for e in part)
        work = replace(_work(part, strides), scattered=moving)
        if not work.suits_gangs(in_loop=bool(turns)):
            return False
    return True


def _needs_tail(func: Func, eqns: Sequence[Eqn]) -> bool:
    """Whether the remainder of a row takes long by single threads, and little time to compile."""
    # Memory of stacks is for all lanes of a gang, however few are active.
    kinds = {e.op.kind for e in eqns}
    if not kinds & LOOPS or OpKind.STACK in kinds:
        return False
    # Under masks elements of components take a long time to compile.
    strides = lane_strides(func)
    return not any(_is_unit(e, strides) for e in eqns)


def _collapse_limit(func: Func, eqns: Sequence[Eqn]) -> int:
    """Whole gangs a row below which gangs that go on from row to row are best."""
    # Sums are made row by row.
    if func.rank == 1 or _has_shared_sums(eqns):
        return 0
    strides, row_major = crossing_strides(func), row_major_accesses(func)

    def work(part: Sequence[Eqn]) -> Work:
        apart = [e for e in part if not (e in row_major and _is_known_component(e))]
        scattered = sum(bool(_moving_axes(e, strides)) for e in apart)
        return replace(_work(part, strides), scattered=scattered)

    turns, whole = _innermost_turns(eqns), work(eqns)
    if not all(work(turn).suits_gangs(in_loop=True) for turn in turns):
        return 0
    if whole.scattered == 0 and turns and not _needs_tail(func, eqns):
        return ANY_ROW
    return MANY_GANGS if turns or whole.suits_gangs(in_loop=False) else 1


def _has_shared_sums(eqns: Sequence[Eqn]) -> bool:
    sums = (e for e in eqns if e.op.kind is OpKind.ATOMIC_ADD)
    return any(form_of(e) is not AddForm.OWNED for e in sums)


def _innermost_turns(eqns: Sequence[Eqn]) -> list[list[Eqn]]:
    """The Eqns of every loop that has no loop inside."""
    return [_turn(loop) for loop in _innermost_loops(eqns)]


def _innermost_loops(eqns: Sequence[Eqn]) -> list[Eqn]:
    loops = [e for e in eqns if e.op.kind in LOOPS]
    return [loop for loop in loops if not any(e.op.kind in LOOPS for e in _turn(loop))]


def _turn(loop: Eqn) -> list[Eqn]:
    return [inner for region in loop.regions for inner in walk_eqns(region)]


def _work(eqns: Sequence[Eqn], strides: Strides) -> Work:
    results = instructions = slow = 0
    for eqn in eqns:
        if eqn.op.kind is OpKind.PURE and strides[eqn.out] is None:
            results += 1
            instructions += len(instructions_of(eqn))
            slow += slow_instructions(eqn)
        elif eqn.op.kind is OpKind.CAST and strides[eqn.out] is None:
            results += 1
            source, target = scalar_type(eqn.inputs[0]), scalar_type(eqn.out)
            instructions += TO_INTEGER if source.is_float and not target.is_float else 1
    return Work(results, instructions, slow, sum(_is_scattered(e, strides) for e in eqns))


def _is_scattered(eqn: Eqn, strides: Strides) -> bool:
    """Whether ``eqn`` accesses elements that a gang can only access one by one."""
    moving = _moving_axes(eqn, strides)
    return bool(moving) and not _is_dense(eqn, moving, strides)


def _is_unit(eqn: Eqn, strides: Strides) -> bool:
    """Whether ``eqn`` accesses elements of several components that a gang loads as units."""
    moving = _moving_axes(eqn, strides)
    return bool(moving) and _is_dense(eqn, moving, strides) and bool(array_type(eqn).components)


def _is_total(eqn: Eqn, strides: Strides) -> bool:
    """Whether a gang adds up the values of its threads, to add them to one element."""
    is_sum = eqn.op.kind is OpKind.ATOMIC_ADD and not _moving_axes(eqn, strides)
    return is_sum and _stride(eqn.inputs[-1], strides) != 0


def _moving_axes(eqn: Eqn, strides: Strides) -> list[int]:
    """The axes whose index differs among the threads of a gang."""
    if eqn.op.kind not in ACCESSES:
        return []
    indices = element_indices(eqn)
    return [axis for axis, i in enumerate(indices) if _stride(i, strides) != 0]


def _is_dense(eqn: Eqn, moving: Sequence[int], strides: Strides) -> bool:
    is_last = list(moving) == [array_type(eqn).outer_ndim - 1]
    is_last = is_last and _stride(element_indices(eqn)[moving[0]], strides) == 1
    return is_last and _is_known_component(eqn)


def _is_known_component(eqn: Eqn) -> bool:
    """Whether a gang can load the elements with all their components, and knows which it needs."""
    return component_of(eqn) is not None and prod(array_type(eqn).components) <= MAX_INTERLEAVED


def _is_mostly_wide(eqns: Sequence[Eqn], strides: Strides) -> bool:
    """Whether most values that differ among threads have 64 bits."""
    made = [
        LLVM_TYPES[scalar_type(e.out).name]
        for e in eqns
        if e.op.kind in (OpKind.PURE, OpKind.CAST, OpKind.LOAD) and strides[e.out] is None
    ]
    numbers = [t for t in made if t != "i1"]
    return 2 * sum(t in ("double", "i64") for t in numbers) > len(numbers)


def _stride(atom: Atom, strides: Strides) -> int | None:
    return 0 if isinstance(atom, Const) else strides[atom]
