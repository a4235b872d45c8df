"""The loops of adjoints run forwards where iterations meet in sums alone, else backwards."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import ANY_ORDER, ENDS_TOGETHER, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import tidy

F2, F1 = kc.array(kc.float64, 2), kc.array(kc.float64, 1)


@kc.kernel
def scaled_rows(x: F2, y: F2):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += kc.sin(x[i, k])
    for k in range(x.shape[1]):
        y[i, k] = total * x[i, k]


@kc.kernel
def of_pairs(x: F2, y: F1):
    i = kc.tid()
    total = kc.float64(0.0)
    for j in range(x.shape[1]):
        for k in range(1, x.shape[1], 2):
            total += x[i, j] * kc.sin(x[i, k])
    y[i] = total


@kc.kernel
def recurrence(x: F2, y: F1):
    i = kc.tid()
    state = kc.float64(0.5)
    for k in range(x.shape[1]):
        state = kc.sin(state * x[i, k])
    y[i] = state


@kc.kernel
def overwritten(x: F2, y: F1):
    # The last iteration decides: those before it get no cotangent.
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i] = x[i, k] * x[i, k]


@kc.kernel
def prefix_sums(x: F2, y: F2):
    # An iteration reads what the one before it has stored.
    i = kc.tid()
    for k in range(1, x.shape[1]):
        y[i, k] = y[i, k - 1] + x[i, k]


@kc.kernel
def powers(x: F2, y: F1):
    # The cotangent that the loop carries is multiplied in every iteration.
    i = kc.tid()
    state = kc.float64(1.0)
    for k in range(x.shape[1]):
        state = 0.5 * state + x[i, k]
    y[i] = state


@kc.kernel
def sums_before(x: F2, y: F2):
    # The sum of an iteration goes to memory before the iteration adds to it.
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        value = x[i, k]
        y[i, k] = total
        total = total + value


@kc.kernel
def sums_after(x: F2, y: F2):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total = total + x[i, k]
        y[i, k] = total


@kc.kernel
def sums_between(x: F2, y: F2):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total = total + x[i, k]
        y[i, k] = total
        total = total + 0.5 * x[i, k]


@kc.kernel
def sums_behind_loop(x: F2, y: F2):
    # The cotangent of the sum grows between one inner loop, which hands it on, and the next.
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        for j in range(k + 1):
            total += 0.01 * x[i, j] * x[i, k]
        y[i, k] = total


@kc.kernel
def sums_before_loop(x: F2, y: F2):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        y[i, k] = total
        for j in range(x.shape[1]):
            total += 0.01 * x[i, j] * x[i, k]


SUMS = [sums_before, sums_after, sums_between]
AROUND_LOOPS = [sums_behind_loop, sums_before_loop]
BACKWARDS = [recurrence, overwritten, prefix_sums, powers, *SUMS]
OF_ROWS = [scaled_rows, prefix_sums, *SUMS, *AROUND_LOOPS]


def adjoint(kernel: kc.Kernel) -> Func:
    return tidy(vjp(kernel.func, [0], [1]).func)


def loops_of(kernel: kc.Kernel) -> list[Eqn]:
    return [e for e in walk_eqns(adjoint(kernel).body) if e.op.kind is OpKind.FOR]


@pytest.mark.parametrize("kernel", [scaled_rows, of_pairs])
def test_loops_that_only_add_run_forwards(kernel: kc.Kernel) -> None:
    loops = loops_of(kernel)
    assert any(ANY_ORDER in e.attrs for e in loops)
    assert all(ENDS_TOGETHER not in e.attrs for e in loops)


@pytest.mark.parametrize("kernel", BACKWARDS)
def test_other_loops_run_backwards(kernel: kc.Kernel) -> None:
    assert not any(ANY_ORDER in e.attrs for e in loops_of(kernel))
    assert any(ENDS_TOGETHER in e.attrs for e in loops_of(kernel))


@pytest.mark.parametrize("kernel", AROUND_LOOPS)
def test_loops_around_others_run_backwards(kernel: kc.Kernel) -> None:
    outer = [e for e in adjoint(kernel).body.eqns if e.op.kind is OpKind.FOR]
    assert any(ENDS_TOGETHER in e.attrs for e in outer)
    assert not any(ANY_ORDER in e.attrs for e in outer)


@pytest.mark.parametrize("kernel", [scaled_rows, of_pairs, *BACKWARDS, *AROUND_LOOPS])
@pytest.mark.parametrize("columns", [1, 2, 40])
def test_gradients_are_those_of_central_differences(kernel: kc.Kernel, columns: int) -> None:
    rng = np.random.default_rng(columns)
    x = rng.normal(size=(3, columns))
    of_y = rng.normal(size=(3, columns) if kernel in OF_ROWS else 3)

    def value(x: np.ndarray) -> float:
        y = np.zeros_like(of_y)
        kc.launch(kernel, 3, [x, y])
        return float((y * of_y).sum())

    found = np.zeros_like(x)
    given = of_y.copy()
    kc.launch(kernel, 3, [x, np.zeros_like(of_y)], adjoint=True, adj_inputs=[found, given])
    step = 1e-6
    for place in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        wanted = (value(x + moved) - value(x - moved)) / (2.0 * step)
        assert found[place] == pytest.approx(wanted, rel=1e-7, abs=1e-8)
