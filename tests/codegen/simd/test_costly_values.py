"""What adjoints record since it takes long to compute again, and that gradients stay exact."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.analysis.costly_values import with_costly_records
from kernelcore.codegen.code_form import code_form
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.ir.walk import eqns_inside, walk_eqns
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.helpers.kernel_harness import adjoint_func
from tests.helpers.threads import with_gradients

F64, F64_2D = kc.array(dtype=kc.float64), kc.array2d[kc.float64]
STEPS = 7


@kc.kernel
def relaxed(x: F64, q: F64_2D, y: F64):
    i = kc.tid()
    v = x[i]
    for _ in range(q.shape[1]):
        v += 0.1 * kc.exp(-v * x[i])
    y[i] = v + q[i, 0]


@kc.kernel
def root(x: F64, q: F64_2D, y: F64):
    """Newton's method: the quotient is recorded."""
    i = kc.tid()
    v = 1.0 + x[i]
    for _ in range(STEPS):
        v = 0.5 * (v + (1.0 + q[i, 0] * q[i, 0]) / v)
    y[i] = v


@kc.kernel
def products(x: F64, q: F64_2D, y: F64):
    i = kc.tid()
    v = x[i]
    for j in range(q.shape[1]):
        v *= kc.exp(q[i, j])
    y[i] = v


@kc.kernel
def products_from_one(x: F64, q: F64_2D, y: F64):
    i = kc.tid()
    v = x[i]
    for j in range(1, q.shape[1]):
        v *= kc.exp(q[i, j])
    y[i] = v


@kc.kernel
def products_of_a_fixed_number(x: F64, q: F64_2D, y: F64):
    i = kc.tid()
    v = x[i]
    for j in range(STEPS):
        v *= kc.exp(q[i, j])
    y[i] = v


@kc.kernel
def products_from_the_end(x: F64, q: F64_2D, y: F64):
    """Indices that go down are not recognised, so each exponential is computed again."""
    i = kc.tid()
    v = x[i]
    for j in range(q.shape[1] - 1, -1, -1):
        v *= kc.exp(q[i, j])
    y[i] = v


@kc.kernel
def until_large(x: F64, q: F64_2D, y: F64):
    i = kc.tid()
    v = x[i] * x[i] + 0.1
    j = 0
    while v < 3.0 and j < q.shape[1]:
        v += kc.exp(-v * x[i])
        j += 1
    y[i] = v


@kc.kernel
def sometimes(x: F64, q: F64_2D, y: F64):
    """The records of a branch."""
    i = kc.tid()
    v = x[i]
    for j in range(q.shape[1]):
        if q[i, j] > 0.0:
            v = kc.sin(v) * kc.exp(-v)
    y[i] = v


@kc.kernel
def nested(x: F64, q: F64_2D, y: F64):
    """The outer loop records an exponential, which its inner loop uses."""
    i = kc.tid()
    v = x[i]
    for j in range(q.shape[1]):
        w = kc.exp(-v * v)
        for k in range(3):
            v = v * w + kc.exp(v * q[i, k])
        v = kc.tanh(v * q[i, j])
    y[i] = v


@kc.kernel
def logistic(x: F64, q: F64_2D, y: F64):
    i = kc.tid()
    v = x[i]
    for _ in range(q.shape[1]):
        v = 3.0 * v * (1.0 - v)
    y[i] = v + q[i, 0]


@kc.kernel
def many(x: F64, q: F64_2D, y: F64):
    """Records would be five times as large."""
    i = kc.tid()
    v = x[i]
    for _ in range(q.shape[1]):
        v = kc.exp(-v) * kc.exp(-2.0 * v * v) * kc.log(2.0 + v * v) * kc.exp(v * q[i, 0])
    y[i] = v


KERNELS = (
    relaxed,
    root,
    products,
    products_from_one,
    products_of_a_fixed_number,
    products_from_the_end,
    until_large,
    sometimes,
    nested,
    logistic,
    many,
)


def pops(func: Func) -> int:
    return sum(eqn.op.kind is OpKind.POP for eqn in walk_eqns(func.body))


def costly_ops(func: Func) -> list[str]:
    """The functions and quotients in the last loop of ``func``, which runs backwards."""

    def names(loop: Eqn) -> list[str]:
        found = [eqn.op.name for eqn in eqns_inside(loop)]
        return [name for name in found if name in ("exp", "log", "sin", "tanh", "div")]

    return names([eqn for eqn in func.body.eqns if eqn.op.kind in LOOPS][-1])


@pytest.mark.parametrize(
    ("kernel", "recorded", "again"),
    [
        (relaxed, 1, []),
        (root, 1, ["div"]),
        (products, 1, []),
        (products_from_one, 1, []),
        (products_of_a_fixed_number, 1, []),
        (products_from_the_end, 0, ["exp"]),
        (until_large, 1, []),
        (logistic, 0, []),
        (many, 0, ["exp", "exp", "exp", "log", "div"]),
    ],
    ids=lambda value: value.func.name if isinstance(value, kc.Kernel) else "",
)
def test_values_that_take_long_are_recorded_with_others(
    kernel: kc.Kernel, recorded: int, again: list[str]
) -> None:
    adjoint = optimize(adjoint_func(kernel))
    form = code_form(adjoint)
    assert pops(form) == pops(adjoint) + recorded
    assert sorted(costly_ops(form)) == sorted(again)


def arguments(kernel: kc.Kernel, points: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(points)
    return rng.uniform(0.2, 0.9, points), rng.uniform(-0.8, 0.8, (points, STEPS))


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("points", [1, 5, 40])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.func.name)
def test_gradients_are_those_of_central_differences(kernel: kc.Kernel, points: int) -> None:
    x, q = arguments(kernel, points)

    def values(x: np.ndarray, q: np.ndarray) -> np.ndarray:
        y = np.zeros(points)
        kc.launch(kernel, points, [x, q], [y])
        return y

    _, of_x, of_q = with_gradients(kernel, [x, q], np.ones(points))
    step = 1e-5
    expected = (values(x + step, q) - values(x - step, q)) / (2 * step)
    np.testing.assert_allclose(of_x, expected, 1e-6, 1e-7)
    for j in range(STEPS):
        shift = np.where(np.arange(STEPS) == j, step, 0.0)
        expected = (values(x, q + shift) - values(x, q - shift)) / (2 * step)
        np.testing.assert_allclose(of_q[:, j], expected, 1e-6, 1e-7)


@pytest.mark.parametrize("kernel", [relaxed, nested], ids=lambda k: k.func.name)
def test_adjoints_of_adjoints_record_with_each_of_their_loops(kernel: kc.Kernel) -> None:
    """A loop that pops what the one before it pushed pushes for the next."""
    adjoint = tidy(adjoint_func(kernel))
    second = optimize(tidy(vjp(adjoint, [0], [3]).func))
    form = with_costly_records(second)
    assert pops(form) > pops(second)
    assert with_costly_records(form) is form


def test_what_is_computed_again_is_computed_where_it_is_used() -> None:
    """A load for a recorded value and for later would wait in a register."""
    form = code_form(optimize(adjoint_func(products)))
    *_, loop = (eqn for eqn in form.body.eqns if eqn.op.kind in LOOPS)
    kinds = [eqn.op.kind for eqn in loop.regions[0].eqns]
    assert OpKind.LOAD not in kinds


def test_the_report_lists_the_records() -> None:
    adjoint = kc.explain(relaxed).adjoint
    assert adjoint is not None
    assert len(adjoint.records) == 2
