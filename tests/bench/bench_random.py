"""Random numbers on one thread: both generators of kernels, beside those of NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import kernelcore as kc
from kernelcore.builtins.random import philox_init, rand_init, randf, randn
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, timed

THREADS, DRAWS = 20_000, 100
# Of Philox, in times of NumPy's generator of that name.
MAX_TIMES = 1.0


def _sum_of_draws(init: Any, draw: Any) -> kc.Kernel:
    @kc.kernel
    def total(seed: int, out: kc.array(dtype=float)):
        i = kc.tid()
        state = init(seed, i)
        sum_ = 0.0
        for _ in range(DRAWS):
            sum_ += draw(state)
        out[i] = sum_

    return total


def run(name: str, draw: Any, numpys: Callable[..., object], torchs: Callable[..., object]) -> None:
    """Time ``THREADS`` times ``DRAWS`` numbers of one distribution."""
    out = np.zeros(THREADS, np.float32)
    count = THREADS * DRAWS
    kernels = {"hash": _sum_of_draws(rand_init, draw), "philox": _sum_of_draws(philox_init, draw)}

    def launch(kernel: kc.Kernel) -> Callable[[], object]:
        return lambda: kc.launch(kernel, THREADS, [7, out])

    contenders = {key: Contender(launch(kernel)) for key, kernel in kernels.items()}
    contenders["NumPy's Philox"] = Contender(lambda: numpys(count, dtype=np.float32))
    contenders["torch"] = Contender(lambda: torchs(count))
    timings = timed(contenders)
    times = timings["philox"].median / timings["NumPy's Philox"].median
    goal = Goal(f"{name}, philox / NumPy's", times, "x", MAX_TIMES)
    show(f"{name}, {count} numbers", timings, "philox", [goal])


def main() -> None:
    kc.set_num_threads(1)
    torch.set_num_threads(1)
    generator = np.random.Generator(np.random.Philox(3))
    run("uniform", randf, generator.random, torch.rand)
    run("normal", randn, generator.standard_normal, torch.randn)


if __name__ == "__main__":
    main()
