"""LLVM text of vectorised kernels: shared functions, masks, remainders, row tiles, prefetches."""

from __future__ import annotations

import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen.analysis.prefetch import first_accesses, first_in_rows
from kernelcore.codegen.analysis.row_tiling import tile_rows
from kernelcore.codegen.llvm.kernel import emit_kernel
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Eqn, Func, Var
from kernelcore.ir.verify import verify
from kernelcore.passes.access.index_offsets import definitions, position_of
from kernelcore.passes.pipeline import optimize
from tests.helpers.vectorised.case import F32, F32_2D, VEC3
from tests.helpers.vectorised.gangs import mixed
from tests.helpers.vectorised.rows import batched, in_place, product, wide

LINES_OF_32_FLOATS = 2


def masked_text(func: Func, least_masked_bytes: int) -> str:
    return emit_kernel(func, "k", None, VectorStrategy(16, least_masked_bytes=least_masked_bytes))


def test_masked_instructions_are_those_that_the_processor_has() -> None:
    func = optimize(mixed.func)
    # AVX has masks for float32 and float64.
    every, some, none = (masked_text(func, n) for n in (1, 4, NO_MASKS))
    assert "@llvm.masked.store.v16i8" in every
    assert "@llvm.masked.load.v16f32" in some
    assert "@llvm.masked.load.v16f64" in some
    assert "@llvm.masked.store.v16i8" not in some
    assert "@llvm.masked" not in none


@kc.kernel
def permuted(x: F32, order: kc.array(int), out: F32):
    i = kc.tid()
    out[i] = x[order[i]]


@kc.kernel
def permuted_sums(x: F32, order: kc.array(int), out: F32):
    i = kc.tid()
    total = 0.0
    for k in range(7):
        total += x[order[i] + k]
    out[i] = total


@pytest.mark.parametrize(("kernel", "is_gathered"), [(permuted, True), (permuted_sums, False)])
def test_instructions_gather_outside_of_loops(kernel: kc.Kernel, is_gathered: bool) -> None:
    func = optimize(kernel.func)
    text = emit_kernel(func, "k", None, VectorStrategy(16, gathers=True))
    assert ("@llvm.masked.gather.v16f32.v16p0" in text) == is_gathered
    assert "gather" not in emit_kernel(func, "k", None, VectorStrategy(16))


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize("kernel", [product, in_place, wide, batched])
def test_rows_that_run_together(kernel: kc.Kernel, rows: int) -> None:
    func = optimize(kernel.func)
    verify(tile_rows(func, rows))
    assert "tile" in cpu.llvm_text(func, strategy=VectorStrategy(4, tile_rows=rows))


@pytest.mark.parametrize(("least_masked_bytes", "is_masked"), [(1, True), (4, False)])
def test_whole_gangs_of_tiles_have_masks_only_where_these_are_quick(
    least_masked_bytes: int, is_masked: bool
) -> None:
    form = VectorStrategy(4, 1, 4, least_masked_bytes, tile_lanes=16, short_tile_lanes=8)
    text = cpu.llvm_text(optimize(product.func), strategy=form)
    # The remainder of a row that fills no tile has one.
    assert (text.count("call <16 x float> @llvm.masked.load.v16f32") > 1) == is_masked
    assert "call <8 x float> @llvm.masked.load.v8f32" in text


@kc.kernel
def five_points(u: F32_2D, w: F32_2D, v: F32_2D):
    i, j = kc.tid()
    v[i, j] = u[i, j] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 2, j] + w[i, j]


@kc.kernel
def single_rows(u: F32_2D, v: F32_2D):
    i, j = kc.tid()
    v[i, j] = u[i, j] + u[i, j + 1]


@kc.kernel
def vectors(m: kc.mat33, x: VEC3, y: VEC3):
    i = kc.tid()
    y[i] = y[i] + m @ x[i]


@kc.kernel
def by_value(m: kc.mat33, x: F32, y: F32):
    i = kc.tid()
    y[i] = x[i] * m[0, 0]


@kc.kernel
def in_loops(x: VEC3, y: F32):
    i = kc.tid()
    for k in range(x.shape[0]):
        y[i] += x[k].x


def array_name(eqn: Eqn) -> str:
    array = eqn.inputs[0]
    assert isinstance(array, Var)
    return array.name


@pytest.mark.parametrize(
    ("kernel", "names"),
    [(five_points, "uw"), (single_rows, ""), (vectors, "xy"), (by_value, ""), (in_loops, "")],
    ids=lambda x: getattr(x, "key", str(x)),
)
def test_prefetched_arrays(kernel: kc.Kernel, names: str) -> None:
    found = first_accesses(optimize(kernel.func))
    assert sorted(array_name(eqn) for eqn in found) == list(names)


def test_the_last_of_several_rows_is_prefetched() -> None:
    func = optimize(five_points.func)
    defined = definitions(func)
    offsets = {
        array_name(eqn): [offset for _, offset in position_of(eqn, defined)]
        for eqn in first_accesses(func)
    }
    assert offsets == {"u": [2, 1], "w": [0, 0]}


@kc.kernel
def up_and_down(x: F32_2D, w: F32_2D, y: F32_2D, out: F32_2D):
    i = kc.tid()
    total = kc.float32(0.0)
    for j in range(x.shape[1]):
        total += x[i, j] * w[i, j]
    for j in range(x.shape[1] - 1, -1, -1):
        out[i, j] = x[i, j] * y[i, j] / total


def test_arrays_are_prefetched_for_loops_down_a_row() -> None:
    func = optimize(up_and_down.func)
    assert sorted(map(array_name, first_in_rows(func))) == ["out", "y"]
    text = cpu.llvm_text(func, strategy=VectorStrategy(16))
    lines = [t for t in text.splitlines() if "call void @llvm.prefetch" in t]
    found = [sum(f"i32 {writes}, i32 3" in t for t in lines) for writes in (0, 1)]
    # In the body for whole gangs, and in the one for long rows.
    assert found == [2 * LINES_OF_32_FLOATS] * 2


def test_gangs_prefetch_whole_lines_and_scalar_code_none() -> None:
    func = optimize(five_points.func)
    calls = "call void @llvm.prefetch"
    assert cpu.llvm_text(func, strategy=VectorStrategy(32)).count(calls) == 2 * LINES_OF_32_FLOATS
    assert calls not in cpu.llvm_text(func, strategy=VectorStrategy())
