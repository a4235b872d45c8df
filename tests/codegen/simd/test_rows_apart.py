"""Elements of several components that lie apart: a gang writes them as one row per lane."""

# pyright: reportArgumentType=false

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen.llvm.access import LEAST_WIDE_ROW
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import assert_same_arrays, launched_in_two
from tests.helpers.vectorised.case import I32

THREADS = 37
DTYPES = ("float32", "float64", "float16", "int8", "uint64")


def storing(count: int, dtype: str) -> kc.Kernel:
    """A kernel whose threads write two vectors of ``count`` components, some of them a third."""
    number = getattr(kc, dtype)
    row = kc.types.vector(length=count, dtype=number)

    @kc.kernel
    def stores(
        x: kc.array1d(dtype=number), at: I32, y: kc.array2d(dtype=row), z: kc.array1d(dtype=row)
    ):
        i = kc.tid()
        first, second = row(), row()
        for k in kc.static(tuple(range(count))):
            first[k] = x[i] + number(k)
            second[k] = x[i] * number(k + 1)
        y[i, 0] = first
        y[i, 1] = second
        if at[i] >= 0:
            z[at[i]] = first

    return stores


def arguments(count: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(count)
    x = rng.integers(0, 9, THREADS).astype(dtype)
    # Each element at most once, in no order; some threads write none.
    at = rng.permutation(2 * THREADS)[:THREADS].astype(np.int32) - THREADS // 2
    return [
        x,
        at,
        np.zeros((THREADS, 3, count), dtype),
        np.zeros((2 * THREADS, count), dtype),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17])
def test_rows_have_the_bits_of_single_threads(count: int, dtype: str) -> None:
    func = optimize(storing(count, dtype).func)
    given = arguments(count, dtype)
    first = 11
    wanted = launched_in_two(func, given, THREADS, first, 1, least_masked_bytes=1, gathers=True)
    x, at, y, z = wanted
    k = np.arange(count)
    with np.errstate(over="ignore"):
        rows = [(x[:, None] + k.astype(dtype)), (x[:, None] * (k + 1).astype(dtype))]
    np.testing.assert_array_equal(y[:, 0], rows[0].astype(dtype))
    np.testing.assert_array_equal(y[:, 1], rows[1].astype(dtype))
    np.testing.assert_array_equal(y[:, 2], 0)
    np.testing.assert_array_equal(z[at[at >= 0]], rows[0].astype(dtype)[at >= 0])
    for gang, least in product((8, 16, 32), (1, 4, NO_MASKS)):
        found = launched_in_two(
            func, given, THREADS, first, gang, least_masked_bytes=least, gathers=True
        )
        assert_same_arrays(func, wanted, found, f"gang {gang}, {least}")


@pytest.mark.parametrize("least", [1, NO_MASKS])
@pytest.mark.parametrize("count", [LEAST_WIDE_ROW - 1, LEAST_WIDE_ROW, 8, 15, 17])
def test_a_lane_writes_its_row_at_once(count: int, least: int) -> None:
    func = optimize(storing(count, "float64").func)
    text = cpu.llvm_text(func, "kernel", VectorStrategy(8, least_masked_bytes=least))
    # Registers have eight; those of more than 16 components are not held as one.
    rows = [n for n in (min(count, 8), count - 8) if n > 0]
    are_whole = LEAST_WIDE_ROW <= count <= 16
    for size in rows:
        assert (f"store <{size} x double>" in text) == are_whole


@pytest.mark.parametrize("count", [3, 9, 15])
def test_components_that_are_apart_have_the_same_bits(count: int) -> None:
    kernel, dtype = storing(count, "float32"), "float32"
    found: list[Any] = []
    for order in ("C", "F"):
        x, at, y, z = arguments(count, dtype)
        y, z = (np.zeros(a.shape, dtype, order=order) for a in (y, z))
        kc.launch(kernel, THREADS, [x, at, y, z])
        found.append((y, z))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
