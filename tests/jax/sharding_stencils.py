"""Stencils as users write them, which devices run with borders of each other's arrays."""

from __future__ import annotations

import kernelcore as kc
from tests.jax.kernels import F64, F64_2D
from tests.jax.sharding_cases import VECTORS

F64_3D = kc.array3d(dtype=kc.float64)


@kc.kernel
def diffused(u: F64_3D, o: F64_3D):
    i, j, k = kc.tid()
    n, m, p = u.shape[0], u.shape[1], u.shape[2]
    v = u[i, j, k]
    around = u[(i + 1) % n, j, k] + u[(i + n - 1) % n, j, k]
    around += u[i, (j + 1) % m, k] + u[i, (j + m - 1) % m, k]
    around += u[i, j, (k + 1) % p] + u[i, j, (k + p - 1) % p]
    o[i, j, k] = v + 0.1 * (around - 6.0 * v) * v


@kc.kernel
def springs(x: VECTORS, v: VECTORS, dt: kc.float64, x_new: VECTORS, v_new: VECTORS):
    i = kc.tid()
    force = kc.vec3d(0.0, -9.8, 0.0)
    if i > 0:
        force += x[i - 1] - x[i]
    if i < x.shape[0] - 1:
        force += x[i + 1] - x[i]
    w = v[i] + dt * force
    v_new[i] = w
    x_new[i] = x[i] + dt * w


@kc.kernel
def guarded(x: F64, o: F64):
    i = kc.tid()
    if i > 0 and i < x.shape[0] - 1:
        o[i] = x[i] * x[i - 1] + x[i + 1]
    else:
        o[i] = x[i]


@kc.kernel
def clamped(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[kc.max(i - 1, 0)] * x[kc.min(i + 1, x.shape[0] - 1)] + x[i]


@kc.kernel
def wrapped_by_type(x: F64, o: F64):
    i = kc.tid()
    before = kc.int32(kc.uint8(i) - kc.uint8(1))
    o[i] = x[kc.min(before, x.shape[0] - 1)] * x[i]


@kc.kernel
def periodic(x: F64, o: F64):
    i = kc.tid()
    n = x.shape[0]
    o[i] = x[(i + 2) % n] * x[(i - 1 + n) % n] + x[i]


@kc.kernel
def upwind(x: F64, o: F64):
    i = kc.tid()
    j = i
    if i > 0:
        j = i - 1
    o[i] = x[i] * x[j]


@kc.kernel
def wave(u: F64_2D, v: F64_2D, speed: F64_2D, p: F64_2D, q: F64_2D):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    around = kc.float64(0.0)
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        around = u[i - 1, j - 1] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
    w = v[i, j] + 0.1 * speed[i, j] * around
    q[i, j] = w
    p[i, j] = u[i, j] + 0.1 * w


@kc.kernel
def scattered(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, i, x[i])
    if i > 0:
        kc.atomic_add(o, i - 1, x[i] * x[i])


@kc.kernel
def scattered_onto(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, i, x[i])
    if i < x.shape[0] - 1:
        kc.atomic_add(o, i + 1, x[i] * x[i])


@kc.kernel
def corners(x: F64_2D, o: F64_2D):
    i, j = kc.tid()
    n, m = x.shape[0], x.shape[1]
    turned = x[(i + 1) % n, (j - 1 + m) % m]
    o[i, j] = turned * x[kc.max(i - 1, 0), kc.min(j + 1, m - 1)] * kc.float64(i * m + j)


@kc.kernel
def reaction(u: F64_2D, v: F64_2D, p: F64_2D, q: F64_2D):
    i, j = kc.tid()
    n, m = u.shape[0], u.shape[1]
    above, below = kc.where(i == 0, n - 1, i - 1), kc.where(i < n - 1, i + 1, 0)
    left = j - 1
    if left < 0:
        left += m
    right = 0 if j == m - 1 else j + 1
    a, b = u[i, j], v[i, j]
    around = u[above, j] + u[below, j] + u[i, left] + u[i, right] - 4.0 * a
    p[i, j] = a + 0.1 * around - a * b * b
    q[i, j] = b + a * b * b


@kc.kernel
def filtered(x: F64_2D, weight: F64_2D, o: F64_2D):
    i, j = kc.tid()
    total = kc.float64(0.0)
    for a in range(3):
        for b in range(3):
            row, column = i + a - 1, j + b - 1
            if row >= 0 and row < x.shape[0] and column >= 0 and column < x.shape[1]:
                total += weight[a, b] * x[row, column]
    o[i, j] = total


@kc.kernel
def smoothed(x: F64, weight: F64, o: F64):
    i = kc.tid()
    n = x.shape[0]
    total = kc.float64(0.0)
    for k in range(3):
        total += weight[k] * x[kc.clamp(i + k - 1, 0, n - 1)] * x[(i - k + n) % n]
    o[i] = total


@kc.kernel
def spread(x: F64, o: F64):
    i = kc.tid()
    for d in range(-2, 3, 2):
        if i + d >= 0 and i + d < x.shape[0]:
            kc.atomic_add(o, i + d, x[i] * x[i])


@kc.kernel
def rolled(x: F64, by: kc.int32, o: F64):
    i = kc.tid()
    o[i] = x[(i + by) % x.shape[0]] * x[i]
