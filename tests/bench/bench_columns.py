"""Threads that go down columns, beside torch, on one thread and two.

``python -m tests.bench.bench_columns softmax`` measures those whose names hold the word. Rows of a
power of two bytes are hard for caches.
"""

# The types of parameters belong to a module that is known when a kernel is made.
# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

import torch

import kernelcore as kc
from tests.bench.bench_products import THREADS, with_threads
from tests.bench.results import Goal, record
from tests.bench.timing import Contender, timed
from tests.helpers.vectorised.columns import column_softmax, column_sum

# Rows and columns.
SHAPES = ((4096, 512), (512, 4096), (4096, 4096), (1000, 1000), (256, 256), (64, 100_000), (40, 64))
ROUNDS = 9
GOAL = 1.0


@kc.kernel
def weighted(x: kc.array2d[float], a: kc.array1d[float], y: kc.array1d[float]):
    j = kc.tid()
    found = 0.0
    for k in range(x.shape[0]):
        found += a[k] * x[k, j]
    y[j] = found


@kc.kernel
def norm(x: kc.array2d[float], y: kc.array2d[float]):
    j = kc.tid()
    count = float(x.shape[0])
    mean = 0.0
    for k in range(x.shape[0]):
        mean += x[k, j]
    mean = mean / count
    squares = 0.0
    for k in range(x.shape[0]):
        squares += (x[k, j] - mean) * (x[k, j] - mean)
    scale = 1.0 / kc.sqrt(squares / count + 1.0e-5)
    for k in range(x.shape[0]):
        y[k, j] = (x[k, j] - mean) * scale


# By kernel, what torch has for it, and whether its result is a row.
Peer = Callable[..., torch.Tensor]
SUBJECTS: tuple[tuple[Any, Peer, bool], ...] = (
    (column_sum, lambda x: x.sum(0), True),
    (weighted, lambda x, a: a @ x, True),
    (column_softmax, lambda x: torch.softmax(x, 0), False),
    (norm, lambda x: torch.batch_norm(x, None, None, None, None, True, 0.0, 1e-5, False), False),
)


def main() -> None:
    random, ratios = torch.Generator().manual_seed(0), dict[int, list[float]]()
    for kernel, peer, is_row in SUBJECTS:
        for rows, columns in SHAPES:
            name = f"{kernel.name} {rows} x {columns}"
            if not all(word in name for word in sys.argv[1:]):
                continue
            args = [torch.randn(rows, columns, generator=random)]
            if len(kernel.func.params) == 3:
                args.append(torch.randn(rows, generator=random))
            wanted = peer(*args)
            y = torch.zeros(columns) if is_row else torch.zeros(rows, columns)
            kc.launch(kernel, dim=columns, inputs=args, outputs=[y])
            torch.testing.assert_close(y, wanted, rtol=1e-3, atol=1e-3)

            def run(kernel: Any = kernel, args: Any = args, y: Any = y, dim: int = columns) -> None:
                kc.launch(kernel, dim=dim, inputs=args, outputs=[y])

            def theirs(peer: Peer = peer, args: Any = args) -> torch.Tensor:
                return peer(*args)

            contenders: dict[str, Contender] = {}
            for threads in THREADS:
                contenders[f"kernelcore, {threads}"] = Contender(run, with_threads(threads))
                contenders[f"torch, {threads}"] = Contender(theirs, with_threads(threads))
            us = {who: t.median for who, t in timed(contenders, ROUNDS).items()}
            found = [us[f"kernelcore, {n}"] / us[f"torch, {n}"] for n in THREADS]
            for n, ratio in zip(THREADS, found, strict=True):
                ratios.setdefault(n, []).append(ratio)
            times = ", ".join(f"{who}: {value:.0f}" for who, value in us.items())
            print("".join(f"{r:6.2f}" for r in found), f" {name:22s} us: {times}", flush=True)
            record(name, us)
    goals = [
        Goal(f"columns, {n} threads / torch: geometric mean", geometric_mean(found), "times", GOAL)
        for n, found in ratios.items()
    ]
    for goal in goals:
        print(goal)
    record("columns", {str(n): found for n, found in ratios.items()}, goals)


if __name__ == "__main__":
    main()
