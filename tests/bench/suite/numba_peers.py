"""The kernels of the suite as numba's users write them, by name; loops over grids in parallel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange  # pyright: ignore[reportMissingImports]

f32 = np.float32
HALF, ONE, TWO, THREE, FOUR = f32(0.5), f32(1), f32(2), f32(3), f32(4)
BINS_PER_UNIT, RELATIVE_ERROR = f32(256), f32(1e-5)

parallel = njit(parallel=True, error_model="numpy")


@parallel
def saxpy(a: Any, x: Any, y: Any, z: Any) -> None:
    for i in prange(len(x)):
        z[i] = a * x[i] + y[i]


@parallel
def sin_exp(x: Any, z: Any) -> None:
    for i in prange(len(x)):
        v = x[i]
        z[i] = math.sin(v) * math.exp(-v * v)


@parallel
def mix(x: Any, y: Any, z: Any) -> None:
    for i in prange(len(x)):
        v = x[i]
        wave = math.sin(v) * math.exp(-v * v)
        z[i] = wave + (abs(v) + HALF) ** y[i] + math.log(ONE + v * v) * math.tanh(v)


@parallel
def vec3_dot(x: Any, y: Any, z: Any) -> None:
    for i in prange(len(x)):
        z[i] = x[i, 0] * y[i, 0] + x[i, 1] * y[i, 1] + x[i, 2] * y[i, 2]


rows_dot = vec3_dot


@parallel
def vec3_normalise(x: Any, z: Any) -> None:
    for i in prange(len(x)):
        a, b, c = x[i, 0], x[i, 1], x[i, 2]
        length = math.sqrt(a * a + b * b + c * c)
        if length > 0:
            z[i, 0], z[i, 1], z[i, 2] = a / length, b / length, c / length
        else:
            z[i, 0], z[i, 1], z[i, 2] = f32(0), f32(0), f32(0)


@parallel
def matmul(a: Any, b: Any, c: Any) -> None:
    for i in prange(a.shape[0]):
        for j in range(b.shape[1]):
            total = f32(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@parallel
def mandelbrot(height: Any, width: Any, turns: Any, out: Any) -> None:
    for i in prange(height):
        for j in range(width):
            cx = f32(j) * (THREE / f32(width)) - TWO
            cy = f32(i) * (TWO / f32(height)) - ONE
            x = y = f32(0)
            n = 0
            while x * x + y * y <= FOUR and n < turns:
                x, y = x * x - y * y + cx, TWO * x * y + cy
                n += 1
            out[i, j] = n


@parallel
def newton(x: Any, root: Any) -> None:
    for i in prange(len(x)):
        a, r, turns = x[i], ONE, 0
        while abs(r * r * r - a) > RELATIVE_ERROR * a and turns < 50:
            r = r - (r * r * r - a) / (THREE * r * r)
            turns += 1
        root[i] = r


@parallel
def nbody(x: Any, mass: Any, eps: Any, f: Any) -> None:
    for i in prange(len(x)):
        fx = fy = fz = f32(0)
        for j in range(len(x)):
            dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
            inv = ONE / math.sqrt(dx * dx + dy * dy + dz * dz + eps)
            weight = mass[j] * inv * inv * inv
            fx += dx * weight
            fy += dy * weight
            fz += dz * weight
        f[i, 0], f[i, 1], f[i, 2] = fx, fy, fz


@parallel
def sph(x: Any, start: Any, neighbour: Any, h: Any, rho: Any) -> None:
    for i in prange(len(x)):
        total = f32(0)
        for k in range(start[i], start[i + 1]):
            j = neighbour[k]
            dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
            near = h * h - (dx * dx + dy * dy + dz * dz)
            if near > 0:
                total += near * near * near
        rho[i] = total


@parallel
def total(x: Any, out: Any) -> None:
    found = f32(0)
    for i in prange(len(x)):
        found += x[i]
    out[0] += found


@parallel
def histogram(x: Any, out: Any) -> None:
    # A private copy per thread, since numba has no atomics on the CPU.
    threads = get_num_threads()
    counts = np.zeros((threads, len(out)), np.int32)
    each = (len(x) + threads - 1) // threads
    for t in prange(threads):
        for i in range(t * each, min((t + 1) * each, len(x))):
            counts[t, int(x[i] * BINS_PER_UNIT)] += 1
    for t in range(threads):
        out += counts[t]


@parallel
def stencil(u: Any, k: Any, v: Any) -> None:
    rows, columns = u.shape
    for i in prange(rows):
        for j in range(columns):
            here = u[i, j]
            if i > 0 and i < rows - 1 and j > 0 and j < columns - 1:
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                v[i, j] = here + k * (around - FOUR * here)
            else:
                v[i, j] = here
