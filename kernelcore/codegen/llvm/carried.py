"""Which launches may run a kernel whose loops carry elements (``carried_elements.py``)."""

from __future__ import annotations

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.carried_elements import CarriedElements
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.ir.core import Region
from kernelcore.passes.access.accumulation_plan import defining_eqns


def may_carry(e: Emitter, found: CarriedElements) -> str:
    """Whether arrays share no memory, and every loop has an iteration, as i1.

    The arguments of the kernel are bound.
    """
    result = "true"
    for pair in found.apart:
        is_apart = e.op(f"or i1 {memory.are_apart(e, *pair)}, {memory.rows_are_apart(e, *pair)}")
        result = e.op(f"and i1 {result}, {is_apart}")
    for bounds in found.bounds:
        e.region(Region((), defining_eqns(found.func, bounds)))
        integer = scalar_type(bounds[0])
        with e.at(1):
            count = trip_count(e, integer, *(e.value(a) for a in bounds))
        has_some = e.op(f"icmp ne {LLVM_TYPES[integer.name]} {count}, 0")
        result = e.op(f"and i1 {result}, {has_some}")
    return result
