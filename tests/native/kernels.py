"""Tiny kernels in LLVM IR text, with the signatures that the native module launches them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from kernelcore.base import native
from kernelcore.language.types import SCALARS

BOOL, INT32, INT64, FLOAT32, FLOAT64 = range(5)
INT8, INT16, UINT8, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16 = range(5, 13)
INPUT, OUTPUT, INOUT, SCRATCH, VALUE = range(5)
NEVER, IF_PARTIAL, ALWAYS = range(3)
VALUE_BYTES = {code: s.size_bytes for code, s in enumerate(SCALARS)}
# Kernels that only move elements need not know what they are.
LLVM_TYPES = {code: f"i{8 * size}" for code, size in VALUE_BYTES.items()}
LLVM_TYPES |= {FLOAT32: "float", FLOAT64: "double"}


ParameterSlot = tuple[int, int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Param:
    """One kernel parameter; ``operand`` and ``result`` index a functional call."""

    name: str
    role: int
    dtype: int = FLOAT32
    ndim: int = 1
    zero: int = NEVER
    operand: int = -1
    result: int = -1
    components: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel with its argument-block layout."""

    name: str
    key: str
    address: int
    params: tuple[Param, ...]
    slots: list[ParameterSlot]
    block_size: int

    def signature(self, grid_rank: int = 1, wheres: Sequence[str] = ()) -> native.LaunchDescriptor:
        return native.LaunchDescriptor(
            self.name,
            self.key,
            self.address,
            bytes(self.block_size),
            self.slots,
            [p.name for p in self.params],
            list(wheres),
            grid_rank,
        )


@cache
def _engine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def jit(text: str, symbol: str) -> int:
    """The address of ``symbol`` in freshly compiled ``text``."""
    module = llvm.parse_assembly(text)
    module.verify()
    _engine().add_module(module)
    _engine().finalize_object()
    return _engine().get_function_address(symbol)


def layout(params: Sequence[Param]) -> tuple[list[ParameterSlot], int]:
    """Relocations of ``params``, packed in order, and the size of the block."""
    slots: list[ParameterSlot] = []
    offset = 0
    for p in params:
        align = VALUE_BYTES[p.dtype] if p.role == VALUE else 8
        size = VALUE_BYTES[p.dtype] if p.role == VALUE else 8 + 16 * p.ndim
        offset = (offset + align - 1) // align * align
        first, second = (*p.components, 0, 0)[:2]
        bound_to = (p.operand, p.result, first, second)
        slots.append((offset, p.role, p.dtype, p.ndim, p.zero, *bound_to))
        offset += size
    return slots, (offset + 7) // 8 * 8


