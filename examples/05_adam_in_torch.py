"""Adam in torch
=============

Four ways to give torch's Adam the gradients of a kernel; all find the minimum.

The first two minimise the sum of squares of points, with arrays and tensors on the same memory and
a Tape. The last two minimise Rosenbrock's function at many points: an autograd.Function that
launches the kernel and its adjoint, and an operator made of the kernel, in a compiled function.
"""

from typing import Any

import numpy as np
import torch

import kernelcore as kc
from torch_ext import from_torch, to_torch, torch_op


@kc.kernel
def squares(points: kc.array2d[float], loss: kc.array[float]):
    i, j = kc.tid()
    kc.atomic_add(loss, 0, points[i, j] * points[i, j])


@kc.kernel
def rosenbrock(points: kc.array[kc.vec2], value: kc.array[float]):
    i = kc.tid()
    p = points[i]
    value[i] = (1.0 - p.x) ** 2.0 + 100.0 * (p.y - p.x**2.0) ** 2.0


def minimise_squares(optimiser: torch.optim.Optimizer, points: kc.Array, steps: int) -> float:
    """The sum of squares after ``steps`` steps of ``optimiser``, which knows ``points``."""
    loss = kc.zeros(1, requires_grad=True)
    for _ in range(steps):
        with kc.Tape() as tape:
            loss.zero_()
            kc.launch(squares, dim=points.shape, inputs=[points], outputs=[loss])
        tape.zero()
        tape.backward(loss)  # into the memory of the tensor's grad
        optimiser.step()
        points.mark_write()  # which torch has changed
    return float(loss[0])


class Rosenbrock(torch.autograd.Function):
    """The kernel and its adjoint, launched on tensors as they are."""

    @staticmethod
    def forward(ctx: Any, points: torch.Tensor) -> torch.Tensor:
        value = torch.empty(len(points))
        kc.launch(rosenbrock, dim=len(points), inputs=[points.detach()], outputs=[value])
        ctx.save_for_backward(points, value)
        return value

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> torch.Tensor:
        (ct_value,) = grad_outputs
        points, value = ctx.saved_tensors
        ct_points = torch.zeros_like(points)
        # The adjoint takes the cotangents of the outputs and adds to those of the inputs.
        cotangents = [ct_points], [ct_value.clone()]
        kc.launch(rosenbrock, len(points), [points.detach()], [value], *cotangents, adjoint=True)
        return ct_points


def minimise_rosenbrock(function: Any, start: np.ndarray) -> np.ndarray:
    """The mean of the points after 8000 steps."""
    points = torch.tensor(start, requires_grad=True)
    optimiser = torch.optim.Adam([points], lr=5e-2)
    for _ in range(8000):
        optimiser.zero_grad()
        function(points).sum().backward()
        optimiser.step()
    return points.detach().numpy().mean(axis=0)


def main() -> None:
    rng = np.random.default_rng(42)

    tensor = torch.tensor(rng.normal(size=(100, 2)), dtype=torch.float32, requires_grad=True)
    left = minimise_squares(torch.optim.Adam([tensor], lr=0.1), from_torch(tensor), 500)
    print(f"from_torch          sum of squares {left:.1e}")

    array = kc.array(rng.normal(size=(100, 2)), dtype=float, requires_grad=True)
    left = minimise_squares(torch.optim.Adam([to_torch(array)], lr=0.1), array, 500)
    print(f"to_torch            sum of squares {left:.1e}")

    start = rng.normal(size=(20, 2)).astype(np.float32)
    operator = torch.compile(torch_op(rosenbrock), fullgraph=True)
    for name, function in (("autograd.Function", Rosenbrock.apply), ("torch_op", operator)):
        x, y = minimise_rosenbrock(function, start)
        print(f"{name:19s} minimum at ({x:.3f}, {y:.3f})")


if __name__ == "__main__":
    main()
