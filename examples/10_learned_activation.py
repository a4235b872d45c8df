"""A learned activation
====================

An activation with a learned parameter per channel, in an nn.Module that torch.compile compiles.

Snake is ``x + sin(a x)**2 / a`` with a frequency ``a`` for every channel. A network of it continues
a periodic function beyond the data, where one of tanh does not.
Source: Ziyin, Hartwig, Ueda, "Neural Networks Fail to Learn Periodic Functions and How to Fix It",
NeurIPS 2020, equation 3.
"""

import sys
from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch

import kernelcore as kc


@kc.op
@kc.kernel
def snake(x: kc.array2d[float], a: kc.array[float], y: kc.array2d[float]):
    i, j = kc.tid()
    s = kc.sin(a[j] * x[i, j])
    y[i, j] = x[i, j] + s * s / a[j]


class Snake(torch.nn.Module):
    """Snake of features (batch, channels), with its frequencies (channels,)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.full((channels,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return snake(x, self.a)


def network(width: int, hidden: Sequence[torch.nn.Module]) -> torch.nn.Sequential:
    """A function of one variable with two layers of ``width`` channels and their activations."""
    layers = torch.nn.Linear(1, width), torch.nn.Linear(width, width), torch.nn.Linear(width, 1)
    return torch.nn.Sequential(layers[0], hidden[0], layers[1], hidden[1], layers[2])


def train(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int) -> list[float]:
    """The mean squared errors of ``steps`` steps of Adam."""
    compiled = torch.compile(net, fullgraph=True)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    losses: list[float] = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(compiled(x), y)
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def main(small: bool) -> None:
    width, steps = (16, 40) if small else (32, 1000)
    x = torch.linspace(-6.0, 6.0, 256)[:, None]
    beyond = torch.linspace(-18.0, 18.0, 721)[:, None]

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), constrained_layout=True)
    left.plot(beyond, torch.sin(beyond), color="0.7", linewidth=5, label="sin(x)")
    left.axvspan(-6.0, 6.0, color="0.93", label="data")
    for name in ("snake", "tanh"):
        torch.manual_seed(0)
        hidden = [Snake(width) if name == "snake" else torch.nn.Tanh() for _ in range(2)]
        net = network(width, hidden)
        losses = train(net, x, torch.sin(x), steps)
        with torch.no_grad():
            found = net(beyond)
        error = torch.nn.functional.mse_loss(found, torch.sin(beyond)).sqrt()
        print(f"{name:6s} loss {losses[0]:.4f} -> {losses[-1]:.2e}  error beyond {error:.3f}")
        left.plot(beyond, found, label=name)
        right.semilogy(losses, label=name)
    left.set(title="Beyond the data", xlabel="x", ylabel="y", ylim=(-3.0, 3.0))
    right.set(title="Training", xlabel="step of Adam", ylabel="mean squared error")
    left.legend()
    right.legend()
    figure.savefig("learned_activation.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
