"""Rows that all rows of the grid read, at the limits of what is transposed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.passes.pipeline import optimize
from tests.helpers.guarded_memory import ending_at_a_guard
from tests.helpers.kernel_harness import launch

F32_1D = kc.array(dtype=kc.float32)
F32_2D = kc.array2d(dtype=kc.float32)


@pytest.mark.parametrize("columns", [1360, 1361, 1364, 1365, 1366])
def test_several_arrays_fill_the_panels(columns: int) -> None:
    @kc.kernel
    def product(
        a: kc.array(kc.float32, 2),
        p: kc.array(kc.float32, 2),
        q: kc.array(kc.float32, 2),
        r: kc.array(kc.float32, 2),
        y: kc.array(kc.float32, 2),
    ):
        b, i = kc.tid()
        total = kc.float32(0.0)
        for k in range(a.shape[1]):
            total += a[b, k] * (p[i, k] * q[i, k] + r[i, k])
        y[b, i] = total

    rng = np.random.default_rng(columns)
    a, p, q, r = (rng.integers(0, 3, (33, columns)).astype(np.float32) for _ in range(4))
    found = np.empty((33, 33), np.float32)
    kc.launch(product, dim=found.shape, inputs=[a, p, q, r, found])
    # Sums of these integers are exact in any order.
    np.testing.assert_array_equal(found, a @ (p * q + r).T)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("columns", [8, 40])
def test_a_thread_finds_what_it_stored_where_rows_are_shared(rows: int, columns: int) -> None:
    @kc.kernel
    def product(
        w: kc.array(kc.float32, 2),
        x: kc.array(kc.float32, 2),
        z: kc.array(kc.float32, 3),
        y: kc.array(kc.float32, 2),
    ):
        b, i = kc.tid()
        z[b, i, 0] = w[i, 0] + 1.0
        total = kc.float32(0.0)
        for k in range(w.shape[1]):
            total += w[i, k] * x[b, k]
        y[b, i] = total

    rng = np.random.default_rng(columns)
    w = rng.integers(0, 9, (64, columns)).astype(np.float32)
    x = rng.integers(1, 9, (rows, columns)).astype(np.float32)
    z: Any = w[None] if rows == 1 else np.zeros((rows, 64, columns), np.float32)
    wanted = x @ w.T
    if rows == 1:
        wanted += x[:, :1]
    found = np.empty((rows, 64), np.float32)
    kc.launch(product, dim=found.shape, inputs=[w, x, z, found])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("grid", [(40, 5), (20, 5), (16, 15), (10, 5), (40, 16)])
def test_nothing_is_read_behind_the_last_column(grid: tuple[int, int]) -> None:
    @kc.kernel
    def products(
        a: kc.array(kc.float32, 2),
        b: kc.array(kc.float32, 2),
        c: kc.array(kc.float32, 2),
        y: kc.array(kc.float32, 2),
    ):
        i, j = kc.tid()
        total, other = kc.float32(0.0), kc.float32(0.0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[j, k]
        for k in range(a.shape[1]):
            other += a[i, k] * c[k, j]
        y[i, j] = total - other

    rows, columns = grid
    rng = np.random.default_rng(0)
    shapes = (rows, 40), (columns, 40), (40, columns)
    a, b, c = (ending_at_a_guard(rng.integers(0, 3, s).astype(np.float32)) for s in shapes)
    found = ending_at_a_guard(np.empty(grid, np.float32))
    kc.launch(products, dim=grid, inputs=[a, b, c, found])
    np.testing.assert_array_equal(found, a @ (b.T - c))


@pytest.mark.parametrize("parts", [64, 128, 129, 300])
def test_many_arrays_have_panels_or_none(parts: int) -> None:
    lines = [
        "def products(",
        "    a: kc.array(kc.float32, 2), b: kc.array(kc.float32, 3), y: kc.array(kc.float32, 2)",
        "):",
        "    i, j = kc.tid()",
        "    total = kc.float32(0.0)",
        "    for k in range(a.shape[1]):",
        *(f"        total += a[i, k] * b[j, {at}, k]" for at in range(parts)),
        "    y[i, j] = total",
    ]
    products: Any = kc.kernel(source="\n".join(lines))
    rng = np.random.default_rng(parts)
    a = rng.integers(0, 3, (20, 31)).astype(np.float32)
    b = rng.integers(0, 3, (17, parts, 31)).astype(np.float32)
    found = np.empty((20, 17), np.float32)
    kc.launch(products, dim=found.shape, inputs=[a, b, found])
    np.testing.assert_array_equal(found, np.einsum("ik,jck->ij", a, b))


@kc.kernel
def with_totals(w: F32_2D, x: F32_2D, y: F32_2D, s: F32_1D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(w.shape[1]):
        total += w[j, k] * x[i, k]
    y[i, j] = total
    kc.atomic_add(s, i, total)


def test_totals_of_gangs_depend_neither_on_strides_nor_on_tiles() -> None:
    rng = np.random.default_rng(3)
    w, x = (rng.standard_normal((n, 40)).astype(np.float32) for n in (70, 40))
    func, found = optimize(with_totals.func), list[np.ndarray]()
    forms: list[tuple[Any, ...]] = [("C",), ("F",), ("C", 16, 1, 8, 1, 0, False, 16)]
    for order, *form in forms:
        y, s = np.zeros((40, 70), np.float32, order), np.zeros(40, np.float32)
        assert launch(func, [w, x, y, s], y.shape, None, *form) == abi.STATUS_OK
        found.append(s)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
