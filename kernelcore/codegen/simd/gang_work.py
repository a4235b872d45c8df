"""The work of a gang: its instructions, and the accesses that it makes element by element.

docs/decisions/005 has the figure behind each constant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.component_groups import (
    MAX_INTERLEAVED,
    component_of,
    rows_apart,
)
from kernelcore.codegen.analysis.row_blocks import accesses_in_blocks, blocked_loops
from kernelcore.codegen.analysis.uniformity import Strides, stride_of
from kernelcore.codegen.llvm.emitter import scalar_type
from kernelcore.codegen.llvm.instruction_cost import SLOW, instructions_of, slow_instructions
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import ACCESSES, FEW_TRIPS, LOOPS, WRITES, OpKind
from kernelcore.ir.walk import array_type, element_indices, eqns_inside, walk_eqns
from kernelcore.passes.access.repeated_loads import repeated_loads

# Minimum arithmetic per gathered element that pays for lane insertion and extraction: inside the
# loop of a thread, and outside of loops.
WORK_PER_ELEMENT_IN_LOOP = 10
WORK_PER_ELEMENT = 4
# The scattered accesses that a row of components counts as.
ACCESSES_PER_ROW = 2
# A conversion of a float to an integer, which saturates.
TO_INTEGER = 4


@dataclass(frozen=True, slots=True)
class GangWork:
    """The work of one thread in some equations.

    Attributes:
        instructions: Instructions of varying values.
        slow: Divisions and square roots among them.
        scattered: Accesses that a gang makes element by element.
    """

    instructions: int
    slow: int
    scattered: int

    def suits_gangs(self, *, in_loop: bool) -> bool:
        """Whether there is enough arithmetic per scattered element."""
        if in_loop:
            return self.instructions >= WORK_PER_ELEMENT_IN_LOOP * self.scattered
        return self.instructions + SLOW * self.slow >= WORK_PER_ELEMENT * self.scattered


def innermost_bodies(eqns: Sequence[Eqn]) -> list[list[Eqn]]:
    """The bodies of the loops that have no loop inside."""
    return [body_of(loop) for loop in innermost_loops(eqns)]


def innermost_loops(eqns: Sequence[Eqn]) -> list[Eqn]:
    """The loops that have no loop inside, but for those of few iterations."""
    loops = [e for e in eqns if e.op.kind in LOOPS and FEW_TRIPS not in e.attrs]
    return [loop for loop in loops if not any(e.op.kind in LOOPS for e in body_of(loop))]


def body_of(loop: Eqn) -> list[Eqn]:
    """The operations inside ``loop``."""
    return list(eqns_inside(loop))


def work_in(eqns: Sequence[Eqn], strides: Strides, scattered: Collection[Eqn]) -> GangWork:
    """The work of one thread in ``eqns``, of which those in ``scattered`` are made one by one."""
    instructions = slow = 0
    for eqn in eqns:
        if eqn.op.kind is OpKind.PURE and strides[eqn.out] is None:
            instructions += len(instructions_of(eqn))
            slow += slow_instructions(eqn)
        elif eqn.op.kind is OpKind.CAST and strides[eqn.out] is None:
            source, target = scalar_type(eqn.inputs[0]), scalar_type(eqn.out)
            instructions += TO_INTEGER if source.is_float and not target.is_float else 1
    return GangWork(instructions, slow, sum(e in scattered for e in eqns))


def scattered_accesses(func: Func, strides: Strides) -> frozenset[Eqn]:
    """The accesses of ``func`` that a gang makes element by element.

    Those of a row of components count as ``ACCESSES_PER_ROW``. If a kernel without loops scatters
    rows alone, none count: such gangs gain with any arithmetic (docs/decisions/292).
    """
    blocked = blocked_loops(func, strides)
    eqns, rows = list(walk_eqns(func.body)), rows_apart(func)
    # A loop that writes nothing loads before its iterations what they repeat, as blocks do.
    loops = [e for e in eqns if e.op.kind is OpKind.FOR and not _writes(e)]
    together = accesses_in_blocks(blocked).union(*map(repeated_loads, [*blocked, *loops]))
    apart = [e for e in eqns if e not in together and _is_scattered(e, strides)]
    if all(e in rows for e in apart) and not any(e.op.kind in LOOPS for e in eqns):
        return frozenset()
    return frozenset(e for e in apart if e not in rows or e in rows[e][:ACCESSES_PER_ROW])


def _writes(loop: Eqn) -> bool:
    return any(e.op.kind in WRITES for e in eqns_inside(loop))


def scattered_rows(func: Func, strides: Strides) -> frozenset[Eqn]:
    """The accesses that a gang makes as one row of components per lane."""
    return frozenset(e for e in rows_apart(func) if _is_scattered(e, strides))


def _is_scattered(eqn: Eqn, strides: Strides) -> bool:
    """Whether a gang can access the elements of ``eqn`` only one by one."""
    moving = moving_axes(eqn, strides)
    return bool(moving) and not is_dense(eqn, moving, strides)


def is_component_group(eqn: Eqn, strides: Strides) -> bool:
    """Whether a gang loads adjacent elements of several components for ``eqn``."""
    moving = moving_axes(eqn, strides)
    return bool(moving) and is_dense(eqn, moving, strides) and bool(array_type(eqn).components)


def moving_axes(eqn: Eqn, strides: Strides) -> list[int]:
    """The axes whose index differs among the threads of a gang."""
    if eqn.op.kind not in ACCESSES:
        return []
    return [axis for axis, i in enumerate(element_indices(eqn)) if stride_of(strides, i) != 0]


def is_dense(eqn: Eqn, moving: Sequence[int], strides: Strides) -> bool:
    """Whether a gang accesses adjacent elements, of which only the axes ``moving`` differ."""
    is_last = list(moving) == [array_type(eqn).outer_ndim - 1]
    is_adjacent = is_last and stride_of(strides, element_indices(eqn)[moving[0]]) == 1
    return is_adjacent and is_known_component(eqn)


def is_known_component(eqn: Eqn) -> bool:
    """Whether a gang can load elements with all their components, and knows which it needs."""
    return component_of(eqn) is not None and prod(array_type(eqn).components) <= MAX_INTERLEAVED


def is_mostly_64_bit(eqns: Sequence[Eqn], strides: Strides) -> bool:
    """Whether most varying values have 64 bits."""
    made = [
        LLVM_TYPES[scalar_type(e.out).name]
        for e in eqns
        if e.op.kind in (OpKind.PURE, OpKind.CAST, OpKind.LOAD) and strides[e.out] is None
    ]
    numbers = [t for t in made if t != "i1"]
    return 2 * sum(t in ("double", "i64") for t in numbers) > len(numbers)
