"""Chains of launches of a heat step on one thread and on all, beside numba's ``prange``.

A second thread is to take nothing away, however small the grid is.
"""

from __future__ import annotations

from collections.abc import Callable

import numba  # pyright: ignore[reportMissingImports]
import numpy as np

import kernelcore as kc
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, timed

SIZES = (64, 96, 128, 192, 256, 384, 512, 724, 1024, 1448, 2048)
STEPS = 20
# Rows that a thread sums up: few threads, each with much to do.
ROWS = ((25, 1000), (8, 32000), (64, 4096), (300, 300))
MAX_RATIO = 1.05

Grid = kc.array2d[float]


@kc.kernel
def heat(u: Grid, rate: float, v: Grid):
    """One explicit step of the heat equation; the border stays."""
    i, j = kc.tid()
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
        v[i, j] = u[i, j] + rate * (around - 4.0 * u[i, j])
    else:
        v[i, j] = u[i, j]


@kc.kernel
def norms(x: Grid, y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for j in range(x.shape[1]):
        total += kc.exp(-x[i, j] * x[i, j])
    y[i] = total


@numba.njit(parallel=True, fastmath=False)
def heat_of_numba(u, rate, v):  # pyright: ignore
    n, m = u.shape
    for i in numba.prange(n):
        for j in range(m):
            if i > 0 and j > 0 and i < n - 1 and j < m - 1:
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                v[i, j] = u[i, j] + rate * (around - np.float32(4.0) * u[i, j])
            else:
                v[i, j] = u[i, j]


def chain(size: int) -> Callable[[], None]:
    u = kc.array(np.random.default_rng(0).random((size, size)), dtype=float)
    v = kc.zeros_like(u)

    def steps() -> None:
        for _ in range(STEPS // 2):
            kc.launch(heat, (size, size), [u, 0.1], [v])
            kc.launch(heat, (size, size), [v, 0.1], [u])

    return steps


def chain_of_numba(size: int) -> Callable[[], None]:
    u = np.random.default_rng(0).random((size, size)).astype(np.float32)
    v, rate = np.zeros_like(u), np.float32(0.1)

    def steps() -> None:
        for _ in range(STEPS // 2):
            heat_of_numba(u, rate, v)
            heat_of_numba(v, rate, u)

    return steps


def sums(rows: int, length: int) -> Callable[[], None]:
    x = kc.array(np.random.default_rng(0).random((rows, length)), dtype=float)
    y = kc.zeros(rows)

    def steps() -> None:
        for _ in range(STEPS):
            kc.launch(norms, rows, [x], [y])

    return steps


def row(name: str, work: Callable[[], None], peer: Callable[[], None] | None) -> None:
    threads = kc.num_threads()
    contenders = {
        "1 thread": Contender(work, lambda: kc.set_num_threads(1)),
        f"{threads} threads": Contender(work, lambda: kc.set_num_threads(threads)),
    }
    if peer is not None:
        contenders["numba, 1 thread"] = Contender(peer, lambda: numba.set_num_threads(1))
        contenders[f"numba, {threads} threads"] = Contender(
            peer, lambda: numba.set_num_threads(threads)
        )
    timings = timed(contenders)
    kc.set_num_threads(threads)
    ratio = timings[f"{threads} threads"].median / timings["1 thread"].median
    show(name, timings, "1 thread", [Goal(f"{name}: {threads} threads / 1", ratio, "x", MAX_RATIO)])


def main() -> None:
    for size in SIZES:
        row(f"heat, {STEPS} steps of {size} x {size}", chain(size), chain_of_numba(size))
    for rows, length in ROWS:
        row(f"{STEPS} sums over {rows} rows of {length}", sums(rows, length), None)


if __name__ == "__main__":
    main()
