"""Patterns of nested control flow: loops in loops, exits at any depth, values overwritten."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, F64_2D, I32, pattern, rows, tensors, vectors


def counts(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def triple(x: float, n: int) -> float:
    s = 1.0
    for i in range(n):
        p = x
        for j in range(i + 1):
            for k in range(j, -1, -1):
                p = np.sin(p) * s + 0.1 * k
            s = s * 0.7 + p * p
        s += 0.2 * i * p
    return s


@pattern(lambda rng: [rng.uniform(0.4, 0.9, 4), counts(0, 1, 2, 3)], rows(triple, 2))
@kc.kernel
def nested_dynamic_loops(x: F64, n: I32, y: F64):
    i = kc.tid()
    s = kc.float64(1.0)
    for a in range(n[i]):
        p = x[i]
        for b in range(a + 1):
            for c in range(b, -1, -1):
                p = kc.sin(p) * s + 0.1 * kc.float64(c)
            s = s * 0.7 + p * p
        s += 0.2 * kc.float64(a) * p
    y[i] = s


def alternating(x: float, n: int) -> float:
    a, s = x, 0.0
    while a < 6.0:
        for k in range(n):
            b = a
            while b > 1.0:
                b = b * 0.6 * x
                s += np.sin(b) * a
            a += 0.2 * b + 0.1 * k
        a = a * 1.3 + 0.1
    return s + a


@pattern(lambda rng: [rng.uniform(0.5, 1.3, 3), counts(1, 2, 3)], rows(alternating, 2))
@kc.kernel
def while_in_for_in_while(x: F64, n: I32, y: F64):
    i = kc.tid()
    a = x[i]
    s = kc.float64(0.0)
    while a < 6.0:
        for k in range(n[i]):
            b = a
            while b > 1.0:
                b = b * 0.6 * x[i]
                s += kc.sin(b) * a
            a += 0.2 * b + 0.1 * kc.float64(k)
        a = a * 1.3 + 0.1
    y[i] = s + a


def leaving(x: float, limit: float) -> float:
    s = 0.3
    for k in range(6):
        t = x
        for j in range(5):
            t *= s + 0.9
            if j == k:
                continue
            if t > limit:
                break
            for m in range(3):
                if m > j:
                    break
                t += 0.05 * s * x
            s += 0.1 * t
        if s > 2.5 * limit:
            break
        if k % 2 == 1:
            continue
        s = s * x
    return s * x


@pattern(vectors(5, 5), rows(leaving, 2))
@kc.kernel
def break_and_continue_at_every_depth(x: F64, limit: F64, y: F64):
    i = kc.tid()
    s = kc.float64(0.3)
    for k in range(6):
        t = x[i]
        for j in range(5):
            t *= s + 0.9
            if j == k:
                continue
            if t > limit[i]:
                break
            for m in range(3):
                if m > j:
                    break
                t += 0.05 * s * x[i]
            s += 0.1 * t
        if s > 2.5 * limit[i]:
            break
        if k % 2 == 1:
            continue
        s = s * x[i]
    y[i] = s * x[i]


@kc.func
def first_above(m: F64_2D, x: kc.float64) -> tuple[kc.float64, int]:
    s = kc.float64(0.0)
    for r in range(m.shape[0]):
        for c in range(m.shape[1]):
            s += m[r, c] * x
            if s > 4.0:
                return s * s, r
            if m[r, c] < 0.5:
                break
        s *= 0.9
    return kc.sin(s), -1


def first_above_reference(x: float, m: np.ndarray) -> float:
    s = 0.0
    for r, row in enumerate(m):
        for v in row:
            s += v * x
            if s > 4.0:
                return s * s * x + r
            if v < 0.5:
                break
        s *= 0.9
    return np.sin(s) * x - 1


@pattern(tensors((5,), (3, 3)), rows(first_above_reference))
@kc.kernel
def return_out_of_nested_loops(x: F64, m: F64_2D, y: F64):
    i = kc.tid()
    s, r = first_above(m, x[i])
    y[i] = s * x[i] + kc.float64(r)


def kernel_left(x: float) -> tuple[float, float]:
    y, z, v = 0.0, 0.0, x
    for k in range(5):
        j = 0
        while j < 3:
            v = v * x + 0.1 * j
            if v > 3.0:
                return v * v, z
            j += 1
        z = v * k
    return y, z


@pattern(vectors(5, low=0.6, high=1.5), rows(kernel_left))
@kc.kernel
def kernel_return_out_of_nested_loops(x: F64, y: F64, z: F64):
    i = kc.tid()
    v = x[i]
    for k in range(5):
        j = 0
        while j < 3:
            v = v * x[i] + 0.1 * kc.float64(j)
            if v > 3.0:
                y[i] = v * v
                return
            j += 1
        z[i] = v * kc.float64(k)


def overwritten(x: float, n: int) -> float:
    a, b = x, 1.0
    for _ in range(n):
        c = a * b
        a = np.sin(a) + c
        c = c * c
        b = b * a - c
        if b > 0.8:
            a, b = b, a * x
            a = a * a * 0.5
    x = a * b
    return x * a + b


@pattern(lambda rng: [rng.uniform(0.9, 1.2, 4), counts(0, 1, 2, 3)], rows(overwritten, 2))
@kc.kernel
def scalars_overwritten_and_needed(x: F64, n: I32, y: F64):
    i = kc.tid()
    a = x[i]
    b = kc.float64(1.0)
    for _ in range(n[i]):
        c = a * b
        a = kc.sin(a) + c
        c = c * c
        b = b * a - c
        if b > 0.8:
            a, b = b, a * x[i]
            a = a * a * 0.5
    y[i] = a * b * a + b


def relaxed(h: np.ndarray, x: float, n: int) -> np.ndarray:
    for _ in range(n):
        for t in range(1, len(h) - 1):
            v = 0.5 * (h[t - 1] * x + np.sin(h[t + 1]))
            if v < 0.2:
                continue
            h[t] = h[t] * v
            if h[t] > 1.5:
                h[t] = h[t] * 0.5
                break
        h[0] = h[-1] * h[1]
    return h


@pattern(
    lambda rng: [rng.uniform(0.5, 1.8, (3, 5)), rng.uniform(0.5, 1.5, 3), counts(0, 2, 3)],
    rows(relaxed, 3),
    launch_dims="x",
)
@kc.kernel
def elements_overwritten_and_needed(h: F64_2D, x: F64, n: I32):
    i = kc.tid()
    last = h.shape[1] - 1
    for _ in range(n[i]):
        for t in range(1, last):
            v = 0.5 * (h[i, t - 1] * x[i] + kc.sin(h[i, t + 1]))
            if v < 0.2:
                continue
            h[i, t] = h[i, t] * v
            if h[i, t] > 1.5:
                h[i, t] *= 0.5
                break
        h[i, 0] = h[i, last] * h[i, 1]


def sorted_rows(a: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, float]:
    a = np.sort(a)
    return a, float(a @ (w * w))


@pattern(tensors((3, 5), (5,)), rows(sorted_rows), launch_dims=("a.shape[0]",))
@kc.kernel
def bubble_sort_in_place(a: F64_2D, w: F64, y: F64):
    i = kc.tid()
    swaps = 1
    while swaps > 0:
        swaps = 0
        for k in range(a.shape[1] - 1):
            if a[i, k] > a[i, k + 1]:
                a[i, k], a[i, k + 1] = a[i, k + 1], a[i, k]
                swaps += 1
    s = kc.float64(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * w[k] * w[k]
    y[i] = s


def factorized(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x = np.linalg.solve(a + 0.0, b)
    n = len(a)
    for k in range(n):
        for r in range(k + 1, n):
            a[r, k] /= a[k, k]
            for c in range(k + 1, n):
                a[r, c] -= a[r, k] * a[k, c]
    return a, x


@pattern(
    lambda rng: [rng.uniform(0.2, 1.0, (2, 3, 3)) + 3 * np.eye(3), rng.uniform(0.2, 1.0, (2, 3))],
    rows(factorized, 2),
    launch_dims=("a.shape[0]",),
)
@kc.kernel
def elimination_in_place(a: kc.array(dtype=kc.float64, ndim=3), b: F64_2D):
    i = kc.tid()
    n = a.shape[1]
    for k in range(n):
        for r in range(k + 1, n):
            a[i, r, k] /= a[i, k, k]
            for c in range(k + 1, n):
                a[i, r, c] -= a[i, r, k] * a[i, k, c]
            b[i, r] -= a[i, r, k] * b[i, k]
    for r in range(n - 1, -1, -1):
        for c in range(r + 1, n):
            b[i, r] -= a[i, r, c] * b[i, c]
        b[i, r] /= a[i, r, r]


def paired(x: float, n: int) -> float:
    pair = ((x, 1.0), (0.5 * x, x * x))
    for k in range(n):
        (a, b), (c, d) = pair
        pair = ((b * x, a + d), (c * a, np.sin(d) + 0.1 * k))
    return pair[0][0] * pair[1][1] + pair[0][1] * pair[1][0]


@pattern(lambda rng: [rng.uniform(0.4, 1.2, 4), counts(0, 1, 2, 5)], rows(paired, 2))
@kc.kernel
def nested_tuples_carried_by_a_loop(x: F64, n: I32, y: F64):
    i = kc.tid()
    pair = ((x[i], kc.float64(1.0)), (0.5 * x[i], x[i] * x[i]))
    for k in range(n[i]):
        (a, b), (c, d) = pair
        pair = ((b * x[i], a + d), (c * a, kc.sin(d) + 0.1 * kc.float64(k)))
    y[i] = pair[0][0] * pair[1][1] + pair[0][1] * pair[1][0]


def by_data(x: np.ndarray, program: np.ndarray, i: int) -> float:
    v, depth = x[i % len(x)], 0
    for code in program:
        if code == 0:
            v = v * x[(i + depth) % len(x)]
            depth += 1
        elif code == 1:
            v = np.sin(v) + x[depth]
        elif code == 2 and depth > 0:
            depth -= 1
            v = v * v
        else:
            break
    return v * (depth + 1)


@pattern(
    lambda rng: [rng.uniform(0.5, 1.2, 4), counts(0, 1, 0, 0, 2, 1, 2, 3, 1)],
    lambda x, program: (np.array([by_data(x, program, i) for i in range(4)]),),
)
@kc.kernel
def control_by_integer_arrays(x: F64, program: I32, y: F64):
    i = kc.tid()
    v = x[i]
    depth = 0
    for p in range(len(program)):
        code = program[p]
        if code == 0:
            v = v * x[(i + depth) % len(x)]
            depth += 1
        elif code == 1:
            v = kc.sin(v) + x[depth]
        elif code == 2 and depth > 0:
            depth -= 1
            v = v * v
        else:
            break
    y[i] = v * kc.float64(depth + 1)
