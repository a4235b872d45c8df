"""Rules that are not the derivatives of their code, and gradients of values, as torch has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import grad
from torch.func import jvp

import kernelcore as kc
from tests.helpers.rule_programs import clip_gradient, quantize, soft_gate
from tests.helpers.value_programs import SHAPES, SIZE, every_value, gradients, leaves, values
from torch_ext import torch_op


def straight(x: torch.Tensor) -> torch.Tensor:
    """Rounds, with derivative 1."""
    return x + (x.round() - x).detach()


def test_a_straight_through_estimator_trains() -> None:
    x = torch.rand(6).requires_grad_()
    op = torch_op(quantize)
    torch.testing.assert_close(op(x), torch.round(4 * x) * x)
    ct = torch.rand(6)
    expected = grad(straight(4 * x) * x, x, ct)
    torch.testing.assert_close(grad(op(x), x, ct), expected)


def test_its_derivatives_are_those_of_the_rule_in_forward_mode_and_twice() -> None:
    x, t = torch.rand(6), torch.rand(6)
    op = torch_op(quantize)
    found = jvp(op, (x,), (t,))
    torch.testing.assert_close(found[1], t * (torch.round(4 * x) + 4 * x))
    y = x.clone().requires_grad_()
    (first,) = grad(op(y).sum(), y, create_graph=True)
    torch.testing.assert_close(grad(first.sum(), y), (torch.full((6,), 8.0),))


def test_it_is_batched_and_compiled() -> None:
    x = torch.rand(3, 6)
    op = torch_op(quantize)
    batched = torch.vmap(torch.func.grad(lambda v: op(v).sum()))
    torch.testing.assert_close(batched(x), torch.round(4 * x) + 4 * x)


def test_a_rule_need_not_be_linear_in_reverse_mode() -> None:
    x, ct = torch.rand(4).requires_grad_(), torch.tensor([-3.0, 0.5, 1.0, 7.0])
    op = torch_op(clip_gradient)
    torch.testing.assert_close(grad(op(x), x, ct), (ct.clamp(-1, 1),))
    with pytest.raises(kc.KernelGradError, match="is not seen to be linear"):
        jvp(op, (x.detach(),), (ct,))


def test_a_rule_for_tangents_serves_reverse_mode() -> None:
    x, gate = torch.rand(5).requires_grad_(), torch.randn(5).requires_grad_()
    found = torch_op(soft_gate)(x, gate)
    torch.testing.assert_close(found, torch.where(gate > 0, x, 0))
    ct = torch.rand(5)
    expected = grad(x * torch.sigmoid(gate), (x, gate), ct)
    torch.testing.assert_close(grad(found, (x, gate), ct), expected)


def test_values_of_every_kind_have_gradients() -> None:
    given, ct = values(), np.random.default_rng(1).random(SIZE)
    tensors = {n: torch.tensor(a, requires_grad=True) for n, a in given.items()}
    out = torch_op(every_value)(*leaves(tensors))
    found = torch.autograd.grad(out, list(tensors.values()), torch.tensor(ct))
    expected = gradients(given, ct)
    assert set(expected) == {"x", *SHAPES}
    for name, value in zip(tensors, found, strict=True):
        np.testing.assert_allclose(value.cpu().numpy(), expected[name], rtol=1e-12)


def test_values_have_tangents() -> None:
    given, ct = values(), np.random.default_rng(1).random(SIZE)
    expected = gradients(given, ct)
    for name, value in given.items():
        direction = np.random.default_rng(2).random(value.shape)

        def function(moved: torch.Tensor, name: str = name) -> torch.Tensor:
            tensors = {n: torch.tensor(a) for n, a in given.items()}
            return torch_op(every_value)(*leaves({**tensors, name: moved}))

        tangent = torch.func.jvp(function, (torch.tensor(value),), (torch.tensor(direction),))[1]
        want = np.sum(expected[name] * direction)
        np.testing.assert_allclose(tangent.cpu().numpy() @ ct, want, rtol=1e-12)