def elementwise(name: str, params: Sequence[Param], body: str, last_block: str = "loop") -> Kernel:
    """A kernel that runs ``body`` per linear index ``%i``.

    In ``body``, ``%NAME.p`` points at element ``%i`` of the one-dimensional array NAME (at the
    only element of a zero-dimensional one) and ``%NAME`` is the value of the scalar NAME;
    ``%slot`` is private memory. ``last_block`` is the label of the block that ``body`` ends in.
    """
    slots, size = layout(params)
    entry: list[str] = []
    point: list[str] = []
    for p, slot in zip(params, slots, strict=True):
        n = p.name
        entry.append(f"%{n}.f = getelementptr i8, ptr %args, i64 {slot[0]}")
        if p.role == VALUE:
            entry.append(f"%{n} = load {LLVM_TYPES[p.dtype]}, ptr %{n}.f")
            continue
        entry.append(f"%{n}.d = load ptr, ptr %{n}.f")
        if p.ndim == 0:
            point.append(f"%{n}.p = getelementptr i8, ptr %{n}.d, i64 0")
            continue
        entry.append(f"%{n}.sp = getelementptr i8, ptr %args, i64 {slot[0] + 8 + 8 * p.ndim}")
        entry.append(f"%{n}.s = load i64, ptr %{n}.sp")
        point.append(f"%{n}.o = mul i64 %i, %{n}.s")
        point.append(f"%{n}.p = getelementptr i8, ptr %{n}.d, i64 %{n}.o")
    newline = "\n  "
    text = f"""
define void @kc_{name}(ptr %args, ptr %grid, i64 %begin, i64 %end) {{
entry:
  %slot = alloca i64
  {newline.join(entry)}
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %{last_block}]
  {newline.join(point)}
  {body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""
    return Kernel(name, f"hash-{name}", jit(text, f"kc_{name}"), tuple(params), slots, size)


@cache
def axpy() -> Kernel:
    """``out[i] = a * x[i] + y[i]``."""
    params = (
        Param("x", INPUT, operand=0),
        Param("a", VALUE, ndim=0, operand=1),
        Param("y", INPUT, operand=2),
        Param("out", OUTPUT, result=0),
    )
    body = """%xv = load float, ptr %x.p
  %yv = load float, ptr %y.p
  %m = fmul float %a, %xv
  %r = fadd float %m, %yv
  store float %r, ptr %out.p"""
    return elementwise("axpy", params, body)


@cache
def increment(dtype: int = INT64, role: int = INOUT) -> Kernel:
    """``x[i] += 1``, for integers."""
    params = (Param("x", role, dtype, operand=0, result=0),)
    t = LLVM_TYPES[dtype]
    body = f"""%v = load {t}, ptr %x.p
  %w = add {t} %v, 1
  store {t} %w, ptr %x.p"""
    return elementwise(f"increment_{dtype}_{role}", params, body)


@cache
def store_value(dtype: int) -> Kernel:
    """``out[0] = value``."""
    params = (
        Param("value", VALUE, dtype, ndim=0, operand=0),
        Param("out", OUTPUT, dtype, ndim=0, result=0),
    )
    body = f"store {LLVM_TYPES[dtype]} %value, ptr %out.p"
    return elementwise(f"store_value_{dtype}", params, body)


@cache
def copy(dtype: int) -> Kernel:
    """``out[i] = x[i]``."""
    params = (Param("x", INPUT, dtype, operand=0), Param("out", OUTPUT, dtype, result=0))
    body = f"""%v = load {LLVM_TYPES[dtype]}, ptr %x.p
  store {LLVM_TYPES[dtype]} %v, ptr %out.p"""
    return elementwise(f"copy_{dtype}", params, body)


@cache
def first_component(components: tuple[int, ...], ndim: int) -> Kernel:
    """``out[i, 0, ...] = x[i, 0, ...]`` for elements with components."""
    kinds = {"ndim": ndim, "components": components}
    params = (
        Param("x", INPUT, operand=0, **kinds),
        Param("out", OUTPUT, zero=IF_PARTIAL, result=0, **kinds),
    )
    body = """%v = load float, ptr %x.p
  store float %v, ptr %out.p"""
    name = "_".join(map(str, ("first", ndim, *components)))
    return elementwise(name, params, body)


@cache
def failing() -> Kernel:
    """Reports out of memory at every point."""
    body = """%sp = getelementptr i8, ptr %grid, i64 64
  %status = load ptr, ptr %sp
  store i64 1, ptr %status"""
    return elementwise("failing", (Param("out", OUTPUT, result=0),), body)


@cache
def accumulate() -> Kernel:
    """``total[()] += x[i]`` by an atomic, into a result of no dimensions."""
    params = (
        Param("x", INPUT, operand=0),
        Param("total", OUTPUT, ndim=0, zero=ALWAYS, result=0),
    )
    body = """%v = load float, ptr %x.p
  %old = atomicrmw fadd ptr %total.p, float %v monotonic"""
    return elementwise("accumulate", params, body)


@cache
def slow_increment() -> Kernel:
    """``x[i] += 1`` after some work that the optimiser cannot remove."""
    body = """br label %spin
spin:
  %k = phi i64 [0, %loop], [%k1, %spin]
  store volatile i64 %k, ptr %slot
  %k1 = add i64 %k, 1
  %again = icmp slt i64 %k1, 200
  br i1 %again, label %spin, label %after
after:
  %v = load i64, ptr %x.p
  %w = add i64 %v, 1
  store i64 %w, ptr %x.p"""
    params = (Param("x", INOUT, INT64, operand=0, result=0),)
    return elementwise("slow_increment", params, body, last_block="after")
