"""Cloth
=====

A hanging cloth of masses and springs: how must it be thrown to reach a place?

One operator makes a step of symplectic Euler. A loop of torch and a scan of JAX call it; both give
the same path, and the same gradients, which find the throw.
Source: Provot, "Deformation Constraints in a Mass-Spring Model to Describe Rigid Cloth Behavior",
Graphics Interface 1995, equations 1 to 4.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import torch

import kernelcore as kc

Nodes = kc.array2d[kc.vec3]
STEP = (100.0, 1.0, 1e-3)  # N/m and 1/s for a cloth of 1 kg, seconds
TARGET = (0.4, 0.7, -0.6)


@kc.op
@kc.kernel
def step(x: Nodes, v: Nodes, stiffness: float, drag: float, dt: float, x1: Nodes, v1: Nodes):
    i, j = kc.tid()
    n = x.shape[0]
    pull = kc.vec3()
    for di in range(-1, 2):
        for dj in range(-1, 2):
            k, m = i + di, j + dj
            if (di != 0 or dj != 0) and k >= 0 and k < n and m >= 0 and m < n:
                d = x[k, m] - x[i, j]
                length = kc.sqrt(float(di * di + dj * dj)) / float(n - 1)
                pull += (1.0 - length / kc.length(d)) * d
    force = stiffness * float(n * n) * pull - drag * v[i, j] + kc.vec3(0.0, 0.0, -9.81)
    moved = v[i, j] + dt * force
    if i == 0 and (j == 0 or j == n - 1):  # Two corners hang on nails.
        moved = kc.vec3()
    v1[i, j] = moved
    x1[i, j] = x[i, j] + dt * moved


def at_rest(n: int) -> np.ndarray:
    """A square cloth (n, n, 3) in metres."""
    across, down = np.meshgrid(np.linspace(0.0, 1.0, n), np.linspace(0.0, -1.0, n))
    return np.stack([across, np.zeros((n, n)), down], -1).astype(np.float32)


def in_torch(x: torch.Tensor, throw: torch.Tensor, steps: int) -> torch.Tensor:
    """Where the cloth ``x`` is after ``steps``, if it starts with the velocity ``throw`` (3,)."""
    v = throw.expand_as(x)
    for _ in range(steps):
        x, v = step(x, v, *STEP)
    return x


def in_jax(x: jax.Array, throw: jax.Array, steps: int) -> jax.Array:
    """The same in JAX."""

    def body(state: Any, _: None) -> Any:
        return tuple(step(*state, *STEP)), None

    return jax.lax.scan(body, (x, jnp.broadcast_to(throw, x.shape)), length=steps)[0][0]


def miss(x: Any, target: Any) -> Any:
    """The squared distance of the middle of the lower edge to ``target``."""
    d = x[-1, x.shape[1] // 2] - target
    return (d * d).sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chart", nargs="?", default="cloth.png")
    parser.add_argument("--small", action="store_true", help="for a few seconds")
    options = parser.parse_args()
    n, steps, rounds = (8, 50, 4) if options.small else (20, 300, 16)
    rate = 0.3 / (steps * STEP[2]) ** 2
    x = torch.from_numpy(at_rest(n))

    def with_torch(throw: Any) -> Any:
        given = torch.tensor(throw, requires_grad=True)
        loss = miss(in_torch(x, given, steps), torch.tensor(TARGET))
        return loss.item(), torch.autograd.grad(loss, given)[0]

    def loss_in_jax(throw: Any) -> Any:
        return miss(in_jax(jnp.asarray(at_rest(n)), throw, steps), jnp.array(TARGET))

    figure = plt.figure(figsize=(12, 5), constrained_layout=True)
    curve = figure.add_subplot(1, 2, 2)
    throw: Any = None
    ways = (("torch", with_torch, "-"), ("JAX", jax.jit(jax.value_and_grad(loss_in_jax)), "--"))
    for name, slope, style in ways:
        throw = np.zeros(3, np.float32)
        missed: list[float] = []
        for _ in range(rounds):
            loss, gradient = slope(throw)
            throw = throw - rate * np.asarray(gradient)
            missed.append(float(loss) ** 0.5)
        print(
            f"{name:5s} missed by {missed[0]:.4f} -> {missed[-1]:.4f} m with {throw.round(4)} m/s"
        )
        curve.semilogy(missed, style, linewidth=2.5, label=name)
    curve.set(title="Gradient descent", xlabel="throw", ylabel="distance to the target / m")
    curve.legend()
    cloth: Any = figure.add_subplot(1, 2, 1, projection="3d")
    for part, colour in ((0, "0.6"), (steps // 2, "C0"), (steps, "C1")):
        at = in_torch(x, torch.from_numpy(throw), part).permute(2, 0, 1).numpy()
        label = f"after {part * STEP[2]:.2f} s"
        cloth.plot_wireframe(*at, color=colour, linewidth=0.8, label=label)
    cloth.scatter(*TARGET, color="red", s=60, label="target")
    cloth.set(title="The cloth", xlabel="x / m", ylabel="y / m", zlabel="z / m")
    cloth.legend()
    figure.savefig(options.chart, dpi=80)


if __name__ == "__main__":
    main()
