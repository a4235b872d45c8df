"""Quotients by what the iterations of a loop share: one division each, and exact derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import tidy

F2, F1 = kc.array(kc.float64, 2), kc.array(kc.float64, 1)


@kc.kernel
def by_parameter(x: F2, scale: kc.float64, y: F2):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] / scale


@kc.kernel
def by_total(x: F2, scale: kc.float64, y: F2):
    i = kc.tid()
    total = scale
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k]) / total


@kc.kernel
def by_both_loops(x: F2, scale: kc.float64, y: F2):
    # The divisor is of the outer loop; the other one of the whole kernel.
    i = kc.tid()
    for j in range(x.shape[1]):
        outer = 1.0 + x[i, j] * x[i, j]
        total = kc.float64(0.0)
        for k in range(x.shape[1]):
            total += x[i, k] / outer + outer / scale
        y[i, j] = total / outer


@kc.kernel
def in_branch(x: F2, scale: kc.float64, y: F2):
    i = kc.tid()
    half = 0.5 * scale
    k = kc.int32(0)
    while k < x.shape[1]:
        if x[i, k] > 0.0:
            y[i, k] = x[i, k] / half
        else:
            y[i, k] = half / scale
        k += 1


@kc.kernel
def divided_by_itself(x: F2, scale: kc.float64, y: F2):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = scale / scale + x[i, k] / scale


KERNELS = [by_parameter, by_total, by_both_loops, in_branch, divided_by_itself]


def value(kernel: kc.Kernel, x: np.ndarray, scale: float, of_y: np.ndarray) -> float:
    y = np.zeros_like(x)
    kc.launch(kernel, len(x), [x, scale, y])
    return float((y * of_y).sum())


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_those_of_central_differences(kernel: kc.Kernel) -> None:
    rng = np.random.default_rng(7)
    x, of_y, scale, step = rng.normal(size=(2, 5)), rng.normal(size=(2, 5)), 1.7, 1e-6
    of_x, of_scale = np.zeros_like(x), np.zeros(())
    kc.launch(
        kernel,
        len(x),
        [x, scale, np.zeros_like(x)],
        adjoint=True,
        adj_inputs=[of_x, of_scale, of_y.copy()],
    )
    for place in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        wanted = value(kernel, x + moved, scale, of_y) - value(kernel, x - moved, scale, of_y)
        assert of_x[place] == pytest.approx(wanted / (2.0 * step), rel=1e-6, abs=1e-8)
    wanted = value(kernel, x, scale + step, of_y) - value(kernel, x, scale - step, of_y)
    assert of_scale == pytest.approx(wanted / (2.0 * step), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(("kernel", "in_loops"), [(by_parameter, 1), (by_total, 1)])
def test_iterations_divide_once(kernel: kc.Kernel, in_loops: int) -> None:
    func = tidy(vjp(kernel.func, [0, 1], [2]).func)
    assert not any(e.op.kind is OpKind.CUSTOM for e in walk_eqns(func.body))
    loops = [e for e in func.body.eqns if e.op.kind is OpKind.FOR]
    inside = [e for loop in loops for e in walk_eqns(loop.regions[0]) if e.op.name == "div"]
    assert len(inside) == in_loops


def test_no_cotangent_of_the_divisor_changes_nothing() -> None:
    plain = tidy(vjp(by_parameter.func, [0], [2]).func)
    divisions = [e for e in walk_eqns(plain.body) if e.op.name == "div"]
    assert len(divisions) == 1
