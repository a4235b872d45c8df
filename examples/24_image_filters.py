"""Image filters
=============

The median of a window, edges, and sharpening, each as one kernel over the pixels.

Sources: Huang, Yang, Tang, "A Fast Two-Dimensional Median Filtering Algorithm", 1979; Sobel's
operator as in Gonzalez, Woods, "Digital Image Processing", section 10.2.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import cbook

import kernelcore as kc

Image = kc.array2d[float]
vec9: Any = kc.types.vector(9, float)


class Window(vec9):
    """A pixel and its eight neighbours, row by row."""


@kc.func
def pixel(x: Image, i: int, j: int) -> float:
    """A pixel; beyond the border the nearest one."""
    return x[kc.clamp(i, 0, x.shape[0] - 1), kc.clamp(j, 0, x.shape[1] - 1)]


@kc.func
def window(x: Image, i: int, j: int) -> Window:
    """The pixels around (i, j), row by row."""
    found = Window()
    for k in range(9):
        found[k] = pixel(x, i + k // 3 - 1, j + k % 3 - 1)
    return found


@kc.op
@kc.kernel
def median(x: Image, y: Image):
    i, j = kc.tid()
    w = window(x, i, j)
    for last in range(8, 3, -1):  # Bubble up the largest ones until the middle is in its place.
        for k in range(last):
            w[k], w[k + 1] = kc.min(w[k], w[k + 1]), kc.max(w[k], w[k + 1])
    y[i, j] = w[4]


@kc.op
@kc.kernel
def edges(x: Image, y: Image):
    i, j = kc.tid()
    w = window(x, i, j)
    across = w[2] + 2.0 * w[5] + w[8] - w[0] - 2.0 * w[3] - w[6]
    down = w[6] + 2.0 * w[7] + w[8] - w[0] - 2.0 * w[1] - w[2]
    y[i, j] = kc.sqrt(across * across + down * down)


@kc.op
@kc.kernel
def sharpen(x: Image, amount: float, y: Image):
    i, j = kc.tid()
    w = window(x, i, j)
    blurred = (w[1] + w[3] + w[5] + w[7] + 4.0 * w[4]) / 8.0
    y[i, j] = kc.clamp(w[4] + amount * (w[4] - blurred), 0.0, 1.0)


def main(small: bool) -> None:
    file = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    grey = np.asarray(plt.imread(str(file)), np.float32).mean(2) / 255.0
    original = grey[::4, ::4].copy() if small else grey
    noisy = original.copy()
    dots = np.random.default_rng(0).random(original.shape)
    noisy[dots < 0.05], noisy[dots > 0.95] = 0.0, 1.0
    clean = median(noisy)
    errors = [float(np.abs(image - original).mean()) for image in (noisy, clean)]
    print(f"mean error {errors[0]:.4f}, after the median filter {errors[1]:.4f}")

    pictures = {
        "Noisy": noisy,
        "Median": clean,
        "Edges": edges(original),
        "Sharpened": sharpen(original, 3.0),
    }
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.8), constrained_layout=True)
    for axis, (name, image) in zip(axes, pictures.items(), strict=True):
        axis.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
        axis.set_title(name)
        axis.axis("off")
    figure.savefig("image_filters.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
