"""Products and linear layers of small and large batches, beside torch, on one thread and two.

``added`` is the product that adds to its result in the loop, ``gradient`` the backward pass of the
product. ``python -m tests.bench.bench_products product float64`` measures those whose names hold
the words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from statistics import geometric_mean

import numpy as np
import torch

import kernelcore as kc
from tests.bench.framework_kernels import product
from tests.bench.results import Goal, record
from tests.bench.strategy_kernels import added, linear
from tests.bench.timing import Contender, timed

# Rows of the result, columns, iterations. Widths that are a power of two are hard for caches.
SHAPES = (
    *((1, 512, 512), (7, 512, 512), (8, 512, 512), (16, 512, 512), (31, 512, 512), (64, 512, 512)),
    *((512, 512, 512), (16, 500, 500), (1, 1024, 1024), (4, 1024, 1024), (16, 1024, 1024)),
    *((32, 1024, 1024), (64, 1024, 1024), (1024, 1024, 1024), (256, 64, 64), (257, 512, 512)),
    *((1000, 25, 64), (2000, 3, 64), (100, 100, 2000), (128, 128, 128)),
)
# The threads of a gradient keep a value each, for some rows at a time: for fewer of wide rows.
GRADIENT_SHAPES = (
    *((512, 512, 512), (512, 576, 512), (700, 700, 700), (1024, 1024, 1024)),
    *((512, 1500, 512), (256, 4096, 256)),
)
THREADS = (1, 2)
GOAL, TWO_GOAL = 1.1, 1.05
ROUNDS = 9


def main() -> None:
    ratios: list[float] = []
    gains: list[float] = []
    for name, run, peer in (*subjects(sys.argv[1:]), *gradients(sys.argv[1:])):
        contenders: dict[str, Contender] = {}
        for threads in THREADS:
            contenders[f"kernelcore, {threads}"] = Contender(run, with_threads(threads))
            contenders[f"torch, {threads}"] = Contender(peer, with_threads(threads))
        us = {who: t.median for who, t in timed(contenders, ROUNDS).items()}
        ratios.append(us["kernelcore, 1"] / us["torch, 1"])
        gains.append(us["kernelcore, 2"] / us["kernelcore, 1"])
        times = ", ".join(f"{who}: {value:.0f}" for who, value in us.items())
        print(f"{ratios[-1]:5.2f} {gains[-1]:5.2f}  {name:34s} us: {times}", flush=True)
        record(name, us)
    goals = (
        Goal("one thread / torch: geometric mean", geometric_mean(ratios), "times", GOAL),
        Goal("two threads / one: worst", max(gains), "times", TWO_GOAL),
    )
    for goal in goals:
        print(goal)
    record("products", {"ratios": ratios, "gains": gains}, goals)


def subjects(
    words: list[str],
) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Name, launch, and what torch does, of all whose names hold ``words``."""
    random = np.random.default_rng(0)
    found: list[tuple[str, Callable[[], object], Callable[[], object]]] = []
    for dtype in (np.float32, np.float64):
        kernels = [make(kc, getattr(kc, dtype.__name__)) for make in (product, linear, added)]
        for kernel in kernels:
            for m, n, k in SHAPES:
                name = f"{kernel.name} {m} x {n} of {k}, {dtype.__name__}"
                if not all(word in name for word in words):
                    continue
                x, w = (random.standard_normal(s).astype(dtype) for s in ((m, k), (n, k)))
                y = np.zeros((m, n), dtype)
                at, wt = torch.from_numpy(x), torch.from_numpy(w).T
                if kernel.name == "linear":
                    args = [w, x, y]
                else:
                    columns = np.ascontiguousarray(w.T)
                    wt, args = torch.from_numpy(columns), [x, columns, y]
                kc.launch(kernel, dim=y.shape, inputs=args)
                np.testing.assert_allclose(y, x @ w.T, rtol=0, atol=1e-3)

                def run(kernel: object = kernel, y: object = y, args: object = args) -> None:
                    kc.launch(kernel, dim=y.shape, inputs=args)  # pyright: ignore

                def peer(at: torch.Tensor = at, wt: torch.Tensor = wt) -> torch.Tensor:
                    return at @ wt

                found.append((name, run, peer))
    return found


def gradients(
    words: list[str],
) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
    """As ``subjects``, of backward passes."""
    random = torch.Generator().manual_seed(0)
    found: list[tuple[str, Callable[[], object], Callable[[], object]]] = []
    for dtype in (torch.float32, torch.float64):
        name_of_type = str(dtype).removeprefix("torch.")
        dims = "a.shape[0]", "b.shape[1]"
        kernel = product(kc, getattr(kc, name_of_type))
        op = kc.op(launch_dims=dims, output_dims=dims)(kernel)
        for m, n, k in GRADIENT_SHAPES:
            name = f"gradient {m} x {n} of {k}, {name_of_type}"
            if not all(word in name for word in words):
                continue
            a, b, ct = (
                torch.randn(shape, dtype=dtype, generator=random)
                for shape in ((m, k), (k, n), (m, n))
            )
            factors = a.requires_grad_(), b.requires_grad_()
            backward = [
                partial(torch.autograd.grad, y, factors, ct, retain_graph=True)
                for y in (op(a, b), a @ b)
            ]
            for ours, theirs in zip(*(each() for each in backward), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-3)
            found.append((name, backward[0], backward[1]))
    return found


def with_threads(count: int) -> Callable[[], None]:
    """What gives all contenders ``count`` threads."""

    def use() -> None:
        kc.set_num_threads(count)
        torch.set_num_threads(count)

    return use


if __name__ == "__main__":
    main()
