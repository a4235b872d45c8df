"""Interleaved timing: every contender in turn, several rounds, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 15
SECONDS_PER_SAMPLE = 0.02


def calls_per_sample(function: Callable[[], object]) -> int:
    """How many calls fill a sample; warms the function up."""
    function()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            function()
        elapsed = time.perf_counter() - start
        if elapsed > SECONDS_PER_SAMPLE / 4:
            return max(1, int(count * SECONDS_PER_SAMPLE / elapsed))
        count *= 4


def interleaved(contenders: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median microseconds of one call of each contender, measured turn by turn."""
    counts = {name: calls_per_sample(f) for name, f in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, function in contenders.items():
            repeat = range(counts[name])
            start = time.perf_counter()
            for _ in repeat:
                function()
            samples[name].append((time.perf_counter() - start) / counts[name] * 1e6)
    return {name: statistics.median(s) for name, s in samples.items()}


def report(
    title: str, medians: Mapping[str, float], ours: str, goal_us: float | None = None
) -> None:
    """Print the medians, every contender's time as a multiple of ``ours``, and the verdict."""
    print(f"\n{title}")
    for name, value in medians.items():
        print(f"  {name:44s} {value:10.2f} us   x{value / medians[ours]:.2f}")
    if goal_us is not None:
        verdict = "met" if medians[ours] <= goal_us else "missed"
        print(f"  goal <= {goal_us} us: {medians[ours]:.2f} us, {verdict}")
