"""Limits of benchmarks count what was measured while the processor was at its quickest."""

from __future__ import annotations

from tests.bench.pace import FEWEST_SAMPLES, quick_samples

ROUNDS = FEWEST_SAMPLES + 1
SAMPLES = {"a": [float(k) for k in range(ROUNDS)], "b": [10.0 + k for k in range(ROUNDS)]}


def floors() -> list[float]:
    """Of calls of nothing before, between and after the samples."""
    return [1.0 + 0.01 * (k % 3) for k in range(2 * ROUNDS + 1)]


def test_all_samples_between_fast_calls_count() -> None:
    assert quick_samples(SAMPLES, floors()) == SAMPLES


def test_a_slow_call_takes_the_samples_on_its_sides() -> None:
    slow = floors()
    slow[4] = 1.5
    without = {"a": [0, 1, 3, 4, 5], "b": [10, 12, 13, 14, 15]}
    assert quick_samples(SAMPLES, slow) == without


def test_too_few_samples_of_one_are_none_of_any() -> None:
    slow = floors()
    slow[0] = slow[4] = 1.5
    assert quick_samples(SAMPLES, slow) == {}
