"""The kernels of ``python -m kernelcore bench``, in the language of any module that has it."""

# The types of parameters belong to a module that is known when a kernel is made.
# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

SIZE = 1 << 20
BODIES = 2048

Run = Callable[[], object]


def _launch(m: ModuleType, kernel: Any, dim: int, *arrays: Any) -> Run:
    args = [m.array(a, dtype=m.vec3 if a.ndim == 2 else m.float32, device="cpu") for a in arrays]
    return lambda: m.launch(kernel, dim, args[:-1], args[-1:], device="cpu")


def _small(m: ModuleType) -> Run:
    @m.kernel
    def add(x: m.array(dtype=float), y: m.array(dtype=float), z: m.array(dtype=float)):
        i = m.tid()
        z[i] = x[i] + y[i]

    return _launch(m, add, 1, *(np.ones(1, np.float32) for _ in range(3)))


def _waves(m: ModuleType) -> Run:
    @m.kernel
    def waves(x: m.array(dtype=float), z: m.array(dtype=float)):
        i = m.tid()
        z[i] = m.sin(x[i]) * m.exp(-x[i] * x[i])

    return _launch(m, waves, SIZE, np.linspace(-2, 2, SIZE, dtype=np.float32), np.zeros(SIZE, "f4"))


def _total(m: ModuleType) -> Run:
    @m.kernel
    def total(x: m.array(dtype=float), out: m.array(dtype=float)):
        i = m.tid()
        m.atomic_add(out, 0, x[i])

    return _launch(m, total, SIZE, np.ones(SIZE, np.float32), np.zeros(1, np.float32))


def _gravity(m: ModuleType) -> Run:
    @m.kernel
    def gravity(x: m.array(dtype=m.vec3), f: m.array(dtype=m.vec3)):
        i = m.tid()
        here = x[i]
        total = m.vec3(0.0, 0.0, 0.0)
        for j in range(x.shape[0]):
            d = x[j] - here
            r2 = m.dot(d, d) + 0.01
            total += d / (r2 * m.sqrt(r2))
        f[i] = total

    points = np.random.default_rng(0).normal(size=(BODIES, 3)).astype(np.float32)
    return _launch(m, gravity, BODIES, points, np.zeros_like(points))


KERNELS: Mapping[str, Callable[[ModuleType], Run]] = {
    "launch with three arrays": _small,
    "sin(x) * exp(-x * x), 2**20 floats": _waves,
    "sum by atomic_add, 2**20 floats": _total,
    f"gravity of {BODIES} bodies": _gravity,
}
