"""Loads that iterations repeat: which are made before the loop, and the gradients of kernels."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import is_in_loop, walk_eqns, walk_paths
from kernelcore.passes.autodiff.invariant_loads import load_before_loops
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import normalize, optimize
from tests.helpers import interpreter
from tests.helpers.kernel_harness import launch

REAL2 = kc.array2d[kc.float64]
REAL = kc.array[kc.float64]


@kc.kernel
def weighed(x: REAL2, w: REAL, y: REAL2):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] * x[i, k] * w[i // 2 + 1]


@kc.kernel
def in_two_loops(x: REAL2, w: REAL, y: REAL):
    i = kc.tid()
    total = kc.float64(0.0)
    for c in range(3):
        for k in range(x.shape[1] - 1, -1, -1):
            total += x[i, k] * kc.sin(w[i + c]) * w[2]
    y[i] = total


@kc.kernel
def at_a_length(x: REAL2, w: REAL, y: REAL):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        if x[i, k] > 0.0:
            total += x[i, k] * w[i]
    y[i] = total


@kc.kernel
def written(x: REAL2, y: REAL2):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] + y[i, 0]


@kc.kernel
def at_k(x: REAL2, at: kc.array[int], w: REAL, y: REAL):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i] += x[i, k] * w[at[k]]


@kc.kernel
def narrow(x: kc.array[kc.float16], y: kc.array[kc.float16], n: int):
    i = kc.tid()
    for k in range(n):
        y[i] += x[i] * kc.float16(k)


def loads_in_loops(func: Any) -> list[str]:
    names = {p: p.name for p in func.params}
    loads = ((eqn, path) for eqn, path in walk_paths(func.body) if eqn.op.kind is OpKind.LOAD)
    return sorted(names[eqn.inputs[0]] for eqn, path in loads if is_in_loop(path))


@pytest.mark.parametrize(
    ("kernel", "left"),
    [
        (weighed, ["x", "x"]),
        # What one loop repeats, another one around may not.
        (in_two_loops, ["w", "w", "x"]),
        (at_a_length, ["w", "x", "x"]),
        (written, ["x", "y"]),
        (at_k, ["at", "w", "x"]),
        (narrow, ["x"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_loads_that_iterations_repeat_are_made_once(kernel: kc.Kernel, left: list[str]) -> None:
    func = normalize(kernel.func)
    assert loads_in_loops(load_before_loops(func)) == left


@pytest.mark.parametrize("kernel", [weighed, in_two_loops, at_a_length], ids=lambda k: k.name)
def test_kernels_compute_the_same(kernel: kc.Kernel) -> None:
    func = normalize(kernel.func)
    one, other = arguments(kernel), arguments(kernel)
    interpreter.run(func, one, (4,))
    interpreter.run(load_before_loops(func), other, (4,))
    np.testing.assert_array_equal(one[2], other[2])


def test_a_loop_without_iterations_loads_nothing() -> None:
    """``w`` has no element where the indices point."""
    func = vjp(normalize(weighed.func), [0, 1], [2]).func
    assert any(eqn.op.kind is OpKind.IF for eqn in walk_eqns(func.body))
    for run in (interpreter.run, launch):
        found = [np.empty((4, 0)), np.empty(0), *([np.empty((4, 0))] * 2), np.empty(0)]
        run(optimize(func), [*found, np.empty((4, 0))], (4,))


def arguments(kernel: kc.Kernel) -> list[Any]:
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(4, 9)), rng.normal(size=7)
    return [x, w, np.zeros((4, 9) if kernel is weighed else 4)]


@pytest.mark.parametrize("kernel", [weighed, in_two_loops, at_a_length], ids=lambda k: k.name)
def test_gradients_are_those_of_central_differences(kernel: kc.Kernel) -> None:
    x, w, y = arguments(kernel)
    ct = np.random.default_rng(4).normal(size=y.shape)

    def objective(x: np.ndarray, w: np.ndarray) -> float:
        found = np.zeros_like(y)
        kc.launch(kernel, 4, [x, w], [found])
        return float((found * ct).sum())

    grads = [np.zeros_like(x), np.zeros_like(w)]
    kc.launch(kernel, 4, [x, w], [y], adj_inputs=grads, adj_outputs=[ct], adjoint=True)
    for at, (value, grad) in enumerate(zip((x, w), grads, strict=True)):
        for place in np.ndindex(value.shape):
            moved = [x.copy(), w.copy()]
            ends = []
            for step in (1e-6, -2e-6):
                moved[at][place] += step
                ends.append(objective(*moved))
            np.testing.assert_allclose(grad[place], (ends[0] - ends[1]) / 2e-6, atol=1e-8)
