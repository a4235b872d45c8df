"""What calls take while the processor is at its quickest, which calls of nothing tell.

A processor that was idle, or whose host has other work, runs at a part of its speed for a while. A
limit in microseconds would then be one of the machine's state, where a ratio is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from tests.bench.timing import (
    ROUNDS,
    SECONDS_PER_ROW,
    Contender,
    Timing,
    calls_per_sample,
    sample,
    timing_of,
)

# Until a processor that was idle runs at its full speed, and longer.
WARM_SECONDS = 0.5
# What calls of nothing take where the processor is at its quickest, of the least that they took.
QUICK = 1.15
# Samples of a contender that are needed between such calls.
FEWEST_SAMPLES = 5
# The part of a sample of a contender that one of the calls of nothing has.
FLOOR_PART = 0.2


@dataclass(frozen=True, slots=True)
class Paced:
    """What was found of several contenders, turn by turn.

    Attributes:
        timings: Of all rounds, by contender.
        quick: Medians in microseconds of the samples at the quickest pace; where those are fewer
            than ``FEWEST_SAMPLES``, of all.
        floor: Of the calls of nothing, in all rounds.
        part: The part of all samples that were at the quickest pace.
    """

    timings: dict[str, Timing]
    quick: dict[str, float]
    floor: Timing
    part: float

    def __str__(self) -> str:
        return (
            f"calls of nothing {self.floor.median:.3f} us +- {self.floor.spread / 2:.0%}; goals "
            f"count the {self.part:.0%} of the samples between calls at their quickest pace"
        )


def paced(contenders: Mapping[str, Contender], nothing: Callable[[], object]) -> Paced:
    """Time one call of each contender, each sample between two of ``nothing``.

    A sample is at the quickest pace if both took at most ``QUICK`` times the least of all.
    """
    counts: dict[str, int] = {}
    for name, contender in contenders.items():
        contender.prepare()
        counts[name] = calls_per_sample(contender.run)
    floor = Contender(nothing)
    floor_count = max(1, int(calls_per_sample(nothing) * FLOOR_PART))
    sample(Contender(nothing, warm_seconds=WARM_SECONDS), floor_count)
    floors = [sample(floor, floor_count)]
    rows: list[tuple[str, float]] = []
    end = time.perf_counter() + SECONDS_PER_ROW
    for number in range(ROUNDS):
        if number >= FEWEST_SAMPLES and time.perf_counter() > end:
            break
        for name, contender in contenders.items():
            rows.append((name, sample(contender, counts[name])))
            floors.append(sample(floor, floor_count))
    return _paced(list(contenders), rows, floors)


def _paced(names: list[str], rows: list[tuple[str, float]], floors: list[float]) -> Paced:
    """What samples in ``rows``, each between two of ``floors``, say."""
    limit = QUICK * min(floors)
    around = zip(rows, floors, floors[1:], strict=False)
    quick = [row for row, before, after in around if max(before, after) <= limit]
    timings: dict[str, Timing] = {}
    medians: dict[str, float] = {}
    for name in names:
        every = [us for row, us in rows if row == name]
        counted = [us for row, us in quick if row == name]
        timings[name] = timing_of(every)
        medians[name] = median(counted if len(counted) >= FEWEST_SAMPLES else every)
    return Paced(timings, medians, timing_of(floors), len(quick) / len(rows))
