"""What code for CUDA devices does in its own way: printing, memory of stacks, remainders."""

from __future__ import annotations

import re

from kernelcore.codegen import output
from kernelcore.codegen.emitter import Emitter
from kernelcore.ir.core import Eqn

_INFINITY, _NAN = "0x7FF0000000000000", "0x7FF8000000000000"
# LLVM's own remainder on NVPTX is one division and one product, which is not exact.
_REMAINDER = re.compile(r"= frem (float|double) ([^,]+), (\S+)")


def emit_print(e: Emitter, eqn: Eqn) -> list[str]:
    """Write a line through the device's ``vprintf``, whose arguments are 8 bytes each in memory."""
    form, arguments = output.print_call(e, eqn)
    buffer = e.slot(f"[{max(len(arguments), 1)} x i64]")
    for at, argument in enumerate(arguments):
        place = e.op(f"getelementptr i64, ptr {buffer}, i64 {at}")
        e.effect(f"store {argument}, ptr {place}, align 8")
    e.declare("declare i32 @vprintf(ptr, ptr)")
    e.op(f"call i32 @vprintf(ptr {form}, ptr {buffer})")
    return []


def link(text: str) -> str:
    """The module ``text`` with definitions of what it calls and a device does not have."""
    text, count = _REMAINDER.subn(r"= call \1 @kc_frem_\1(\1 \2, \1 \3)", text)
    if count:
        text += _remainder("float", "f32") + _remainder("double", "f64")
    declared = "declare ptr @realloc(ptr, i64)\n"
    if declared in text:
        text = text.replace(declared, "") + _REALLOC
    return _declared_once(text)


def _declared_once(text: str) -> str:
    seen: set[str] = set()
    kept: list[str] = []
    for line in text.splitlines():
        if line.startswith("declare "):
            if line in seen:
                continue
            seen.add(line)
        kept.append(line)
    return "\n".join(kept) + "\n"


# A stack doubles, so half of what is wanted is what there was. Devices have no ``realloc``.
_REALLOC = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @realloc(ptr %old, i64 %size) {
  %new = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %new, null
  %first = icmp eq ptr %old, null
  %skip = or i1 %none, %first
  br i1 %skip, label %done, label %copy
copy:
  %had = lshr i64 %size, 1
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %had, i1 false)
  call void @free(ptr %old)
  br label %done
done:
  ret ptr %new
}
"""


def _remainder(ty: str, suffix: str) -> str:
    """C's ``fmod``: the divisor is doubled up to the dividend and subtracted on the way back.

    Every step is exact. It takes as many turns as the quotient has bits.
    """
    return f"""
define internal {ty} @kc_frem_{ty}({ty} %x, {ty} %y) {{
entry:
  %a = call {ty} @llvm.fabs.{suffix}({ty} %x)
  %b = call {ty} @llvm.fabs.{suffix}({ty} %y)
  %finite = fcmp olt {ty} %a, {_INFINITY}
  %nonzero = fcmp ogt {ty} %b, 0.0
  %valid = and i1 %finite, %nonzero
  br i1 %valid, label %bounded, label %invalid
invalid:
  ret {ty} {_NAN}
bounded:
  %endless = fcmp oeq {ty} %b, {_INFINITY}
  br i1 %endless, label %whole, label %up
whole:
  ret {ty} %x
up:
  %scale = phi {ty} [ %b, %bounded ], [ %twice, %double ]
  %half = fmul {ty} %a, 0.5
  %below = fcmp ole {ty} %scale, %half
  br i1 %below, label %double, label %down
double:
  %twice = fmul {ty} %scale, 2.0
  br label %up
down:
  %rest = phi {ty} [ %a, %up ], [ %less, %next ]
  %part = phi {ty} [ %scale, %up ], [ %smaller, %next ]
  %more = fcmp oge {ty} %part, %b
  br i1 %more, label %next, label %done
next:
  %fits = fcmp oge {ty} %rest, %part
  %difference = fsub {ty} %rest, %part
  %less = select i1 %fits, {ty} %difference, {ty} %rest
  %smaller = fmul {ty} %part, 0.5
  br label %down
done:
  %result = call {ty} @llvm.copysign.{suffix}({ty} %rest, {ty} %x)
  ret {ty} %result
}}
declare {ty} @llvm.fabs.{suffix}({ty})
declare {ty} @llvm.copysign.{suffix}({ty}, {ty})
"""
