"""Operations whose code differs on CUDA devices: printing, casts, addresses, stacks, remainders."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelcore.codegen.llvm import cast, memory, output
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter, Handler, Value, scalar_type
from kernelcore.ir.core import Atom, Const, Eqn
from kernelcore.language.types import float32, float64

# An index times a stride, in halves.
_PRODUCT = (
    ".reg .b32 low, high, a, b; mov.b64 {low, high}, $2; mul.wide.u32 $0, $1, low;"
    " mov.b64 {a, b}, $0; mad.lo.u32 b, $1, high, b;"
)
UNSIGNED = f'i64 asm "{{ {_PRODUCT} mov.b64 $0, {{a, b}}; }}", "=l,r,l"'
SIGNED = (
    f'i64 asm "{{ {_PRODUCT} shr.s32 high, $1, 31; mad.lo.u32 b, high, low, b;'
    ' mov.b64 $0, {a, b}; }", "=l,r,l"'
)

_INFINITY, _NAN = "0x7FF0000000000000", "0x7FF8000000000000"
# LLVM's own remainder on NVPTX is one division and one product, which is not exact.
_REMAINDER = re.compile(r"= frem (float|double) ([^,]+), (\S+)")


def emit_print(e: Emitter, eqn: Eqn) -> list[str]:
    """Write a line through the device's ``vprintf``, whose arguments are fields of a C struct."""
    template, arguments = output.print_call(e, eqn)
    fields = ", ".join(argument.split()[0] for argument in arguments) or "i64"
    buffer = e.slot(f"{{ {fields} }}, align 8")
    for at, argument in enumerate(arguments):
        field = e.op(f"getelementptr {{ {fields} }}, ptr {buffer}, i64 0, i32 {at}")
        e.effect(f"store {argument}, ptr {field}")
    e.declare("declare i32 @vprintf(ptr, ptr)")
    e.op(f"call i32 @vprintf(ptr {template}, ptr {buffer})")
    return []


def assembly(e: Emitter, text: str, *operands: str) -> str:
    """The result of inline PTX ``text``, which touches no memory."""
    return e.op(f"call {text}({', '.join(operands)}) nounwind memory(none)")


def emit_cast(e: Emitter, eqn: Eqn) -> list[str]:
    """A scalar as another type; the hardware saturates, but makes some NaN the least integer."""
    (operand,), target = eqn.inputs, scalar_type(eqn.out)
    source = scalar_type(operand)
    if source not in (float32, float64) or not target.is_integer or target.bits < 32:
        return cast.emit_cast(e, eqn)
    value, ty = f"{e.type(source)} {e.value(operand)}", e.type(target)
    conversion = f"{'s' if target.kind == 'int' else 'u'}{target.bits}.f{source.bits}"
    sides = f"={'r' if target.bits == 32 else 'l'},{'f' if source == float32 else 'd'}"
    found = assembly(e, f'{ty} asm "cvt.rzi.{conversion} $0, $1;", "{sides}"', value)
    if source == float32 and target.bits == 32:
        return [found]
    is_number = e.op(f"fcmp ord {value}, {e.value(operand)}")
    return [e.op(f"select i1 {is_number}, {ty} {found}, {ty} 0")]


def address(e: Emitter, array: ArrayValue, indices: Sequence[Atom]) -> str:
    """Where the element, or the view, at the leading ``indices`` starts.

    The first product is hidden from LLVM and ``ptxas``, which would add the address of the array in
    the same instruction. That takes one operand from constant memory, and the other would be in
    registers from thread to thread.
    """
    steps = list(zip(indices, array.strides, strict=False))
    if not steps or isinstance(steps[0][0], Const) or scalar_type(steps[0][0]).bits != 32:
        return memory.moved(e, array.data, steps)
    (index, stride), *rest = steps
    value = e.value(index)
    is_signed = scalar_type(index).kind == "int" and value not in e.point
    product = SIGNED if is_signed else UNSIGNED
    offset = assembly(e, product, f"i32 {value}", f"i64 {stride}")
    return memory.moved(e, e.op(f"getelementptr i8, ptr {array.data}, i64 {offset}"), rest)


def in_loop(emit: Handler) -> Handler:
    """``emit`` for loops: LLVM sees the products of addresses there and strength-reduces them."""

    def emit_loop(e: Emitter, eqn: Eqn) -> Sequence[Value]:
        saved, e.address = e.address, None
        values = emit(e, eqn)
        e.address = saved
        return values

    return emit_loop


def link(text: str, attributes: str) -> str:
    """The module ``text`` with definitions of the C functions that devices lack.

    ``attributes`` are those of functions that compute in floating point.
    """
    text, count = _REMAINDER.subn(r"= call \1 @kc_frem_\1(\1 \2, \1 \3)", text)
    if count:
        text += _remainder("float", "f32", attributes) + _remainder("double", "f64", attributes)
    declared = "declare ptr @aligned_alloc(i64, i64)\n"
    if declared in text:
        text = text.replace(declared, "") + _ALIGNED_ALLOC
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


# Devices have no ``aligned_alloc``; what ``malloc`` gives suits a value of one thread.
_ALIGNED_ALLOC = """
declare ptr @malloc(i64)

define internal ptr @aligned_alloc(i64 %alignment, i64 %size) {
  %new = call ptr @malloc(i64 %size)
  ret ptr %new
}
"""


def _remainder(ty: str, suffix: str, attributes: str) -> str:
    """C's ``fmod``: the divisor is doubled up to the dividend and subtracted on the way back.

    Every step is exact, unless the attributes flush denormals. It takes one iteration per bit of
    the quotient.
    """
    return f"""
define internal {ty} @kc_frem_{ty}({ty} %x, {ty} %y){attributes} {{
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
