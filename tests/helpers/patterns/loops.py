"""Patterns of control flow: loops, branches, early exits, functions."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, I32, VEC3, each, pattern, rows, vectors


def product(x: np.ndarray, n: int) -> tuple[np.ndarray]:
    return (np.array([np.prod([v + 0.1 * k for k in range(n)]) for v in x]),)


@pattern(lambda rng: [rng.uniform(0.5, 1.5, 4), 5], product)
@kc.kernel
def dynamic_product(x: F64, n: int, y: F64):
    i = kc.tid()
    p = 1.0
    for k in range(n):
        p *= x[i] + 0.1 * kc.float64(k)
    y[i] = p


def logistic(x: np.ndarray, r: float, n: int) -> tuple[np.ndarray]:
    v = x.copy()
    for _ in range(n):
        v = r * v * (1.0 - v)
    return (v,)


@pattern(lambda rng: [rng.uniform(0.2, 0.8, 3), 2.7, 7], logistic)
@kc.kernel
def logistic_map(x: F64, r: kc.float64, n: int, y: F64):
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        v = r * v * (1.0 - v)
    y[i] = v


@pattern(vectors(4, low=1.5, high=9.0), each(np.sqrt))
@kc.kernel
def newton_sqrt(x: F64, y: F64):
    i = kc.tid()
    a = x[i]
    v = a
    while kc.abs(v * v - a) > 1.0e-13 * a:
        v = 0.5 * (v + a / v)
    y[i] = v


def until_large(x: float) -> float:
    s = 0.0
    for k in range(20):
        s += x * x * (k + 1)
        if s > 6.0:
            break
        s *= 1.1
    return s


@pattern(vectors(5), each(until_large))
@kc.kernel
def loop_with_break(x: F64, y: F64):
    i = kc.tid()
    s = kc.float64(0.0)
    for k in range(20):
        s += x[i] * x[i] * kc.float64(k + 1)
        if s > 6.0:
            break
        s *= 1.1
    y[i] = s


def skip_thirds(x: float) -> float:
    s = 1.0
    for k in range(8):
        if k % 3 == 1:
            continue
        s = s * x + np.sin(s)
    return s


@pattern(vectors(4), each(skip_thirds))
@kc.kernel
def loop_with_continue(x: F64, y: F64):
    i = kc.tid()
    s = 1.0
    for k in range(8):
        if k % 3 == 1:
            continue
        s = s * x[i] + kc.sin(s)
    y[i] = s


@kc.func
def clipped(v: kc.float64, limit: kc.float64):
    if v < limit:
        return v * v
    w = v - limit
    if w > 0.5:
        return 2.0 * w
    return kc.exp(w) * limit


def clipped_reference(v: float, limit: float = 0.9) -> float:
    if v < limit:
        return v * v
    w = v - limit
    return 2.0 * w if w > 0.5 else np.exp(w) * limit


@pattern(vectors(9), each(clipped_reference))
@kc.kernel
def early_return(x: F64, y: F64):
    i = kc.tid()
    y[i] = clipped(x[i], 0.9)


@pattern(vectors(6), each(lambda v: v * v if v > 1.0 else 0.0))
@kc.kernel
def kernel_early_return(x: F64, y: F64):
    i = kc.tid()
    if x[i] <= 1.0:
        return
    y[i] = x[i] * x[i]


def twenty(x: float) -> float:
    v = x
    for k in range(20):
        v = np.sin(v) * x + 0.05 * k
    return v


@pattern(vectors(4), each(twenty))
@kc.kernel
def static_loop(x: F64, y: F64):
    i = kc.tid()
    v = x[i]
    for k in range(20):
        v = kc.sin(v) * x[i] + 0.05 * kc.float64(k)
    y[i] = v


@kc.func
def power(x: kc.float64, n: int):
    p = kc.float64(1.0)
    for _ in range(n):
        p *= x
    return p


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 4), np.array([0, 1, 3, 5], np.int32)],
    lambda x, n: (x**n + x * x,),
)
@kc.kernel
def func_with_loop(x: F64, n: I32, y: F64):
    i = kc.tid()
    y[i] = power(x[i], n[i]) + power(x[i], 2)


def nested(x: np.ndarray, n: np.ndarray) -> tuple[np.ndarray]:
    out = []
    for v, m in zip(x, n, strict=True):
        s = 1.0
        for k in range(m):
            t = s
            j = 0
            while t < 4.0 and j < 3 + k:
                t = t * v + 0.3
                j += 1
                if t > 3.0:
                    break
            s = 0.5 * s + np.sin(t) * v
        out.append(s)
    return (np.array(out),)


@pattern(
    lambda rng: [rng.uniform(0.8, 1.4, 4), np.array([0, 1, 3, 4], np.int32)],
    nested,
)
@kc.kernel
def while_in_for_with_break(x: F64, n: I32, y: F64):
    i = kc.tid()
    s = kc.float64(1.0)
    for k in range(n[i]):
        t = s
        j = 0
        while t < 4.0 and j < 3 + k:
            t = t * x[i] + 0.3
            j += 1
            if t > 3.0:
                break
        s = 0.5 * s + kc.sin(t) * x[i]
    y[i] = s


def swapped(x: np.ndarray, n: int) -> tuple[np.ndarray]:
    out = []
    for v in x:
        a, b = v, 1.0
        for _ in range(n):
            a, b = b * v, a + b
        out.append(a * b)
    return (np.array(out),)


@pattern(lambda rng: [rng.uniform(0.5, 1.5, 3), 6], swapped)
@kc.kernel
def tuple_swap_in_loop(x: F64, n: int, y: F64):
    i = kc.tid()
    a, b = x[i], kc.float64(1.0)
    for _ in range(n):
        a, b = b * x[i], a + b
    y[i] = a * b


def backwards(x: np.ndarray) -> tuple[np.ndarray]:
    n = len(x)
    s = 0.5
    for k in range(n - 1, -1, -2):
        s = s * x[k] + x[k] ** 2
    return (np.full(1, s),)


@pattern(vectors(5), backwards, launch_dims=1, output_dims=1)
@kc.kernel
def negative_step(x: F64, y: F64):
    i = kc.tid()
    s = kc.float64(0.5)
    for k in range(len(x) - 1, -1, -2):
        s = s * x[k] + x[k] * x[k]
    y[i] = s


def kinked(x: float, y: float) -> float:
    a = min(max(x, 0.3 * y), 1.2) * abs(y - x * x)
    b = x if x > y else y * y
    c = np.copysign(x * y, x - y) + (np.sin(a) if a > 0.4 and b < 2.0 else np.cos(b))
    return a * b + c + np.floor(x * 3.0 + 0.05) * y + x % 0.7


@pattern(vectors(7, 7), rows(kinked, 2))
@kc.kernel
def kinks_beside_the_point(x: F64, y: F64, z: F64):
    i = kc.tid()
    u = x[i]
    v = y[i]
    a = kc.clamp(kc.max(u, 0.3 * v), -9.0, 1.2) * kc.abs(v - u * u)
    b = u if u > v else v * v
    c = kc.select(u > v, -u * v, u * v)
    c += kc.where(a > 0.4 and b < 2.0, kc.sin(a), kc.cos(b))
    z[i] = a * b + c + kc.floor(u * 3.0 + 0.05) * v + u % 0.7


def long(x: float, y: float) -> float:
    for k in range(12):
        x, y = np.sin(x) * y + 0.3, np.cos(y) * x - 0.1 * x * y / (1.0 + k)
    return x * y


@pattern(vectors(3, 3), rows(long, 2))
@kc.kernel
def long_chain(x: F64, y: F64, z: F64):
    i = kc.tid()
    a = x[i]
    b = y[i]
    for k in kc.static(range(12)):  # pyright: ignore[reportGeneralTypeIssues]
        c = kc.sin(a) * b + 0.3
        b = kc.cos(b) * a - 0.1 * a * b / (1.0 + kc.float64(k))
        a = c
    z[i] = a * b


def walked(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    v, d = np.array(p), np.array([0.3, 0.4, 0.5])
    for k in range(8):
        gap = np.linalg.norm(v - x) - 0.3
        if gap < 0.02:
            return v * k
        if v @ v > 9.0:
            break
        d = d * 0.9 + 0.1 * (x - v)
        v = v + gap * d / np.linalg.norm(d)
    return d


@pattern(lambda rng: [rng.uniform(0.5, 1.5, (4, 3)), rng.uniform(0.0, 0.3, 3)], rows(walked))
@kc.kernel
def sphere_tracing(x: VEC3, p: kc.vec3d, y: VEC3):
    i = kc.tid()
    v = p
    d = kc.vec3d(0.3, 0.4, 0.5)
    for k in range(8):
        gap = kc.length(v - x[i]) - 0.3
        if gap < 0.02:
            y[i] = v * kc.float64(k)
            return
        if kc.dot(v, v) > 9.0:
            break
        d = d * 0.9 + 0.1 * (x[i] - v)
        v += gap * d / kc.length(d)
    y[i] = d
