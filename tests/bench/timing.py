"""Interleaved timing: every contender in turn, several rounds, medians."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.bench.results import Goal, show

ROUNDS = 15
FEWEST_ROUNDS = 5
# Rounds of ``timed_within`` where a single call takes more than its share of the time.
LEAST_ROUNDS = 3
# Contenders that take this many times as long as the quickest are measured once.
FAR_BEHIND = 20.0
# The same where a single call takes longer than a sample.
BEHIND = 3.0
SECONDS_PER_SAMPLE = 0.02
# A row of contenders that take longer has fewer rounds.
SECONDS_PER_ROW = 20.0


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to time, what is done before each sample, and for how long it runs before that."""

    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None
    warm_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of one call over the rounds: the median, and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Distance of the quartiles as a part of the median."""
        return (self.high - self.low) / self.median


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


def timed(
    contenders: Mapping[str, Contender],
    rounds: int = ROUNDS,
    seconds: float = SECONDS_PER_ROW,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """The time of one call of each contender, measured turn by turn.

    Contenders that take longer than ``seconds`` have fewer than ``rounds`` rounds.
    """
    counts: dict[str, int] = {}
    for name, contender in contenders.items():
        contender.prepare()
        counts[name] = calls_per_sample(contender.run)
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    orders = _orders(contenders)
    begin = time.perf_counter()
    for number in range(rounds):
        if number >= FEWEST_ROUNDS and time.perf_counter() - begin > seconds:
            break
        for name in next(orders):
            samples[name].append(sample(contenders[name], counts[name], clock))
    return {name: timing_of(s) for name, s in samples.items()}


def timed_within(
    contenders: Mapping[str, Contender],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    needed: str = "",
) -> tuple[dict[str, Timing], dict[str, float]]:
    """As ``timed``, for about ``seconds`` in all; contenders have run before.

    Each contender runs once. Those that take more than ``FAR_BEHIND`` times the shortest time, in
    that call and another, do not run again; those with ``needed`` in their names run in any case,
    and their times do not count as the shortest. The others run turn by turn, in ``ROUNDS`` rounds
    of samples of equal duration. Where a single call takes longer than that, there are fewer
    rounds, and at least ``LEAST_ROUNDS`` with the first call; then those that take ``BEHIND`` times
    the shortest time do not run again.

    Returns:
        Times by contender, and the microseconds of the quicker call of those far behind.
    """
    once = {name: sample(c, 1, clock, warm=False) for name, c in contenders.items()}
    peers = {name for name in once if not needed or needed not in name}
    shortest = min(once[name] for name in peers or once)
    share = min(1e6 * seconds / ROUNDS / len(contenders), 1e6 * SECONDS_PER_SAMPLE)
    is_long = min(once.values()) > share
    limit = (BEHIND if is_long else FAR_BEHIND) * shortest
    for name, us in once.items():
        if us > limit and name in peers and not is_long:
            # An interruption is no reason to leave a contender out.
            once[name] = min(us, sample(contenders[name], 1, clock, warm=False))
    behind = {name: us for name, us in once.items() if us > limit and name in peers}
    kept = {name: c for name, c in contenders.items() if name not in behind}
    counts = {name: max(1, int(share / max(once[name], 0.01))) for name in kept}
    samples = {name: [us] if is_long else [] for name, us in once.items() if name in kept}
    orders = _orders(kept)
    begin = time.perf_counter()
    while (done := len(next(iter(samples.values())))) < ROUNDS:
        if done >= LEAST_ROUNDS and time.perf_counter() - begin > seconds:
            break
        for name in next(orders):
            # A call before each sample brings the operands of short calls into the caches.
            is_short = counts[name] > 1
            samples[name].append(sample(kept[name], counts[name], clock, warm=is_short))
    return {name: timing_of(s) for name, s in samples.items()}, behind


def _orders(contenders: Mapping[str, Contender]) -> Iterator[list[str]]:
    """A random order per round: a fixed one would always leave a contender the same caches."""
    names, generator = list(contenders), random.Random(0)
    while True:
        yield generator.sample(names, len(names))


def interleaved(contenders: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median microseconds of one call of each contender, measured turn by turn."""
    found = timed({name: Contender(run) for name, run in contenders.items()})
    return {name: timing.median for name, timing in found.items()}


def report(
    title: str,
    medians: Mapping[str, float],
    ours: str,
    goal_us: float | None = None,
    goal_times: tuple[str, float] | None = None,
    counted: Mapping[str, float] | None = None,
) -> None:
    """As ``show`` for medians alone. Goals of ``ours``: microseconds, times a peer's speed.

    The goal in microseconds counts what is ``counted``, by default ``medians``.
    """
    rows = {name: Timing(value, value, value) for name, value in medians.items()}
    us = (counted or medians)[ours]
    goals = [] if goal_us is None else [Goal(f"{title}, {ours}", us, "us", goal_us)]
    if goal_times is not None:
        peer, wanted = goal_times
        times = medians[peer] / medians[ours]
        goals.append(Goal(f"{title}, {ours} as fast as {peer}", times, "times", wanted, True))
    show(title, rows, ours, goals)


def sample(
    contender: Contender,
    count: int,
    clock: Callable[[], float] = time.perf_counter,
    *,
    warm: bool = True,
) -> float:
    """Microseconds of one of ``count`` calls of a contender, by a ``clock`` of seconds."""
    contender.prepare()
    if warm:
        # What the contender before left in the caches and asleep is not this one's time.
        _run_for(contender.warm_seconds, contender.run)
    repeat, run = range(count), contender.run
    start = clock()
    for _ in repeat:
        run()
    return (clock() - start) / count * 1e6


def _run_for(seconds: float, function: Callable[[], object]) -> None:
    """Call ``function`` at least once, and until ``seconds`` have passed."""
    start = time.perf_counter()
    while True:
        function()
        if time.perf_counter() - start >= seconds:
            return


def timing_of(samples: list[float]) -> Timing:
    """The median and the quartiles of ``samples``."""
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, low, high)
