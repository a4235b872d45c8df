"""Time and memory of the adjoint of a loop of 100,000 steps whose number is known at run time."""

from __future__ import annotations

import resource
import sys

import numpy as np

import kernelcore as kc
from tests.bench.timing import interleaved

STEPS = 100_000
GOAL = 6.0
# What ru_maxrss counts in.
RSS_BYTES = 1 if sys.platform == "darwin" else 1024
# Stacks grow by doubling, and hold the old memory while they copy.
GROWTH = 3.0


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


def run(name: str) -> bool:
    """Print the figures of one case; whether it meets the goal."""
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
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    adjoint()
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * RSS_BYTES
    stated = STEPS * 8 * values
    medians = interleaved({"forward": forward, "adjoint": adjoint})
    ratio = medians["adjoint"] / medians["forward"]
    print(f"\n{name}: {STEPS} steps")
    print("  " + "\n  ".join(kernel.inspect("vjp").split("\n")[: values + 1]))
    print(f"  recorded {stated / 1e6:.1f} MB, memory grew by {used / 1e6:.1f} MB")
    print(f"  forward {medians['forward']:.0f} us, adjoint {medians['adjoint']:.0f} us")
    met = ratio <= GOAL and used <= GROWTH * stated
    print(f"  goal <= {GOAL}: x{ratio:.2f}, {'met' if met else 'missed'}")
    return met


def main() -> None:
    kc.set_num_threads(1)
    for name in CASES:
        run(name)


if __name__ == "__main__":
    main()
