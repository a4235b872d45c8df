"""What a kernel tells the outside besides its arrays: printed text, and why it failed."""

from __future__ import annotations

from kernelcore.base.digest import sha256
from kernelcore.builtins import float16
from kernelcore.codegen import abi
from kernelcore.codegen.llvm import exits
from kernelcore.codegen.llvm.cast import convert
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.simd import masked_control
from kernelcore.ir.core import Atom, Eqn
from kernelcore.language.types import float64, int64, uint64

_NAN_BITS = 0x7FF8 << 48
# Printable in the texts of LLVM as they are.
_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')


def emit_print(e: Emitter, eqn: Eqn) -> list[str]:
    """Write a line to standard output, by one call, so that lines of threads stay whole."""
    template, arguments = print_call(e, eqn)
    e.declare("declare i32 @dprintf(i32, ptr, ...)")
    passed = ", ".join(("i32 1", f"ptr {template}", *arguments))
    e.effect(f"call i32 (i32, ptr, ...) @dprintf({passed})")
    return []


def print_call(e: Emitter, eqn: Eqn) -> tuple[str, list[str]]:
    """The address of the format of a PRINT, as C's ``printf`` takes it, and what follows it."""
    first, *rest = eqn.attrs["pieces"]
    template: str = ""
    arguments: list[str] = []
    formats = (*eqn.attrs.get("formats", ("",) * len(eqn.inputs)), "")
    for piece, atom, wanted in zip((first, *rest), (*eqn.inputs, None), formats, strict=True):
        for at, part in enumerate(piece.split("\0")):
            # C ends a text at a zero byte, but prints one that it is given.
            template += ("%c" if at else "") + part.replace("%", "%%")
            arguments += ["i32 0"] if at else []
        if atom is not None:
            directive, argument = _passed(e, atom)
            # 64 bits are passed for an integer of any width.
            length = "ll" if scalar_type(atom).is_integer else ""
            template += f"{wanted[:-1]}{length}{wanted[-1]}" if wanted else directive
            arguments.append(argument)
    return _text(e, template), arguments


def emit_assert(e: Emitter, eqn: Eqn) -> list[str]:
    """Go on if the condition holds; else report which assertion it is and leave the kernel.

    A gang leaves together at the first assertion in program order that fails in some lane.
    """
    condition, *numbers = eqn.inputs
    held, failed = e.label("held"), e.label("failed")
    if e.is_uniform(condition):
        e.branch(e.value_at(condition, 1), held, failed)
        e.start_block(failed)
        details = [_word(e, a, masked_control.in_first_lane(e, a, e.mask)) for a in numbers]
    else:
        failing = masked_control.failing(e, e.value_at(condition, e.gang))
        e.branch(masked_control.is_any(e, failing), failed, held)
        e.start_block(failed)
        details = [_word(e, a, masked_control.in_first_lane(e, a, failing)) for a in numbers]
    exits.fail(e, abi.STATUS_FIRST_ASSERTION + e.facts.assertions[eqn], details)
    e.start_block(held)
    return []


def _word(e: Emitter, atom: Atom, value: str) -> str:
    """``value``, of the type of ``atom``, int64 or float64, as 64 bits."""
    return e.op(f"bitcast double {value} to i64") if scalar_type(atom).is_float else value


def _passed(e: Emitter, atom: Atom) -> tuple[str, str]:
    """The directive of C's ``printf`` for ``atom``, and the argument for it."""
    dtype, value = scalar_type(atom), e.value(atom)
    match dtype.kind:
        case "bool":
            texts = f"ptr {_text(e, 'True')}, ptr {_text(e, 'False')}"
            return "%s", f"ptr {e.op(f'select i1 {value}, {texts}')}"
        case "int":
            return "%lld", f"i64 {convert(e, dtype, int64, value)}"
        case "uint":
            return "%llu", f"i64 {convert(e, dtype, uint64, value)}"
        case _:
            wide = convert(e, float16.held_as(dtype), float64, value)
            # C shows the sign of a NaN.
            bits = e.op(f"bitcast double {wide} to i64")
            unordered = e.op(f"fcmp uno double {wide}, {wide}")
            shown = e.op(f"select i1 {unordered}, i64 {_NAN_BITS}, i64 {bits}")
            return "%g", f"double {e.op(f'bitcast i64 {shown} to double')}"


def _text(e: Emitter, text: str) -> str:
    """The address of a constant C string."""
    data = text.encode(errors="replace") + b"\0"
    name = f"@text.{sha256(data).hexdigest()[:16]}"
    shown = "".join(chr(b) if b in _PLAIN else f"\\{b:02X}" for b in data)
    e.declare(f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{shown}"')
    return name
