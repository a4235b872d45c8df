"""Derivatives on devices: adjoints of launches, and what a Tape refuses."""

from __future__ import annotations

import pytest

import kernelcore as kc
from tests.cuda.fake import FakeDriver


@kc.kernel
def squares(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * x[i]


def test_adjoints_of_launches(driver: FakeDriver) -> None:
    x = kc.array([1.0, 2.0, 3.0], dtype=float, device="cuda:0")
    y, ct_x, ct_y = kc.zeros_like(x), kc.zeros_like(x), kc.ones_like(x)
    kc.launch(squares, 3, [x], [y], [ct_x], [ct_y], adjoint=True)
    assert ct_x.list() == [2.0, 4.0, 6.0]
    with pytest.raises(kc.KernelArgumentError, match="share memory"):
        kc.launch(squares, 3, [x], [y], [x], [ct_y], adjoint=True)


def test_a_tape_refuses_what_it_has_no_gradients_of(driver: FakeDriver) -> None:
    x = kc.zeros(3, device="cuda:0")
    with pytest.raises(kc.KernelArgumentError, match="an array on cuda:0 has no gradient"):
        x.requires_grad = True
    y = kc.zeros_like(x)
    with kc.Tape():
        with pytest.raises(kc.KernelGradError, match="no gradients of launches on a GPU"):
            kc.launch(squares, 3, [x], [y])
        kc.launch(squares, 3, [x], [y], record_tape=False)
    assert len(driver.calls("cuLaunchKernel")) == 1
