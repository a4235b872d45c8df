"""Loops that carry a minimum or maximum alone: the gradient rule of every iteration, unrecorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import tidy

F2, F1 = kc.array(kc.float64, 2), kc.array(kc.float64, 1)


@kc.kernel
def largest(x: F2, w: F1, y: F1):
    i = kc.tid()
    found = w[i]
    for j in range(x.shape[1]):
        found = kc.max(found, x[i, j])
    y[i] = found


@kc.kernel
def smallest(x: F2, w: F1, y: F1):
    i = kc.tid()
    found = w[i]
    for j in range(x.shape[1] - 1, -1, -1):
        found = kc.min(x[i, j], found)
    y[i] = found


@kc.kernel
def largest_product(x: F2, w: F1, y: F1):
    i = kc.tid()
    factor = w[i]
    found = kc.float64(0.0)
    for j in range(x.shape[1]):
        found = kc.max(found, factor * x[i, j])
    y[i] = found


@kc.kernel
def of_rows(x: F2, w: F1, y: F1):
    # The loop is inside another one: its start and its end are recorded, not its iterations.
    found = kc.float64(0.0)
    for i in range(x.shape[0]):
        part = w[i]
        for j in range(x.shape[1]):
            part = kc.max(part, x[i, j])
        found += part * part
    y[0] = found


def of_one(first: float, values: np.ndarray, wins: Callable[[float, float], bool]) -> np.ndarray:
    """The cotangents of ``first`` and of ``values``, where that of their extremum is 1."""
    before = [first]
    for value in values:
        last = before[-1]
        keeps = wins(last, float(value)) or np.isnan(last)
        before.append(last if keeps else float(value))
    rest, found = 1.0, np.zeros(len(values) + 1)
    for k in range(len(values) - 1, -1, -1):
        old, new = before[k], float(values[k])
        share = 0.5 * rest if old == new else 0.0
        found[k + 1] += rest if wins(new, old) else share
        rest = rest if wins(old, new) else share
    found[0] = rest
    return found


def rows(count: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with ties, zeros of both signs and NaN, and values to start from."""
    rng = np.random.default_rng(columns)
    x = rng.integers(-3, 4, (count, columns)).astype(np.float64)
    x[rng.random(x.shape) < 0.3] = -0.0
    x[::5] = rng.standard_normal(x[::5].shape)
    if columns > 2:
        x[1, 2] = np.nan
    w = rng.integers(-4, 5, count).astype(np.float64)
    w[3] = np.nan
    return x, w


def cotangents(kernel: kc.Kernel, dim: int, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> Any:
    found = [np.zeros_like(x), np.zeros_like(w)]
    ones = np.ones_like(y)
    kc.launch(kernel, dim, [x, w], [y], adj_inputs=found, adj_outputs=[ones], adjoint=True)
    return found


@pytest.mark.parametrize("columns", [0, 1, 5, 16, 37])
@pytest.mark.parametrize(("kernel", "is_least"), [(largest, False), (smallest, True)])
def test_cotangents_are_those_of_every_iteration(
    kernel: kc.Kernel, is_least: bool, columns: int
) -> None:
    x, w = rows(41, columns)
    ct_x, ct_w = cotangents(kernel, 41, x, w, np.zeros(41))

    def wins(a: float, b: float) -> bool:
        return a < b if is_least else a > b

    for i in range(41):
        row = x[i, ::-1] if is_least else x[i]
        first, *others = of_one(float(w[i]), row, wins)
        np.testing.assert_array_equal(ct_w[i], first, str(i))
        np.testing.assert_array_equal(ct_x[i], others[::-1] if is_least else others, str(i))


def test_values_that_are_computed_have_cotangents_too() -> None:
    x, w = rows(41, 37)
    w[3], x[1, 2] = 0.5, 1.0
    ct_x, ct_w = cotangents(largest_product, 41, x, w, np.zeros(41))
    for i in range(41):
        _, *shares = of_one(0.0, w[i] * x[i], lambda a, b: a > b)
        np.testing.assert_array_equal(ct_x[i], np.multiply(shares, w[i]))
        np.testing.assert_allclose(ct_w[i], np.dot(shares, x[i]), rtol=1e-15)


def test_a_loop_inside_another_one() -> None:
    x, w = rows(7, 9)
    w[3], x[1, 2] = 0.5, 1.0
    ct_x, ct_w = cotangents(of_rows, 1, x, w, np.zeros(1))
    for i in range(7):
        first, *shares = of_one(float(w[i]), x[i], lambda a, b: a > b)
        part = max(w[i], x[i].max())
        np.testing.assert_array_equal(ct_x[i], 2.0 * part * np.array(shares))
        np.testing.assert_array_equal(ct_w[i], 2.0 * part * first)


@pytest.mark.parametrize("kernel", [largest, smallest, largest_product], ids=lambda k: k.name)
def test_no_iteration_is_recorded(kernel: kc.Kernel) -> None:
    adjoint = tidy(vjp(kernel.func, (0, 1), (2,)).func)
    assert not any(eqn.op.kind is OpKind.STACK for eqn in walk_eqns(adjoint.body))
