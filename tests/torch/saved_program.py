"""A model with kernels; as a program, runs what was saved of it in another process."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from tests.torch import torch_kernels as k
from torch_ext import torch_op

quadratic = torch_op(k.quadratic, "kernelcore_saved::quadratic")
polar = torch_op(k.polar, "kernelcore_saved::polar")


class Model(torch.nn.Module):
    """Several results, and a scalar that is a tensor."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        first, second = polar(quadratic(x, 0.5), x)
        return first * second + quadratic(x, w[1])


def main(folder: Path) -> None:
    program = torch.export.load(folder / "program.pt2").module()
    for n in (2, 11):
        given, expected = torch.load(folder / f"{n}.pt")
        print(n, "equal" if torch.equal(program(*given), expected) else "different")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
