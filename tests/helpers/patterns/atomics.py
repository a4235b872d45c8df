"""Patterns of atomics other than sums: minima and maxima over threads, updates by one thread."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, F64_2D, I32, VEC3, pattern


def _scattered(rng: np.random.Generator) -> list[Any]:
    index = np.array([0, 2, 0, 2, 0, 1], np.int32)
    return [rng.uniform(0.4, 1.6, 6), 0.8, index, rng.uniform(0.1, 0.3, 4)]


def largest_of_group(x: np.ndarray, s: float, index: np.ndarray, start: np.ndarray) -> Any:
    m = np.array(start)
    values = np.sin(x * s)
    for i, value in zip(index, values, strict=True):
        m[i] = max(m[i], value)
    return m, values**2


@pattern(_scattered, largest_of_group)
@kc.kernel
def atomic_max_with_duplicates(x: F64, s: kc.float64, index: I32, m: F64, y: F64):
    i = kc.tid()
    value = kc.sin(x[i] * s)
    kc.atomic_max(m, index[i], value)
    y[i] = value * value


def extent_of(x: np.ndarray) -> tuple[np.ndarray]:
    return (np.array([min(0.0, np.min(-x * x)), max(0.0, np.max(np.exp(x) - x))]),)


@pattern(lambda rng: [rng.uniform(0.4, 1.6, 5)], extent_of, outputs=["m"], output_dims=2)
@kc.kernel
def atomic_min_and_max_of_a_result(x: F64, m: F64):
    i = kc.tid()
    kc.atomic_min(m, 0, -x[i] * x[i])
    kc.atomic_max(m, 1, kc.exp(x[i]) - x[i])


def box(x: np.ndarray, n: int, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
    for p in x:
        for k in range(n):
            if p[0] > 0.9 and k == 1:
                break
            low = np.minimum(low, np.sin(p + 0.1 * k))
            high = np.maximum(high, p * p * (1 + k))
    return low, high


@pattern(
    lambda rng: [rng.uniform(0.4, 1.6, (5, 3)), 3, np.full((1, 3), 9.0), np.full((1, 3), -9.0)],
    box,
)
@kc.kernel
def atomic_box_in_a_loop(x: VEC3, n: int, low: VEC3, high: VEC3):
    i = kc.tid()
    p = x[i]
    for k in range(n):
        if p.x > 0.9 and k == 1:
            break
        t = 0.1 * kc.float64(k)
        kc.atomic_min(low, 0, kc.vec3d(kc.sin(p.x + t), kc.sin(p.y + t), kc.sin(p.z + t)))
        kc.atomic_max(high, 0, kc.cw_mul(p, p) * kc.float64(1 + k))


def normalized_rows(h: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
    h, y = np.array(h), np.array(x)
    for i, row in enumerate(h):
        for k in range(len(row)):
            old, row[k] = row[k], max(row[k], x[i] * x[i])
            y[i] += old * row[k]
    return h, y


@pattern(
    lambda rng: [rng.uniform(0.4, 1.6, (4, 3)), rng.uniform(0.8, 1.2, 4)],
    normalized_rows,
    outputs=["y"],
    in_out=["h"],
    launch_dims="x",
)
@kc.kernel
def atomics_of_one_thread(h: F64_2D, x: F64, y: F64):
    i = kc.tid()
    y[i] = x[i]
    for k in range(h.shape[1]):
        old = kc.atomic_max(h, i, k, x[i] * x[i])
        y[i] += old * h[i, k]


def swapped(x: np.ndarray, o: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, ...]:
    y = o * np.exp(x)
    return x * x, np.array([max(m[0], np.max(y))]), y


@pattern(
    lambda rng: [rng.uniform(0.4, 1.6, 4), rng.uniform(0.4, 1.6, 4), np.array([0.1])],
    swapped,
    in_out=["o", "m"],
    outputs=["y"],
)
@kc.kernel
def atomic_max_of_what_was_overwritten(x: F64, o: F64, m: F64, y: F64):
    i = kc.tid()
    y[i] = kc.atomic_exch(o, i, x[i] * x[i]) * kc.exp(x[i])
    kc.atomic_max(m, 0, y[i])
