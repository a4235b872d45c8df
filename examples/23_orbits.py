"""Orbits by a Tape
================

Planets pull on each other. Which start brings one of them to a place at a time?

All steps run over kernelcore's arrays, without a framework: each writes arrays of its own, a Tape
differentiates them, and kernelcore's Adam changes the start.
Source: the leapfrog scheme, Hairer, Lubich, Wanner, "Geometric Numerical Integration", chapter I.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import kernelcore as kc
from kernelcore.optim import Adam

DT, SOFT = 0.01, 0.02


Points = kc.array[kc.vec2]


@kc.kernel
def leap(x: Points, v: Points, mass: kc.array[float], new_x: Points, new_v: Points):
    i = kc.tid()
    pull = kc.vec2()
    for k in range(x.shape[0]):
        d = x[k] - x[i]
        r = kc.length_sq(d) + SOFT * SOFT
        pull += mass[k] / (r * kc.sqrt(r)) * d
    speed = v[i] + DT * pull
    new_v[i] = speed
    new_x[i] = x[i] + DT * speed


@kc.kernel
def aim(v: Points, start: Points, new_v: Points):
    i = kc.tid()
    new_v[i] = start[0] if i == 2 else v[i]


@kc.kernel
def miss(x: Points, target: kc.vec2, loss: kc.array[float]):
    loss[0] = kc.length_sq(x[2] - target)


def main(small: bool) -> None:
    steps, iterations = (150, 40) if small else (400, 200)
    mass = kc.array([1.0, 0.05, 0.0], dtype=float)
    places = kc.array([[0.0, 0.0], [0.7, 0.0], [-1.0, 0.0]], dtype=kc.vec2)
    speeds = kc.array([[0.0, -0.06], [0.0, 1.2], [0.0, 0.0]], dtype=kc.vec2)
    start = kc.array([[0.0, -0.9]], dtype=kc.vec2, requires_grad=True)
    target = kc.vec2(0.9, 0.9)
    optimiser = Adam([start], lr=0.02)
    losses, paths = [], []
    for _ in range(iterations):
        x = [kc.zeros_like(places, requires_grad=True) for _ in range(steps + 1)]
        v = [kc.zeros_like(speeds, requires_grad=True) for _ in range(steps + 1)]
        loss = kc.zeros(1, dtype=float, requires_grad=True)
        with kc.Tape() as tape:
            x[0].assign(places)
            kc.launch(aim, 3, [speeds, start], [v[0]])
            for t in range(steps):
                kc.launch(leap, 3, [x[t], v[t], mass], [x[t + 1], v[t + 1]])
            kc.launch(miss, 1, [x[-1], target], [loss])
        tape.backward(loss)
        optimiser.step([start.grad])
        tape.zero()
        losses.append(float(loss.numpy()[0]))
        paths.append(np.array([a.numpy() for a in x]))
    print(f"distance {losses[0] ** 0.5:.4f} -> {losses[-1] ** 0.5:.4f}")

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.4), constrained_layout=True)
    for axis, path, title in (
        (axes[0], paths[0], "First throw"),
        (axes[1], paths[-1], "Last throw"),
    ):
        for body in range(3):
            axis.plot(*path[:, body].T, "-", color=f"C{body}")
            axis.plot(*path[-1, body], "o", color=f"C{body}")
        axis.plot(*target, "kx")
        axis.set(title=title, aspect="equal")
    axes[2].semilogy(losses)
    axes[2].set(title="Squared distance", xlabel="step of Adam")
    figure.savefig("orbits.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
