"""Backward passes after one that has retained gradients start as if it had not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelGradError
from tests.autograd.test_retain_grad import F, gradient, numbers, squares, weighted


@pytest.mark.parametrize("retained", [False, True])
def test_the_gradient_of_another_tape_starts_from_what_a_pass_had_left(retained: bool) -> None:
    x, y, loss = numbers(1.0, 2.0, 3.0), numbers(0.0, 0.0, 0.0, retained=retained), numbers(0.0)
    with kc.Tape() as first:
        kc.launch(squares, 3, [x], [y])
    with kc.Tape() as second:
        kc.launch(weighted, 3, [y], [loss])
    for _ in range(2):
        second.backward(loss)
        first.backward()
    assert gradient(x) == [4.0, 16.0, 36.0]
    assert gradient(y) == ([1.0, 2.0, 3.0] if retained else [0.0] * 3)


@pytest.mark.parametrize("retained", [False, True])
def test_cotangents_that_are_written_after_a_pass_count(retained: bool) -> None:
    x, y = numbers(1.0, 2.0, 3.0), numbers(0.0, 0.0, 0.0, retained=retained)
    with kc.Tape() as tape:
        kc.launch(squares, 3, [x], [y])
    assert y.grad is not None
    for value in (1.0, 2.0):
        # No version tells of what NumPy writes.
        y.grad.numpy()[:] = value
        tape.backward()
    assert gradient(x) == [6.0, 12.0, 18.0]
    for _ in range(2):
        y.grad.fill_(1.0)
        tape.backward()
    assert gradient(x) == [10.0, 20.0, 30.0]
    y.retain_grad = False
    tape.backward()
    assert gradient(x) == [10.0, 20.0, 30.0]


def test_cotangents_beside_retained_ones_are_refused() -> None:
    x = numbers(1.0, 2.0, 3.0)
    states = kc.zeros((2, 3), dtype=F, requires_grad=True, retain_grad=True)
    with kc.Tape() as tape:
        kc.launch(squares, 3, [x], [states[1]])
    assert states.grad is not None
    states.grad[1].fill_(1.0)
    tape.backward()
    states.grad[0].fill_(7.0)
    with pytest.raises(KernelGradError, match="part of a gradient was written after a pass"):
        tape.backward()
    states.grad.zero_()
    tape.backward()
    assert gradient(x) == [2.0, 4.0, 6.0]


def test_grids_of_numpy_integers() -> None:
    x, y, loss = numbers(1.0, 2.0, 3.0), numbers(0.0, 0.0, 0.0, retained=True), numbers(0.0)
    size: Any = np.int64(3)
    with kc.Tape() as tape:
        for _ in range(2):
            kc.launch(squares, size, [x], [y])
            kc.launch(weighted, 3, [y], [loss])
    tape.backward(loss)
    assert (gradient(x), gradient(y)) == ([4.0, 16.0, 36.0], [1.0, 2.0, 3.0])


def test_functions_may_write_what_launches_have_written() -> None:
    x, other = numbers(1.0, 2.0), numbers(3.0, 4.0)
    y, loss = numbers(0.0, 0.0, retained=True), numbers(0.0)

    def backward() -> None:
        assert other.grad is not None
        assert y.grad is not None
        other.grad.assign(other.grad.numpy() + y.grad.numpy())
        y.grad.zero_()

    with kc.Tape() as tape:
        kc.launch(squares, 2, [x], [y])
        y.numpy()[:] = other.numpy()
        tape.record_func(backward, [other], outputs=[y])
        kc.launch(weighted, 2, [y], [loss])
    tape.backward(loss)
    assert (gradient(x), gradient(other), gradient(y)) == ([0.0] * 2, [1.0, 2.0], [1.0, 2.0])


@pytest.mark.parametrize("is_kept", [False, True])
def test_values_that_a_function_has_overwritten_are_missed(is_kept: bool) -> None:
    x, z, loss = numbers(1.0, 2.0), numbers(0.0, 0.0), numbers(0.0)
    with kc.Tape(keep_overwritten=is_kept) as tape:
        kc.launch(squares, 2, [x], [z])
        kc.launch(weighted, 2, [z], [loss])
        x.numpy()[:] = 10.0
        tape.record_func(lambda: None, outputs=[x])
    with pytest.raises(KernelGradError, match=r"(overwritten|changed|written)"):
        tape.backward(loss)
