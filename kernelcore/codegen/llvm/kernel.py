"""Verified IR to LLVM text. Names no built-in: PURE ops are lowered by their own entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from kernelcore.base.errors import KernelCompileError
from kernelcore.builtins import float16
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.component_groups import adjacent_sums
from kernelcore.codegen.analysis.independent_loops import IndependentLoop
from kernelcore.codegen.analysis.loop_dependence import VectorLoop, vector_loops
from kernelcore.codegen.analysis.prefetch import first_accesses
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, blocked_loops
from kernelcore.codegen.analysis.row_tiling import is_idempotent, tile_rows
from kernelcore.codegen.analysis.uniformity import (
    collapsed_strides,
    lane_strides,
    row_major_accesses,
)
from kernelcore.codegen.llvm import (
    access,
    atomic,
    control,
    division,
    exits,
    memory,
    output,
    stacks,
)
from kernelcore.codegen.llvm.access import whole_elements
from kernelcore.codegen.llvm.cast import emit_cast
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
from kernelcore.codegen.llvm.stack_records import stack_records
from kernelcore.codegen.reduction import accumulate
from kernelcore.codegen.reduction.accumulation import Accumulation
from kernelcore.codegen.simd.bodies import choose_bodies
from kernelcore.codegen.simd.cost_model import is_straight, outer_loops
from kernelcore.codegen.simd.grid_loop import Middle, RowCode, Tile, emit_rows
from kernelcore.codegen.simd.loop_collapse import Collapsed, emit_collapsed
from kernelcore.codegen.simd.strategy import SCALAR_CODE, VectorStrategy
from kernelcore.codegen.snippet.translation_unit import emit_native
from kernelcore.codegen.target.machine import STRAIGHT
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import assertions, walk_eqns
from kernelcore.language.types import ArrayType, Scalar
from kernelcore.passes.access.dense_middle import DenseMiddle

# Beyond, arithmetic hides what strides cost, and the time to compile a second body is saved.
MAX_EQNS_OF_TWO_BODIES = 600


def emit_kernel(
    func: Func,
    symbol: str,
    attributes: Mapping[str, str] | None = None,
    strategy: VectorStrategy = SCALAR_CODE,
    *,
    with_lines: bool = False,
    scales: bool = False,
) -> str:
    """LLVM text of kernel ``func`` under the interface of ``codegen/abi.py``.

    Args:
        func: A verified kernel without calls.
        symbol: Name of the function to define.
        attributes: LLVM string attributes of the function.
        strategy: How the kernel uses SIMD registers.
        with_lines: Whether instructions name their source lines, for LLVM to keep.
        scales: Whether the target multiplies by a power of two in one instruction.

    Raises:
        KernelCompileError: ``func`` is no kernel, or has calls.
    """
    if func.body.yields:
        raise KernelCompileError(f"'{func.name}' yields values: it is no kernel", func.loc)
    least, target = strategy.least_masked_bytes, tuple((attributes or {}).items())
    facts = facts_of(
        func, least_masked_bytes=least, checks_status=True, attributes=target, scales=scales
    )
    lanes = Lanes()
    if strategy.gang > 1:
        lanes = Lanes(strategy.gang, lane_strides(func))
        facts = _with_facts_of_gangs(func, facts)
    e = Emitter(lanes, HANDLERS, facts)
    e.text.marks = [] if with_lines else None
    e.lanes = 1
    load_arguments(e, func)
    dims = [e.op(f"load i64, ptr {memory.address_at(e, '%grid', 8 * a)}") for a in range(func.rank)]
    some = e.op("icmp slt i64 %begin, %end")
    start = e.label("start")
    e.branch(some, start, exits.FINISH_BLOCK)
    e.start_block(start)
    e.accumulation = accumulate.begin(e, func)
    done = e.label("totals") if e.accumulation.partial else exits.FINISH_BLOCK
    _emit_points(e, func, dims, done, strategy)
    if e.accumulation.partial:
        e.start_block(done)
        accumulate.finish(e, e.accumulation)
        e.jump(exits.FINISH_BLOCK)
    leave(e)
    pairs = {**(attributes or {}), **float_mode(func)}
    if is_straight(func, strategy.gang):
        pairs[STRAIGHT] = "true"
    marks = "".join(f' "{name}"="{value}"' for name, value in pairs.items())
    params = "ptr %args, ptr %grid, i64 %begin, i64 %end"
    return module_text(e, f'void @"{symbol}"({params}) nounwind{marks}')


def float_mode(func: Func) -> dict[str, str]:
    """LLVM attributes of the code of ``func`` that say what becomes of subnormal numbers."""
    return {"denormal-fp-math": "preserve-sign,preserve-sign"} if func.flush_denormals else {}


def facts_of(func: Func, **target: Any) -> Facts:
    """The facts of ``func`` that every target needs, with those of the ``target``."""
    numbers = {eqn: at for at, eqn in enumerate(assertions(func))}
    return Facts(numbers, stack_records(func), **target)


def _with_facts_of_gangs(func: Func, facts: Facts) -> Facts:
    """``facts``, with what gangs that run ``func`` need besides."""
    return replace(
        facts,
        elements=whole_elements(func),
        adjacent_sums=adjacent_sums(func),
        first_accesses=first_accesses(func),
    )


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


def _emit_points(
    e: Emitter, func: Func, dims: Sequence[str], done: str, strategy: VectorStrategy
) -> None:
    """The loop over the grid, with the bodies that are worth their time to compile.

    It is left for block ``done``, where arrays have any strides.
    """
    arrays = {p: p.type for p in func.params if isinstance(p.type, ArrayType) and p.type.ndim}
    found = {param: e.array(param) for param in arrays}
    eqns = list(walk_eqns(func.body))
    has_packed = e.gang > 1 or (bool(arrays) and len(eqns) <= MAX_EQNS_OF_TWO_BODIES)

    def general() -> None:
        e.bind_all(found)
        e.region(func.body)

    if not has_packed:
        emit_rows(e, "%begin", dims, RowCode(general), done)
        e.bind_all(found)
        return
    packed_arrays = {p: as_packed(type_, found[p]) for p, type_ in arrays.items()}
    loops = vector_loops(func) if strategy.loop_lanes > 1 else dict[Eqn, VectorLoop]()
    independent = outer_loops(func) if strategy.loop_lanes > 1 else dict[Eqn, IndependentLoop]()
    blocked = blocked_loops(func, e.lane_facts.strides) if e.gang > 1 else dict[Eqn, BlockedLoop]()
    bodies = choose_bodies(func, e.gang, strategy.tile_rows)

    def packed() -> None:
        e.bind_all(packed_arrays)
        with e.special_loops(loops, blocked, independent):
            e.region(func.body)

    is_packed = all_equal(e, found, packed_arrays)
    is_packed = all_apart(e, is_packed, [*blocked.values(), *independent.values()])
    tile = (
        _tile(e, func, strategy.tile_rows, packed_arrays, is_packed)
        if strategy.tile_rows > 1
        else None
    )
    middle = None if bodies.middle is None else _middle(e, bodies.middle, packed_arrays)
    code = RowCode(general, bodies.general_lanes, packed, is_packed, bodies.has_tail, tile, middle)
    begin = "%begin"
    if bodies.collapse_limit:
        collapsed = _collapsed(e, func, packed_arrays, bodies.collapse_limit)
        begin = emit_collapsed(e, dims, collapsed, is_packed, done)
    emit_rows(e, begin, dims, code, done)
    e.bind_all(found)


def _collapsed(e: Emitter, func: Func, packed: Mapping[Var, ArrayValue], limit: int) -> Collapsed:
    """Gangs of ``func`` that go on from row to row, for packed arrays."""
    strides, row_major = collapsed_strides(func), row_major_accesses(func)

    def body() -> None:
        e.bind_all(packed)
        with e.as_lanes(replace(e.lane_facts, strides=strides, row_major=row_major)):
            e.region(func.body)

    shaped = {eqn.inputs[0] for eqn in row_major}
    return Collapsed(body, {p: array for p, array in packed.items() if p in shaped}, limit)


def _tile(
    e: Emitter, func: Func, rows: int, packed: Mapping[Var, ArrayValue], is_packed: str
) -> Tile:
    """Gangs of several rows of ``func``, for packed arrays to which no other threads add."""
    together, is_possible = tile_rows(func, rows), is_packed
    assert e.accumulation is not None
    for is_shared in e.accumulation.shared.values():
        is_alone = e.op(f"xor i1 {is_shared}, true")
        is_possible = e.op(f"and i1 {is_possible}, {is_alone}")

    def body() -> None:
        e.bind_all(packed)
        plan = Accumulation(together)
        strides = lane_strides(together)
        blocked = blocked_loops(together, strides)
        with (
            e.other_code(strides, replace(e.facts, elements=whole_elements(together)), plan),
            e.special_loops({}, blocked),
        ):
            e.region(together.body)

    return Tile(rows, body, is_possible, is_idempotent(func))


def _middle(e: Emitter, found: DenseMiddle, packed: Mapping[Var, ArrayValue]) -> Middle:
    """Gangs of the middle of rows, for packed arrays."""
    strides = lane_strides(found.func)
    plan = accumulate.plan_of_form(e, found.func, strides)

    def body() -> None:
        e.bind_all(packed)
        with e.other_code(strides, _with_facts_of_gangs(found.func, e.facts), plan):
            e.region(found.func.body)

    def holds(condition: Region) -> str:
        e.bind_all(packed)
        e.region(condition)
        return e.value_at(condition.yields[0], 1)

    border = -(-max(found.reach, 1) // e.gang)
    return Middle(body, lambda: holds(found.first), lambda: holds(found.last), border)


def as_packed(type_: ArrayType, array: ArrayValue) -> ArrayValue:
    """``array`` with adjacent components, and adjacent elements along the last other axis."""
    strides: list[str] = []
    size_bytes = type_.dtype.size_bytes
    for extent in reversed(type_.components):
        strides.insert(0, str(size_bytes))
        size_bytes *= extent
    outer = type_.outer_ndim
    if outer:
        strides.insert(0, str(size_bytes))
    return ArrayValue(array.data, array.shape, (*array.strides[: max(outer - 1, 0)], *strides))


def all_equal(e: Emitter, found: Mapping[Var, ArrayValue], wanted: Mapping[Var, ArrayValue]) -> str:
    """Whether the strides of ``found`` are those of ``wanted``."""
    result = "true"
    for param, array in found.items():
        for stride, expected in zip(array.strides, wanted[param].strides, strict=True):
            if stride != expected:
                same = e.op(f"icmp eq i64 {stride}, {expected}")
                result = e.op(f"and i1 {result}, {same}")
    return result


def all_apart(e: Emitter, result: str, loops: Iterable[BlockedLoop | IndependentLoop]) -> str:
    """Whether ``result``, and every pair of arrays of ``loops`` shares no more than it may."""
    pairs = {(*pair, False): None for loop in loops for pair in loop.apart}
    pairs |= {(*pair, True): None for loop in loops for pair in loop.equal}
    for x, y, may_be_one in pairs:
        is_apart = memory.are_apart(e, x, y)
        if may_be_one:
            one, other = (f"ptr {e.array(a).data}" for a in (x, y))
            same = all_equal(e, {x: e.array(x)}, {x: e.array(y)})
            same = e.op(f"and i1 {same}, {e.op(f'icmp eq {one}, {other[4:]}')}")
            is_apart = e.op(f"or i1 {is_apart}, {same}")
        result = e.op(f"and i1 {result}, {is_apart}")
    return result


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
    lines = [
        *e.text.declarations,
        f"define {head} {{",
        "entry:",
        *e.text.slots,
        *stacks.clear_stacks(e),
        *body,
        "}",
        *metadata,
    ]
    return "\n".join(lines) + "\n"


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


def _refuse_call(e: Emitter, eqn: Eqn) -> Sequence[Value]:
    del e
    raise KernelCompileError("a call that was not inlined", eqn.loc)


HANDLERS: Mapping[OpKind, Handler] = MappingProxyType(
    {
        OpKind.PURE: _emit_pure,
        OpKind.CAST: emit_cast,
        OpKind.TID: _emit_tid,
        OpKind.DIM: _emit_dim,
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
