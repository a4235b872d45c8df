"""Gaussian splats
===============

A picture as a sum of 2-D Gaussian splats, fitted by gradients through the renderer.

A pixel looks through the splats in turn: each adds its colour times its opacity there times what
the ones before let through. Pixels stop where next to nothing is left.
Source: Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering", 2023,
equation 3, in two dimensions; ``spread`` is the inverse of the root of the covariance.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib import cbook

import kernelcore as kc


@kc.struct
class Splat:
    centre: kc.vec2
    spread: kc.mat22
    colour: kc.vec3
    opacity: float  # Its logit


@kc.op(launch_dims=("height", "width"))
@kc.kernel
def render(splats: kc.array[Splat], height: int, width: int, image: kc.array2d[kc.vec3]):
    i, j = kc.tid()
    place = kc.vec2((float(j) + 0.5) / float(width), (float(i) + 0.5) / float(height))
    left = 1.0
    colour = kc.vec3()
    for k in range(len(splats)):
        s = splats[k]
        d = s.spread @ (place - s.centre)
        alpha = kc.exp(-0.5 * kc.dot(d, d)) / (1.0 + kc.exp(-s.opacity))
        colour += left * alpha * s.colour
        left *= 1.0 - alpha
        if left < 1e-3:
            break
    image[i, j] = colour


def start(count: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Splats at random places, small and grey."""
    rng = np.random.default_rng(seed)
    size = 1.5 * count**0.5
    fields = {
        "centre": rng.uniform(size=(count, 2)),
        "spread": size * (np.eye(2) + rng.normal(0.0, 0.1, (count, 2, 2))),
        "colour": rng.uniform(0.3, 0.7, (count, 3)),
        "opacity": np.zeros(count),
    }
    return {n: torch.tensor(f, dtype=torch.float32) for n, f in fields.items()}


def photograph(size: int) -> torch.Tensor:
    """The portrait that matplotlib ships, (size, size, 3) in [0, 1]."""
    file = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    whole = torch.tensor(plt.imread(str(file)) / 255.0, dtype=torch.float32)[20:500, 16:496]
    rows = whole.permute(2, 0, 1)[None]
    small = torch.nn.functional.interpolate(rows, size=(size, size), mode="area")
    return small[0].permute(1, 2, 0)


def main(small: bool) -> None:
    count, size, steps = (24, 24, 20) if small else (300, 80, 250)
    target = photograph(size)
    splats = {n: f.requires_grad_() for n, f in start(count).items()}
    rates = {"centre": 3e-3, "spread": 0.5, "colour": 2e-2, "opacity": 5e-2}
    optimiser = torch.optim.Adam([{"params": [f], "lr": rates[n]} for n, f in splats.items()])
    losses: list[float] = []
    first = render(splats, size, size).detach()
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (render(splats, size, size) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    print(f"{count} splats, {size} x {size} pixels: error {losses[0]:.5f} -> {losses[-1]:.5f}")

    fine = render(splats, 4 * size, 4 * size).detach()
    figure, axes = plt.subplots(1, 4, figsize=(16, 4.2), constrained_layout=True)
    titles = ("Photograph", "Start", f"After {steps} steps of Adam, four times as fine")
    for axis, image, title in zip(axes, (target, first, fine), titles, strict=False):
        axis.imshow(image.clamp(0.0, 1.0))
        axis.set_title(title)
        axis.axis("off")
    axes[3].semilogy(losses)
    axes[3].set(title="Mean squared error", xlabel="step of Adam", ylabel="error")
    figure.savefig("splats.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
