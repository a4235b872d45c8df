"""Kernels whose time is that of a loop: matmul, Mandelbrot, Newton, n-body."""

# Warp lets loops change no variable that is a literal.
# ruff: noqa: RUF046, UP018

from types import ModuleType
from typing import Any

import numpy as np

from tests.bench.suite.case import Case, Data, random_floats

MAX_TURNS = 100
# Additions, subtractions, multiplications, one division, one square root.
FLOPS_PER_PAIR = 20


def matmul(m: ModuleType) -> Any:
    @m.kernel
    def matmul(a: m.array2d(dtype=float), b: m.array2d(dtype=float), c: m.array2d(dtype=float)):
        i, j = m.tid()
        total = float(0.0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total

    return matmul


def mandelbrot(m: ModuleType) -> Any:
    @m.kernel
    def mandelbrot(height: int, width: int, turns: int, out: m.array2d(dtype=int)):
        i, j = m.tid()
        cx = float(j) * (3.0 / float(width)) - 2.0
        cy = float(i) * (2.0 / float(height)) - 1.0
        x = float(0.0)
        y = float(0.0)
        n = int(0)
        while x * x + y * y <= 4.0 and n < turns:
            t = x * x - y * y + cx
            y = 2.0 * x * y + cy
            x = t
            n += 1
        out[i, j] = n

    return mandelbrot


def newton(m: ModuleType) -> Any:
    @m.kernel
    def newton(x: m.array(dtype=float), root: m.array(dtype=float)):
        i = m.tid()
        a = x[i]
        r = float(1.0)
        turns = int(0)
        while m.abs(r * r * r - a) > 1.0e-5 * a and turns < 50:
            r = r - (r * r * r - a) / (3.0 * r * r)
            turns += 1
        root[i] = r

    return newton


def nbody(m: ModuleType) -> Any:
    @m.kernel
    def nbody(
        x: m.array(dtype=m.vec3), mass: m.array(dtype=float), eps: float, f: m.array(dtype=m.vec3)
    ):
        i = m.tid()
        here = x[i]
        total = m.vec3(0.0, 0.0, 0.0)
        for j in range(x.shape[0]):
            d = x[j] - here
            inv = 1.0 / m.sqrt(m.dot(d, d) + eps)
            total += d * (mass[j] * inv * inv * inv)
        f[i] = total

    return nbody


def _matmul_data(n: int) -> Data:
    a = random_floats((2, n, n), -1, 1)
    return Data((n, n), (a[0].copy(), a[1].copy(), np.zeros((n, n), np.float32)), 2)


def _mandelbrot_data(n: int) -> Data:
    return Data((n, n), (n, n, MAX_TURNS, np.zeros((n, n), np.int32)), 3)


def _newton_data(n: int) -> Data:
    return Data((n,), (random_floats(n, 0.1, 10), np.zeros(n, np.float32)), 1)


def _nbody_data(n: int) -> Data:
    args = (
        random_floats((n, 3), -1, 1),
        random_floats(n, 0.5, 1.5),
        1e-3,
        np.zeros((n, 3), np.float32),
    )
    return Data((n,), args, 3, frozenset({0, 3}))


def _matmul_reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    del c
    return [a.astype(float) @ b.astype(float)]


def _mandelbrot_reference(height: int, width: int, turns: int, out: np.ndarray) -> list[np.ndarray]:
    del out
    one, two = np.float32(1), np.float32(2)
    cx = np.arange(width, dtype=np.float32) * (np.float32(3) / np.float32(width)) - two
    cy = np.arange(height, dtype=np.float32) * (two / np.float32(height)) - one
    cx, cy = np.meshgrid(cx, cy)
    x, y, count = np.zeros_like(cx), np.zeros_like(cx), np.zeros(cx.shape, np.int32)
    for _ in range(turns):
        inside = x * x + y * y <= 4
        count += inside
        x, y = (
            np.where(inside, x * x - y * y + cx, x),
            np.where(inside, two * x * y + cy, y),
        )
    return [count.astype(float)]


def _newton_gradient(x: np.ndarray, root: np.ndarray) -> list[np.ndarray]:
    """The derivative of what the turns compute, which is none where the first guess is right."""
    del root
    three, error = np.float32(3), np.float32(1e-5)
    r, slope = np.ones_like(x), np.zeros(x.shape)
    for _ in range(50):
        residual = r * r * r - x
        again = np.abs(residual) > error * x
        change = (2 * slope + 1 / r.astype(float) ** 2 - 2 * x * slope / r.astype(float) ** 3) / 3
        slope = np.where(again, change, slope)
        r = np.where(again, r - residual / (three * r * r), r)
    return [slope]


def _nbody_reference(
    x: np.ndarray, mass: np.ndarray, eps: float, f: np.ndarray
) -> list[np.ndarray]:
    del f
    points, weights = x.astype(float), mass.astype(float)
    rows: list[np.ndarray] = []
    for here in points:
        d = points - here
        rows.append((weights * ((d * d).sum(1) + eps) ** -1.5) @ d)
    return [np.array(rows)]


CASES = (
    Case("matmul", matmul, _matmul_data, 512, _matmul_reference, compute_bound=True),
    Case(
        "Mandelbrot",
        mandelbrot,
        _mandelbrot_data,
        512,
        _mandelbrot_reference,
        # A product and a sum may be rounded once, which moves points on the boundary.
        mismatches=0.01,
        adjoint=False,
        compute_bound=True,
    ),
    Case(
        "Newton while",
        newton,
        _newton_data,
        1 << 20,
        lambda x, root: [np.cbrt(x.astype(float))],
        tolerance=1e-4,
        # Warp does not restore what a while loop overwrites.
        gradient=_newton_gradient,
        compute_bound=True,
    ),
    Case(
        "n-body",
        nbody,
        _nbody_data,
        2048,
        _nbody_reference,
        tolerance=1e-4,
        compute_bound=True,
        flops=lambda n: FLOPS_PER_PAIR * float(n) * n,
    ),
)
