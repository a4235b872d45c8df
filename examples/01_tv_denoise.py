"""Total-variation denoising
=========================

A photograph is denoised by gradient descent. torch, JAX and NumPy differentiate the same kernel.

The energy of an image u, given the noisy image f, is the sum over all pixels of
``(u - f)**2 / 2 + WEIGHT * sqrt(ux**2 + uy**2 + EPS**2)`` with forward differences ux and uy.
Source: Rudin, Osher, Fatemi, "Nonlinear Total Variation Based Noise Removal Algorithms", 1992.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib import cbook
from tqdm import tqdm

import kernelcore as kc

WEIGHT, EPS = 0.09, 0.02
RATE, MOMENTUM = 0.025, 0.9
Image = kc.array2d[float]


@kc.kernel
def tv_energy(u: Image, f: Image, e: Image):
    i, j = kc.tid()  # The kernel runs once for every pixel.
    ux, uy = 0.0, 0.0
    if j + 1 < u.shape[1]:
        ux = u[i, j + 1] - u[i, j]
    if i + 1 < u.shape[0]:
        uy = u[i + 1, j] - u[i, j]
    d = u[i, j] - f[i, j]
    e[i, j] = 0.5 * d * d + WEIGHT * kc.sqrt(ux * ux + uy * uy + EPS * EPS)


energy = kc.op(tv_energy)  # e = energy(u, f), for arrays of torch, JAX and others


# Three ways to the energy of an image and its gradient.
@torch.compile(fullgraph=True)
def total(u: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    return energy(u, f).sum()


def with_torch(image: Any, noisy: Any) -> tuple[Any, Any]:
    u = torch.tensor(image, requires_grad=True)
    value = total(u, torch.from_numpy(noisy))
    return value.item(), torch.autograd.grad(value, u)[0].numpy()


@jax.jit
def with_jax(image: Any, noisy: Any) -> tuple[Any, Any]:
    return jax.value_and_grad(lambda u: energy(u, noisy).sum())(image)


def with_launch(image: Any, noisy: Any) -> tuple[Any, Any]:
    e, gradient, ones = np.zeros_like(image), np.zeros_like(image), np.ones_like(image)
    kc.launch(tv_energy, image.shape, [image, noisy], [e])
    # The adjoint takes cotangents of the outputs and adds to those of the inputs.
    kc.launch(tv_energy, image.shape, [image, noisy], [e], [gradient, None], [ones], adjoint=True)
    return e.sum(), gradient


def main(small: bool) -> None:
    file = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    original = np.asarray(plt.imread(str(file)), np.float32).mean(2) / 255.0
    noise = np.random.default_rng(0).normal(0.0, 0.1, original.shape)
    noisy = original + noise.astype(np.float32)
    figure, axes = plt.subplots(1, 4, figsize=(18, 6), constrained_layout=True)
    found, ways = [], {"torch": with_torch, "JAX": with_jax, "kc.launch": with_launch}
    for (name, way), style in zip(ways.items(), ("-", "--", ":"), strict=True):
        u, v, energies = noisy, np.zeros_like(noisy), []
        for _ in tqdm(range(4 if small else 150), desc=f"{name:9s}", unit="it"):
            value, gradient = way(u, noisy)
            v = MOMENTUM * v + gradient
            u = u - RATE * (gradient + MOMENTUM * v)
            energies.append(float(value))
        found.append(np.asarray(u))
        print(f"{name:9s} energy {energies[0]:.1f} -> {energies[-1]:.1f}")
        axes[3].semilogy(energies, style, linewidth=2.5, label=name)
    largest = max(np.abs(u - found[0]).max() for u in found)
    print(f"largest difference between the three: {largest:.1e} of full scale")

    pictures = {"noisy": noisy, "denoised": found[0], "original": original}
    for axis, (name, image) in zip(axes, pictures.items(), strict=False):
        axis.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
        axis.set(title=f"{name}, error {np.std(image - original):.3f}", xticks=[], yticks=[])
    axes[3].set(title="energy", xlabel="iteration")
    axes[3].legend()
    Path("output").mkdir(exist_ok=True)
    figure.savefig("output/tv_denoise.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
