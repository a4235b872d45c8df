"""Kernels as PTX, the assembly of NVIDIA's GPUs: scalar code in a grid-stride loop.

A kernel is ``.entry symbol(args, grid, begin, end)``, the interface of ``codegen/abi.py`` with the
argument block and the grid by value. Threads of all blocks share the positions from ``begin`` to
``end``: the launch may have any number of blocks and threads along their first axis. Where sums are
to have one order, those of one block run all points, or one thread does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from kernelcore.base.errors import KernelCompileError
from kernelcore.base.llvm import engine, lock
from kernelcore.codegen import abi
from kernelcore.codegen.gpu import gpu_ops, nvrtc, tiles, warp_reduction
from kernelcore.codegen.gpu.architectures import ARCHITECTURES, DEFAULT_ARCHITECTURE
from kernelcore.codegen.gpu.warp_reduction import wide_register
from kernelcore.codegen.llvm import control, exits, memory
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter, Handler, Lanes
from kernelcore.codegen.llvm.kernel import (
    HANDLERS,
    facts_of,
    float_mode,
    leave,
    load_arguments,
    module_text,
)
from kernelcore.codegen.llvm.packed import MAX_EQNS_OF_TWO_BODIES, all_equal, as_packed
from kernelcore.codegen.simd.contraction import contract_sums
from kernelcore.codegen.simd.grid_loop import unravel
from kernelcore.codegen.snippet import translation_unit
from kernelcore.ir.core import Func
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.ir.walk import eqns_inside, walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.accumulation_plan import Order, unplanned
from kernelcore.passes.autodiff.rules import without_rules

# A position plus the number of threads of the launch. Inline assembly hides the stride from LLVM,
# which would otherwise keep it and derived addresses in registers. The sum is made in halves, since
# ``ptxas`` makes a product and a sum of 64 bits one instruction and two copies.
ADVANCE = (
    'i64 asm "{ .reg .b32 a, b, c, d; .reg .b64 t; mov.u32 a, %nctaid.x; mov.u32 b, %ntid.x;'
    " mul.wide.u32 t, a, b; mov.b64 {a, b}, t; mov.b64 {c, d}, $1;"
    ' add.cc.u32 a, a, c; addc.u32 b, b, d; mov.b64 $0, {a, b}; }", "=l,l"'
)
# An index along one axis, which is below 2**31.
LOW_HALF = 'range(i32 0, -2147483648) i32 asm "cvt.u32.u64 $0, $1;", "=r,l"'

# For an unknown architecture LLVM prints a warning and emits this version.
_VERSION_OF_UNKNOWN = "\n.version 3.2\n"
_TRIPLE = "nvptx64-nvidia-cuda"
_OPTIMIZATION_LEVEL = 2
# Limits of the size of parameters before PTX 8.1 and from 8.1 on; the size of the two bounds.
_OLD_PARAMETER_BYTES, _MOST_PARAMETER_BYTES, _BOUNDS_BYTES = 4096, 32764, 16
_NEWER_PTX = "+ptx81"
_HANDLERS: Mapping[OpKind, Handler] = MappingProxyType(
    {
        **HANDLERS,
        OpKind.ATOMIC_ADD: warp_reduction.emit_atomic_add,
        OpKind.CAST: gpu_ops.emit_cast,
        OpKind.PRINT: gpu_ops.emit_print,
        OpKind.FOR: gpu_ops.in_loop(control.emit_for),
        OpKind.WHILE: gpu_ops.in_loop(control.emit_while),
    }
)
# Functions that the driver links to every kernel.
_PROVIDED = frozenset({"vprintf", "malloc", "free"})
_OTHER_LETTERS = re.compile(r"[^A-Za-z0-9_]")
_EXTERNAL = re.compile(r"^declare .*@(?!llvm\.)([\w.]+)\(", re.MULTILINE)


def ptx_text(
    func: Func,
    symbol: str,
    architecture: str = DEFAULT_ARCHITECTURE,
    order: Order = Order.ANY,
) -> str:
    """The PTX of kernel ``func`` as the entry ``symbol``.

    Args:
        func: A kernel that is ready for code generation.
        symbol: Its name.
        architecture: One of ``ARCHITECTURES``.
        order: Which of the threads of a launch run points, whatever its blocks are.

    Raises:
        KernelCompileError: There is no such architecture, ``func`` has what GPUs have no code for,
            or native snippets where there is no NVRTC.
    """
    if architecture not in ARCHITECTURES:
        raise KernelCompileError(
            f"ptx: expected one of {', '.join(ARCHITECTURES)}, found '{architecture}'"
        )
    # Identifiers of PTX have only letters, digits and underscores.
    text = llvm_text(func, _OTHER_LETTERS.sub("_", symbol), order)
    found = _assembly(text, architecture, _features(func))
    if _VERSION_OF_UNKNOWN in found:
        version = ".".join(map(str, engine().llvm_version_info))
        raise KernelCompileError(
            f"ptx: LLVM {version} does not know {architecture}",
            remedy="take an older architecture, whose code newer GPUs run, or a newer llvmlite",
        )
    called = translation_unit.snippets(without_rules(func))
    return nvrtc.link_snippets(found, called, architecture) if called else found


@lock
def _assembly(text: str, architecture: str, features: str) -> str:
    """LLVM ``text``, optimised, as PTX of the oldest version that has architecture and features."""
    llvm, machine = engine(), _machine(architecture, features)
    try:
        module = llvm.parse_assembly(text)
        module.triple = _TRIPLE
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise KernelCompileError(f"LLVM rejected the generated code: {error}\n{text}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=_OPTIMIZATION_LEVEL)
    options.loop_vectorization = options.slp_vectorization = False
    # ``ptxas`` unrolls loops, too: loops unrolled by both take twice the registers.
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


def llvm_text(func: Func, symbol: str, order: Order = Order.ANY) -> str:
    """The LLVM text of kernel ``func`` for GPUs, before optimisation; see ``ptx_text``.

    Raises:
        KernelCompileError: ``func`` has what GPUs have no code for.
    """
    func = contract_sums(without_rules(func))
    if order is Order.THREAD:
        func = unplanned(func)
    e = Emitter(Lanes(), _HANDLERS, facts_of(func, fused=True, branches=True))
    e.address = gpu_ops.address
    load_arguments(e, func)
    for param in func.params:
        if isinstance(param.type, ArrayType):
            found = e.array(param)
            e.bind(param, ArrayValue(_global(e, found.data), found.shape, found.strides))
    e.accumulation = warp_reduction.begin(e, func)
    _emit_points(e, func, order)
    leave(e, warp_reduction.finish)
    text = gpu_ops.link(_module(e, func, symbol), _attributes(func))
    known = {translation_unit.symbol_of(snippet) for snippet in translation_unit.snippets(func)}
    for name in _EXTERNAL.findall(text):
        if name in _PROVIDED or name in known:
            continue
        raise KernelCompileError(
            f"ptx: '{func.name}' needs '{name}' of the C library, which GPUs do not have", func.loc
        )
    return text


def _module(e: Emitter, func: Func, symbol: str) -> str:
    block_bytes = max(abi.layout(func.params)[1], abi.BLOCK_ALIGN_BYTES)
    params = {
        "%args": f"ptr byval([{block_bytes} x i8]) align {abi.BLOCK_ALIGN_BYTES}",
        "%grid": f"ptr byval([{abi.GRID_BYTES} x i8]) align {abi.BLOCK_ALIGN_BYTES}",
        "%begin": "i64",
        "%end": "i64",
    }
    declared = ", ".join(f"{type_text} {name}" for name, type_text in params.items())
    return module_text(e, f'ptx_kernel void @"{symbol}"({declared}) nounwind{_attributes(func)}')


def _attributes(func: Func) -> str:
    """The attributes of the functions that compute for ``func``."""
    return "".join(f' "{name}"="{value}"' for name, value in float_mode(func).items())


def _global(e: Emitter, pointer: str) -> str:
    """``pointer`` with the information for LLVM that it points to global memory."""
    inner = e.op(f"addrspacecast ptr {pointer} to ptr addrspace(1)")
    return e.op(f"addrspacecast ptr addrspace(1) {inner} to ptr")


def _emit_points(e: Emitter, func: Func, order: Order) -> None:
    """The body for every grid point of one thread; two bodies where strides of arrays matter."""
    dims = [e.op(f"load i64, ptr {memory.address_at(e, '%grid', 8 * a)}") for a in range(func.rank)]
    if order is Order.ANY and tiles.is_memory_bound(func):
        _emit_tiles(e, func, dims)
        return
    first = _first_point(e, order)
    if not _has_packed_body(func):
        _emit_loop(e, func, order, dims, first)
        return
    arrays = {p: p.type for p in func.params if isinstance(p.type, ArrayType) and p.type.ndim}
    found = {param: e.array(param) for param in arrays}
    packed_arrays = {p: as_packed(type_, found[p]) for p, type_ in arrays.items()}
    packed, strided = e.label("packed"), e.label("strided")
    e.branch(all_equal(e, found, packed_arrays), packed, strided)
    for label, bound in ((packed, packed_arrays), (strided, found)):
        e.start_block(label)
        e.bind_all(bound)
        _emit_loop(e, func, order, dims, first)


def _has_packed_body(func: Func) -> bool:
    """Whether a point accesses components, or elements in loops, which costs less by known strides.

    Kernels that access less wait for memory.
    """
    eqns = list(walk_eqns(func.body))
    if len(eqns) > MAX_EQNS_OF_TWO_BODIES:
        return False
    if any(isinstance(p.type, ArrayType) and p.type.components for p in func.params):
        return True
    loops = (e for e in eqns if e.op.kind in LOOPS)
    inputs = (a for loop in loops for e in eqns_inside(loop) for a in e.inputs)
    return any(isinstance(a.type, ArrayType) for a in inputs)


def _emit_tiles(e: Emitter, func: Func, dims: Sequence[str]) -> None:
    """The body for several points at once, and for those that are left."""

    def point_at(position: str) -> tuple[str, ...]:
        return _point_at(e, position, dims)

    def one_by_one(first: str, step: str) -> None:
        _emit_positions(e, func, dims, first, lambda p: e.op(f"add i64 {p}, {step}"))

    tiles.emit(e, func, point_at, one_by_one)


def _emit_loop(e: Emitter, func: Func, order: Order, dims: Sequence[str], first: str) -> None:
    """The body for the positions of the thread, as ``order`` has them."""
    _emit_positions(e, func, dims, first, lambda p: _advanced(e, p, order))


def _emit_positions(
    e: Emitter, func: Func, dims: Sequence[str], first: str, following: Callable[[str], str]
) -> None:
    """The body for positions from ``first`` on, with what emits the position after one."""
    before, head, point = e.block, e.label("head"), e.label("point")
    e.jump_into(head)
    position = e.phi("i64", (first, before))
    e.branch(e.op(f"icmp slt i64 {position}, %end"), point, exits.FINISH_BLOCK)
    e.start_block(point)
    e.point = _point_at(e, position, dims)
    e.region(func.body)
    e.add_edge(position, following(position), e.block)
    e.jump(head)


def _point_at(e: Emitter, position: str, dims: Sequence[str]) -> tuple[str, ...]:
    """The launch index at ``position``, of which the emitter knows the int64, too."""
    indices = unravel(e, position, dims)
    point = tuple(gpu_ops.assembly(e, LOW_HALF, f"i64 {i}") for i in indices)
    e.wide_indices.update((i, e.op(f"zext i32 {i} to i64")) for i in point)
    return point


def _first_point(e: Emitter, order: Order) -> str:
    """The first position of the thread; threads without positions get one behind the last."""
    thread, block, threads = (wide_register(e, name) for name in ("tid.x", "ctaid.x", "ntid.x"))
    number = e.op(f"add i64 {e.op(f'mul i64 {block}, {threads}')}, {thread}")
    first = e.op(f"add i64 %begin, {number}")
    if order is Order.ANY:
        return first
    limit = threads if order is Order.BLOCK else "1"
    return e.op(f"select i1 {e.op(f'icmp ult i64 {number}, {limit}')}, i64 {first}, i64 %end")


def _advanced(e: Emitter, position: str, order: Order) -> str:
    """The next position of the thread."""
    match order:
        case Order.ANY:
            return gpu_ops.assembly(e, ADVANCE, f"i64 {position}")
        case Order.BLOCK:
            return e.op(f"add i64 {position}, {wide_register(e, 'ntid.x')}")
        case Order.THREAD:
            return e.op(f"add i64 {position}, 1")


@cache
def _targets() -> None:
    llvm = engine()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _features(func: Func) -> str:
    """LLVM's features for the version of PTX: newer versions take more bytes of parameters.

    Raises:
        KernelCompileError: ``func`` takes more than any version.
    """
    size = abi.layout(func.params)[1] + abi.GRID_BYTES + _BOUNDS_BYTES
    if size > _MOST_PARAMETER_BYTES:
        raise KernelCompileError(
            f"ptx: '{func.name}' takes {size} bytes of arguments, a GPU at most "
            f"{_MOST_PARAMETER_BYTES}",
            func.loc,
            "put values into arrays, or arrays of one shape into one with another axis",
        )
    return _NEWER_PTX if size > _OLD_PARAMETER_BYTES else ""


def _machine(architecture: str, features: str) -> Any:
    _targets()
    target = engine().Target.from_triple(_TRIPLE)
    return target.create_target_machine(architecture, features, _OPTIMIZATION_LEVEL)
