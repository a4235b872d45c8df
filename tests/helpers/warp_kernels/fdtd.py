"""Maxwell's equations in the plane (Ex, Ey, Hz), with an absorbing layer."""

import numpy as np

import kernelcore as wp


@wp.func
def absorption(i: int, n: int, width: int):
    depth = wp.max(width - i, wp.max(i - (n - 1 - width), 0))
    s = float(depth) / float(width)
    return 0.4 * s * s


@wp.kernel
def update_h(
    ex: wp.array2d(dtype=float),
    ey: wp.array2d(dtype=float),
    hz: wp.array2d(dtype=float),
    c: float,
    width: int,
):
    i, j = wp.tid()
    nx = hz.shape[0]
    ny = hz.shape[1]
    damp = 1.0 - wp.max(absorption(i, nx, width), absorption(j, ny, width))
    if i < nx - 1 and j < ny - 1:
        curl = ex[i, j + 1] - ex[i, j] - ey[i + 1, j] + ey[i, j]
        hz[i, j] = damp * (hz[i, j] + c * curl)


@wp.kernel
def update_e(
    ex: wp.array2d(dtype=float),
    ey: wp.array2d(dtype=float),
    hz: wp.array2d(dtype=float),
    eps: wp.array2d(dtype=float),
    c: float,
):
    i, j = wp.tid()
    if i == 0 or j == 0:
        return
    ex[i, j] += c / eps[i, j] * (hz[i, j] - hz[i, j - 1])
    ey[i, j] -= c / eps[i, j] * (hz[i, j] - hz[i - 1, j])


@wp.kernel
def add_source(hz: wp.array2d(dtype=float), si: int, sj: int, t: float):
    wp.atomic_add(hz, si, sj, wp.exp(-(t - 3.0) * (t - 3.0)) * wp.sin(2.0 * t))


def fdtd_reference(shape, eps, c, width, source, times):
    ex, ey, hz = (np.zeros(shape) for _ in range(3))

    def layer(n):
        i = np.arange(n)
        depth = np.maximum(width - i, np.maximum(i - (n - 1 - width), 0))
        return 0.4 * (depth / width) ** 2

    damp = 1 - np.maximum(layer(shape[0])[:, None], layer(shape[1])[None])
    for t in times:
        curl = ex[:-1, 1:] - ex[:-1, :-1] - ey[1:, :-1] + ey[:-1, :-1]
        hz[:-1, :-1] = damp[:-1, :-1] * (hz[:-1, :-1] + c * curl)
        hz[source] += np.exp(-((t - 3) ** 2)) * np.sin(2 * t)
        ex[1:, 1:] += c / eps[1:, 1:] * (hz[1:, 1:] - hz[1:, :-1])
        ey[1:, 1:] -= c / eps[1:, 1:] * (hz[1:, 1:] - hz[:-1, 1:])
    return ex, ey, hz
