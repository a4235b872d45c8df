"""The lowering shapes that built-in entries choose from.

A lowering is called as ``lower(e, t, *operands)``: ``e`` emits (``Emit``), ``t`` is the type of the
last operand, operands and result are LLVM value texts of ``e.lanes`` lanes each. For floats of 16
bits ``t`` is float32, and the emitter rounds the result.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from kernelcore.builtins.reference import nearest
from kernelcore.language.types import SCALARS, Scalar

# A scalar C function without effects; errno is ignored.
PURE_ATTRIBUTES = "nounwind willreturn memory(none)"

# The type of a scalar in registers: integers have no sign, floats of 16 bits are held as
# float32 (``builtins/float16.py``).
LLVM_TYPES: Mapping[str, str] = MappingProxyType(
    {s.name: f"i{s.bits}" for s in SCALARS if not s.is_float}
    | {"float16": "float", "bfloat16": "float", "float32": "float", "float64": "double"}
)


class Emit(Protocol):
    """The part of the emitter that lowerings use."""

    @property
    def lanes(self) -> int:
        """Lanes of every value."""
        ...

    @property
    def gang(self) -> int:
        """Threads that run in the lanes of registers; 1 for single threads."""
        ...

    @property
    def fused(self) -> bool:
        """Whether the target multiplies and adds in one instruction."""
        ...

    @property
    def scales(self) -> bool:
        """Whether the target multiplies by a power of two in one instruction."""
        ...

    @property
    def branches(self) -> bool:
        """Whether rare cases are branches in place: calls cost registers of the target."""
        ...

    def op(self, text: str) -> str:
        """Append an instruction that yields a value; returns the value's name."""
        ...

    def type(self, scalar: Scalar) -> str:
        """The LLVM type of ``scalar`` at the lane count."""
        ...

    def const(self, scalar: Scalar, value: float) -> str:
        """A constant, the same in every lane."""
        ...

    def declare(self, text: str) -> None:
        """Add a declaration or an internal definition to the module, once."""
        ...


Lower = Callable[..., str]


def literal(scalar: Scalar, value: float) -> str:
    """``value`` as LLVM writes a ``scalar``; floats exactly, rounded to their type."""
    if scalar.is_float:
        rounded = float(nearest(value, scalar))
        return f"0x{struct.pack('>d', rounded).hex().upper()}"
    if scalar.kind == "bool":
        return "true" if value else "false"
    number = int(value)
    return str(number - (1 << scalar.bits) if number >> (scalar.bits - 1) > 0 else number)


def instr(*, float: str = "", int: str = "", uint: str = "", bool: str = "") -> Lower:
    """One LLVM instruction on operands of one type, chosen by their kind; ``uint`` is ``int``'s."""
    mnemonic = {"float": float, "int": int, "uint": uint or int, "bool": bool}

    def lower(e: Emit, t: Scalar, *operands: str) -> str:
        return e.op(f"{mnemonic[t.kind]} {e.type(t)} {', '.join(operands)}")

    return lower


def compare(*, float: str, int: str, uint: str = "") -> Lower:
    """A comparison; bools compare as integers, unsigned ones as signed unless ``uint`` says how."""
    test = {"float": f"fcmp {float}", "int": f"icmp {int}", "uint": f"icmp {uint or int}"}

    def lower(e: Emit, t: Scalar, x: str, y: str) -> str:
        return e.op(f"{test.get(t.kind, test['int'])} {e.type(t)} {x}, {y}")

    return lower


def intrinsic(name: str, tail: str = "") -> Lower:
    """``llvm.<name>``, overloaded on the operand type; ``tail`` is a last immediate operand."""

    def lower(e: Emit, t: Scalar, *operands: str) -> str:
        return call_intrinsic(e, name, t, operands, tail)

    return lower


def call_intrinsic(e: Emit, name: str, t: Scalar, operands: tuple[str, ...], tail: str = "") -> str:
    """Call ``llvm.<name>`` on ``operands`` of type ``t``; ``tail`` is a last immediate operand."""
    element = f"f{t.bits}" if t.is_float else f"i{t.bits}"
    suffix = element if e.lanes == 1 else f"v{e.lanes}{element}"
    ty = e.type(t)
    types = [ty] * len(operands) + ([tail.split()[0]] if tail else [])
    e.declare(f"declare {ty} @llvm.{name}.{suffix}({', '.join(types)})")
    passed = [f"{ty} {x}" for x in operands] + ([tail] if tail else [])
    return e.op(f"call {ty} @llvm.{name}.{suffix}({', '.join(passed)})")


def select(e: Emit, t: Scalar, c: str, x: str, y: str) -> str:
    """``x`` in the lanes where ``c`` holds, else ``y``, both of type ``t``."""
    mask = "i1" if e.lanes == 1 else f"<{e.lanes} x i1>"
    return e.op(f"select {mask} {c}, {e.type(t)} {x}, {e.type(t)} {y}")


def identity(e: Emit, t: Scalar, x: str) -> str:
    """The operand itself."""
    del e, t
    return x
