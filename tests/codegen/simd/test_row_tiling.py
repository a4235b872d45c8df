"""Rows of the grid that gangs take together: every bit is that of rows one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.row_tiling import has_bands, in_bands
from kernelcore.codegen.simd.cost_model import rows_together
from kernelcore.codegen.simd.strategy import Form
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from kernelcore.ir.verify import verify
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.helpers.kernel_harness import agree, launch

F32, F64 = kc.array(kc.float32, 2), kc.array(kc.float64, 2)
I32, F32_1D, F32_3D = kc.array(kc.int32, 2), kc.array(kc.float32, 1), kc.array(kc.float32, 3)
VEC3 = kc.array(kc.vec3, 2)
LANES, TURNS = 4, 5
# Whole bands, rows that are left, and gangs with points behind them.
ROWS, COLUMNS = 10, 11
CHUNKS = (None, [(0, 3), (3, 40), (40, 110)], [(0, 22), (22, 77), (77, 99), (99, 110)])
rows = pytest.mark.parametrize("rows", [2, 4])


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@kc.kernel
def product(a: F32, b: F32, c: F32):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@kc.kernel
def batched(a: F32_3D, b: F32_3D, c: F32_3D):
    n, i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[2]):
        total += a[n, i, k] * b[n, k, j]
    c[n, i, j] = kc.max(total, 0.0)


@kc.kernel
def in_place(a: F32, b: F32, c: F32, counts: I32):
    i, j = kc.tid()
    last, steps = c[i, j], 0
    for k in range(a.shape[1]):
        if a[i, k] > b[k, j]:
            last = last * b[k, j] - a[i, k]
            steps += k
        elif b[k, 0] > 0.5:
            c[i, j] += b[k, 1]
        for m in range(2):
            last += a[i, m] * b[k, j]
    c[i, j] = c[i, j] * last
    counts[i, j] = steps + i


@kc.kernel
def wide(a: F64, b: F64, c: F64):
    i, j = kc.tid()
    total, scale = kc.float64(0.0), b[0, j]
    for k in range(a.shape[1]):
        total = total * scale + a[i, k] / b[k, j]
    c[i, j] = total


@rows
@pytest.mark.parametrize("chunks", CHUNKS)
def test_stores_are_those_of_the_interpreter(rows: int, chunks: Any) -> None:
    a, b, c = floats(ROWS, TURNS), floats(TURNS, COLUMNS, seed=1), floats(ROWS, COLUMNS, seed=2)
    counts = np.zeros((ROWS, COLUMNS), np.int32)
    arguments = {product: (a, b, c), in_place: (a, b, c, counts)}
    arguments[wide] = tuple(x.astype(np.float64) for x in (a, b, c))
    for kernel, args in arguments.items():
        func = optimize(kernel.func)
        assert has_bands(func)
        verify(in_bands(func, rows))
        assert "tile" in cpu.llvm_text(func, form=Form(LANES, rows=rows))
        agree(func, args, (ROWS, COLUMNS), chunks, LANES, rows=rows)


@rows
def test_bands_end_with_the_axis_of_their_rows(rows: int) -> None:
    args = floats(3, 5, TURNS), floats(3, TURNS, COLUMNS, seed=1), floats(3, 5, COLUMNS)
    agree(optimize(batched.func), args, (3, 5, COLUMNS), lanes=LANES, rows=rows)


@rows
def test_rows_of_any_strides_are_taken_one_by_one(rows: int) -> None:
    b = floats(TURNS, 2 * COLUMNS)[:, ::2]
    args = floats(ROWS, TURNS), b, floats(ROWS, COLUMNS)
    agree(optimize(product.func), args, (ROWS, COLUMNS), lanes=LANES, rows=rows)


@kc.kernel
def of_columns(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, k, j, a[i, k] * b[i, j])


@kc.kernel
def of_rows(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, i, 0, a[i, k] * b[i, j])
        kc.atomic_add(sums, i, (j + k) % 3, b[i, j])


@kc.kernel
def of_components(a: F32, b: F32, sums: VEC3):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        if b[i, j] > 0.0:
            kc.atomic_add(sums, k, j, kc.vec3(a[i, k], b[i, j], a[i, k] * b[i, j]))


@kc.kernel
def of_its_own(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, i, j, a[i, k] * b[i, j])


def sums_of(func: Func, args: Sequence[np.ndarray], chunks: Any, rows: int) -> list[np.ndarray]:
    copies = [a.copy() for a in args]
    status = launch(func, copies, (ROWS, COLUMNS), chunks, LANES, rows=rows)
    assert status == abi.STATUS_OK
    return copies


@rows
@pytest.mark.parametrize("kernel", [of_columns, of_rows, of_components, of_its_own])
def test_sums_have_the_order_of_rows(kernel: kc.Kernel, rows: int) -> None:
    func = optimize(kernel.func)
    assert has_bands(func)
    shape = (TURNS, COLUMNS, 3) if kernel is of_components else (ROWS, COLUMNS)
    args = floats(ROWS, TURNS), 1e4 * floats(ROWS, COLUMNS, seed=1), floats(*shape, seed=2)
    for chunks in CHUNKS:
        found, expected = (sums_of(func, args, chunks, n) for n in (rows, 1))
        np.testing.assert_array_equal(found[2], expected[2])


@kc.kernel
def of_diagonals(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, (i + k) % 3, j, a[i, k])


@kc.kernel
def of_one_element_again(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, 0, j, a[i, k])


@kc.kernel
def of_two_places(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, k, j, a[i, k])
        kc.atomic_add(sums, k, j, b[i, j])


@kc.kernel
def of_turns(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(sums, k, 0, a[i, k] * b[i, j])


@kc.kernel
def turns_of_a_row(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(i % a.shape[1]):
        sums[i, j] += b[k, j]


@kc.kernel
def reads_other_rows(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        sums[k, j] = a[i, k]
        a[i, k] = sums[0, j]


@kc.kernel
def stores_where_others_do(a: F32, b: F32, sums: F32):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        if a[i, k] > b[k, j]:
            sums[0, j] = a[i, k]


@kc.kernel
def one_axis(a: F32, b: F32, sums: F32_1D):
    j = kc.tid()
    for k in range(a.shape[1]):
        sums[j] += b[k, j]


REFUSED = (
    *(of_diagonals, of_one_element_again, of_two_places, of_turns),
    *(turns_of_a_row, reads_other_rows, stores_where_others_do, one_axis),
)


@pytest.mark.parametrize("kernel", REFUSED)
def test_rows_that_would_change_a_result_are_taken_one_by_one(kernel: kc.Kernel) -> None:
    assert not has_bands(optimize(kernel.func))


@kc.kernel
def keeps_two(a: F32, b: F32, c: F32):
    i, j = kc.tid()
    total, largest = kc.float32(0.0), kc.float32(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
        largest = kc.max(largest, b[k, j])
        largest = kc.min(largest, total)
    c[i, j] = total + largest


@kc.kernel
def shares_nothing(a: F32, b: F32, c: F32):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[i, j]
    c[i, j] = total


@pytest.mark.parametrize(("kernel", "count"), [(product, 4), (keeps_two, 2), (shares_nothing, 1)])
def test_rows_are_taken_together_where_registers_hold_them(kernel: kc.Kernel, count: int) -> None:
    assert rows_together(optimize(kernel.func), threads=64, float_lanes=16) == count
    assert rows_together(optimize(kernel.func), threads=1024, float_lanes=16) == 1


@rows
def test_adjoints_of_products_add_in_the_order_of_rows(rows: int) -> None:
    func = optimize(tidy(vjp(product.func, [0, 1], [2]).func))
    assert rows_together(func, threads=64, float_lanes=16) == 4
    args = [floats(ROWS, TURNS), floats(TURNS, COLUMNS, seed=1), floats(ROWS, COLUMNS)]
    args += [np.zeros_like(args[0]), np.zeros_like(args[1]), 1e4 * floats(ROWS, COLUMNS, seed=2)]
    found, expected = (sums_of(func, args, None, n) for n in (rows, 1))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_adjoints_of_products_do_not_depend_on_the_threads() -> None:
    a, b, seed = floats(70, 40), floats(40, 130, seed=1), floats(70, 130, seed=2)
    results: list[list[np.ndarray]] = []
    for count in (1, 2):
        kc.set_num_threads(count)
        arrays = [kc.array(x.copy()) for x in (a, b, seed)]
        cotangents = [kc.array(np.zeros_like(a)), kc.array(np.zeros_like(b)), kc.array(seed.copy())]
        kc.launch(
            *(product, seed.shape, arrays[:2], arrays[2:]),
            adj_inputs=cotangents[:2],
            adj_outputs=cotangents[2:],
            adjoint=True,
        )
        results.append([c.numpy() for c in cotangents[:2]])
    for one, two, expected in zip(*results, (seed @ b.T, a.T @ seed), strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4)
