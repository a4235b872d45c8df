"""A training step of a lattice Boltzmann fluid: kernels between torch's own parallel operations.

torch's threads spin for a while after each of its operations. Its step with all of torch's threads
is to take no longer than with one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import kernelcore as kc
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, timed
from torch_ext import torch_op

SIZE = 256
STEPS = 10
MAX_TIMES = 1.0
# The D2Q9 lattice: velocities and weights.
VX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
VY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)


@kc.kernel
def collide(f: kc.array3d(dtype=float), rate: float, out: kc.array3d(dtype=float)):
    """Relax each node towards equilibrium (Bhatnagar, Gross and Krook, 1954)."""
    i, j = kc.tid()
    density, x, y = 0.0, 0.0, 0.0
    for k in kc.static(range(9)):
        density += f[k, i, j]
        x += f[k, i, j] * float(VX[k])
        y += f[k, i, j] * float(VY[k])
    x /= density
    y /= density
    for k in kc.static(range(9)):
        along = x * float(VX[k]) + y * float(VY[k])
        part = 1.0 + 3.0 * along + 4.5 * along * along - 1.5 * (x * x + y * y)
        out[k, i, j] = f[k, i, j] + rate * (WEIGHTS[k] * density * part - f[k, i, j])


def training_step(collided: Callable[..., torch.Tensor], threads: int) -> Callable[[], object]:
    """Forward and backward of ``STEPS`` steps with as many of torch's threads."""
    torch.manual_seed(0)
    start = torch.rand(9, SIZE, SIZE) * 0.1 + 0.1
    rate = 0.8

    def step() -> None:
        torch.set_num_threads(threads)
        f = start.clone().requires_grad_()
        now = f
        for _ in range(STEPS):
            now = collided(now, rate)
            now = torch.stack([torch.roll(now[k], (VX[k], VY[k]), (0, 1)) for k in range(9)])
        (now * now).sum().backward()

    return step


def main() -> None:
    threads = torch.get_num_threads()
    collided = torch_op(collide, launch_dims=(SIZE, SIZE), output_dims={"out": (9, SIZE, SIZE)})
    contenders = {
        f"{threads} threads": Contender(training_step(collided, threads)),
        "1 thread": Contender(training_step(collided, 1)),
    }
    timings = timed(contenders)
    times = timings[f"{threads} threads"].median / timings["1 thread"].median
    goal = Goal(f"{threads} torch threads / 1", times, "x", MAX_TIMES)
    show(f"D2Q9, {STEPS} steps of {SIZE} x {SIZE}", timings, "1 thread", [goal])


if __name__ == "__main__":
    main()
