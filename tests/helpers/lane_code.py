"""Code of a function of scalars for several sets of arguments at once."""

from __future__ import annotations

from kernelcore.base import native
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, Facts, Lanes, scalar_type
from kernelcore.codegen.llvm.kernel import HANDLERS, module_text
from kernelcore.ir.core import Func


def emit_lanes(func: Func, symbol: str, lanes: int, fused: bool = native.has_fma) -> str:
    """LLVM text of a function of scalars, evaluated for ``lanes`` sets of arguments at once.

    Defines ``void symbol(ptr in0, ..., ptr out0, ...)``: every pointer is to ``lanes`` elements.
    ``fused`` says whether the target multiplies and adds in one instruction.
    """
    e = Emitter(Lanes(lanes), HANDLERS, Facts(fused=fused))
    for at, param in enumerate(func.params):
        e.bind(param, memory.load(e, scalar_type(param), f"%in{at}"))
    e.region(func.body)
    for at, value in enumerate(e.value(a) for a in func.body.yields):
        memory.store(e, scalar_type(func.body.yields[at]), value, f"%out{at}")
    e.effect("ret void")
    pointers = [f"ptr %in{at}" for at in range(len(func.params))]
    pointers += [f"ptr %out{at}" for at in range(len(func.body.yields))]
    return module_text(e, f'void @"{symbol}"({", ".join(pointers)}) nounwind')
