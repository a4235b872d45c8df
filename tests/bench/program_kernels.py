"""The kernels of ``bench_programs``."""

# pyright: basic

import kernelcore as kc


@kc.kernel
def wave(u: kc.array2d[float], v: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    around = u[(i + 1) % n, j] + u[(i + n - 1) % n, j] + u[i, (j + 1) % m] + u[i, (j + m - 1) % m]
    y[i, j] = 2.0 * u[i, j] - v[i, j] + 0.1 * (around - 4.0 * u[i, j])


@kc.kernel
def wave_where(u: kc.array2d[float], v: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    below, above = kc.where(i + 1 < n, i + 1, 0), kc.where(i > 0, i - 1, n - 1)
    right, left = kc.where(j + 1 < m, j + 1, 0), kc.where(j > 0, j - 1, m - 1)
    around = u[below, j] + u[above, j] + u[i, right] + u[i, left]
    y[i, j] = 2.0 * u[i, j] - v[i, j] + 0.1 * (around - 4.0 * u[i, j])


@kc.kernel
def lorenz(s: kc.array1d[float], rate: float, y: kc.array1d[float]):
    y[0] = 10.0 * (s[1] - s[0]) * rate
    y[1] = (s[0] * (28.0 - s[2]) - s[1]) * rate
    y[2] = (s[0] * s[1] - 2.6666667 * s[2]) * rate


@kc.kernel
def little(x: kc.array1d[float], y: kc.array1d[float]):
    i = kc.tid()
    y[i] = x[i] * 0.99 + 0.01 * x[i] * x[i]


@kc.kernel
def layer(w: kc.array2d[float], x: kc.array1d[float], y: kc.array1d[float]):
    i = kc.tid()
    total = 0.0
    for j in range(x.shape[0]):
        total += w[i, j] * x[j]
    y[i] = kc.tanh(total)


@kc.kernel
def one_point(x: kc.array1d[float], a: float, y: kc.array1d[float]):
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * x[j]
    y[0] = kc.exp(-a * total)


@kc.kernel
def heat(u: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    around = u[kc.max(i - 1, 0), j] + u[kc.min(i + 1, n - 1), j]
    around += u[i, kc.max(j - 1, 0)] + u[i, kc.min(j + 1, m - 1)]
    y[i, j] = u[i, j] + 0.1 * (around - 4.0 * u[i, j])


@kc.kernel
def graph_attention(
    start: kc.array1d[kc.int32],
    column: kc.array1d[kc.int32],
    left: kc.array1d[float],
    right: kc.array1d[float],
    x: kc.array2d[float],
    y: kc.array2d[float],
):
    i = kc.tid()
    top = -1.0e30
    for e in range(start[i], start[i + 1]):
        score = left[i] + right[column[e]]
        top = kc.max(top, kc.where(score > 0.0, score, 0.2 * score))
    total = 0.0
    for e in range(start[i], start[i + 1]):
        score = left[i] + right[column[e]]
        total += kc.exp(kc.where(score > 0.0, score, 0.2 * score) - top)
    for j in range(x.shape[1]):
        found = 0.0
        for e in range(start[i], start[i + 1]):
            score = left[i] + right[column[e]]
            weight = kc.exp(kc.where(score > 0.0, score, 0.2 * score) - top)
            found += weight / total * x[column[e], j]
        y[i, j] = found
