"""Conversions between scalar types; no value traps or yields poison."""

from __future__ import annotations

from kernelcore.builtins import float16
from kernelcore.builtins.lowering import LLVM_TYPES, compare, instr, select
from kernelcore.builtins.reference import is_narrow
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.ir.core import Eqn
from kernelcore.language.types import Scalar, boolean, float32, float64, uint64

# Integers of no more bits are exact in float32, and in float64.
_FLOAT32_BITS = 24
_FLOAT64_BITS = 53

_add = instr(int="add")
_and = instr(int="and")
_or = instr(int="or")
_not_equal = compare(float="une", int="ne")
_greater = compare(float="ogt", int="sgt")
_equal = compare(float="oeq", int="eq")
_less = compare(float="olt", int="slt", uint="ult")


def emit_cast(e: Emitter, eqn: Eqn) -> list[str]:
    """A scalar as another type; floats saturate as integers, where NaN becomes 0."""
    (source,) = eqn.inputs
    return [convert(e, scalar_type(source), scalar_type(eqn.out), e.value(source))]


def convert(e: Emitter, source: Scalar, target: Scalar, value: str) -> str:
    """``value`` of type ``source`` as ``target``, rounded once."""
    if source == target:
        return value
    if target == boolean:
        return _not_equal(e, source, value, e.const(source, 0))
    if source.is_float and target.is_integer:
        return _saturate(e, source, target, value)
    if is_narrow(target):
        return float16.rounded(e, target, _for_rounding(e, source, value))
    return _extended(e, float16.held_as(source), target, value)


def _extended(e: Emitter, source: Scalar, target: Scalar, value: str) -> str:
    """What one instruction converts."""
    if LLVM_TYPES[source.name] == LLVM_TYPES[target.name]:
        return value
    return e.op(f"{_mnemonic(source, target)} {e.type(source)} {value} to {e.type(target)}")


def _mnemonic(source: Scalar, target: Scalar) -> str:
    if source.is_float:
        return "fpext" if target.bits > source.bits else "fptrunc"
    if target.is_float:
        return "sitofp" if source.kind == "int" else "uitofp"
    if target.bits < source.bits:
        return "trunc"
    return "sext" if source.kind == "int" else "zext"


def _for_rounding(e: Emitter, source: Scalar, value: str) -> str:
    """A float32 that rounds to 16 bits as ``value`` does."""
    if source != float64 and (source.is_float or source.bits <= _FLOAT32_BITS):
        return _extended(e, float16.held_as(source), float32, value)
    if source.is_integer:
        kept = value if source.bits <= _FLOAT64_BITS else _odd_integer(e, source, value)
        value = _extended(e, source, float64, kept)
    return float16.odd_float32(e, value)


def _odd_integer(e: Emitter, source: Scalar, value: str) -> str:
    """64 bits that float64 represents and that round to fewer digits as ``value`` does."""
    rest = (1 << (source.bits - _FLOAT64_BITS)) - 1
    low = _and(e, source, value, e.const(source, rest))
    lost = _not_equal(e, source, low, e.const(source, 0))
    sticky = select(e, source, lost, e.const(source, rest + 1), e.const(source, 0))
    odd = _or(e, source, _and(e, source, value, e.const(source, ~rest)), sticky)
    # Both signs in one unsigned comparison.
    offset = 0 if source.kind == "uint" else 1 << _FLOAT64_BITS
    bound = (1 << _FLOAT64_BITS) + offset
    moved = _add(e, uint64, value, e.const(uint64, offset))
    exact = _less(e, uint64, moved, e.const(uint64, bound))
    return select(e, source, exact, value, odd)


def _saturate(e: Emitter, source: Scalar, target: Scalar, value: str) -> str:
    held = float16.held_as(source)
    if e.lanes > 1:
        return _saturate_lanes(e, held, target, value)
    sign = "s" if target.kind == "int" else "u"
    name = f"llvm.fpto{sign}i.sat.{LLVM_TYPES[target.name]}.f{held.bits}"
    e.declare(f"declare {e.type(target)} @{name}({e.type(held)})")
    return e.op(f"call {e.type(target)} @{name}({e.type(held)} {value})")


def _saturate_lanes(e: Emitter, held: Scalar, target: Scalar, value: str) -> str:
    """What LLVM's saturating conversion gives, which goes lane by lane."""
    is_signed = target.kind == "int"
    digits = target.bits - is_signed
    low, zero = e.const(held, -(2.0**digits) if is_signed else 0.0), e.const(held, 0.0)
    above = select(e, held, _greater(e, held, value, low), value, low)
    fits = _less(e, held, above, e.const(held, 2.0**digits))
    inside = select(e, held, fits, above, zero)
    mnemonic = "fptosi" if is_signed else "fptoui"
    integer = e.op(f"{mnemonic} {e.type(held)} {inside} to {e.type(target)}")
    found = select(e, target, fits, integer, e.const(target, (1 << digits) - 1))
    return select(e, target, _equal(e, held, value, value), found, e.const(target, 0))
