"""A model with kernels; as a program, runs what was saved of it in another process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import kernelcore as kc
from tests.torch import torch_kernels as k
from torch_ext import torch_op

quadratic = torch_op(k.quadratic, "kernelcore_saved::quadratic")
polar = torch_op(k.polar, "kernelcore_saved::polar")
# Named by their content; the second has a form for torch when one is asked for.
energy = torch_op(k.energy, output_dims=1)
neighbours = kc.op(k.neighbours)


class Model(torch.nn.Module):
    """Several results, and a scalar that is a tensor."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        first, second = polar(quadratic(x, 0.5), x)
        return first * second + quadratic(x, w[1]) + energy(neighbours(x))


def main(folder: Path) -> None:
    program = torch.export.load(folder / "program.pt2").module()
    for n in (2, 11):
        given, expected = torch.load(folder / f"{n}.pt")
        print(n, "equal" if torch.equal(program(*given), expected) else "different")


def derivatives(model: Callable[..., torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> list[Any]:
    """A gradient, a derivative of it, a tangent and a batch of ``model`` at ``x``."""
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad((model(x, w) ** 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    x = x.detach()
    tangent = torch.func.jvp(lambda x: model(x, w), (x,), (x * x,))[1]
    batch = torch.func.vmap(lambda x: model(x, w))(torch.stack([x, 2.0 * x]))
    return [first.detach(), second, tangent, batch]


def derive(folder: Path) -> None:
    """As ``main``, of the derivatives of the program."""
    program = torch.export.load(folder / "program.pt2").module()
    given, expected = torch.load(folder / "derivatives.pt")
    for found, wanted in zip(derivatives(program, *given), expected, strict=True):
        print("equal" if torch.equal(found, wanted) else "different")


if __name__ == "__main__":
    {"run": main, "derive": derive}[sys.argv[1]](Path(sys.argv[2]))
