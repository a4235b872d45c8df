"""Sums of adjoints are multiplied and divided once, not term by term, where that is the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins.arithmetic import div
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import Scalar
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import normalize
from kernelcore.passes.simplify.common_subexpressions import merge_equal
from kernelcore.passes.simplify.dead_code import dce
from kernelcore.passes.simplify.factored_sums import factor_sums
from tests.helpers import interpreter

F2, F1 = kc.array(kc.float64, 2), kc.array(kc.float64, 1)
H2, H1 = kc.array(kc.float16, 2), kc.array(kc.float16, 1)


@kc.kernel
def quotients(x: F2, w: F1, y: F2):
    i = kc.tid()
    scale = w[i]
    for k in range(x.shape[1]):
        y[i, k] = kc.sin(x[i, k]) / scale


@kc.kernel
def differences(x: F2, w: F1, y: F2):
    i = kc.tid()
    middle = w[i]
    for k in range(x.shape[1]):
        y[i, k] = 2.0 * middle - (x[i, k] - middle) * (x[i, k] - middle)


@kc.kernel
def scaled_sum(x: F2, w: F1, y: F2):
    i = kc.tid()
    scale, total = w[i], kc.float64(0.0)
    for k in range(x.shape[1]):
        total += scale * x[i, k]
    y[i, 0] = total / kc.float64(x.shape[1])


@kc.kernel
def product_of_quotients(x: F2, w: F1, y: F2):
    i = kc.tid()
    scale = w[i]
    for k in range(x.shape[1]):
        y[i, k] = (x[i, k] / scale) * (kc.cos(x[i, k]) / scale)


@kc.kernel
def nested(x: F2, w: F1, y: F2):
    i = kc.tid()
    scale = w[i]
    for j in range(x.shape[0]):
        total = kc.float64(0.0)
        for k in range(x.shape[1]):
            total += scale * x[j, k]
        kc.atomic_add(y, i, 0, total * total)


@kc.kernel
def under_a_condition(x: F2, w: F1, y: F2):
    i = kc.tid()
    scale = w[i]
    for k in range(x.shape[1]):
        if x[i, k] > 0.0:
            y[i, k] = x[i, k] * scale


@kc.kernel
def squares(x: F2, w: F1, y: F2):
    i = kc.tid()
    scale = w[i] * w[i]
    for k in range(x.shape[1]):
        v = x[i, k] / scale
        y[i, k] = -(v * v) - 3.0 * scale


@kc.kernel
def narrow(x: H2, w: H1, y: H2):
    i = kc.tid()
    scale = w[i]
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] / scale


KERNELS = (quotients, differences, scaled_sum, product_of_quotients, nested, squares)


def adjoint(kernel: kc.Kernel) -> Func:
    """The adjoint by all operands, before sums are factored."""
    return dce(merge_equal(normalize(vjp(normalize(kernel.func), (0, 1), (2,)).func)))


def sums(func: Func) -> list[Eqn]:
    """Loops that carry floats."""
    return [
        eqn
        for eqn in walk_eqns(func.body)
        if eqn.op.kind is OpKind.FOR
        and any(isinstance(v.type, Scalar) and v.type.is_float for v in eqn.outputs)
    ]


def carried(func: Func) -> int:
    """How many values the loops carry."""
    return sum(len(eqn.outputs) for eqn in sums(func))


def divisions(func: Func) -> int:
    """Divisions in loops that carry floats."""
    return sum(e.op is div.op for loop in sums(func) for e in walk_eqns(loop.regions[0]))


def cotangents(func: Func, x: np.ndarray, w: np.ndarray, ct: np.ndarray) -> Sequence[np.ndarray]:
    """Those of ``x`` and ``w``."""
    found = {"x": x.copy(), "w": w.copy(), "y": np.zeros_like(ct), "ct_y": ct.copy()}
    found |= {"ct_x": np.zeros_like(x), "ct_w": np.zeros_like(w)}
    interpreter.run(func, [found[p.name] for p in func.params], (w.size,))
    return found["ct_x"], found["ct_w"]


@pytest.mark.parametrize("kernel", [*KERNELS, under_a_condition])
@pytest.mark.parametrize("columns", [1, 7])
def test_cotangents_stay(kernel: kc.Kernel, columns: int) -> None:
    plain = adjoint(kernel)
    factored = dce(merge_equal(factor_sums(plain)))
    assert (factored is not plain) or kernel is under_a_condition
    rng = np.random.default_rng(columns)
    x, ct = rng.normal(size=(2, 4, columns))
    w = rng.uniform(0.5, 2.0, size=4)
    pairs = zip(cotangents(plain, x, w, ct), cotangents(factored, x, w, ct), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "before", "after"),
    [(quotients, 2, 1), (scaled_sum, 0, 0), (squares, 2, 2), (under_a_condition, 0, 0)],
)
def test_divisions_of_an_iteration(kernel: kc.Kernel, before: int, after: int) -> None:
    plain = adjoint(kernel)
    factored = dce(merge_equal(factor_sums(plain)))
    assert (divisions(plain), divisions(factored)) == (before, after)


def test_equal_sums_are_one() -> None:
    @kc.kernel
    def shared(x: F2, w: F1, y: F2):
        i = kc.tid()
        low, high = w[i], kc.exp(w[i])
        for k in range(x.shape[1]):
            y[i, k] = low * x[i, k] + high * x[i, k]

    plain = adjoint(shared)
    factored = dce(merge_equal(factor_sums(plain)))
    assert (carried(plain), carried(factored)) == (2, 1)


def test_factors_of_no_terms_do_not_count() -> None:
    """The mean of no elements divides by 0; what its sum would be multiplied with gets nothing."""
    plain = adjoint(scaled_sum)
    for func in (plain, factor_sums(plain)):
        with np.errstate(divide="ignore"):
            _, ct_w = cotangents(func, np.ones((2, 0)), np.ones(2), np.ones((2, 1)))
        np.testing.assert_array_equal(ct_w, 0.0)


def test_narrow_sums_stay() -> None:
    """Without their factors they may overflow."""
    plain = adjoint(narrow)
    assert factor_sums(plain) is plain
