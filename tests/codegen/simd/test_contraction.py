"""Sums of products in loops of tiles, which are rounded once for a product and a sum."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base import native
from kernelcore.builtins.arithmetic import fma
from kernelcore.codegen import abi
from kernelcore.codegen.simd.contraction import contract_sums
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.pipeline import normalize, optimize, standalone
from tests.bench.framework_kernels import product
from tests.device import emulation
from tests.helpers import interpreter
from tests.helpers.guarded_memory import ending_at_a_guard
from tests.helpers.kernel_harness import copies, launch

F32_2D, F64_2D, I32_2D = (kc.array2d(dtype=t) for t in (kc.float32, kc.float64, kc.int32))

needs_fma = pytest.mark.skipif(not native.has_fma, reason="the processor has no such instruction")


@kc.kernel
def in_line(a: kc.array(dtype=kc.float32), b: kc.array(dtype=kc.float32), y: F32_2D):
    j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    y[j, 0] = total


@kc.kernel
def of_integers(a: I32_2D, b: I32_2D, y: I32_2D):
    i, j = kc.tid()
    total = kc.int32(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    y[i, j] = total


@kc.kernel
def used_twice(a: F32_2D, b: F32_2D, y: F32_2D):
    i, j = kc.tid()
    total, most = kc.float32(0.0), kc.float32(0.0)
    for k in range(a.shape[1]):
        term = a[i, k] * b[k, j]
        total += term
        most = kc.max(most, term)
    y[i, j] = total + most


@kc.kernel
def subtracted(a: F32_2D, b: F32_2D, y: F32_2D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        total -= a[i, k] * b[k, j]
    y[i, j] = total


@kc.kernel
def turned(a: F32_2D, b: F32_2D, y: F32_2D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        total = a[i, k] * b[k, j] - total
    y[i, j] = total


@kc.kernel
def read_meanwhile(a: F32_2D, b: F32_2D, y: F32_2D):
    i, j = kc.tid()
    total, before = kc.float32(0.0), kc.float32(0.0)
    for k in range(a.shape[1]):
        before = kc.max(before, total)
        total += a[i, k] * b[k, j]
    y[i, j] = total + before


@kc.kernel
def along_rows(w: F32_2D, x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(w.shape[1]):
        total += w[j, k] * x[i, k]
    y[i, j] = total


@kc.kernel
def shares_nothing(a: F32_2D, b: F32_2D, y: F32_2D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(4, 8 + a.shape[0]):
        total += a[i, j] * kc.float32(k)
    y[i, j] = total + b[i, j]


def contracted(kernel: Any) -> int:
    func = contract_sums(optimize(kernel.func))
    return sum(eqn.op is fma.op for eqn in walk_eqns(func.body))


@kc.kernel
def of_small_rows(a: F32_2D, b: kc.array3d(dtype=kc.float32), y: kc.array3d(dtype=kc.float32)):
    i, j = kc.tid()
    first, second = kc.float32(0.0), kc.float32(0.0)
    for k in range(a.shape[1]):
        first += a[i, k] * b[k, j, 0]
        second += a[i, k] * b[k, j, 1]
    y[i, j, 0] = first
    y[i, j, 1] = second


@kc.kernel
def added_up(a: F32_2D, b: F32_2D, y: F32_2D, sums: kc.array(dtype=kc.float32)):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    y[i, j] = total
    sums[i] += total


@needs_fma
@pytest.mark.parametrize("real", ["float32", "float64"])
def test_products_are_contracted(real: str) -> None:
    assert contracted(product(kc, getattr(kc, real))) == 1
    assert contracted(subtracted) == 1
    assert contracted(along_rows) == 1


@pytest.mark.parametrize(
    "kernel",
    [in_line, of_integers, used_twice, turned, read_meanwhile, shares_nothing],
    ids=lambda kernel: kernel.name,
)
def test_sums_outside_of_tiles_or_with_other_uses_are_rounded_twice(kernel: Any) -> None:
    assert contracted(kernel) == 0


@needs_fma
def test_the_form_does_not_depend_on_the_plan() -> None:
    func = normalize(added_up.func)
    for form in (func, optimize(func), standalone(func)):
        assert contract_sums(form) is not form


def test_small_rows_are_added_alike_on_all_devices() -> None:
    func, rng = optimize(of_small_rows.func), np.random.default_rng(3)
    shapes = (9, 11), (11, 18, 2), (9, 18, 2)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected, found, emulated = (copies(args) for _ in range(3))
    interpreter.run(func, expected, (9, 18))
    assert launch(func, found, (9, 18)) == abi.STATUS_OK
    assert emulation.run(func, emulated, (9, 18)).status == abi.STATUS_OK
    for of_host, of_device, wanted in zip(found, emulated, expected, strict=True):
        np.testing.assert_array_equal(of_host, wanted)
        np.testing.assert_array_equal(of_device, wanted)


@needs_fma
def test_each_product_and_sum_is_rounded_once() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((9, 40)), rng.standard_normal((40, 19))
    expected = np.zeros((9, 19))
    for i, j in np.ndindex(expected.shape):
        total = 0.0
        for k in range(40):
            total = float(Fraction(a[i, k]) * Fraction(b[k, j]) + Fraction(total))
        expected[i, j] = total
    kernel = product(kc, kc.float64)
    for left, right in ((a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b))):
        found = np.zeros_like(expected)
        kc.launch(kernel, dim=found.shape, inputs=[left, right], outputs=[found])
        np.testing.assert_array_equal(found, expected)


@needs_fma
def test_sums_of_few_iterations_along_rows_are_rounded_once() -> None:
    rng = np.random.default_rng(2)
    w, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((19, 31), (17, 31)))
    expected = np.zeros((17, 19), np.float32)
    for i, j in np.ndindex(expected.shape):
        total = 0.0
        for k in range(31):
            total = float(np.float32(float(w[j, k]) * float(x[i, k]) + total))
        expected[i, j] = total
    for rows in (3, 17):
        found = np.zeros((rows, 19), np.float32)
        kc.launch(along_rows, dim=found.shape, inputs=[w, x[:rows]], outputs=[found])
        np.testing.assert_array_equal(found, expected[:rows])


def test_differences_are_sums_of_negated_products() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 40), (40, 19)))
    added, taken = np.zeros((2, 9, 19), np.float32)
    kc.launch(product(kc, kc.float32), dim=added.shape, inputs=[a, b], outputs=[added])
    kc.launch(subtracted, dim=taken.shape, inputs=[a, b], outputs=[taken])
    np.testing.assert_array_equal(taken, -added)


@pytest.mark.parametrize("real", ["float32", "float64"])
@pytest.mark.parametrize("columns", [1, 3, 15, 16, 17, 31, 32, 33])
def test_short_and_few_rows_touch_nothing_behind_them(real: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    func = optimize(product(kc, getattr(kc, real)).func)
    for rows in (1, 4, 5, 7, 8, 13, 15, 40):
        a, b = (rng.integers(-8, 8, shape).astype(real) for shape in ((rows, 5), (5, columns)))
        y = ending_at_a_guard(np.zeros((rows, columns), real))
        args = [ending_at_a_guard(a), ending_at_a_guard(b), y]
        assert launch(func, args, y.shape) == abi.STATUS_OK
        np.testing.assert_array_equal(y, a @ b)


@pytest.mark.parametrize("rows", [5, 6, 7])
def test_no_index_wraps_behind_the_last_row_of_all(rows: int) -> None:
    extent = 2**31 - 1
    a, y = np.full((10, 1), 3, np.float32), np.zeros((10, 1), np.float32)
    args = [_last_rows(a, extent), np.ones((1, 1), np.float32), _last_rows(y, extent)]
    func = optimize(product(kc, kc.float32).func)
    assert launch(func, args, (extent, 1), [(extent - rows, extent)]) == abi.STATUS_OK
    np.testing.assert_array_equal(y[:, 0], [0.0] * (10 - rows) + [3.0] * rows)


def _last_rows(rows: np.ndarray, extent: int) -> np.ndarray:
    """An array of ``extent`` rows that ends with ``rows``; no other row may be read or written."""
    before = (extent - len(rows)) * rows.strides[0]
    size_bytes = before + rows.nbytes
    memory: Any = (ctypes.c_char * size_bytes).from_address(rows.ctypes.data - before)
    return np.frombuffer(memory, rows.dtype).reshape(extent, *rows.shape[1:])


@pytest.mark.parametrize("rows", [5, 7, 13, 40])
def test_chunks_do_not_change_bits(rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((rows, 33), (33, 100)))
    func, results = optimize(product(kc, kc.float32).func), np.zeros((3, rows, 100), np.float32)
    for cut, found in zip((0, 130, 333), results, strict=True):
        chunks = [(0, cut), (cut, rows * 100)]
        assert launch(func, [a, b, found], found.shape, chunks) == abi.STATUS_OK
    np.testing.assert_array_equal(results[1:], results[:2])
