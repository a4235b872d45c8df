"""What adjoints record since it takes long to compute again, and that gradients stay exact."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.analysis.costly_values import with_costly_records
from kernelcore.codegen.code_form import code_form
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Eqn, Func, Var
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.ir.walk import eqns_inside, walk_eqns
from kernelcore.language.types import ArrayType, float64, int32
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.helpers import interpreter
from tests.helpers.kernel_harness import adjoint_func, call, const, make, region
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


@kc.kernel
def weighted(x: F64, q: F64_2D, y: F64):
    i = kc.tid()
    v = x[i]
    for j in range(q.shape[1]):
        v *= q[i, j] * kc.exp(q[i, j])
    y[i] = v


def test_what_is_computed_again_is_computed_where_it_is_used() -> None:
    """A load for a recorded value and for later would occupy a register until then."""
    form = code_form(optimize(adjoint_func(weighted)))
    *_, loop = (eqn for eqn in form.body.eqns if eqn.op.kind in LOOPS)
    eqns = loop.regions[0].eqns
    (load,) = (eqn for eqn in eqns if eqn.op.kind is OpKind.LOAD)
    after = eqns[eqns.index(load) + 1]
    assert load.out in after.inputs


def hand_made(*, is_backwards: bool, changes: bool) -> Func:
    """Two loops that compute ``exp(x[j])``; the first one may change ``x[j]`` after it has."""

    def write(b: Builder, x: Var, out: Var) -> None:
        stack = b.emit(ops.STACK, dtype=float64)
        zero, one, down = const(int32, 0), const(int32, 1), const(int32, -1)
        n = b.emit(ops.DIM, x, axis=0)

        def push(j: Var) -> None:
            value = b.emit(ops.LOAD, x, j)
            b.emit_effect(ops.PUSH, stack, value)
            b.emit_effect(ops.STORE, out, j, call(b, "exp", value))
            if changes:
                b.emit_effect(ops.STORE, x, j, const(float64, 2.0))

        def pop(j: Var) -> None:
            exponential = call(b, "exp", b.emit(ops.LOAD, x, j))
            product = call(b, "mul", b.emit(ops.POP, stack), exponential)
            b.emit(ops.ATOMIC_ADD, out, j, product)

        b.emit_for(zero, n, one, [], region(b, [int32], push))
        bounds = (call(b, "sub", n, one), down, down) if is_backwards else (zero, n, one)
        b.emit_for(*bounds, [], region(b, [int32], pop))

    return make("hand_made", [ArrayType(float64, 1)] * 2, write)


@pytest.mark.parametrize(("is_backwards", "changes"), [(True, False), (False, False), (True, True)])
def test_values_of_other_iterations_and_of_changed_arrays_are_not_recorded(
    is_backwards: bool, changes: bool
) -> None:
    func = hand_made(is_backwards=is_backwards, changes=changes)
    form = with_costly_records(func)
    assert pops(form) == (2 if is_backwards and not changes else 1)
    found = [[np.linspace(-1, 1, 9), np.zeros(9)] for _ in range(2)]
    for one, arrays in zip((func, form), found, strict=True):
        interpreter.run(one, arrays, 1)
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("kernel", [relaxed, root, products, weighted], ids=lambda k: k.func.name)
def test_gradients_keep_their_bits(kernel: kc.Kernel) -> None:
    plain = optimize(adjoint_func(kernel))
    assert pops(with_costly_records(plain)) > pops(plain)
    rng = np.random.default_rng(3)
    args = [rng.uniform(0.2, 0.9, 5), rng.uniform(0.2, 0.9, (5, STEPS)), np.zeros(5)]
    args += [np.zeros(5), np.zeros((5, STEPS)), np.ones(5)]
    found = [[a.copy() for a in args] for _ in range(2)]
    for form, arrays in zip((plain, with_costly_records(plain)), found, strict=True):
        interpreter.run(form, arrays, 5)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_report_lists_the_records() -> None:
    adjoint = kc.explain(relaxed).adjoint
    assert adjoint is not None
    assert len(adjoint.records) == 2
