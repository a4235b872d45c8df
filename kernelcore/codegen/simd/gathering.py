"""Which kernels gather their sums, and how the code of a piece uses SIMD registers."""

from __future__ import annotations

from kernelcore.base.dataclass import dataclass
from kernelcore.base.host import Host
from kernelcore.codegen.analysis.gathered_sums import GatheredSums, gathered_sums
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.llvm.instruction_cost import SLOW
from kernelcore.codegen.reduction.accumulation import adds_in_order
from kernelcore.codegen.simd.gang_work import work_in
from kernelcore.codegen.simd.lane_axis import (
    OtherAxis,
    adds_to_rows,
    is_shared_sum,
    other_axis,
    suits_lanes_better,
)
from kernelcore.codegen.simd.strategy import VectorStrategy, choose_strategy, in_gangs
from kernelcore.ir.core import Func
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.ir.walk import eqns_inside

# Where gangs would add to elements that are adjacent or shared, it pays to gather sums from so many
# iterations of loops on, and with so few instructions per iteration: every sum computes its terms
# anew.
LEAST_TRIPS, MOST_INSTRUCTIONS = 16, 8
# The same in short rows of the grid, in which most lanes of a gang would be idle.
FEW_POINTS, LEAST_TRIPS_OF_FEW = 32, 4
# Gangs go through the iterations of loops, of which there may be few: the most registers per value.
MOST_REGISTERS = 2


@dataclass(frozen=True, slots=True)
class Gathering:
    """How a kernel gathers its sums.

    Attributes:
        sums: What it runs for a piece of the grid.
        least_trips: The iterations of loops from which on launches do that; 0 for all launches.
    """

    sums: GatheredSums
    least_trips: int

    @property
    def is_always(self) -> bool:
        """Whether all launches gather, so that the kernel has no other code."""
        return self.least_trips == 0


def choose_gathering(func: Func) -> Gathering | None:
    """How ``func``, which has a plan, gathers its sums; None where that is not quicker.

    It decides the order in which threads add to an element, so it depends on ``func`` alone.
    """
    found = gathered_sums(func, _is_better)
    if found is None or (found.first is not None and _adds_in_loops(found.first)):
        return None
    if adds_to_rows(func):
        return Gathering(found, 0)
    return Gathering(found, LEAST_TRIPS) if _has_little_work(found) else None


def has_own_code(gathering: Gathering | None) -> bool:
    """Whether some launches of a kernel with that ``gathering`` run the kernel as it is."""
    return gathering is None or not gathering.is_always


def choose_detours(func: Func) -> tuple[Gathering | None, OtherAxis | None]:
    """How ``func`` gathers its sums, and the other axis along which lanes of its own code lie."""
    gathering = choose_gathering(func)
    return gathering, other_axis(func) if has_own_code(gathering) else None


def strategies_of_pieces(found: GatheredSums, host: Host) -> tuple[VectorStrategy, ...]:
    """How each of ``found.funcs`` uses SIMD registers."""
    first = () if found.first is None else (choose_strategy(found.first, host),)
    return (*first, *(_strategy_of_sum(one.func, host) for one in found.sums))


def _strategy_of_sum(func: Func, host: Host) -> VectorStrategy:
    found, most = choose_strategy(func, host), MOST_REGISTERS * host.float_lanes
    if found.gang <= most or not adds_in_order(func):
        return found
    return in_gangs(func, most, host)


def _is_better(one: Func, other: Func) -> bool:
    """Whether lanes suit kernel ``one`` of an addition better than ``other``."""
    if suits_lanes_better(one, other):
        return True
    return not suits_lanes_better(other, one) and adds_to_rows(other) and not adds_to_rows(one)


def _adds_in_loops(func: Func) -> bool:
    loops = (e for e in func.body.eqns if e.op.kind in LOOPS)
    return any(is_shared_sum(e) for loop in loops for e in eqns_inside(loop))


def _has_little_work(found: GatheredSums) -> bool:
    """Whether the loops that compute terms have few instructions in all."""
    total = 0
    for one in found.sums:
        loops = [e for e in one.func.body.eqns if e.op.kind is OpKind.FOR]
        eqns = [e for loop in loops for e in eqns_inside(loop)]
        work = work_in(eqns, lane_strides(one.func), ())
        total += work.instructions + SLOW * work.slow
    return total <= MOST_INSTRUCTIONS
