"""Machine code of kernels against the interpreter: memory, grids, conversions, interface."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelCompileError, KernelError
from kernelcore.base.host import host
from kernelcore.codegen import abi
from kernelcore.codegen.llvm.kernel import emit_kernel
from kernelcore.codegen.target import cpu
from kernelcore.codegen.target.machine import LONG_BLOCK, STRAIGHT
from kernelcore.compiler.native_code import compile_func
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Func, Var
from kernelcore.language.types import (
    SCALARS,
    ArrayType,
    Scalar,
    boolean,
    float32,
    float64,
    int32,
    int64,
)
from kernelcore.passes.pipeline import optimize
from tests.helpers import interpreter
from tests.helpers.guarded_memory import ending_at_a_guard
from tests.helpers.kernel_harness import (
    agree,
    call,
    const,
    emit_lanes,
    launch,
    make,
    region,
    unoptimised,
)


def axpy() -> Func:
    def write(b: Builder, a: Var, x: Var, y: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        scaled = call(b, "mul", a, b.emit(ops.LOAD, x, i))
        b.emit_effect(ops.STORE, y, i, call(b, "add", scaled, b.emit(ops.LOAD, y, i)))

    array = ArrayType(float32, 1)
    return make("axpy", [float32, array, array], write, grid_rank=1)


def test_packed_and_strided_arrays_give_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 301)).astype(np.float32)
    (_, expected) = agree(axpy(), [0.3, x, y], 301)
    spread = np.zeros((301, 3), np.float32)
    spread[:, 1] = y
    (_, found) = agree(axpy(), [0.3, x[::-1].copy()[::-1], spread[:, 1]], 301)
    np.testing.assert_array_equal(found, expected)


def test_products_and_sums_are_not_contracted() -> None:
    text = cpu.assembly(cpu.llvm_text(axpy()))
    assert "mulss" in text
    assert "fmadd" not in text


def test_in_place_kernels_may_alias() -> None:
    x = np.arange(64, dtype=np.float32)
    expected = np.float32(2) * x + x
    launch(axpy(), [2.0, x, x], 64)
    np.testing.assert_array_equal(x, expected)


def transposed_copy(ndim: int, dtype: Scalar) -> Func:
    """``out[reversed(tid)] = x[tid]``."""

    def write(b: Builder, x: Var, out: Var) -> None:
        index = [b.emit(ops.TID, axis=a) for a in range(ndim)]
        b.emit_effect(ops.STORE, out, *index[::-1], b.emit(ops.LOAD, x, *index))

    array = ArrayType(dtype, ndim)
    return make("transposed_copy", [array, array], write, grid_rank=ndim)


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_every_rank_and_dtype_reads_and_writes_through_strides(ndim: int, dtype: Scalar) -> None:
    shape = (3, 4, 2, 5)[:ndim]
    values = np.arange(np.prod(shape)).reshape(shape) % (2 if dtype == boolean else 50)
    x = values.astype(dtype.numpy)
    backwards = np.zeros([2 * n for n in shape[::-1]], dtype.numpy)
    out = backwards[tuple(slice(None, None, -2) for _ in shape)]
    (_, found) = agree(transposed_copy(ndim, dtype), [x, out], shape)
    np.testing.assert_array_equal(found, x.transpose())


@pytest.mark.parametrize("dims", [(37,), (5, 7), (3, 4, 5), (2, 3, 1, 4), (1, 1, 6), (7, 1)])
def test_every_chunking_of_the_grid_visits_each_point_once(dims: tuple[int, ...]) -> None:
    rank = len(dims)

    def write(b: Builder, out: Var) -> None:
        index = [b.emit(ops.TID, axis=a) for a in range(rank)]
        code: Atom = const(int32, 0)
        for i in index:
            code = call(b, "add", call(b, "mul", code, const(int32, 10)), i)
        b.emit(ops.ATOMIC_ADD, out, *index, call(b, "add", code, const(int32, 1)))

    func = make("visit", [ArrayType(int32, rank)], write, grid_rank=rank)
    (expected,) = agree(func, [np.zeros(dims, np.int32)], dims)
    size = expected.size
    for step in (1, 3, 4, size):
        found = np.zeros(dims, np.int32)
        launch(func, [found], dims, [(at, min(at + step, size)) for at in range(0, size, step)])
        np.testing.assert_array_equal(found, expected)
    untouched = np.zeros(dims, np.int32)
    launch(func, [untouched], dims, [(0, 0), (size, size), (5, 2)])
    assert not untouched.any()


def test_a_grid_of_eight_dimensions_is_walked() -> None:
    def write(b: Builder, out: Var) -> None:
        index = b.emit(ops.TID, axis=0)
        for axis in range(1, 8):
            index = call(b, "mul", index, const(int32, 2))
            index = call(b, "add", index, b.emit(ops.TID, axis=axis))
        b.emit_effect(ops.STORE, out, index, index)

    func = make("bits", [ArrayType(int32, 1)], write, grid_rank=8)
    (found,) = agree(func, [np.zeros(256, np.int32)], [2] * 8)
    np.testing.assert_array_equal(found, np.arange(256))


def test_a_kernel_without_an_index_runs_over_one_dimension() -> None:
    def write(b: Builder, out: Var) -> None:
        b.emit(ops.ATOMIC_ADD, out, const(float64, 1.0))

    func = make("count", [ArrayType(float64, 0)], write)
    (found,) = agree(func, [np.zeros((), np.float64)], 5)
    assert found == 5


def test_extents_are_read() -> None:
    def write(b: Builder, x: Var, out: Var) -> None:
        for axis in range(3):
            b.emit_effect(ops.STORE, out, const(int32, axis), b.emit(ops.DIM, x, axis=axis))

    func = make("extents", [ArrayType(float32, 3), ArrayType(int32, 1)], write)
    found = agree(func, [np.zeros((4, 5, 6), np.float32), np.zeros(3, np.int32)], 1)[-1]
    np.testing.assert_array_equal(found, [4, 5, 6])


def test_indices_of_both_integer_types_mix() -> None:
    def write(b: Builder, x: Var, out: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        j = b.emit(ops.CAST, i, dtype=int64)
        b.emit_effect(ops.STORE, out, j, i, b.emit(ops.LOAD, x, i, j))

    array = ArrayType(float64, 2)
    func = make("diagonal", [array, array], write, grid_rank=1)
    agree(func, [np.random.default_rng(0).normal(size=(4, 4)), np.zeros((4, 4))], 4)


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("dtype", [int32, int64, float32, float64], ids=str)
def test_atomic_add_gives_the_old_value(dtype: Scalar, owned: bool) -> None:
    def write(b: Builder, total: Var, old: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(ops.CAST, i, dtype=dtype)
        attrs: dict[str, Any] = {"form": ops.AddForm.OWNED} if owned else {}
        target = i if owned else const(int32, 0)
        b.emit_effect(ops.STORE, old, i, b.emit(ops.ATOMIC_ADD, total, target, value, **attrs))

    array = ArrayType(dtype, 1)
    func = make("accumulate", [array, array], write, grid_rank=1)
    assert ("atomicrmw" in emit_kernel(func, "k")) is not owned
    start = np.arange(1, 10).astype(dtype.numpy)
    agree(func, [start, np.zeros(9, dtype.numpy)], 9)


def test_argument_blocks_align_every_field() -> None:
    types = [boolean, float64, int32, ArrayType(float32, 2), boolean, int64, ArrayType(int32, 0)]
    fields, size = abi.layout([Var(t) for t in types])
    assert [f.offset for f in fields] == [0, 8, 16, 24, 64, 72, 80]
    assert size == 88
    assert (fields[3].shape_offset(1), fields[3].stride_offset(0)) == (40, 48)

    def write(b: Builder, *params: Var) -> None:
        flag, x, n, a, other, m, out = params
        both = call(b, "not_equal", flag, other)
        total = call(b, "add", b.emit(ops.CAST, n, dtype=int64), m)
        total = call(b, "add", total, b.emit(ops.CAST, x, dtype=int64))
        zero = const(int32, 0)
        total = call(
            b, "add", total, b.emit(ops.CAST, b.emit(ops.LOAD, a, zero, zero), dtype=int64)
        )
        total = call(b, "where", both, total, const(int64, -1))
        b.emit_effect(ops.STORE, out, b.emit(ops.CAST, total, dtype=int32))

    func = make("fields", types, write)
    args = [True, 2.5, 30, np.full((1, 1), 400, np.float32), False, 5000, np.zeros((), np.int32)]
    assert agree(func, args, 1)[-1] == 5432


def polynomial() -> Func:
    def write(b: Builder, x: Var, y: Var) -> list[Atom]:
        total = call(b, "add", call(b, "mul", x, y), const(float32, 0.1))
        return [call(b, "sqrt", call(b, "abs", total)), call(b, "less", total, y)]

    return make("polynomial", [float32, float32], write)


def call_lanes(func: Func, lanes: int, *args: np.ndarray) -> str:
    """Run ``func`` on ``lanes`` sets of arguments, results behind them; the LLVM text."""
    symbol = f"{func.name}_{lanes}"
    text = emit_lanes(func, symbol, lanes)
    llvm.parse_assembly(text).verify()
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(args))
    function(cpu.load(cpu.object_code(text), symbol))(*(a.ctypes.data for a in args))
    return text


@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_straight_lines_are_emitted_at_any_lane_count(lanes: int) -> None:
    func = polynomial()
    x, y = np.random.default_rng(5).normal(size=(2, lanes)).astype(np.float32)
    root, less = np.zeros(lanes, np.float32), np.zeros(lanes, np.bool_)
    text = call_lanes(func, lanes, x, y, root, less)
    assert ("<8 x float>" in text) is (lanes == 8)
    expected = [interpreter.run_function(func, row) for row in zip(x, y, strict=True)]
    assert root.tolist() == [e[0] for e in expected]
    assert less.tolist() == [e[1] for e in expected]


@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_branches_are_emitted_at_any_lane_count(lanes: int) -> None:
    def write(b: Builder, x: Var) -> list[Atom]:
        then = region(b, [], lambda: [call(b, "mul", x, x)])
        orelse = region(b, [], lambda: [call(b, "neg", x)])
        return list(b.emit_if(call(b, "less", x, const(float32, 0.0)), then, orelse))

    func = make("branchy", [float32], write)
    x, found = np.linspace(-1, 1, lanes).astype(np.float32), np.zeros(lanes, np.float32)
    call_lanes(func, lanes, x, found)
    assert found.tolist() == [interpreter.run_function(func, [value])[0] for value in x]


def test_functions_and_calls_are_no_kernels() -> None:
    func = polynomial()
    with pytest.raises(KernelCompileError, match="is no kernel"):
        emit_kernel(func, "f")
    x, y = const(float32, 1.0), const(float32, 2.0)

    def write(b: Builder, out: Var) -> None:
        root, _ = b.emit_all(ops.CALL, [x, y], callee=func)
        b.emit_effect(ops.STORE, out, root)

    calling = make("calling", [ArrayType(float32, 0)], write)
    with pytest.raises(KernelCompileError, match="not inlined"):
        emit_kernel(calling, "f")
    out = np.zeros((), np.float32)
    interpreter.run(calling, [out], 1)
    assert out == interpreter.run_function(func, [1.0, 2.0])[0]


def test_rejected_text_is_a_compile_error() -> None:
    with pytest.raises(KernelCompileError, match="LLVM rejected"):
        cpu.object_code("define void @f() { ret i32 0 }")


@kc.kernel
def elementwise(x: kc.array(dtype=float), scale: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = kc.exp(x[i]) / (1.0 + scale)


@kc.kernel
def with_a_loop(x: kc.array(dtype=float), count: int, y: kc.array(dtype=float)):
    i = kc.tid()
    for j in range(count):
        y[i] += x[j]


@kc.kernel
def with_work_to_share(x: kc.array(dtype=float), scale: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * kc.exp(-scale)


@kc.kernel
def permuted(x: kc.array(dtype=float), order: kc.array(dtype=int), y: kc.array(dtype=float)):
    i = kc.tid()
    y[order[i]] = x[i]


@kc.kernel
def with_a_quotient(
    x: kc.array(dtype=float), order: kc.array(dtype=int), n: int, y: kc.array(dtype=float)
):
    i = kc.tid()
    y[order[i] + n // 3] = x[i]


@kc.kernel
def with_rows(x: kc.array4d(dtype=float), order: kc.array(dtype=int), y: kc.array4d(dtype=float)):
    i, j, k, m = kc.tid()
    y[i, j, k, order[m]] = x[i, j, k, m]


@pytest.mark.parametrize(
    ("kernel", "is_straight"),
    [
        (elementwise, True),
        (with_a_loop, False),
        (with_work_to_share, False),
        (permuted, True),
        (with_a_quotient, False),
        (with_rows, False),
    ],
)
def test_passes_for_loops_run_where_they_have_something_to_find(
    kernel: kc.Kernel, is_straight: bool
) -> None:
    assert (STRAIGHT in cpu.llvm_text(optimize(kernel.func))) == is_straight


def test_long_blocks_compute_what_the_interpreter_does() -> None:
    def write(b: Builder, x: Var, y: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        found: Atom = b.emit(ops.LOAD, x, i)
        for k in range(LONG_BLOCK // 2):
            found = call(b, "add", call(b, "mul", found, const(float32, 0.99)), const(float32, k))
        b.emit_effect(ops.STORE, y, i, found)

    array = ArrayType(float32, 1)
    func = make("long", [array, array], write, grid_rank=1)
    blocks = cpu.llvm_text(func).split(":\n")
    assert max(block.count("\n") for block in blocks) >= LONG_BLOCK
    agree(func, [np.linspace(-1, 1, 37, dtype=np.float32), np.zeros(37, np.float32)], 37)


@kc.kernel
def above(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = kc.where(x[i] > x[2], x[i], 1.0)


def test_code_that_is_not_optimised_reads_nothing_behind_an_array() -> None:
    x, y = ending_at_a_guard(np.arange(8, dtype=np.float32)), np.zeros(8, np.float32)
    with unoptimised():
        assert launch(optimize(above.func), [x, y], 8) == abi.STATUS_OK
    np.testing.assert_array_equal(y, [1, 1, 1, 3, 4, 5, 6, 7])


def test_thunks_pass_their_context_on() -> None:
    seen: list[tuple[int | None, int, int, int | None]] = []
    pointer = ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64, ctypes.c_int64, pointer)
    target = kind(lambda *args: seen.append(args))
    function = ctypes.cast(target, pointer).value
    assert function is not None
    thunk = cpu.thunk(function, 1234)
    ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64, ctypes.c_int64)(thunk)(16, 2, -3)
    assert seen == [(16, 2, -3, 1234)]
    assert cpu.thunk(function, 1234) != thunk


def test_the_interpreter_names_the_index_out_of_bounds() -> None:
    array = np.zeros(3, np.float32)
    with pytest.raises(KernelError, match="index 3 is out of bounds for axis 0 of extent 3"):
        interpreter.run(axpy(), [1.0, array, array], 4)


def test_vectorised_code_uses_the_widest_registers() -> None:
    # Processors without 512-bit units ask for no width; then LLVM's own choice stands.
    asks_for_512_bits = bool(host().attributes)
    assert ("zmm" in cpu.assembly(cpu.llvm_text(axpy()))) == asks_for_512_bits
    assert compile_func(axpy()).address == compile_func(axpy()).address
