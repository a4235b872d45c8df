"""What calls take while the processor is at its quickest, which calls of nothing tell.

A processor that was idle, or whose host has other work, runs at a part of its speed for a while. A
limit in microseconds would then be one of the machine's state, where a ratio is none.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

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
# What calls of nothing take at most where the processor is at its quickest, of their lowest tenth.
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
        quick: Medians in microseconds of the samples at the quickest pace; of all if those of a
            contender were too few.
        floor: Of the calls of nothing, in all rounds.
        part: The part of all samples that were at the quickest pace; 0 if they were too few.
    """

    timings: dict[str, Timing]
    quick: dict[str, float]
    floor: Timing
    part: float

    def __str__(self) -> str:
        what = (
            f"the {self.part:.0%} of the samples between calls at their quickest pace"
            if self.part
            else "all samples of a busy machine"
        )
        floor = f"{self.floor.median:.3f} us +- {self.floor.spread / 2:.0%}"
        return f"calls of nothing {floor}; limits in us count {what}"


def paced(
    contenders: Mapping[str, Contender], nothing: Callable[[], object] = lambda: None
) -> Paced:
    """Time one call of each contender, each sample between two of ``nothing``.

    A sample is at the quickest pace if both took at most ``QUICK`` times their lowest tenth. Rounds
    are added until every contender has enough of those.
    """
    counts: dict[str, int] = {}
    for name, contender in contenders.items():
        contender.prepare()
        counts[name] = calls_per_sample(contender.run)
    floor = Contender(nothing)
    floor_count = max(1, int(calls_per_sample(nothing) * FLOOR_PART))
    sample(Contender(nothing, warm_seconds=WARM_SECONDS), floor_count)
    floors = [sample(floor, floor_count)]
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + SECONDS_PER_ROW
    for number in itertools.count():
        is_late = number >= FEWEST_SAMPLES and time.perf_counter() > end
        if is_late or (number >= ROUNDS and quick_samples(samples, floors)):
            break
        for name, contender in contenders.items():
            samples[name].append(sample(contender, counts[name]))
            floors.append(sample(floor, floor_count))
    quick = quick_samples(samples, floors)
    return Paced(
        {name: timing_of(found) for name, found in samples.items()},
        {name: median(found) for name, found in (quick or samples).items()},
        timing_of(floors),
        sum(map(len, quick.values())) / sum(map(len, samples.values())),
    )


def quick_samples(
    samples: Mapping[str, list[float]], floors: list[float]
) -> dict[str, list[float]]:
    """Those of ``samples`` at the quickest pace; none if those of a contender are too few.

    ``floors`` are the calls of nothing before, between and after all samples, in order.
    """
    limit = QUICK * quantiles(floors, n=10)[0]
    is_between = [max(pair) <= limit for pair in itertools.pairwise(floors)]
    quick = {
        name: list(itertools.compress(found, is_between[turn :: len(samples)]))
        for turn, (name, found) in enumerate(samples.items())
    }
    return quick if min(map(len, quick.values())) >= FEWEST_SAMPLES else {}
