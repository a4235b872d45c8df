"""Which form of a kernel is best: how many threads, or turns of loops, run in step."""

from __future__ import annotations

from dataclasses import dataclass

from kernelcore.base.config import config
from kernelcore.base.host import Host
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.simd.cost_model import best_lanes, rows_together, suits_loop_vectorization
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import ATOMICS, LOOPS, AddForm, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import FLOATS
from kernelcore.passes.access.accumulation_plan import form_of


@dataclass(frozen=True, slots=True)
class Form:
    """How a kernel uses SIMD registers: a lane is a thread, or a turn of a loop.

    Attributes:
        threads: How many run as a gang, a power of two up to 64.
        turns: How many turns of loops run in step, 1 or ``LOOP_LANES``; single threads only.
        rows: How many rows of the grid gangs take together, 1 or a few
            (``codegen/analysis/row_tiling.py``).
        least_masked_bytes: How large elements are that gangs access by instructions under a mask.
    """

    threads: int = 1
    turns: int = 1
    rows: int = 1
    least_masked_bytes: int = 1


SINGLE_THREADS = Form()
# Lanes for which tests compare results.
LANES = (1, 4, 8, 16, 32, 64)
# Of the processor for which gangs are made on which sums depend: the same everywhere.
FLOAT_LANES_OF_SUMS = 16
# Processors with registers of this many lanes have 32 of them, others 16: too few for the values of
# several rows.
FLOAT_LANES_OF_MANY_REGISTERS = 16
# Operations without a vector form: kernels with one of them run single threads.
_SCALAR_ONLY = ATOMICS | {OpKind.SNIPPET, OpKind.PRINT}


def form_for(func: Func, host: Host) -> Form:
    """The best form of ``func`` for ``host``."""
    threads = _lanes_for(func, host)
    if threads > 1:
        has_many_registers = host.float_lanes >= FLOAT_LANES_OF_MANY_REGISTERS
        rows = rows_together(func, threads, host.float_lanes) if has_many_registers else 1
        return Form(
            threads,
            rows=rows,
            least_masked_bytes=host.least_masked_bytes,
        )
    if not config.optimize:
        return SINGLE_THREADS
    return Form(turns=LOOP_LANES) if suits_loop_vectorization(func) else SINGLE_THREADS


def _lanes_for(func: Func, host: Host) -> int:
    if not config.optimize or not has_vector_form(func):
        return 1
    # Sums must not depend on the processor.
    return best_lanes(func, host.float_lanes if adds_in_order(func) else FLOAT_LANES_OF_SUMS)


def has_vector_form(func: Func) -> bool:
    """Whether every operation of ``func`` can run for a gang of threads."""
    eqns = walk_eqns(func.body)
    return not any(eqn.op.kind in _SCALAR_ONLY or _is_atomic(eqn) for eqn in eqns)


def adds_in_order(func: Func) -> bool:
    """Whether gangs add shared elements up in the order of single threads."""
    found: list[Eqn] = []
    strides = lane_strides(func)

    def visit(region: Region, in_loop: bool) -> bool:
        for eqn in region.eqns:
            if _is_ordered(eqn):
                found.append(eqn)
                # Of one element a gang makes a total first.
                is_apart = any(strides.get(i) != 0 for i in eqn.inputs[1:-1] if isinstance(i, Var))
                if in_loop or not is_apart:
                    return False
            is_loop = eqn.op.kind in LOOPS
            if not all(visit(r, in_loop or is_loop) for r in eqn.regions):
                return False
        return True

    return visit(func.body, False) and len({e.inputs[0] for e in found}) == len(found)


def _is_atomic(eqn: Eqn) -> bool:
    """Whether ``eqn`` adds where other accesses of the kernel may reach, in order of the points."""
    return eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) is AddForm.ATOMIC


def _is_ordered(eqn: Eqn) -> bool:
    """Whether sums depend on the order of ``eqn`` among the threads of a gang."""
    if eqn.op.kind is not OpKind.ATOMIC_ADD or eqn.inputs[-1].type not in FLOATS:
        return False
    return form_of(eqn) in (AddForm.SHARED, AddForm.ATOMIC)
