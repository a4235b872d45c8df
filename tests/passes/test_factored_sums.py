"""Sums of adjoints are multiplied and divided once, not term by term, where that is the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.dataclass import replace
from kernelcore.builtins.arithmetic import div
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.verify import verify
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
    # The two terms of ``middle`` would be two sums.
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
def softmax_of_known_total(x: F2, w: F1, y: F2):
    i = kc.tid()
    scale = w[i]
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k]) / scale


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
    # As above, with quotients.
    i = kc.tid()
    scale = w[i] * w[i]
    for k in range(x.shape[1]):
        v = x[i, k] / scale
        y[i, k] = -(v * v) - 3.0 * scale


@kc.kernel
def small_quotient(x: F2, w: F1, y: F2):
    # The product with the numerator may be out of range where that with the quotient is not.
    i = kc.tid()
    scale, factor = kc.exp(w[i]), w[i]
    for k in range(x.shape[1]):
        y[i, k] = -(factor * (x[i, k] / scale))


@kc.kernel
def narrow(x: H2, w: H1, y: H2):
    i = kc.tid()
    scale = w[i]
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] / scale


KERNELS = (quotients, scaled_sum, softmax_of_known_total, nested)
UNCHANGED = (under_a_condition, differences, squares, narrow)


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


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("columns", [0, 1, 7])
def test_cotangents_stay(kernel: kc.Kernel, columns: int) -> None:
    plain = adjoint(kernel)
    factored = factor_sums(plain)
    assert factored is not plain
    verify(factored)
    rng = np.random.default_rng(columns)
    x, ct = rng.normal(size=(4, columns)), rng.normal(size=(4, columns + 1))
    w = rng.uniform(0.5, 2.0, size=4)
    pairs = zip(cotangents(plain, x, w, ct), cotangents(factored, x, w, ct), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kernel", UNCHANGED, ids=lambda k: k.name)
def test_sums_that_would_not_gain_stay(kernel: kc.Kernel) -> None:
    plain = adjoint(kernel)
    assert factor_sums(plain) is plain


def test_sums_that_keep_bits_stay() -> None:
    plain = adjoint(quotients)
    assert factor_sums(plain) is not plain
    kept = replace(plain, keeps_bits=True)
    assert factor_sums(kept) is kept


@pytest.mark.parametrize("kernel", [quotients, softmax_of_known_total])
def test_an_iteration_divides_once(kernel: kc.Kernel) -> None:
    """The product with the numerator is new, or has been computed for another cotangent."""
    plain = adjoint(kernel)
    factored = dce(merge_equal(factor_sums(plain)))
    assert (divisions(plain), divisions(factored)) == (2, 1)


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


def test_products_stay_in_range() -> None:
    """Behind the loop ``x / scale`` would be divided too late: products with ``x`` underflow."""
    plain = adjoint(small_quotient)
    factored = factor_sums(plain)
    x, w, ct = np.full((1, 4), 1e-200), np.full(1, -460.0), np.full((1, 4), 1e-120)
    pairs = zip(cotangents(plain, x, w, ct), cotangents(factored, x, w, ct), strict=True)
    for one, other in pairs:
        assert np.all(one != 0.0)
        np.testing.assert_allclose(other, one, rtol=1e-12)
