"""A fluid around a cylinder
=========================

The lattice Boltzmann method with nine velocities: one kernel streams, bounces and collides.

A loop of JAX runs the steps. Behind the cylinder the flow swings: Karman's vortex street.
Source: Krueger et al., "The Lattice Boltzmann Method", Springer 2017, chapters 3 and 5.
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import kernelcore as kc

Field = kc.array2d[float]
vec9: Any = kc.types.vector(9, float)


class Nine(vec9):
    """A value for each of the nine directions."""


# The velocities, their weights, and the place of the opposite one.
CX = Nine(0.0, 1.0, 0.0, -1.0, 0.0, 1.0, -1.0, -1.0, 1.0)
CY = Nine(0.0, 0.0, 1.0, 0.0, -1.0, 1.0, 1.0, -1.0, -1.0)
WEIGHT = Nine(4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4)
BACK = (0, 3, 4, 1, 2, 7, 8, 5, 6)


@kc.func
def equilibrium(k: int, rho: float, ux: float, uy: float) -> float:
    c = CX[k] * ux + CY[k] * uy
    return WEIGHT[k] * rho * (1.0 + 3.0 * c + 4.5 * c * c - 1.5 * (ux * ux + uy * uy))


@kc.op(outputs="new")
@kc.kernel
def step(f: kc.array2d[Nine], solid: Field, omega: float, inflow: float, new: kc.array2d[Nine]):
    i, j = kc.tid()
    h, w = f.shape[0], f.shape[1]
    values = Nine()
    rho = 0.0
    for k in kc.static(range(9)):  # unrolled
        row, column = (i - int(CY[k]) + h) % h, (j - int(CX[k]) + w) % w
        is_wall = solid[row, column] > 0.5
        values[k] = f[i, j][BACK[k]] if is_wall else f[row, column][k]
        rho += values[k]
    ux, uy = kc.dot(CX, values) / rho, kc.dot(CY, values) / rho
    if j == 0:
        rho, ux, uy = 1.0, inflow, 0.0
    for k in kc.static(range(9)):
        target = equilibrium(k, rho, ux, uy)
        values[k] = target if j == 0 else values[k] + omega * (target - values[k])
    new[i, j] = values


def main(small: bool) -> None:
    h, w, steps = (40, 100, 600) if small else (100, 300, 16000)
    rows, columns = np.mgrid[:h, :w]
    is_solid = (rows - h / 2 - 1) ** 2 + (columns - w / 5) ** 2 < (h / 9) ** 2
    solid, inflow = jnp.array(is_solid, jnp.float32), 0.1
    viscosity = inflow * (2 * h / 9) / 100.0  # a Reynolds number of 100
    omega = 1.0 / (3.0 * viscosity + 0.5)
    c = inflow * np.array([*CX])
    start = np.array([*WEIGHT]) * (1 + 3 * c + 4.5 * c**2 - 1.5 * inflow**2)
    uneven = 1.0 + 0.01 * np.sin(2.0 * np.pi * rows / h)  # else the flow stays symmetric
    f = jnp.array(uneven[:, :, None] * start, jnp.float32)
    run = jax.jit(
        lambda f: jax.lax.fori_loop(0, steps, lambda _, f: step(f, solid, omega, inflow), f)
    )
    f = np.asarray(run(f))
    rho = f.sum(-1)
    ux, uy = f @ np.array([*CX]) / rho, f @ np.array([*CY]) / rho
    curl = np.gradient(uy, axis=1) - np.gradient(ux, axis=0)
    print(f"{h} x {w} points, {steps} steps: fastest {np.hypot(ux, uy)[~is_solid].max():.3f}")

    figure, axes = plt.subplots(2, 1, figsize=(9, 6.4), constrained_layout=True)
    images = {
        "Speed": (np.hypot(ux, uy), "viridis", 0.0, 0.2),
        "Vorticity": (curl, "RdBu", -0.03, 0.03),
    }
    for axis, (name, (image, colours, low, high)) in zip(axes, images.items(), strict=True):
        axis.imshow(np.where(is_solid, np.nan, image), cmap=colours, vmin=low, vmax=high)
        axis.set_title(name)
        axis.axis("off")
    figure.savefig("lattice_boltzmann.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
