"""Time and memory of the adjoint of a loop of 100,000 steps whose number is known at run time."""

from __future__ import annotations

import ctypes
import resource
import sys
from pathlib import Path

import numpy as np

import kernelcore as kc
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, timed

STEPS = 100_000
# Of the adjoint, in times of the kernel itself.
MAX_TIMES = 6.0
# What ru_maxrss counts in.
RSS_BYTES = 1 if sys.platform == "darwin" else 1024
# Takes "5" as the wish to forget the most memory that the process has had.
PEAK = Path("/proc/self/clear_refs")
# Of what has to be recorded: stacks grow by doubling, and hold the old memory while they copy.
MAX_GROWTH = 3.0


@kc.kernel
def logistic(x: kc.array(dtype=kc.float64), r: kc.float64, n: int, y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        v = r * v * (1.0 - v) + 0.01 * kc.sin(v)
    y[i] = v


@kc.kernel
def oscillator(x: kc.array(dtype=kc.vec2d), n: int, y: kc.array(dtype=kc.vec2d)):
    i = kc.tid()
    p = x[i]
    for _ in range(n):
        p = p + 1e-4 * kc.vec2d(p.y, (1.0 - p.x * p.x) * p.y - p.x)
    y[i] = p


CASES = {
    "logistic": (logistic, [np.array([0.3]), 3.7], np.zeros(1), 1),
    "oscillator": (oscillator, [np.array([[0.3, 0.1]])], np.zeros((1, 2)), 2),
}


def forget_compilers_memory() -> None:
    """Give back what is free, and forget the most memory that the process has had, on Linux."""
    if PEAK.exists():
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        PEAK.write_text("5")


def run(name: str) -> None:
    """Time one case, and see by how much its adjoint makes the process grow."""
    kernel, inputs, result, values = CASES[name]
    cotangents = [np.zeros(np.shape(a)) for a in inputs]
    seed = np.ones_like(result)

    def forward(steps: int = STEPS) -> None:
        kc.launch(kernel, 1, [*inputs, steps], [result])

    def adjoint(steps: int = STEPS) -> None:
        kc.launch(
            kernel, 1, [*inputs, steps], [result], [*cotangents, None], [seed.copy()], adjoint=True
        )

    forward(1)
    adjoint(1)
    forget_compilers_memory()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    adjoint()
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * RSS_BYTES
    recorded = STEPS * 8 * values
    timings = timed({"forward": Contender(forward), "adjoint": Contender(adjoint)})
    times = timings["adjoint"].median / timings["forward"].median
    goals = [
        Goal(f"{name}, adjoint / kernel", times, "x", MAX_TIMES),
        Goal(f"{name}, growth / what is recorded", used / recorded, "x", MAX_GROWTH),
    ]
    show(f"{name}, {STEPS} steps", timings, "forward", goals)


def main() -> None:
    kc.set_num_threads(1)
    for name in CASES:
        run(name)


if __name__ == "__main__":
    main()
