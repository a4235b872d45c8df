"""Calls compiled kernels through ctypes, and builds IR for tests in a few words."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

import kernelcore as kc
from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.builtins import OPS
from kernelcore.codegen import abi
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, Facts, Lanes, scalar_type
from kernelcore.codegen.llvm.kernel import HANDLERS, module_text
from kernelcore.codegen.simd.strategy import VectorStrategy, has_vector_form
from kernelcore.compiler.native_code import Compiled, compile_func
from kernelcore.compiler.stages import all_derivatives
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Func, Region, Var
from kernelcore.ir.op import Op
from kernelcore.ir.verify import verify
from kernelcore.ir.walk import clone_region
from kernelcore.language.types import (
    FLOATS,
    MAX_GRID_DIMS,
    TYPE_CLASSES,
    ArrayType,
    Scalar,
    Type,
    bfloat16,
    boolean,
)
from kernelcore.launch.dispatch import argument_leaves
from kernelcore.passes.access.accumulation_plan import Order
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.device import gpu
from tests.helpers import interpreter
from tests.helpers.argument_block import pack
from tests.helpers.environment import IS_CPU

KERNEL_TYPE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


def parts_of(form: VectorStrategy) -> tuple[Any, ...]:
    """The arguments from ``lanes`` on with which ``launch`` compiles a kernel as ``form``."""
    return tuple(getattr(form, field.name) for field in fields(form))


def launch(
    func: Func,
    args: Sequence[Any],
    dims: Sequence[int] | int,
    chunks: Sequence[tuple[int, int]] | None = None,
    lanes: int | None = None,
    loop_lanes: int = 1,
    tile_rows: int = 1,
    least_masked_bytes: int = 1,
    packed_bytes: int = 0,
    gathers: bool = False,
    tile_lanes: int = 0,
    short_tile_lanes: int = 0,
    *,
    in_order: bool = False,
    own: int = 0,
) -> int:
    """Compile ``func`` and run it over the grid, or over ``chunks`` of it; returns the status.

    These divide the elements of the accumulated arrays of the bits of ``own``.

    On a GPU (``environment.py``) there are no gangs, nor for kernels that have operations without
    a vector form. Its threads run in no order, unless ``in_order`` leaves all points to one.
    """
    if not IS_CPU:
        order = Order.THREAD if in_order else Order.ANY
        return gpu.run(func, args, dims, chunks=chunks, order=order)
    form = None
    if lanes is not None:
        registers = lanes, loop_lanes, tile_rows, least_masked_bytes, packed_bytes, gathers
        form = VectorStrategy(*registers, tile_lanes, short_tile_lanes)
    compiled, rank = _compiled(func, form, config.optimize)
    extents = [dims] if isinstance(dims, int) else list(dims)
    assert len(extents) == rank
    size = math.prod(extents)
    status = ctypes.c_int64(0)
    words = [*extents, *[1] * (MAX_GRID_DIMS - len(extents)), ctypes.addressof(status), 0, 0, own]
    grid = (ctypes.c_int64 * len(words))(*words)
    assert ctypes.sizeof(grid) == abi.GRID_BYTES
    block = pack(compiled.fields, compiled.block_size, args)
    data = (ctypes.c_char * max(len(block), 1)).from_buffer(block or bytearray(1))
    kernel = KERNEL_TYPE(compiled.address)
    for begin, end in [(0, size)] if chunks is None else chunks:
        kernel(ctypes.addressof(data), ctypes.addressof(grid), begin, end)
    return status.value


def launched_in_two(
    func: Func, given: Sequence[Any], points: int, cut: int, lanes: int, *form: Any, **others: Any
) -> list[Any]:
    """Copies of ``given`` after ``points`` threads, those before ``cut`` first; not optimised.

    ``lanes``, ``form`` and ``others`` are as for ``launch``.
    """
    found = copies(given)
    with unoptimised():
        status = launch(func, found, points, [(0, cut), (cut, points)], lanes, *form, **others)
    assert status == abi.STATUS_OK
    return found


def assert_same_arrays(func: Func, wanted: Sequence[Any], found: Sequence[Any], what: str) -> None:
    """The arguments ``found`` of ``func`` that are arrays equal ``wanted``."""
    for param, want, got in zip(func.params, wanted, found, strict=True):
        if isinstance(param.type, ArrayType):
            np.testing.assert_array_equal(got, want, f"{param.name}: {what}")


@lru_cache(maxsize=64)
def _compiled(func: Func, form: VectorStrategy | None, optimize: bool) -> tuple[Compiled, int]:
    """The code of ``func``, whose key takes as long as a small launch, and the rank of its grid."""
    if form is not None and not has_vector_form(func):
        form = replace(form, gang=1)
    return compile_func(func, form), func.rank


def adjoint_func(kernel: kc.Kernel) -> Func:
    """The planned adjoint of ``kernel`` with respect to all of its floats.

    Raises:
        KernelGradError: It has none.
    """
    return optimize(tidy(vjp(kernel.func, *all_derivatives(kernel.func)).func))


def run_kernel(kernel: kc.Kernel, args: Sequence[Any], dims: Sequence[int] | int) -> None:
    """Launch ``kernel``, which is not generic, over NumPy arrays and values."""
    if IS_CPU:
        kc.launch(kernel, dims, list(args))
    else:
        leaves = argument_leaves(kernel, args)
        assert gpu.run(optimize(kernel.func), leaves, dims) == abi.STATUS_OK


@contextmanager
def unoptimised() -> Iterator[None]:
    """Let LLVM optimise nothing inside, which takes a third of the time and gives the same bits."""
    saved, config.optimize = config.optimize, False
    yield
    config.optimize = saved


def agree(
    func: Func,
    args: Sequence[Any],
    dims: Sequence[int] | int,
    chunks: Sequence[tuple[int, int]] | None = None,
    lanes: int | None = None,
    loop_lanes: int = 1,
    tile_rows: int = 1,
    least_masked_bytes: int = 1,
    packed_bytes: int = 0,
    *,
    in_order: bool = False,
) -> list[np.ndarray]:
    """Run interpreter and machine code on copies of ``args``; the arrays afterwards, if equal.

    Results that depend on the order of the points need ``in_order``; see ``launch``.
    """
    interpreted, compiled = copies(args), copies(args)
    interpreter.run(func, interpreted, dims)
    form = (lanes, loop_lanes, tile_rows, least_masked_bytes, packed_bytes)
    status = launch(func, compiled, dims, chunks, *form, in_order=in_order)
    assert status == abi.STATUS_OK
    for found, expected in zip(compiled, interpreted, strict=True):
        np.testing.assert_array_equal(comparable(found), comparable(expected))
    return [a for a in compiled if isinstance(a, np.ndarray)]


def copies(args: Sequence[Any]) -> list[Any]:
    """Copies of the arrays with the same strides."""
    copies: list[Any] = []
    for arg in args:
        if not isinstance(arg, np.ndarray):
            copies.append(arg)
            continue
        base = arg if arg.base is None else arg.base
        offset = arg.ctypes.data - base.ctypes.data
        copies.append(np.ndarray(arg.shape, arg.dtype, base.copy("K"), offset, arg.strides))
    return copies


def call(b: Builder, name: str, *operands: Atom) -> Var:
    """Emit the built-in ``name``."""
    return b.emit(OPS[name], *operands)


def make(
    name: str,
    params: Sequence[Type],
    write: Callable[..., Sequence[Atom] | None],
    grid_rank: int = 0,
) -> Func:
    """A verified Func; ``write(builder, *params)`` emits its body and returns what it yields."""
    builder = Builder()
    variables = [Var(t, f"p{at}") for at, t in enumerate(params)]
    yields = write(builder, *variables) or ()
    body = Region(tuple(variables), tuple(builder.eqns), tuple(yields))
    return verify(Func(name, body, grid_rank))


def region(
    builder: Builder, params: Sequence[Type], write: Callable[..., Sequence[Atom] | None]
) -> Region:
    """A region; ``write(*params)`` emits into ``builder`` and returns what the region yields."""
    variables = [Var(t) for t in params]
    with builder.region() as eqns:
        yields = write(*variables) or ()
    return Region(tuple(variables), tuple(eqns), tuple(yields))


def elementwise(func: Func) -> Func:
    """The kernel that maps ``func``, a function of scalars, over 1-D arrays."""

    def write(b: Builder, *params: Var) -> None:
        index = b.emit(ops.TID, axis=0)
        count = len(func.params)
        args = [b.emit(ops.LOAD, p, index) for p in params[:count]]
        body = Region((), func.body.eqns, func.body.yields)
        inlined = clone_region(body, dict(zip(func.params, args, strict=True)))
        for eqn in inlined.eqns:
            b.append(eqn)
        for target, value in zip(params[count:], inlined.yields, strict=True):
            b.emit_effect(ops.STORE, target, index, value)

    scalars = [p.type for p in func.params] + [a.type for a in func.body.yields]
    arrays = [ArrayType(t, 1) for t in scalars if isinstance(t, Scalar)]
    return make(f"map_{func.name}", arrays, write, grid_rank=1)


def one_call(op: Op, dtype: Scalar) -> Func:
    """A function that applies ``op`` at ``dtype``."""
    params = [dtype if dtype in TYPE_CLASSES[c] else boolean for c in op.params.values()]
    return make(op.name, params, lambda b, *args: [b.emit(op, *args)])


def const(dtype: Scalar, value: float) -> Const:
    """A literal of ``dtype``."""
    kinds = {"bool": bool, "int": int, "uint": int, "float": float}
    return Const(dtype, kinds[dtype.kind](value))


def comparable(values: Any) -> Any:
    """``values``, bfloat16 as float32: NumPy's comparisons know the NaNs of its own types only."""
    array = np.asarray(values)
    return array.astype(np.float32) if array.dtype == bfloat16.numpy else values


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is one of the floats; NumPy does not count bfloat16."""
    return dtype in [f.numpy for f in FLOATS]


def nearest_float(value: Any, dtype: Scalar) -> Any:
    """``value``, a Python number, as the float type ``dtype``: ties go to the even digit."""
    if isinstance(value, float) and (value == 0 or not math.isfinite(value)):
        return value
    exact, limits = Fraction(value), ml_dtypes.finfo(dtype.numpy)
    if exact == 0:
        return 0.0
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, int(limits.minexp)) - int(limits.nmant))
    rounded = round(exact / quantum) * quantum
    if abs(rounded) > Fraction(float(limits.max)):
        return math.inf if rounded > 0 else -math.inf
    return math.copysign(float(rounded), 1 if exact > 0 else -1)


def emit_lanes(
    func: Func, symbol: str, lanes: int, fused: bool = native.has_fma, scales: bool = False
) -> str:
    """LLVM text of a function of scalars, evaluated for ``lanes`` sets of arguments at once.

    Defines ``void symbol(ptr in0, ..., ptr out0, ...)``: every pointer is to ``lanes`` elements.
    ``fused`` says whether the target multiplies and adds in one instruction, ``scales`` whether it
    multiplies by powers of two in one.
    """
    e = Emitter(Lanes(lanes), HANDLERS, Facts(fused=fused, scales=scales))
    for at, param in enumerate(func.params):
        e.bind(param, memory.load(e, scalar_type(param), f"%in{at}"))
    e.region(func.body)
    for at, value in enumerate(e.value(a) for a in func.body.yields):
        memory.store(e, scalar_type(func.body.yields[at]), value, f"%out{at}")
    e.effect("ret void")
    pointers = [f"ptr %in{at}" for at in range(len(func.params))]
    pointers += [f"ptr %out{at}" for at in range(len(func.body.yields))]
    return module_text(e, f'void @"{symbol}"({", ".join(pointers)}) nounwind')
