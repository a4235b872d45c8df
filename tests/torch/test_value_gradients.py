"""Gradients of values as operators of torch give them."""

from __future__ import annotations

import numpy as np
import torch

from tests.helpers.value_programs import SHAPES, SIZE, every_value, gradients, leaves, values
from torch_ext import torch_op


def test_values_of_every_kind_have_gradients() -> None:
    given, ct = values(), np.random.default_rng(1).random(SIZE)
    tensors = {n: torch.tensor(a, requires_grad=True) for n, a in given.items()}
    out = torch_op(every_value)(*leaves(tensors))
    found = torch.autograd.grad(out, list(tensors.values()), torch.tensor(ct))
    expected = gradients(given, ct)
    assert set(expected) == {"x", *SHAPES}
    for name, value in zip(tensors, found, strict=True):
        np.testing.assert_allclose(value.numpy(), expected[name], rtol=1e-12)


def test_values_have_tangents() -> None:
    given, ct = values(), np.random.default_rng(1).random(SIZE)
    expected = gradients(given, ct)
    for name, value in given.items():
        direction = torch.tensor(np.random.default_rng(2).random(value.shape))

        def function(moved: torch.Tensor, name: str = name) -> torch.Tensor:
            tensors = {n: torch.tensor(a) for n, a in given.items()}
            return torch_op(every_value)(*leaves({**tensors, name: moved}))

        tangent = torch.func.jvp(function, (torch.tensor(value),), (direction,))[1]
        want = np.sum(expected[name] * direction.numpy())
        np.testing.assert_allclose(tangent.numpy() @ ct, want, rtol=1e-12)
