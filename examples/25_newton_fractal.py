"""Basins of Newton's method
=========================

To which root of a polynomial does Newton's method go? Each pixel is a start in the complex plane.

The loop of a pixel ends as soon as it has arrived. The derivative of the polynomial comes from
``kc.grad`` inside of the kernel.
Source: Peitgen, Richter, "The Beauty of Fractals", Springer 1986, chapter 6.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import kernelcore as kc


@kc.func
def real_part(x: kc.float64, y: kc.float64) -> kc.float64:
    """The real part of ``z**3 - 1`` at ``z = x + i y``."""
    return x * x * x - 3.0 * x * y * y - 1.0


@kc.func
def imaginary_part(x: kc.float64, y: kc.float64) -> kc.float64:
    return 3.0 * x * x * y - y * y * y


@kc.op(launch_dims=("height", "width"))
@kc.kernel
def arrive(
    height: int, width: int, size: kc.float64, root: kc.array2d[int], steps: kc.array2d[int]
):
    i, j = kc.tid()
    x = size * (kc.float64(j) / kc.float64(width) - 0.5)
    y = size * (kc.float64(i) / kc.float64(height) - 0.5) * kc.float64(height) / kc.float64(width)
    count = 0
    while count < 60:
        u, v = real_part(x, y), imaginary_part(x, y)
        if u * u + v * v < 1e-12:
            break
        a, b = kc.grad(real_part)(x, y)  # f' = a - i b, by Cauchy and Riemann
        norm = a * a + b * b
        x, y = x - (u * a - v * b) / norm, y - (v * a + u * b) / norm
        count += 1
    root[i, j] = 0 if x > 0.0 else (1 if y > 0.0 else 2)
    steps[i, j] = count


def main(small: bool) -> None:
    height, width = (150, 240) if small else (750, 1200)
    root, steps = arrive.numpy(height, width, 3.0)
    shares = [float(np.mean(root == k)) for k in range(3)]
    print(f"shares of the roots: {shares[0]:.3f}, {shares[1]:.3f}, {shares[2]:.3f}")

    colours = np.array([[0.95, 0.75, 0.3], [0.3, 0.55, 0.85], [0.75, 0.3, 0.45]])
    image = colours[root] * np.exp(-0.06 * steps)[:, :, None]
    figure, axis = plt.subplots(figsize=(9, 5.7), constrained_layout=True)
    axis.imshow(image, extent=(-1.5, 1.5, 0.94, -0.94))
    axis.set(xlabel="real part", ylabel="imaginary part")
    figure.savefig("newton_fractal.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
