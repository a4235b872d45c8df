"""Total-variation denoising
=========================

Total-variation denoising of a photograph: one kernel, differentiated, run in three ways.

The energy of an image u, given the noisy image f, is (Rudin, Osher, Fatemi 1992, with the total
variation smoothed by eps)

    E(u) = sum 1/2 (u - f)^2 + weight * sum sqrt(ux^2 + uy^2 + eps^2)

with forward differences ux, uy that are zero at the far borders. It is minimised by gradient
descent with Nesterov's momentum; the gradient is the generated adjoint of the kernel.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib import cbook
from tqdm import tqdm

import kernelcore as kc
from jax_ffi import jax_kernel
from torch_ext import torch_op

WEIGHT, EPS = 0.09, 0.02
RATE, MOMENTUM = 0.025, 0.9
NOISE = 0.1


@kc.kernel
def tv_energy(
    u: kc.array2d[float], f: kc.array2d[float], weight: float, eps: float, e: kc.array2d[float]
):
    i, j = kc.tid()
    ux = 0.0
    uy = 0.0
    if j + 1 < u.shape[1]:
        ux = u[i, j + 1] - u[i, j]
    if i + 1 < u.shape[0]:
        uy = u[i + 1, j] - u[i, j]
    d = u[i, j] - f[i, j]
    e[i, j] = 0.5 * d * d + weight * kc.sqrt(ux * ux + uy * uy + eps * eps)


@dataclass
class Run:
    """What one way gave: the image, the energy per iteration, and the time of an iteration."""

    name: str
    image: np.ndarray
    energies: list[float]
    ms_per_iteration: float


Step = Callable[[], float]


def run(name: str, step: Step, image: Callable[[], np.ndarray], iterations: int) -> Run:
    """Do ``iterations`` steps; the first, which compiles, is not timed."""
    energies: list[float] = []
    start = time.perf_counter()
    for i in tqdm(range(iterations), desc=f"{name:28s}", unit="it"):
        energies.append(step())
        if i == 0:
            start = time.perf_counter()
    elapsed = time.perf_counter() - start
    return Run(name, image(), energies, 1e3 * elapsed / max(iterations - 1, 1))


def with_torch(noisy: np.ndarray, iterations: int) -> Run:
    """torch.compile(fullgraph=True) and a torch optimiser."""
    energy = torch_op(tv_energy)
    f = torch.from_numpy(noisy)
    u = torch.nn.Parameter(f.clone())
    optimizer = torch.optim.SGD([u], lr=RATE, momentum=MOMENTUM, nesterov=True)
    loss = torch.compile(lambda u: energy(u, f, WEIGHT, EPS).sum(), fullgraph=True)

    def step() -> float:
        optimizer.zero_grad()
        value = loss(u)
        value.backward()
        optimizer.step()
        return value.item()

    return run("torch.compile", step, lambda: u.detach().numpy(), iterations)


def with_jax(noisy: np.ndarray, iterations: int) -> Run:
    """jax.jit(jax.value_and_grad(...)) with the update inside."""
    energy = jax_kernel(tv_energy)
    f = jnp.asarray(noisy)

    @jax.jit
    def update(u: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        value, g = jax.value_and_grad(lambda u: jnp.sum(energy(u, f, WEIGHT, EPS)[0]))(u)
        v = MOMENTUM * v + g
        return u - RATE * (g + MOMENTUM * v), v, value

    state = [f, jnp.zeros_like(f)]

    def step() -> float:
        *state[:2], value = update(*state)
        return float(value)

    return run("jax.jit(jax.grad)", step, lambda: np.asarray(state[0]), iterations)


def with_launch(noisy: np.ndarray, iterations: int) -> Run:
    """launch of the kernel and of its adjoint, over NumPy arrays."""
    u, v, g, e = noisy.copy(), np.zeros_like(noisy), np.zeros_like(noisy), np.zeros_like(noisy)
    ones = np.ones_like(noisy)
    inputs = [u, noisy, WEIGHT, EPS]

    def step() -> float:
        kc.launch(tv_energy, u.shape, inputs, [e])
        g.fill(0.0)
        adj_inputs = [g, None, None, None]
        kc.launch(tv_energy, u.shape, inputs, [e], adj_inputs, [ones], adjoint=True)
        np.multiply(v, np.float32(MOMENTUM), out=v)
        np.add(v, g, out=v)
        np.subtract(u, np.float32(RATE) * (g + np.float32(MOMENTUM) * v), out=u)
        return float(e.sum())

    return run("launch, primal and adjoint", step, lambda: u, iterations)


def photograph() -> np.ndarray:
    """The portrait that matplotlib ships, in grey, float32 in [0, 1]."""
    file = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    colour = np.asarray(plt.imread(str(file)), np.float32) / 255.0
    return np.ascontiguousarray(colour @ np.array([0.299, 0.587, 0.114], np.float32))


def psnr(image: np.ndarray, original: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB for a full scale of 1."""
    return float(-10.0 * np.log10(np.mean((image.astype(np.float64) - original) ** 2)))


def draw(path: Path, noisy: np.ndarray, original: np.ndarray, runs: list[Run]) -> None:
    """Write the images side by side and the energy curve to ``path``."""
    figure, axes = plt.subplots(1, 4, figsize=(18, 6), constrained_layout=True)
    denoised = runs[0].image
    titles = [
        (noisy, f"noisy, {psnr(noisy, original):.1f} dB"),
        (denoised, f"denoised, {psnr(denoised, original):.1f} dB"),
        (original, "original"),
    ]
    for axis, (image, title) in zip(axes, titles, strict=False):
        axis.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
        axis.set_title(title)
        axis.axis("off")
    for r, style in zip(runs, ("-", "--", ":"), strict=True):
        axes[3].semilogy(r.energies, style, linewidth=2.5, label=r.name)
    axes[3].set(title="energy", xlabel="iteration")
    axes[3].grid(alpha=0.3)
    axes[3].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Total-variation denoising in three ways.")
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--output", type=Path, default=Path("output/tv_denoise.png"))
    args = parser.parse_args()
    mpl.use("Agg")
    original = photograph()
    noise = np.random.default_rng(0).normal(0.0, NOISE, original.shape)
    noisy = (original + noise).astype(np.float32)
    runs = [way(noisy, args.iterations) for way in (with_torch, with_jax, with_launch)]
    print(f"photograph {original.shape[1]} x {original.shape[0]}, noise {NOISE}")
    for r in runs:
        print(
            f"{r.name:28s} {args.iterations} iterations  PSNR {psnr(noisy, original):.2f} -> "
            f"{psnr(r.image, original):.2f} dB  {r.ms_per_iteration:.2f} ms/iteration"
        )
    largest = max(float(np.abs(a.image - b.image).max()) for a in runs for b in runs)
    print(f"largest difference between the three: {largest:.1e} of full scale")
    draw(args.output, noisy, original, runs)
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
