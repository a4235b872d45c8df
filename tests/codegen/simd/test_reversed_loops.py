"""Loops that adjoints run backwards: their iterations are lanes, which add to shared elements."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.simd.cost_model import outer_loops, suits_loop_lanes
from kernelcore.ir.core import Func
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import adjoint_func
from tests.helpers.vectorised.independent import WIDTHS, aggregated

F32, F32_2D, I32 = kc.array1d[float], kc.array2d[float], kc.array1d[kc.int32]


@kc.kernel
def row(w: F32, x: F32_2D, y: F32_2D):
    """Without a loop inside."""
    i = kc.tid()
    for j in range(x.shape[1]):
        y[i, j] = w[i] * x[i, j]


@kc.kernel
def total(start: I32, x: F32_2D, y: F32):
    """A sum that the kernel itself carries."""
    i = kc.tid()
    found = 0.0
    for j in range(x.shape[1]):
        for e in range(start[i], start[i + 1]):
            found += x[e, j]
    y[i] = found


@kc.kernel
def power(start: I32, w: F32, x: F32_2D, y: F32_2D):
    """Iterations of its adjoint need what the others carry."""
    i = kc.tid()
    found = 1.0
    for j in range(x.shape[1]):
        for e in range(start[i], start[i + 1]):
            found *= w[e] * x[e, j]
        y[i, j] = found


def test_lanes_of_a_reversed_loop_add() -> None:
    func = adjoint_func(aggregated)
    assert [loop.adds for loop in outer_loops(func).values()] == [True]
    assert suits_loop_lanes(func)


@pytest.mark.parametrize(
    "func",
    [adjoint_func(row), optimize(total.func), adjoint_func(power)],
    ids=["no loop inside", "forward", "products"],
)
def test_other_loops_keep_the_order_of_what_they_add(func: Func) -> None:
    assert not any(loop.adds for loop in outer_loops(func).values())


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("is_packed", [True, False])
def test_gradients_do_not_depend_on_the_threads(width: int, is_packed: bool) -> None:
    nodes, rng = 90, np.random.default_rng(0)
    counts = rng.integers(0, 12, nodes)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    column = rng.integers(0, nodes, start[-1]).astype(np.int32)
    score = rng.standard_normal(nodes).astype(np.float32)
    x, cotangent = (rng.standard_normal((nodes, width)).astype(np.float32) for _ in "xy")
    if not is_packed:
        x = np.asfortranarray(x)
    found: list[list[Any]] = []
    for threads in (1, 2, 5):
        kc.set_num_threads(threads)
        gradients = [np.zeros_like(score), np.zeros_like(x)]
        y, given = np.zeros_like(cotangent), cotangent.copy()
        arrays = [None, None, *gradients]
        kc.launch(aggregated, nodes, [start, column, score, x], [y], arrays, [given], adjoint=True)
        found.append(gradients)
    for other in found[1:]:
        assert all((a == b).all() for a, b in zip(found[0], other, strict=True))
    of_score, of_x = np.zeros(nodes), np.zeros((nodes, width))
    for i in range(nodes):
        at = column[start[i] : start[i + 1]]
        weight = np.exp(score[at].astype(float))
        share = weight / weight.sum()
        gain = x[at].astype(float) @ cotangent[i]
        np.add.at(of_x, at, share[:, None] * cotangent[i])
        np.add.at(of_score, at, share * (gain - share @ gain))
    for got, expected in zip(found[0], (of_score, of_x), strict=True):
        np.testing.assert_allclose(got, expected, 1e-4, 1e-4 * np.abs(expected).max())
