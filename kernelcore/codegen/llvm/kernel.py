"""Verified IR to LLVM text. Names no built-in: PURE ops are lowered by their own entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelCompileError
from kernelcore.builtins import float16
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.llvm import (
    access,
    atomic,
    control,
    division,
    exits,
    memory,
    output,
    pieces,
    stacks,
)
from kernelcore.codegen.llvm.alternatives import Alternative
from kernelcore.codegen.llvm.cast import convert, emit_cast
from kernelcore.codegen.llvm.emitter import (
    ArrayValue,
    Emitter,
    Facts,
    Handler,
    Lanes,
    Value,
    scalar_type,
)
from kernelcore.codegen.llvm.line_table import SUBPROGRAM, with_line_table
from kernelcore.codegen.llvm.packed import component_strides
from kernelcore.codegen.llvm.points import emit_points, with_facts_of_gangs
from kernelcore.codegen.llvm.stack_records import stack_records
from kernelcore.codegen.reduction import accumulate
from kernelcore.codegen.simd import pack_code
from kernelcore.codegen.simd.cost_model import is_straight, packs
from kernelcore.codegen.simd.gathering import Gathering
from kernelcore.codegen.simd.strategy import SCALAR_CODE, VectorStrategy, loops_in_parts
from kernelcore.codegen.snippet.translation_unit import emit_native
from kernelcore.codegen.target.machine import STRAIGHT
from kernelcore.ir.core import Eqn, Func, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import assertions
from kernelcore.language.types import ArrayType, Scalar, int64
from kernelcore.passes.access.accumulation_plan import shared_arrays

# The parameters of the code of a kernel.
_PARAMS = "ptr %args, ptr %grid, i64 %begin, i64 %end"


@dataclass(frozen=True, slots=True)
class Detour:
    """A function that runs the points of some launches instead of the kernel's own code.

    Attributes:
        symbol: Its name.
        texts: What the module declares and defines for it.
        is_taken: Emits whether a launch takes it, as i1, given the extents of the grid.
    """

    symbol: str
    texts: tuple[str, ...]
    is_taken: Callable[[Emitter, Sequence[str]], str]


def emit_kernel(
    func: Func,
    symbol: str,
    attributes: Mapping[str, str] | None = None,
    strategy: VectorStrategy = SCALAR_CODE,
    *,
    with_lines: bool = False,
    scales: bool = False,
    alternatives: Sequence[Alternative] = (),
    gathering: tuple[Gathering, Sequence[VectorStrategy]] | None = None,
) -> str:
    """LLVM text of kernel ``func`` under the interface of ``codegen/abi.py``.

    Args:
        func: A verified kernel without calls.
        symbol: Name of the function to define.
        attributes: LLVM string attributes of the function.
        strategy: How the kernel uses SIMD registers.
        with_lines: Whether instructions name their source lines, for LLVM to keep.
        scales: Whether the target multiplies by a power of two in one instruction.
        alternatives: Code that some launches run instead, the first that a launch takes.
        gathering: How ``func`` gathers its sums, if it does, and how the kernels of a piece use
            SIMD registers.

    Raises:
        KernelCompileError: ``func`` is no kernel, or has calls.
    """
    if func.body.yields:
        raise KernelCompileError(f"'{func.name}' yields values: it is no kernel", func.loc)
    target = _Target(attributes, scales=scales)
    if gathering is not None and gathering[0].is_always:
        e = _gathered(*gathering, target)
        return module_text(e, f'void @"{symbol}"({_PARAMS}) nounwind{target.marks(func)}')
    detours: list[Detour] = []
    if gathering is not None:
        detours.append(_gathered_detour(*gathering, target))
    detours += (_alternative_detour(found, target) for found in alternatives)
    e = target.begun(func, strategy)
    e.text.marks = [] if with_lines else None
    _emit_grid(e, func, strategy, range(func.rank), detours=detours)
    marks = target.marks(func)
    if is_straight(func, strategy.gang):
        # A kernel without loops has no detours, so this holds for the whole module.
        marks += f' "{STRAIGHT}"="true"'
    return module_text(e, f'void @"{symbol}"({_PARAMS}) nounwind{marks}')


def _alternative_detour(found: Alternative, target: _Target) -> Detour:
    e = target.begun(found.func, found.strategy)
    _emit_grid(e, found.func, found.strategy, found.axes)
    texts = target.function(found.symbol, e, target.marks(found.func))
    return Detour(found.symbol, texts, found.is_taken)


def _gathered_detour(
    gathering: Gathering, strategies: Sequence[VectorStrategy], target: _Target
) -> Detour:
    def is_taken(e: Emitter, dims: Sequence[str]) -> str:
        return pieces.pays(e, gathering, dims)

    symbol, e = "@kc.gathered", _gathered(gathering, strategies, target)
    marks = target.marks(gathering.sums.func)
    return Detour(symbol, target.function(symbol, e, marks), is_taken)


def _gathered(
    gathering: Gathering, strategies: Sequence[VectorStrategy], target: _Target
) -> Emitter:
    """The function that runs points of a kernel with gathered sums."""
    found = gathering.sums
    e = target.begun(found.func, SCALAR_CODE)
    arrays, symbols = shared_arrays(found.func), list[str]()
    for func, strategy in zip(found.funcs, strategies, strict=True):
        part = target.begun(func, strategy)
        _emit_grid(part, func, strategy, range(func.rank), arrays=arrays)
        symbols.append(f"@kc.gathered.{len(symbols)}")
        for text in target.function(symbols[-1], part, target.marks(func)):
            e.declare(text)
    load_arguments(e, found.func)
    dims, start = _extents(e, range(found.func.rank)), e.label("start")
    e.branch(e.op("icmp slt i64 %begin, %end"), start, exits.FINISH_BLOCK)
    e.start_block(start)
    pieces.emit_pieces(e, gathering, dims, symbols)
    e.jump(exits.FINISH_BLOCK)
    leave(e)
    return e


@dataclass(frozen=True, slots=True)
class _Target:
    """What the functions of a module have in common."""

    attributes: Mapping[str, str] | None
    scales: bool

    def begun(self, func: Func, strategy: VectorStrategy) -> Emitter:
        """An emitter of ``func``, with what is known of it."""
        least, given = strategy.least_masked_bytes, tuple((self.attributes or {}).items())
        facts = facts_of(
            func,
            least_masked_bytes=least,
            gathers=strategy.gathers,
            checks_status=True,
            attributes=given,
            scales=self.scales,
        )
        lanes = Lanes()
        if strategy.gang > 1:
            lanes = Lanes(strategy.gang, lane_strides(func))
            facts = with_facts_of_gangs(func, facts)
        e = Emitter(lanes, HANDLERS, facts)
        e.lanes = 1
        if strategy.packed_bytes and not loops_in_parts(func):
            e.packing, e.emit_pack = packs(func, strategy.packed_bytes), pack_code.emit_pack
        return e

    def marks(self, func: Func) -> str:
        """LLVM attributes of the code of ``func``."""
        pairs = {**(self.attributes or {}), **float_mode(func)}
        return "".join(f' "{name}"="{value}"' for name, value in pairs.items())

    def function(self, symbol: str, e: Emitter, marks: str) -> tuple[str, ...]:
        """What a module declares and defines for the function that ``e`` holds."""
        head = f"internal void {symbol}({_PARAMS}) noinline nounwind{marks}"
        return (*e.text.declarations, _function_text(e, head, e.text.lines()))


def _emit_grid(
    e: Emitter,
    func: Func,
    strategy: VectorStrategy,
    axes: Sequence[int],
    *,
    detours: Sequence[Detour] = (),
    arrays: Sequence[Var] | None = None,
) -> None:
    """The function that runs points of ``func``, whose launch axes have the order ``axes``.

    ``arrays`` are the accumulated arrays of the launch, by default those of ``func``.
    """
    load_arguments(e, func)
    dims = _extents(e, axes)
    for detour in detours:
        _emit_detour(e, dims, detour)
    some = e.op("icmp slt i64 %begin, %end")
    start = e.label("start")
    e.branch(some, start, exits.FINISH_BLOCK)
    e.start_block(start)
    e.accumulation = accumulate.begin(e, func, arrays)
    done = e.label("totals") if e.accumulation.partial else exits.FINISH_BLOCK
    emit_points(e, func, dims, done, strategy)
    if e.accumulation.partial:
        e.start_block(done)
        accumulate.finish(e, e.accumulation)
        e.jump(exits.FINISH_BLOCK)
    leave(e)


def _extents(e: Emitter, axes: Sequence[int]) -> list[str]:
    """The extents of the grid on ``axes``, as i64."""
    return [e.op(f"load i64, ptr {memory.address_at(e, '%grid', 8 * axis)}") for axis in axes]


def _emit_detour(e: Emitter, dims: Sequence[str], detour: Detour) -> None:
    """Leave the points to ``detour`` where the launch takes it."""
    for text in detour.texts:
        e.declare(text)
    other, own = e.label("detour"), e.label("own")
    e.branch(detour.is_taken(e, dims), other, own)
    e.start_block(other)
    e.effect(f"call void {detour.symbol}({_PARAMS})")
    e.jump(exits.FINISH_BLOCK)
    e.start_block(own)


def float_mode(func: Func) -> dict[str, str]:
    """LLVM attributes of the code of ``func`` that say what becomes of subnormal numbers."""
    return {"denormal-fp-math": "preserve-sign,preserve-sign"} if func.flush_denormals else {}


def facts_of(func: Func, **target: Any) -> Facts:
    """The facts of ``func`` that every target needs, with those of the ``target``."""
    numbers = {eqn: at for at, eqn in enumerate(assertions(func))}
    return Facts(numbers, stack_records(func), **target)


def load_arguments(e: Emitter, func: Func) -> None:
    """Bind the parameters of ``func`` to what the argument block holds."""
    fields, _ = abi.layout(func.params)
    for param, field in zip(func.params, fields, strict=True):
        if isinstance(field.type, Scalar):
            e.bind(param, memory.load(e, field.type, memory.address_at(e, "%args", field.offset)))
            continue
        axes = range(field.type.ndim)
        data = e.op(f"load ptr, ptr {memory.address_at(e, '%args', field.offset)}")
        shape = [_word(e, field.shape_offset(a)) for a in axes]
        strides = [_word(e, field.stride_offset(a)) for a in axes]
        e.bind(param, ArrayValue(data, tuple(shape), tuple(strides)))


def leave(e: Emitter, finish: Callable[[Emitter], None] | None = None) -> None:
    """Emit the blocks by which a kernel returns, with what ``finish`` emits before it does."""
    if e.stacks:
        e.start_block(stacks.OUT_OF_MEMORY_BLOCK)
        exits.fail(e, abi.STATUS_OUT_OF_MEMORY)
    e.start_block(exits.FINISH_BLOCK)
    if finish is not None:
        finish(e)
    stacks.free_stacks(e)
    e.effect("ret void")


def module_text(e: Emitter, head: str) -> str:
    """The module of the function that ``e`` holds; ``head`` is its type, name and parameters."""
    body = e.text.lines()
    metadata: list[str] = []
    if e.text.marks:
        body, metadata = with_line_table(body, e.text.marks)
        head = f"{head} !dbg {SUBPROGRAM}"
    lines = [*e.text.declarations, _function_text(e, head, body), *metadata]
    return "\n".join(lines) + "\n"


def _function_text(e: Emitter, head: str, body: Sequence[str]) -> str:
    slots = (*e.text.slots, *stacks.clear_stacks(e))
    return "\n".join((f"define {head} {{", "entry:", *slots, *body, "}"))


def _word(e: Emitter, offset_bytes: int) -> str:
    return e.op(f"load i64, ptr {memory.address_at(e, '%args', offset_bytes)}")


def _emit_pure(e: Emitter, eqn: Eqn) -> list[str]:
    if division.has_shared_quotient(e, eqn):
        return [division.emit_shared_quotient(e, eqn)]
    assert eqn.op.lower is not None
    dtype = float16.held_as(scalar_type(eqn.inputs[-1]))
    value = eqn.op.lower(e, dtype, *(e.value(a) for a in eqn.inputs))
    if not any(scalar_type(a).is_float for a in eqn.inputs):
        return [value]  # exact: a float of given bits, which a NaN keeps
    return [float16.rounded(e, scalar_type(eqn.out), value)]


def _emit_tid(e: Emitter, eqn: Eqn) -> list[str]:
    return [e.point[eqn.attrs["axis"]]]


def _emit_dim(e: Emitter, eqn: Eqn) -> list[str]:
    """One extent of an array as int32."""
    axis: int = eqn.attrs["axis"]
    return [e.op(f"trunc i64 {e.array(eqn.inputs[0]).shape[axis]} to i32")]


def _emit_array_at(e: Emitter, eqn: Eqn) -> list[ArrayValue]:
    """An array at an address, in row-major order."""
    address, *given = eqn.inputs
    type_ = eqn.out.type
    assert isinstance(type_, ArrayType)
    data = e.op(f"inttoptr i64 {e.value(address)} to ptr")
    extents = [convert(e, scalar_type(a), int64, e.value(a)) for a in given]
    strides = [str(eqn.attrs["spacing"])]
    for extent in reversed(extents[1:]):
        strides.insert(0, e.op(f"mul i64 {strides[0]}, {extent}"))
    shape = (*extents, *map(str, type_.components))
    return [ArrayValue(data, shape, (*strides, *component_strides(type_)))]


def _refuse_call(e: Emitter, eqn: Eqn) -> Sequence[Value]:
    del e
    raise KernelCompileError("a call that was not inlined", eqn.loc)


HANDLERS: Mapping[OpKind, Handler] = MappingProxyType(
    {
        OpKind.PURE: _emit_pure,
        OpKind.CAST: emit_cast,
        OpKind.TID: _emit_tid,
        OpKind.DIM: _emit_dim,
        OpKind.ARRAY_AT: _emit_array_at,
        OpKind.LOAD: access.emit_load,
        OpKind.STORE: access.emit_store,
        OpKind.ATOMIC_ADD: atomic.emit_atomic_add,
        OpKind.ATOMIC: atomic.emit_atomic,
        OpKind.ATOMIC_CAS: atomic.emit_atomic_cas,
        OpKind.PRINT: output.emit_print,
        OpKind.ASSERT: output.emit_assert,
        OpKind.STACK: stacks.emit_stack,
        OpKind.PUSH: stacks.emit_push,
        OpKind.POP: stacks.emit_pop,
        OpKind.IF: control.emit_if,
        OpKind.FOR: control.emit_for,
        OpKind.WHILE: control.emit_while,
        OpKind.CALL: _refuse_call,
        OpKind.SNIPPET: emit_native,
    }
)
