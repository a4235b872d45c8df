"""What a second thread gains a kernel, while it gains work in registers all it can.

Such work shares nothing: where two threads of it take longer than one, the machine has other work,
or its host has, and no kernel could gain more. Multiply-adds fill the units for vectors, integers
all else: a core that runs a thread of somebody else may be slow at one of them only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

from tests.bench.roofline import counter, multiplier
from tests.bench.timing import ROUNDS, Contender, calls_per_sample, sample

# Of each kind of such work, per thread and round: a hundred times what starting a thread takes.
BARE_CALLS = 40
# What it gains where two processors are free.
FREE = 1.9
# Rounds that are wanted on free processors, and needed, and the time that they may take.
WANTED_ROUNDS, FEWEST_ROUNDS = 7, 3
SECONDS = 10.0

Calls = list[Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many times as fast two threads are as one.

    Attributes:
        gain: The median of the rounds on two free processors; of all if those were too few.
        rounds: The number of those rounds; 0 if they were too few.
        bare: What work in registers gained, the median of all rounds.
    """

    gain: float
    rounds: int
    bare: float

    def __str__(self) -> str:
        where = (
            f"in {self.rounds} rounds on free processors" if self.rounds else "on a busy machine"
        )
        return f"x{self.gain:.2f} {where}; work in registers x{self.bare:.2f} in all rounds"


def scaling(one: Contender, two: Contender) -> Scaling:
    """Measure a launch on one thread and on two, turn by turn, between work in registers."""
    counts: list[int] = []
    for contender in (one, two):
        contender.prepare()
        counts.append(calls_per_sample(contender.run))
    gains: list[float] = []
    free: list[float] = []
    work = _work()
    end = time.perf_counter() + SECONDS
    with ThreadPoolExecutor(2) as pool:
        bare = [_bare(pool, work)]
        while len(free) < WANTED_ROUNDS and time.perf_counter() < end:
            gains.append(sample(one, counts[0]) / sample(two, counts[1]))
            bare.append(_bare(pool, work))
            if min(bare[-2:]) >= FREE:
                free.append(gains[-1])
    if len(free) < FEWEST_ROUNDS:
        free = []
    return Scaling(median(free or gains), len(free), median(bare))


def free_processors() -> float:
    """What two threads of work in registers do in the time of one now."""
    work = _work()
    with ThreadPoolExecutor(2) as pool:
        return median(_bare(pool, work) for _ in range(ROUNDS))


def _work() -> list[Calls]:
    """Multiply-adds and integers, a call for each of two threads."""
    return [[multiplier()[0] for _ in range(2)], [counter() for _ in range(2)]]


def _bare(pool: ThreadPoolExecutor, work: list[Calls]) -> float:
    """What two threads do in the time of one, of the kind of which that is less."""
    return min(_gain(pool, calls) for calls in work)


def _gain(pool: ThreadPoolExecutor, calls: Calls) -> float:
    def repeat(call: Callable[[], object]) -> None:
        for _ in range(BARE_CALLS):
            call()

    start = time.perf_counter()
    list(pool.map(repeat, calls[:1]))
    middle = time.perf_counter()
    list(pool.map(repeat, calls))
    return 2 * (middle - start) / (time.perf_counter() - middle)
