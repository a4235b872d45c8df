"""Rules that are not the derivatives of their code, as operators of torch."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import grad
from torch.func import jvp

import kernelcore as kc
from tests.helpers.rule_programs import clip_gradient, quantize, soft_gate
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
