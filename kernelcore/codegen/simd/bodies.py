"""Which copies of a kernel's body there are besides the one for whole gangs of packed arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.codegen.analysis.kept_rows import (
    LEAST_INSTRUCTIONS,
    LEAST_INSTRUCTIONS_OF_ONE,
    KeptRows,
    kept_rows,
)
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, blocked_loops
from kernelcore.codegen.analysis.rows_one_by_one import besides_rows
from kernelcore.codegen.analysis.uniformity import (
    collapsed_strides,
    lane_strides,
    row_major_accesses,
)
from kernelcore.codegen.llvm.instruction_cost import count_of
from kernelcore.codegen.reduction.accumulation import adds_in_order
from kernelcore.codegen.simd.column_walks import ColumnWalks, column_walks
from kernelcore.codegen.simd.cost_model import (
    MAX_EQNS_OF_MANY_BODIES,
    MAX_EQNS_OF_NARROW_GANGS,
    obstacle_to_gangs,
)
from kernelcore.codegen.simd.gang_work import (
    GangWork,
    innermost_bodies,
    is_component_group,
    is_dense,
    is_known_component,
    is_mostly_64_bit,
    moving_axes,
    scattered_accesses,
    work_in,
)
from kernelcore.codegen.simd.squares import Squares, squares_of
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import ACCESSES, LOOPS, AddForm, OpKind
from kernelcore.ir.walk import array_type, walk_eqns
from kernelcore.passes.access.accumulation_plan import form_of
from kernelcore.passes.access.dense_middle import DenseMiddle, dense_middle

# Beyond, a second body of gangs takes LLVM seconds: arrays of any strides are added to in the order
# of points (docs/decisions/143).
MAX_EQNS_OF_ONE_ORDER = 600
# The gang of the body for arrays of any strides.
NARROW_GANG = 16
# Threads with at most as many instructions besides their loops go along long rows one by one
# (docs/decisions/258).
MOST_INSTRUCTIONS_OF_ONE = 47
# Rows shorter than this many gangs are collapsed.
MANY_GANGS = 16
# With code for the middle of rows, that is so for rows that have none.
GANGS_WITHOUT_MIDDLE = 2


@dataclass(frozen=True, slots=True)
class Bodies:
    """The copies of a kernel's body besides that for whole gangs of packed arrays.

    Attributes:
        general_lanes: The gang of the body for arrays of any strides: 1, or under a mask
            NARROW_GANG, or that of packed arrays where it decides the order of sums. It also runs
            the remainder of rows, unless there is a tail.
        tail_lanes: The gang of the body for packed arrays that runs the remainder of rows, under a
            mask where it is several threads, and all threads that go along long rows; 0 for none.
        collapse_limit: Rows of fewer whole gangs are collapsed; 0 for none.
        middle: The kernel for gangs in the middle of rows; None where all gangs run one code.
        kept: The kernel in the form for the tail that keeps values of rows; None without it.
        walks: The kernel in parts that gangs run together; None without them.
        squares: The kernel for gangs that run several rows of the grid; None without it.
        leaves_rest_to_threads: Whether single threads run what no squares take.
    """

    general_lanes: int = 1
    tail_lanes: int = 0
    collapse_limit: int = 0
    middle: DenseMiddle | None = None
    kept: KeptRows | None = None
    walks: ColumnWalks | None = None
    squares: Squares | None = None
    leaves_rest_to_threads: bool = False

    @property
    def has_tail(self) -> bool:
        """Whether there is a body for the remainder of rows."""
        return self.tail_lanes > 0


def choose_bodies(
    func: Func, gang: int, tile_rows: int, tile_gang: int = 0, least_masked_bytes: int = 1
) -> Bodies:
    """The bodies of ``func`` for gangs of ``gang`` threads, and tiles of ``tile_rows`` rows.

    Gangs of tiles have ``tile_gang`` threads, as the others if that is 0. The processor has masked
    accesses for elements of ``least_masked_bytes`` and more.
    """
    squares = squares_of(func, least_masked_bytes) if gang > 1 else None
    if squares is not None and obstacle_to_gangs(func) is not None:
        return Bodies(squares=squares, leaves_rest_to_threads=True)
    bodies = replace(_any_place(func, gang, tile_rows, least_masked_bytes), squares=squares)
    if bodies.tail_lanes == gang and tile_gang:
        # The tail runs whole rows of launches that have tiles, too, which suits gangs of these.
        bodies = replace(bodies, tail_lanes=tile_gang)
    if gang == 1:
        return bodies
    if tile_rows == 1:
        bodies = _for_long_rows(func, gang, bodies)
    middle = gaining_middle(func) if tile_rows == 1 else None
    if middle is None:
        return replace(bodies, walks=walks_of(func))
    limit = min(bodies.collapse_limit, GANGS_WITHOUT_MIDDLE)
    return replace(bodies, collapse_limit=limit, middle=middle)


def walks_of(func: Func) -> ColumnWalks | None:
    """``func`` in parts that gangs run together, unless gangs have code for the middle of rows."""
    return column_walks(func) if gaining_middle(func) is None else None


@lru_cache(maxsize=4)
def gaining_middle(func: Func) -> DenseMiddle | None:
    """The kernel for the middle of rows, if gangs access more elements together there."""
    strides = lane_strides(func)
    is_long = sum(1 for _ in walk_eqns(func.body)) > MAX_EQNS_OF_MANY_BODIES
    found = None if is_long or blocked_loops(func, strides) else dense_middle(func)
    if found is None or _partial_sums(func) != _partial_sums(found.func):
        return None
    left = scattered_accesses(found.func, lane_strides(found.func))
    return found if len(left) < len(scattered_accesses(func, strides)) else None


def _for_long_rows(func: Func, gang: int, bodies: Bodies) -> Bodies:
    """``bodies`` with the tail that runs whole gangs, too, where rows are long."""
    blocked = blocked_loops(func, lane_strides(func))
    # Where rows are in panels, tiles run the long ones.
    if any(loop.has_panels for loop in blocked.values()) or not any(
        loop.is_ordered_if_short for loop in blocked.values()
    ):
        return bodies
    alone = _suits_one(func, blocked)
    if _has_quick_tail(func, list(walk_eqns(func.body))):
        least = LEAST_INSTRUCTIONS_OF_ONE if alone else LEAST_INSTRUCTIONS
        kept = kept_rows(func, least)
        if kept is not None:
            bodies = replace(bodies, tail_lanes=gang, kept=kept)
    return replace(bodies, tail_lanes=1) if bodies.has_tail and alone else bodies


def _suits_one(func: Func, blocked: Mapping[Eqn, BlockedLoop]) -> bool:
    """Whether long rows, those of the loops ``blocked``, are what a thread spends its time on.

    Then one thread after the other has all its rows in the first cache.
    """
    rows = [eqn for eqn, loop in blocked.items() if loop.by_rows is not None]
    others = besides_rows(func.body.eqns, rows)
    return others is not None and sum(map(count_of, others)) <= MOST_INSTRUCTIONS_OF_ONE


def _partial_sums(func: Func) -> int:
    added = (e for e in walk_eqns(func.body) if e.op.kind is OpKind.ATOMIC_ADD)
    return sum(form_of(e) is AddForm.PARTIAL for e in added)


def _any_place(func: Func, gang: int, tile_rows: int, least_masked_bytes: int) -> Bodies:
    """The bodies that run gangs anywhere in a row."""
    if gang == 1:
        return Bodies()
    eqns = list(walk_eqns(func.body))
    has_many = len(eqns) <= MAX_EQNS_OF_MANY_BODIES
    has_loops = any(eqn.op.kind in LOOPS for eqn in eqns)
    suits_any_strides = _suits_any_strides(func, eqns)
    has_one_order = len(eqns) <= MAX_EQNS_OF_ONE_ORDER and not adds_in_order(func)
    collapse_limit = 0
    if has_many and tile_rows == 1 and not has_one_order:
        collapse_limit = _collapse_limit(func, eqns)
    if has_loops:
        # Loops along rows are for packed arrays alone.
        gains = not suits_any_strides or bool(blocked_loops(func, lane_strides(func)))
        has_tail = gains and _has_quick_tail(func, eqns)
    else:
        # Rows of a grid may be shorter than a gang; what is left of a single row matters little
        # (docs/decisions/290).
        may_mask = (
            func.rank > 1 and can_mask(eqns, least_masked_bytes) and _has_quick_tail(func, eqns)
        )
        if may_mask and collapse_limit == MANY_GANGS and _gains_apart(func, eqns):
            collapse_limit = 1
        has_tail = may_mask and collapse_limit < MANY_GANGS
    tail = gang if has_tail else 0
    if has_one_order:
        # Arrays of any strides have the sums that packed ones have (docs/decisions/143).
        return Bodies(gang, tail)
    if not has_loops:
        is_wide = is_mostly_64_bit(eqns, lane_strides(func))
        tail = min(tail, NARROW_GANG // 2 if is_wide else NARROW_GANG)
    # Threads with loops run long: so do, one by one, the few that fill no gang.
    most = MAX_EQNS_OF_NARROW_GANGS if has_loops else MAX_EQNS_OF_MANY_BODIES
    in_gangs = len(eqns) <= most and suits_any_strides
    return Bodies(min(gang, NARROW_GANG) if in_gangs else 1, tail, collapse_limit)


def can_mask(eqns: Iterable[Eqn], least_masked_bytes: int) -> bool:
    """Whether the processor has masked accesses for the elements of all arrays."""
    accesses = (e for e in eqns if e.op.kind in ACCESSES)
    return all(array_type(e).dtype.size_bytes >= least_masked_bytes for e in accesses)


def _suits_any_strides(func: Func, eqns: Sequence[Eqn]) -> bool:
    """Whether gangs beat scalar code where no elements are adjacent."""
    strides, bodies = lane_strides(func), innermost_bodies(eqns)
    for part in bodies or [eqns]:
        moving = sum(bool(moving_axes(e, strides)) for e in part)
        work = replace(work_in(part, strides, ()), scattered=moving)
        if not work.suits_gangs(in_loop=bool(bodies)):
            return False
    return True


def _has_quick_tail(func: Func, eqns: Sequence[Eqn]) -> bool:
    """Whether code for the remainder of a row under a mask is quick, and quick to compile."""
    if len(eqns) > MAX_EQNS_OF_MANY_BODIES:
        return False
    # A stack has memory for all lanes of a gang, however few are active.
    if any(e.op.kind is OpKind.STACK for e in eqns):
        return False
    # The masks of component groups would be shuffled.
    strides = lane_strides(func)
    return not any(is_component_group(e, strides) for e in eqns)


def _collapse_limit(func: Func, eqns: Sequence[Eqn]) -> int:
    """The ``collapse_limit`` of ``Bodies``."""
    # Sums are made row by row.
    if func.rank == 1 or _has_shared_sums(eqns) or blocked_loops(func, lane_strides(func)):
        return 0
    strides, row_major = collapsed_strides(func), row_major_accesses(func)

    def work(part: Sequence[Eqn]) -> GangWork:
        apart = [e for e in part if not (e in row_major and is_known_component(e))]
        scattered = sum(bool(moving_axes(e, strides)) for e in apart)
        return replace(work_in(part, strides, ()), scattered=scattered)

    bodies, whole = innermost_bodies(eqns), work(eqns)
    if not all(work(body).suits_gangs(in_loop=True) for body in bodies):
        return 0
    return MANY_GANGS if bodies or whole.suits_gangs(in_loop=False) else 1


def _gains_apart(func: Func, eqns: Sequence[Eqn]) -> bool:
    """Whether rows with masked remainders are quicker than joined ones.

    Joined gangs gather elements there that gangs within a row load together, as those of a bias.
    """
    # With code for the middle of rows, some kernels gain and some lose (docs/decisions/290).
    if gaining_middle(func) is not None:
        return False
    joined, others = collapsed_strides(func), lane_strides(func)
    together = row_major_accesses(func)
    apart = (e for e in eqns if moving_axes(e, joined) and e not in together)
    return any(is_dense(e, moving_axes(e, others), others) for e in apart)


def joins_rows(func: Func) -> bool:
    """Whether gangs of ``func``, unless it is long, could continue in rows of many gangs."""
    return _collapse_limit(func, list(walk_eqns(func.body))) == MANY_GANGS


def _has_shared_sums(eqns: Sequence[Eqn]) -> bool:
    sums = (e for e in eqns if e.op.kind is OpKind.ATOMIC_ADD)
    return any(form_of(e) is not AddForm.OWNED for e in sums)
