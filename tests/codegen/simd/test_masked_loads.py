"""What gangs load under a mask before they store to the same elements."""

# pyright: reportArgumentType=false

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.vectorised.case import F32, F32_2D

COUNTS = [1, 3, 17, 64, 100]


@kc.kernel
def taken(sums: F32, x: F32_2D):
    i, j = kc.tid()
    t = x[i, j]
    x[i, j] = 5.0
    kc.atomic_add(sums, i, t)


@kc.kernel
def taken_in_loops(sums: F32, x: F32_2D):
    i, j = kc.tid()
    for _ in range(2):
        t = x[i, j]
        x[i, j] = 5.0
        kc.atomic_add(sums, i, t)


@pytest.mark.parametrize("columns", COUNTS)
@pytest.mark.parametrize(("kernel", "after"), [(taken, 0.0), (taken_in_loops, 5.0)])
def test_sums_are_of_what_was_there_before(kernel: kc.Kernel, after: float, columns: int) -> None:
    x = np.arange(7 * columns, dtype=np.float32).reshape(7, columns)
    wanted = x.sum(1) + after * columns
    sums = np.zeros(7, np.float32)
    kc.launch(kernel, x.shape, [], [sums, x])
    np.testing.assert_array_equal(sums, wanted)
    assert (x == 5.0).all()


@kc.kernel
def overwritten(p: F32, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = 1.0
    y[i, j] = p[i]


@pytest.mark.parametrize("columns", COUNTS)
def test_cotangents_are_taken_before_they_are_cleared(columns: int) -> None:
    y = np.zeros((7, columns), np.float32)
    found = np.zeros(7, np.float32)
    kc.launch(
        overwritten,
        y.shape,
        [np.zeros(7, np.float32)],
        [y],
        adj_inputs=[found],
        adj_outputs=[np.ones_like(y)],
        adjoint=True,
    )
    np.testing.assert_array_equal(found, np.full(7, columns, np.float32))
