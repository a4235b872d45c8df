"""Operators of more operands than torch takes are refused in words, and again when called again."""

from __future__ import annotations

import pytest
import torch

import kernelcore as kc


def weighted(count: int) -> kc.Kernel:
    """The sum of as many products of a number and an element."""
    params = ", ".join(f"w{k}: float" for k in range(count))
    terms = " + ".join(f"w{k} * x[i]" for k in range(count))
    return kc.kernel(
        source=f"def weighted({params}, x: kc.array[float], y: kc.array[float]):\n"
        f"    i = kc.tid()\n    y[i] = {terms}\n"
    )


def test_operators_of_many_numbers_are_refused() -> None:
    op = kc.op(weighted(90), outputs="y")
    x, weights = torch.ones(3), [torch.tensor(1.0, requires_grad=True) for _ in range(90)]
    for _ in range(2):
        with pytest.raises(kc.KernelError, match="torch defines no operator") as caught:
            op(*weights, x)
        assert "one array" in (caught.value.remedy or "")


def test_operators_of_sixty_numbers_have_derivatives() -> None:
    op = kc.op(weighted(60), outputs="y")
    x = torch.ones(3, requires_grad=True)
    (found,) = torch.autograd.grad(op(*range(60), x).sum(), x)
    assert torch.equal(found, torch.full((3,), float(sum(range(60)))))
