"""Chains of launches on one thread and on all: a heat step beside numba's, and operators.

A second thread is to take nothing away, however small the grid is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np
import torch

import kernelcore as kc
from tests.bench.framework_kernels import convolution, csr_product, product
from tests.bench.framework_operators import CASES
from tests.bench.results import Goal, show
from tests.bench.strategy_kernels import linear, mixture, wave
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


def edges(rows: int, columns: int) -> list[torch.Tensor]:
    """The operands of a product with a matrix that has four elements a row."""
    start = torch.arange(0, 4 * rows + 1, 4, dtype=torch.int32)
    column = torch.randint(0, rows, (4 * rows,), dtype=torch.int32)
    return [start, column, torch.randn(4 * rows), torch.randn(rows, columns)]


def operators() -> dict[str, tuple[Any, list[torch.Tensor]]]:
    """Operators with their operands; the calls with gradients add to what threads share."""

    def made(kernel: Any, options: Any, *shapes: tuple[int, ...]) -> Any:
        return kc.op(**options)(kernel(kc, kc.float32)), [torch.randn(shape) for shape in shapes]

    to_centres = {"launch_dims": ("x.shape[0]", "mean.shape[0]")}
    to_layer = {"launch_dims": ("x.shape[0]", "w.shape[0]")}
    options = {case.make: case.options for case in CASES}
    inner, to_product = options[convolution], options[product]
    csr = kc.op(**options[csr_product])(csr_product(kc, kc.float32))
    return {
        "wave 256 x 256": made(wave, {}, (256, 256)),
        "wave 128 x 2000": made(wave, {}, (128, 2000)),
        "convolution 2000 x 4": made(convolution, inner, (2002, 6), (3, 3)),
        "convolution 1000 x 1000": made(convolution, inner, (1002, 1002), (3, 3)),
        "CSR product 200 x 2000": (csr, edges(200, 2000)),
        "product 500 x 4 x 4": made(product, to_product, (500, 4), (4, 4)),
        "mixture 1000 x 25 x 64": made(mixture, to_centres, (1000, 64), (25, 64), (25, 64)),
        "mixture 500 x 16 x 4": made(mixture, to_centres, (500, 4), (16, 4), (16, 4)),
        "linear 500 x 500 x 4": made(linear, to_layer, (500, 4), (500, 4)),
    }


def calls(op: Any, operands: list[torch.Tensor], has_gradient: bool) -> Callable[[], None]:
    wrt = [x.requires_grad_() for x in operands if has_gradient and x.is_floating_point()]
    cotangent = torch.randn_like(op(*operands))

    def steps() -> None:
        for _ in range(STEPS):
            y = op(*operands)
            if wrt:
                torch.autograd.grad(y, wrt, cotangent)

    return steps


def row(name: str, work: Callable[[], None], peer: Callable[[], None] | None) -> None:
    threads = kc.num_threads()

    def use(count: int) -> None:
        kc.set_num_threads(count)
        torch.set_num_threads(count)

    contenders = {
        "1 thread": Contender(work, lambda: use(1)),
        f"{threads} threads": Contender(work, lambda: use(threads)),
    }
    if peer is not None:
        contenders["numba, 1 thread"] = Contender(peer, lambda: numba.set_num_threads(1))
        contenders[f"numba, {threads} threads"] = Contender(
            peer, lambda: numba.set_num_threads(threads)
        )
    timings = timed(contenders)
    use(threads)
    ratio = timings[f"{threads} threads"].median / timings["1 thread"].median
    show(name, timings, "1 thread", [Goal(f"{name}: {threads} threads / 1", ratio, "x", MAX_RATIO)])


def main() -> None:
    for size in SIZES:
        row(f"heat, {STEPS} steps of {size} x {size}", chain(size), chain_of_numba(size))
    for rows, length in ROWS:
        row(f"{STEPS} sums over {rows} rows of {length}", sums(rows, length), None)
    for name, (op, operands) in operators().items():
        row(f"{name}, {STEPS} calls", calls(op, operands, has_gradient=False), None)
        row(f"{name}, {STEPS} gradients", calls(op, operands, has_gradient=True), None)


if __name__ == "__main__":
    main()
