"""A lens by ray tracing
=====================

Rays are refracted at two spherical surfaces; gradients bend these until the rays meet in a point.

Source: Snell's law in vector form, Born, Wolf, "Principles of Optics", section 4.9.
"""

import sys

import matplotlib.pyplot as plt
import torch

import kernelcore as kc

GLASS = 1.5  # its refractive index
THICKNESS, SCREEN = 0.8, 8.0


@kc.func
def meet(start: kc.vec2, ray: kc.vec2, place: float, curvature: float) -> float:
    """The distance along ``ray`` to the surface through (place, 0), by Newton's method.

    The surface is ``x = place + curvature y**2 / (1 + sqrt(1 - curvature**2 y**2))``.
    """
    t = (place - start[0]) / ray[0]
    for _ in range(20):
        p = start + t * ray
        root = kc.sqrt(1.0 - curvature * curvature * p[1] * p[1])
        f = p[0] - place - curvature * p[1] * p[1] / (1.0 + root)
        if kc.abs(f) < 1e-6:
            break
        t -= f / (ray[0] - curvature * p[1] / root * ray[1])
    return t


@kc.func
def refract(ray: kc.vec2, y: float, curvature: float, ratio: float) -> kc.vec2:
    """The unit vector behind a surface, where the refractive index changes by ``ratio``."""
    slope = curvature * y / kc.sqrt(1.0 - curvature * curvature * y * y)
    normal = kc.normalize(kc.vec2(1.0, -slope))
    cosine = kc.dot(normal, ray)
    inside = kc.sqrt(1.0 - ratio * ratio * (1.0 - cosine * cosine))
    return ratio * ray + (inside - ratio * cosine) * normal


@kc.op
@kc.kernel
def trace(
    height: kc.array[float],
    front: float,
    back: float,
    landing: kc.array[float],
    path: kc.array[kc.vec4],
):
    """Where a ray that comes in parallel lands, and its places on both surfaces."""
    i = kc.tid()
    start, ray = kc.vec2(-1.0, height[i]), kc.vec2(1.0, 0.0)
    p = start + meet(start, ray, 0.0, front) * ray
    ray = refract(ray, p[1], front, 1.0 / GLASS)
    q = p + meet(p, ray, THICKNESS, back) * ray
    ray = refract(ray, q[1], back, GLASS)
    landing[i] = q[1] + (SCREEN - q[0]) / ray[0] * ray[1]
    path[i] = kc.vec4(p[0], p[1], q[0], q[1])


def main(small: bool) -> None:
    steps = 60 if small else 400
    height = torch.linspace(-1.2, 1.2, 25)
    curvatures = torch.tensor([0.02, -0.02], requires_grad=True)
    optimiser = torch.optim.Adam([curvatures], 5e-3)
    first = trace(height, *curvatures.detach())
    spots = []
    for _ in range(steps):
        optimiser.zero_grad()
        spot = trace(height, curvatures[0], curvatures[1]).landing.square().mean()
        spot.backward()
        optimiser.step()
        spots.append(spot.item() ** 0.5)
    last = trace(height, *curvatures.detach())
    front, back = curvatures.tolist()
    print(f"curvatures {front:.3f} and {back:.3f}: spot {spots[0]:.4f} -> {spots[-1]:.4f}")

    figure, axes = plt.subplots(1, 3, figsize=(15, 4), constrained_layout=True)
    for axis, result, title in ((axes[0], first, "Start"), (axes[1], last, f"After {steps} steps")):
        p = result.path
        for k in range(len(height)):
            xs = [-1.0, p[k, 0], p[k, 2], SCREEN]
            axis.plot(xs, [height[k], p[k, 1], p[k, 3], result.landing[k]], "C1", linewidth=0.7)
        axis.plot(p[:, 0], p[:, 1], "C0", p[:, 2], p[:, 3], "C0")
        axis.axvline(SCREEN, color="0.5")
        axis.set(title=title, ylim=(-1.6, 1.6))
    axes[2].semilogy(spots)
    axes[2].set(title="Radius of the spot", xlabel="step of Adam")
    figure.savefig("lens.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
