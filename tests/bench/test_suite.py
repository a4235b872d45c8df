"""The kernels that benchmarks time are right, and limits count samples of a quick processor."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from tests.bench.pace import FEWEST_SAMPLES, quick_samples
from tests.bench.suite import CASES
from tests.bench.suite.case import Case

SMALL = 48


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_a_timed_kernel_computes_its_reference(case: Case) -> None:
    data = case.data(SMALL)
    split = data.num_inputs
    kc.launch(case.make(kc), data.dim, data.args[:split], data.args[split:])
    case.check(data.outputs, data, "kernelcore")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_wrong_results_are_not_timed(case: Case) -> None:
    data = case.data(SMALL)
    wrong = [np.full_like(a, 7) for a in data.outputs]
    with pytest.raises(ArithmeticError, match="differ"):
        case.check(wrong, data, "another")


def test_a_gradient_in_closed_form_is_that_of_the_program() -> None:
    (case,) = (c for c in CASES if c.gradient is not None)
    data = case.data(SMALL)
    x, out = data.args
    ct_x, ct_out = np.zeros_like(x), np.ones_like(out)
    kernel = case.make(kc)
    kc.launch(kernel, data.dim, [x], [out], [ct_x], [ct_out], adjoint=True)
    assert case.gradient is not None
    np.testing.assert_allclose(ct_x, case.gradient(x, out)[0], rtol=1e-5)


ROUNDS = FEWEST_SAMPLES + 1
SAMPLES = {"a": [float(k) for k in range(ROUNDS)], "b": [10.0 + k for k in range(ROUNDS)]}


def floors() -> list[float]:
    """Of calls of nothing before, between and after the samples."""
    return [1.0 + 0.01 * (k % 3) for k in range(2 * ROUNDS + 1)]


def test_all_samples_between_fast_calls_count() -> None:
    assert quick_samples(SAMPLES, floors()) == SAMPLES


def test_a_slow_call_takes_the_samples_on_its_sides() -> None:
    slow = floors()
    slow[4] = 1.5
    without = {"a": [0, 1, 3, 4, 5], "b": [10, 12, 13, 14, 15]}
    assert quick_samples(SAMPLES, slow) == without


def test_too_few_samples_of_one_are_none_of_any() -> None:
    slow = floors()
    slow[0] = slow[4] = 1.5
    assert quick_samples(SAMPLES, slow) == {}
