"""Reaction and diffusion
======================

Two chemicals spread and react; spots grow and divide. A capture replays the steps as one graph.

Source: Pearson, "Complex Patterns in a Simple System", Science 1993, equations 1 and 2 (Gray and
Scott's model).
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation
from matplotlib.image import AxesImage

import kernelcore as kc

FEED, KILL, SPREAD_U, SPREAD_V = 0.0367, 0.0649, 0.16, 0.08


@kc.func
def spread(x: kc.array2d[float], i: int, j: int) -> float:
    """The discrete Laplacian on a torus."""
    h, w = x.shape[0], x.shape[1]
    rows = x[(i + 1) % h, j] + x[(i + h - 1) % h, j]
    return rows + x[i, (j + 1) % w] + x[i, (j + w - 1) % w] - 4.0 * x[i, j]


@kc.kernel
def react(
    u: kc.array2d[float], v: kc.array2d[float], new_u: kc.array2d[float], new_v: kc.array2d[float]
):
    i, j = kc.tid()
    reaction = u[i, j] * v[i, j] * v[i, j]
    new_u[i, j] = u[i, j] + SPREAD_U * spread(u, i, j) - reaction + FEED * (1.0 - u[i, j])
    new_v[i, j] = v[i, j] + SPREAD_V * spread(v, i, j) + reaction - (FEED + KILL) * v[i, j]


def simulate(size: int, frames: int, steps: int) -> list[np.ndarray]:
    """The second chemical at ``frames`` times, ``steps`` apart."""
    u, v = np.ones((size, size), np.float32), np.zeros((size, size), np.float32)
    rng = np.random.default_rng(0)
    for row, column in rng.integers(0, size - 8, (12, 2)):
        u[row : row + 8, column : column + 8] = 0.5
        v[row : row + 8, column : column + 8] = 0.25
    state = [kc.array(x, dtype=float) for x in (u, v, u, v)]
    with kc.ScopedCapture() as capture:
        for _ in range(steps // 2):
            kc.launch(react, u.shape, state[:2], state[2:])
            kc.launch(react, u.shape, state[2:], state[:2])
    found = []
    for _ in range(frames):
        found.append(state[1].numpy().copy())
        kc.capture_launch(capture.graph)
    return found


def main(small: bool) -> FuncAnimation:
    size, frames, steps = (96, 12, 200) if small else (256, 20, 800)
    found = simulate(size, frames, steps)
    print(f"{size} x {size} points, {frames * steps} steps: mean {found[-1].mean():.4f}")

    figure, axis = plt.subplots(figsize=(3.6, 3.6), constrained_layout=True)
    image = axis.imshow(found[-1], cmap="magma", vmin=0.0, vmax=0.4)
    axis.axis("off")
    figure.savefig("reaction_diffusion.png", dpi=80)

    def draw(frame: int) -> list[AxesImage]:
        image.set_data(found[frame])
        axis.set_title(f"step {frame * steps}")
        return [image]

    return FuncAnimation(figure, draw, frames=frames, interval=120)


if __name__ == "__main__":
    animation = main(small="--small" in sys.argv)
    animation.to_jshtml()  # or animation.save("reaction_diffusion.gif")
