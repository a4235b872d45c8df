"""Patterns of arrays as state: integers that control, rows that are rewritten, partial results."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, F64_2D, I32, pattern, rows, tensors, vectors

I32_2D = kc.array2d(dtype=kc.int32)
F64_3D = kc.array3d(dtype=kc.float64)


def queued(x: np.ndarray, queue: np.ndarray, size: int) -> tuple[np.ndarray, int, float]:
    queue, s, head = np.array(queue), 1.0, 0
    while head < size:
        k = queue[head]
        head += 1
        s = s * x[k] + np.sin(s)
        if k > 0 and size < len(queue):
            queue[size] = k - 1
            size += 1
    return queue, size, s


@pattern(
    lambda rng: [
        rng.uniform(0.5, 1.2, 4),
        np.array([[3, 0, 0, 0, 0, 0], [1, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]], np.int32),
        np.array([1, 2, 1], np.int32),
    ],
    lambda x, queue, size: rows(lambda q, n: queued(x, q, n), 2)(queue, size),
    launch_dims="size",
)
@kc.kernel
def queue_in_an_integer_array(x: F64, queue: I32_2D, size: I32, y: F64):
    i = kc.tid()
    s = kc.float64(1.0)
    head = 0
    while head < size[i]:
        k = queue[i, head]
        head += 1
        s = s * x[k] + kc.sin(s)
        if k > 0 and size[i] < queue.shape[1]:
            queue[i, size[i]] = k - 1
            size[i] += 1
    y[i] = s


def grown(h: float, x: float, t: float) -> tuple[float, float]:
    n = 0
    while h < 5.0 and n < 9:
        h = h * (1.0 + x) + 0.1 * np.sin(t)
        t = t * h if t < 2.0 else t - 0.5 * h
        n += 1
    return h, t


@pattern(vectors(5, 5, 5, high=1.0), rows(grown, 3))
@kc.kernel
def elements_as_loop_state(h: F64, x: F64, t: F64):
    i = kc.tid()
    n = 0
    while h[i] < 5.0 and n < 9:
        h[i] = h[i] * (1.0 + x[i]) + 0.1 * kc.sin(t[i])
        if t[i] < 2.0:
            t[i] *= h[i]
        else:
            t[i] -= 0.5 * h[i]
        n += 1


def mixed_row(h: np.ndarray, x: float, index: np.ndarray) -> np.ndarray:
    for a, b in zip(index, index[::-1], strict=True):
        h[a] = h[a] * h[b] + x
        h[b] += np.sin(h[a]) * h[index[0]]
    return h


@pattern(
    lambda rng: [
        rng.uniform(0.2, 0.6, (3, 4)),
        rng.uniform(0.2, 0.6, 3),
        np.array([2, 0, 2, 3, 1, 2], np.int32),
    ],
    rows(mixed_row, 2),
    launch_dims="x",
)
@kc.kernel
def gather_and_scatter_in_a_row(h: F64_2D, x: F64, index: I32):
    i = kc.tid()
    last = len(index) - 1
    for j in range(len(index)):
        a = index[j]
        b = index[last - j]
        h[i, a] = h[i, a] * h[i, b] + x[i]
        h[i, b] += kc.sin(h[i, a]) * h[i, index[0]]


def between(o: float, x: float) -> tuple[float, float]:
    o += x * x
    a = o * x
    o += np.sin(a) * o
    b = o * o
    o -= b * a
    return o, a * b + o


@pattern(vectors(4, 4), rows(between, 2))
@kc.kernel
def reads_between_accumulations(o: F64, x: F64, y: F64):
    i = kc.tid()
    o[i] += x[i] * x[i]
    a = o[i] * x[i]
    o[i] += kc.sin(a) * o[i]
    b = o[i] * o[i]
    kc.atomic_sub(o, i, b * a)
    y[i] = a * b + o[i]


def partial(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y, z = np.zeros((len(x), 3)), np.zeros(len(x))
    for i, v in enumerate(x):
        if v > 1.2:
            y[i, 1] = v * v
        elif v > 0.8:
            y[i, 0] = np.sin(v)
            z[i] = v
            y[i, 0] = v**3
        for k in range(3):
            if k == i % 3:
                continue
            y[i, 2] = v * k
    return y, z


@pattern(vectors(6), partial, output_dims={"y": ("x.shape[0]", 3), "z": "x"})
@kc.kernel
def stores_in_some_branches(x: F64, y: F64_2D, z: F64):
    i = kc.tid()
    v = x[i]
    if v > 1.2:
        y[i, 1] = v * v
    elif v > 0.8:
        y[i, 0] = kc.sin(v)
        z[i] = v
        y[i, 0] = v * v * v
    for k in range(3):
        if k == i % 3:
            continue
        y[i, 2] = v * kc.float64(k)


def permuted(x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y, z = np.zeros_like(x), np.zeros_like(x)
    y[p] = x * np.sin(x)
    z[::-1] = x * x[p]
    return y, z


@pattern(
    lambda rng: [rng.uniform(0, 1, 4), np.array([2, 0, 3, 1], np.int64)], permuted, output_dims="x"
)
@kc.kernel
def stores_in_another_order(x: F64, p: kc.array(dtype=kc.int64), y: F64, z: F64):
    i = kc.tid()
    y[p[i]] = x[i] * kc.sin(x[i])
    z[len(x) - 1 - i] = x[i] * x[p[i]]


def extremes(m: np.ndarray) -> tuple[float, float]:
    k = int(np.argmin(m))
    return m[k] ** 2 * m[(k + 1) % len(m)], float(np.max(m) * np.sum(np.exp(m - np.max(m))))


@pattern(tensors((4, 5)), rows(extremes), launch_dims=("m.shape[0]",))
@kc.kernel
def smallest_and_largest_of_a_row(m: F64_2D, y: F64, z: F64):
    i = kc.tid()
    n = m.shape[1]
    best = 0
    high = m[i, 0]
    for k in range(n):
        if m[i, k] < m[i, best]:
            best = k
        high = kc.max(high, m[i, k])
    y[i] = m[i, best] * m[i, best] * m[i, (best + 1) % n]
    s = kc.float64(0.0)
    for k in range(n):
        s += kc.exp(m[i, k] - high)
    z[i] = high * s


def walk(x: float, seed: int) -> float:
    state, v = int(seed), x
    for _ in range(6):
        state = (state * 1664525 + 1013904223) % 2**32
        noise = (state >> 8) / 2.0**24
        if noise < 0.2:
            continue
        v = v * (0.5 + noise) if state & 1024 else np.sin(v + noise * x)
    return v


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 5), rng.integers(0, 2**31, 5).astype(np.uint32)],
    rows(walk, 2),
)
@kc.kernel
def random_numbers_by_integer_arithmetic(x: F64, seed: kc.array(dtype=kc.uint32), y: F64):
    i = kc.tid()
    state = seed[i]
    v = x[i]
    for _ in range(6):
        state = state * kc.uint32(1664525) + kc.uint32(1013904223)
        noise = kc.float64(state >> kc.uint32(8)) / 16777216.0
        if noise < 0.2:
            continue
        if (state & kc.uint32(1024)) != kc.uint32(0):
            v = v * (0.5 + noise)
        else:
            v = kc.sin(v + noise * x[i])
    y[i] = v


def cholesky(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s = a @ a.T + np.eye(len(a))
    lower = np.linalg.cholesky(s)
    return np.linalg.solve(lower, b), lower * lower


@pattern(tensors((2, 2, 2), (2, 2)), rows(cholesky, 2), launch_dims="b")
@kc.kernel
def factorization_of_a_local_matrix(
    a: kc.array(dtype=kc.mat22d),
    b: kc.array(dtype=kc.vec2d),
    x: kc.array(dtype=kc.vec2d),
    m: kc.array(dtype=kc.mat22d),
):
    i = kc.tid()
    n = b.shape[0]
    s = a[i] * kc.transpose(a[i]) + kc.identity(2, dtype=kc.float64)
    for c in range(n):
        for k in range(c):
            s[c, c] -= s[c, k] * s[c, k]
        s[c, c] = kc.sqrt(s[c, c])
        for r in range(c + 1, n):
            for k in range(c):
                s[r, c] -= s[r, k] * s[c, k]
            s[r, c] /= s[c, c]
            s[c, r] = 0.0
    v = b[i]
    for r in range(n):
        for k in range(r):
            v[r] -= s[r, k] * v[k]
        v[r] /= s[r, r]
    x[i] = v
    m[i] = kc.cw_mul(s, s)


def stepped(x: np.ndarray, n: int, step: int) -> float:
    s, k = 1.0, 0
    for k in range(int(n), -1, -int(step)):
        s = s * x[k % len(x)] + 0.1 * k
        n -= 1
        k = k // 2
        s += x[k % len(x)] ** 2
    return s * (n + k)


@pattern(
    lambda rng: [rng.uniform(0.5, 1.2, 4), np.array([6, 0, 3], np.int64), 2],
    lambda x, n, step: rows(lambda n: stepped(x, n, step))(n),
    launch_dims="n",
)
@kc.kernel
def loop_with_dynamic_step(x: F64, n: kc.array(dtype=kc.int64), step: kc.int64, y: F64):
    i = kc.tid()
    m = n[i]
    s = kc.float64(1.0)
    k = kc.int64(0)
    for k in range(m, kc.int64(-1), -step):
        s = s * x[k % kc.int64(len(x))] + 0.1 * kc.float64(k)
        m -= kc.int64(1)
        k = k // kc.int64(2)
        s += x[k % kc.int64(len(x))] ** 2.0
    y[i] = s * kc.float64(m + k)


@pattern(
    tensors((2, 2, 3), (3,), (2, 2, 3)),
    lambda a, w, o: (o * np.sin(a) * w**a, np.sum(a * a * w, axis=(0, 2))),
    output_dims={"total": ("a.shape[1]",)},
)
@kc.kernel
def launch_of_three_dimensions(a: F64_3D, w: F64, o: F64_3D, total: F64):
    i, j, k = kc.tid()
    o[i, j, k] *= kc.sin(a[i, j, k]) * w[k] ** a[i, j, k]
    total[j] += a[i, j, k] * a[i, j, k] * w[k]


@pattern(vectors(4, 4), lambda o, x: (np.sin(x * x) * x,), outputs=(), in_out=("o",))
@kc.kernel
def initial_value_overwritten(o: F64, x: F64):
    i = kc.tid()
    o[i] = x[i] * x[i]
    o[i] = kc.sin(o[i])
    o[i] *= x[i]


def masked(x: np.ndarray, mask: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray]:
    return (np.where(mask, x**3, 0.0) * np.array([1.0, 0.5, 2.0])[kind] + x * kind,)


@pattern(
    lambda rng: [
        rng.uniform(0, 1, 5),
        np.array([True, False, True, True, False]),
        np.array([0, 1, 2, 1, 0], np.uint8),
    ],
    masked,
)
@kc.kernel
def masks_and_small_integers(
    x: F64, mask: kc.array(dtype=kc.bool), kind: kc.array(dtype=kc.uint8), y: F64
):
    i = kc.tid()
    v = kc.float64(0.0)
    if mask[i]:
        v = x[i] * x[i] * x[i]
    if kind[i] == kc.uint8(1):
        v *= 0.5
    elif kind[i] > kc.uint8(1):
        v *= 2.0
    y[i] = v + x[i] * kc.float64(kind[i])
