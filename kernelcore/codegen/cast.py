"""Conversions between scalar types; no value traps or yields poison."""

from __future__ import annotations

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.emitter import Emitter, scalar_type
from kernelcore.ir.core import Eqn
from kernelcore.types import Scalar


def emit_cast(e: Emitter, eqn: Eqn) -> list[str]:
    """A scalar as another type; floats saturate as integers, where NaN becomes 0."""
    (source,) = eqn.inputs
    return [convert(e, scalar_type(source), scalar_type(eqn.out), e.value(source))]


def convert(e: Emitter, source: Scalar, target: Scalar, value: str) -> str:
    """``value`` of type ``source`` as ``target``."""
    if source == target:
        return value
    if target.kind == "bool":
        test = "fcmp une" if source.is_float else "icmp ne"
        return e.op(f"{test} {e.type(source)} {value}, {e.const(source, 0)}")
    if source.is_float and not target.is_float:
        return _saturate(e, source, target, value)
    return e.op(f"{_mnemonic(source, target)} {e.type(source)} {value} to {e.type(target)}")


def _mnemonic(source: Scalar, target: Scalar) -> str:
    match source.kind, target.kind:
        case "bool", "float":
            return "uitofp"
        case "bool", _:
            return "zext"
        case "int", "float":
            return "sitofp"
        case "int", _:
            return "sext" if target.bits > source.bits else "trunc"
        case _:
            return "fpext" if target.bits > source.bits else "fptrunc"


def _saturate(e: Emitter, source: Scalar, target: Scalar, value: str) -> str:
    width = "" if e.lanes == 1 else f"v{e.lanes}"
    name = f"llvm.fptosi.sat.{width}{LLVM_TYPES[target.name]}.{width}f{source.bits}"
    e.declare(f"declare {e.type(target)} @{name}({e.type(source)})")
    return e.op(f"call {e.type(target)} @{name}({e.type(source)} {value})")
