"""The kernels that benchmarks time compute what NumPy does, at a small size."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
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
