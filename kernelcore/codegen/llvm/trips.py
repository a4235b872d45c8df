"""The iterations of loops whose bounds the launch decides."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm.blocks import resized
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.ir.core import Atom, Func, Region
from kernelcore.passes.access.accumulation_plan import defining_eqns


def launch_trips(e: Emitter, func: Func, bounds: Sequence[Atom]) -> str:
    """The iterations of a loop of ``func`` from its start, stop and step, as i64.

    The arguments of the kernel are bound.
    """
    e.region(Region((), defining_eqns(func, tuple(bounds))))
    integer = scalar_type(bounds[0])
    with e.at(1):
        count = trip_count(e, integer, *(e.value(a) for a in bounds))
    return resized(e, count, LLVM_TYPES[integer.name], "i64")
