"""Gradients that arrays and tensors have in common, of every library that has gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import pytest
import torch

import kernelcore as kc
from paddle_ext import from_paddle, to_paddle
from torch_ext import from_torch, to_torch


@dataclass(frozen=True, slots=True)
class Library:
    """A library with gradients: a tensor of ones with one, and both ways."""

    make: Callable[[], Any]
    take: Callable[..., kc.Array]
    give: Callable[[kc.Array], Any]


def paddle_ones() -> Any:
    tensor = paddle.ones([3])
    tensor.stop_gradient = False
    return tensor


LIBRARIES = {
    "torch": Library(lambda: torch.ones(3, requires_grad=True), from_torch, to_torch),
    "paddle": Library(paddle_ones, from_paddle, to_paddle),
}
EVERY = pytest.mark.parametrize("library", LIBRARIES.values(), ids=list(LIBRARIES))


@kc.kernel
def square(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * x[i]


def backward(x: kc.Array) -> None:
    """Add the gradient of the sum of squares."""
    y = kc.zeros(3, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(square, 3, [x], [y])
    tape.backward(grads={y: np.ones(3, np.float32)})


@EVERY
def test_a_tape_adds_to_the_gradient_of_the_tensor(library: Library) -> None:
    tensor = library.make()
    array = library.take(tensor)
    assert array.requires_grad
    for count in (1, 2, 3):
        backward(array)
        np.testing.assert_array_equal(np.asarray(tensor.grad), np.full(3, 2.0 * count))


@EVERY
def test_gradients_added_by_the_library_are_seen(library: Library) -> None:
    tensor = library.make()
    array = library.take(tensor)
    backward(array)
    (tensor * 3.0).sum().backward()
    gradient = library.take(tensor).grad
    assert gradient is not None
    assert gradient.list() == [5.0, 5.0, 5.0]


@EVERY
def test_a_tensor_of_an_array_has_its_gradient(library: Library) -> None:
    array = kc.ones(3, requires_grad=True)
    tensor = library.give(array)
    backward(array)
    np.testing.assert_array_equal(np.asarray(tensor.grad), [2.0, 2.0, 2.0])


@EVERY
def test_a_gradient_that_is_not_wanted_is_none(library: Library) -> None:
    tensor = library.make()
    array = library.take(tensor, requires_grad=False)
    assert (array.requires_grad, array.grad) == (False, None)
    assert tensor.grad is None
