"""Cloth
=====

A hanging cloth of masses and springs: how must it be thrown to reach a place?

One operator makes a step of symplectic Euler. A scan of JAX calls it, whose gradients find the
throw; a loop of torch gives the same path and the same gradient.
Source: Provot, "Deformation Constraints in a Mass-Spring Model to Describe Rigid Cloth Behavior",
Graphics Interface 1995, equations 1 to 4.
"""

import sys
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
    is_nailed = i == 0 and (j == 0 or j == n - 1)
    moved = kc.vec3() if is_nailed else v[i, j] + dt * force
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
    """The same in JAX, where the loop is compiled too."""
    start = x, jnp.broadcast_to(throw, x.shape)
    return jax.lax.scan(lambda s, _: (tuple(step(*s, *STEP)), None), start, length=steps)[0][0]


def miss(x: Any) -> Any:
    """The squared distance of the middle of the lower edge to the target."""
    return sum((x[-1, x.shape[1] // 2, k] - TARGET[k]) ** 2 for k in range(3))


def main(small: bool) -> None:
    n, steps, rounds = (8, 50, 4) if small else (20, 300, 16)
    rate = 0.3 / (steps * STEP[2]) ** 2
    x = at_rest(n)
    slope = jax.jit(jax.value_and_grad(lambda throw: miss(in_jax(jnp.asarray(x), throw, steps))))
    throw, missed = jnp.zeros(3), []
    for _ in range(rounds):
        loss, gradient = slope(throw)
        missed.append(float(loss) ** 0.5)
        throw = throw - rate * gradient
    print(f"missed by {missed[0]:.4f} -> {missed[-1]:.4f} m with {throw.round(4)} m/s")
    given = torch.tensor(np.asarray(throw), requires_grad=True)
    (same,) = torch.autograd.grad(miss(in_torch(torch.from_numpy(x), given, steps)), given)
    print(f"gradient {slope(throw)[1].round(5)}, in torch {same.numpy().round(5)}")

    figure = plt.figure(figsize=(12, 5), constrained_layout=True)
    cloth: Any = figure.add_subplot(121, projection="3d")
    for part, colour in ((0, "0.6"), (steps // 2, "C0"), (steps, "C1")):
        at = in_torch(torch.from_numpy(x), given.detach(), part).permute(2, 0, 1).numpy()
        cloth.plot_wireframe(*at, color=colour, linewidth=0.8)
    cloth.scatter(*TARGET, color="red", s=60)
    cloth.set(title="Start, half way, end, and the target", xlabel="x / m", ylabel="y / m")
    figure.add_subplot(122, title="Missed by / m", xlabel="throw").semilogy(missed)
    figure.savefig("cloth.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
