"""Panels of matrix products, which are copied for the gangs of a strip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.bench.framework_kernels import product
from tests.helpers.guarded_memory import ending_at_a_guard


# Strips of eight gangs, of four, of two and of one, and more than panels have room for.
@pytest.mark.parametrize("trips", [0, 1, 100, 700, 1025, 2100, 4097])
@pytest.mark.parametrize("real", [kc.float32, kc.float64], ids=["float32", "float64"])
def test_products_of_any_extents(real: Any, trips: int) -> None:
    kernel, rng = product(kc, real), np.random.default_rng(trips)
    dtype = np.dtype(real.name)
    for rows in (1, 7, 8, 17, 40):
        for columns in (3, 16, 17, 64, 130, 257):
            shapes = (rows, trips), (trips, columns)
            a, b = (ending_at_a_guard(rng.integers(0, 3, s).astype(dtype)) for s in shapes)
            found = ending_at_a_guard(np.full((rows, columns), np.nan, dtype))
            kc.launch(kernel, dim=found.shape, inputs=[a, b, found])
            # Sums of these integers are exact in any order.
            np.testing.assert_array_equal(found, a @ b)


def test_loops_of_different_lengths_share_the_room() -> None:
    @kc.kernel
    def products(
        a: kc.array(kc.float32, 2),
        b: kc.array(kc.float32, 2),
        c: kc.array(kc.float64, 2),
        y: kc.array(kc.float64, 2),
    ):
        i, j = kc.tid()
        total, other = kc.float32(0.0), kc.float64(0.0)
        for k in range(2, b.shape[0], 3):
            total += a[i, k] * b[k, j]
        for k in range(c.shape[0] - 1, -1, -1):
            other += kc.float64(a[i, k]) * c[k, j] + c[k, 0]
        y[i, j] = other - kc.float64(total)

    rng = np.random.default_rng(0)
    for rows, columns in ((8, 16), (24, 70), (33, 130)):
        shapes = (rows, 1500), (1500, columns), (40, columns)
        a, b, c = (rng.integers(0, 3, s).astype(np.float32) for s in shapes)
        wide = ending_at_a_guard(c.astype(np.float64))
        found = np.empty((rows, columns))
        kc.launch(products, dim=found.shape, inputs=[a, b, wide, found])
        expected = a[:, :40] @ c + c[:, 0].sum() - a[:, 2::3] @ b[2::3]
        np.testing.assert_array_equal(found, expected)


def test_a_branch_of_a_tile_may_ask_for_the_launch_index() -> None:
    @kc.kernel
    def with_row(a: kc.array2d[float], b: kc.array2d[float], y: kc.array2d[float], n: int):
        i, j = kc.tid()
        total = 0.0
        for k in range(b.shape[0]):
            total += a[i, k] * b[k, j]
        if n > 0:
            row, _ = kc.tid()
            total += 1000.0 * float(row)
        y[i, j] = total

    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 3, shape).astype(np.float32) for shape in ((40, 30), (30, 70)))
    y = np.empty((40, 70), np.float32)
    kc.launch(with_row, y.shape, [a, b, y, 1])
    np.testing.assert_array_equal(y, a @ b + 1000 * np.arange(40, dtype=np.float32)[:, None])
