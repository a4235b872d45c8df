"""Cotangents that share memory with the gradients that a backward pass clears."""

# Arrays of these tests have gradients.
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.autograd.test_tape import blank, marked, square

Given = Callable[[kc.Array], Any]


@pytest.mark.parametrize(
    "given",
    [lambda y: y.grad, lambda y: y.grad.numpy(), lambda y: y.grad[:], lambda y: y.grad.clone()],
    ids=["itself", "numpy", "view", "clone"],
)
def test_a_gradient_may_be_the_cotangent_of_its_array(given: Given) -> None:
    x, y = marked([1.0, 2.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
    for _ in range(2):
        x.grad.zero_()
        y.grad.assign(np.array([3.0, 4.0]))
        tape.backward(grads={y: given(y)})
        np.testing.assert_array_equal(x.grad.numpy(), [6.0, 16.0])


def test_a_gradient_may_be_the_cotangent_of_another_array() -> None:
    x, y, z = marked([1.0, 2.0]), blank(2), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
        kc.launch(square, 2, [x], [z])
    y.grad.assign(np.array([3.0, 4.0]))
    z.grad.assign(np.array([5.0, 6.0]))
    tape.backward(grads={y: z.grad, z: y.grad})
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * x.numpy() * [8.0, 10.0])


def test_the_gradient_of_what_a_function_writes_counts_once() -> None:
    x, y = marked([1.0, 2.0]), marked([1.0, 4.0])
    with kc.Tape() as tape:
        tape.record_func(
            lambda: x.grad.assign(2.0 * x.numpy() * y.grad.numpy()),
            [x, y],
        )
    y.grad.assign(np.array([3.0, 4.0]))
    tape.backward(grads={y: y.grad})
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 16.0])


def test_a_cotangent_that_does_not_fit_loses_nothing() -> None:
    x, y = marked([1.0, 2.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
    y.grad.assign(np.array([3.0, 4.0]))
    with pytest.raises(kc.KernelArgumentError, match="expected shape"):
        tape.backward(grads={y: np.ones(3)})
    np.testing.assert_array_equal(y.grad.numpy(), [3.0, 4.0])
