"""The bilateral filter
====================

The bilateral filter: it smooths a picture and keeps its edges.

A pixel becomes the mean of its surroundings, weighted by a Gaussian of the distance and one of the
difference in brightness.
Source: Tomasi, Manduchi, "Bilateral Filtering for Gray and Color Images", ICCV 1998, equation 5.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook

import kernelcore as kc


@kc.op
@kc.kernel
def bilateral(
    x: kc.array2d[float], sigma_space: float, sigma_value: float, radius: int, y: kc.array2d[float]
):
    i, j = kc.tid()
    total, weights = 0.0, 0.0
    for k in range(kc.max(i - radius, 0), kc.min(i + radius + 1, x.shape[0])):
        for m in range(kc.max(j - radius, 0), kc.min(j + radius + 1, x.shape[1])):
            far = float((k - i) * (k - i) + (m - j) * (m - j)) / (sigma_space * sigma_space)
            d = (x[k, m] - x[i, j]) / sigma_value
            weight = kc.exp(-0.5 * (far + d * d))
            total += weight * x[k, m]
            weights += weight
    y[i, j] = total / weights


def photograph() -> np.ndarray:
    """The portrait that matplotlib ships, in grey, float32 in [0, 1]."""
    file = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    colour = np.asarray(plt.imread(str(file)), np.float32) / 255.0
    return colour @ np.array([0.299, 0.587, 0.114], np.float32)


def psnr(image: np.ndarray, original: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB for a full scale of 1."""
    return float(-10.0 * np.log10(np.mean((image - original) ** 2)))


def main(small: bool) -> None:
    original = photograph()[::8, ::8] if small else photograph()
    noise = np.random.default_rng(0).normal(0.0, 0.08, original.shape)
    noisy = (original + noise).astype(np.float32)
    filtered = bilateral(noisy, 2.0, 0.25, 5)
    blurred = bilateral(noisy, 2.0, 1e3, 5)  # Any difference is small: a Gaussian filter.
    runs = {"Noisy": noisy, "Gaussian filter": blurred, "Bilateral filter": filtered}

    figure, axes = plt.subplots(1, 4, figsize=(17, 5.4), constrained_layout=True)
    for axis, (name, image) in zip(axes, runs.items(), strict=False):
        print(f"{name:16s} {psnr(image, original):.2f} dB")
        axis.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
        axis.set_title(f"{name}, {psnr(image, original):.1f} dB")
        axis.axis("off")
    row = len(original) // 3
    axes[3].plot(original[row], color="0.6", linewidth=3, label="original")
    for name in ("Gaussian filter", "Bilateral filter"):
        axes[3].plot(runs[name][row], label=name)
    axes[3].set(title=f"Row {row}", xlabel="column", ylabel="brightness")
    axes[3].legend()
    figure.savefig("bilateral_filter.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
