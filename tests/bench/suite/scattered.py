"""Kernels whose time is that of memory: neighbours, atomics, a stencil."""

# Warp lets loops change no variable that is a literal.
# ruff: noqa: UP018

from types import ModuleType
from typing import Any

import numpy as np

from tests.bench.suite.case import Case, Data, random_floats

BINS = 256


def sph(m: ModuleType) -> Any:
    @m.kernel
    def sph(
        x: m.array(dtype=m.vec3),
        start: m.array(dtype=int),
        neighbour: m.array(dtype=int),
        h: float,
        rho: m.array(dtype=float),
    ):
        i = m.tid()
        here = x[i]
        total = float(0.0)
        for k in range(start[i], start[i + 1]):
            d = x[neighbour[k]] - here
            near = h * h - m.dot(d, d)
            if near > 0.0:
                total += near * near * near
        rho[i] = total

    return sph


def total(m: ModuleType) -> Any:
    @m.kernel
    def total(x: m.array(dtype=float), out: m.array(dtype=float)):
        i = m.tid()
        m.atomic_add(out, 0, x[i])

    return total


def histogram(m: ModuleType) -> Any:
    @m.kernel
    def histogram(x: m.array(dtype=float), out: m.array(dtype=int)):
        i = m.tid()
        m.atomic_add(out, int(x[i] * 256.0), 1)

    return histogram


def stencil(m: ModuleType) -> Any:
    @m.kernel
    def stencil(u: m.array2d(dtype=float), k: float, v: m.array2d(dtype=float)):
        i, j = m.tid()
        here = u[i, j]
        if i > 0 and i < u.shape[0] - 1 and j > 0 and j < u.shape[1] - 1:
            around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
            v[i, j] = here + k * (around - 4.0 * here)
        else:
            v[i, j] = here

    return stencil


def _sph_data(n: int) -> Data:
    # About 34 neighbours within one width of a cell; particles in the order of their cells.
    cells = max(round((n / 8) ** (1 / 3)), 1)
    x = random_floats((n, 3), 0, 1)
    x = x[np.argsort(_keys(np.floor(x * cells).astype(int), cells), kind="stable")]
    start, neighbour = _neighbours(x, cells)
    args = (x, start, neighbour, 1 / cells, np.zeros(n, np.float32))
    return Data((n,), args, 4, frozenset({0}))


def _keys(cell: np.ndarray, cells: int) -> np.ndarray:
    return (cell[..., 0] * cells + cell[..., 1]) * cells + cell[..., 2]


def _neighbours(x: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The neighbours of sorted points within ``1 / cells``, in CSR form."""
    cell = np.floor(x * cells).astype(int)
    first = np.searchsorted(_keys(cell, cells), np.arange(cells**3 + 1))
    pairs: list[np.ndarray] = []
    for offset in np.ndindex(3, 3, 3):
        other = cell + np.array(offset) - 1
        inside = ((other >= 0) & (other < cells)).all(1)
        key = np.where(inside, _keys(other, cells), 0)
        count = np.where(inside, first[key + 1] - first[key], 0)
        for k in range(count.max()):
            i = np.nonzero(k < count)[0]
            j = first[key[i]] + k
            close = ((x[i] - x[j]) ** 2).sum(1) < 1 / cells**2
            pairs.append(np.stack([i[close], j[close]]))
    i, j = np.concatenate(pairs, axis=1)
    start = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=len(x)))])
    return start.astype(np.int32), j[np.lexsort((j, i))].astype(np.int32)


def _total_data(n: int) -> Data:
    return Data((n,), (random_floats(n, 0, 1), np.zeros(1, np.float32)), 1)


def _histogram_data(n: int) -> Data:
    return Data((n,), (random_floats(n, 0, 0.999), np.zeros(BINS, np.int32)), 1)


def _stencil_data(n: int) -> Data:
    return Data((n, n), (random_floats((n, n), 0, 1), 0.2, np.zeros((n, n), np.float32)), 2)


def _sph_reference(
    x: np.ndarray, start: np.ndarray, neighbour: np.ndarray, h: float, rho: np.ndarray
) -> list[np.ndarray]:
    del rho
    points = x.astype(float)
    owner = np.repeat(np.arange(len(points)), np.diff(start))
    d = points[neighbour] - points[owner]
    near = np.maximum(h * h - (d * d).sum(1), 0)
    return [np.bincount(owner, near**3, len(points))]


def _stencil_reference(u: np.ndarray, k: float, v: np.ndarray) -> list[np.ndarray]:
    del v
    out = u.astype(float)
    around = out[:-2, 1:-1] + out[2:, 1:-1] + out[1:-1, :-2] + out[1:-1, 2:]
    here = out[1:-1, 1:-1].copy()
    out[1:-1, 1:-1] += k * (around - 4 * here)
    return [out]


CASES = (
    Case("SPH neighbours", sph, _sph_data, 1 << 15, _sph_reference, compute_bound=True),
    Case(
        "sum by atomic_add",
        total,
        _total_data,
        1 << 22,
        lambda x, out: [np.array([x.astype(float).sum()])],
        # One float32 accumulator loses what is below its last digit.
        tolerance=0.05,
        atomic=True,
    ),
    Case(
        "histogram",
        histogram,
        _histogram_data,
        1 << 22,
        lambda x, out: [np.bincount((x * np.float32(256)).astype(int), minlength=BINS)],
        adjoint=False,
        atomic=True,
    ),
    Case("stencil 2048^2", stencil, _stencil_data, 2048, _stencil_reference),
)
