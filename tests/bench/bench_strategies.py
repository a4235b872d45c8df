"""How far the strategy that the cost model chooses is from the quickest one.

Every kernel, and its adjoint, is compiled with each strategy that it can have: single threads,
vectorised loops, gangs of several sizes, tiles of rows. Times are of the processor, for one thread.
``python -m tests.bench.bench_strategies softmax`` measures the kernels whose names hold the word.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any

os.environ["KC_CACHE"] = "0"  # The cache knows kernels with the strategies of the cost model.

import numpy as np

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen.analysis.loop_dependence import vector_loops
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.code_form import code_form, running_form
from kernelcore.codegen.simd.cost_model import TILE_ROWS, outer_loops
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import (
    SCALAR_CODE,
    VectorStrategy,
    choose_strategy,
    has_vector_form,
)
from kernelcore.compiler.native_code import strategies_by
from kernelcore.ir.core import Func
from tests.bench import strategy_kernels
from tests.bench.framework_operators import Random
from tests.bench.results import Goal, record
from tests.bench.suite import CASES
from tests.bench.suite.prepared import in_language
from tests.bench.timing import Contender, Timing, timed_within

GANGS = (8, 16, 32, 64)
SECONDS_PER_ROW = 0.3
MEAN_GOAL, WORST_GOAL = 1.15, 1.5
WORST_ROWS = 12
# Cases of the suite are run at this part of their size.
PART_OF_SIZE = 4


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel over arrays of one shape.

    Attributes:
        name: What tables call it.
        make: Makes the launches of a new kernel: forward, and with the adjoint.
    """

    name: str
    make: Callable[[], tuple[Callable[[], object], Callable[[], object] | None]]


def strategies(func: Func) -> list[VectorStrategy]:
    """What the compiler could choose for ``func``."""
    found = [SCALAR_CODE]
    if vector_loops(func) or outer_loops(func):
        found.append(VectorStrategy(loop_lanes=LOOP_LANES))
    if not has_vector_form(func):
        return found
    least, gathers = host().least_masked_bytes, host().gathers
    tiles = (1, *TILE_ROWS) if can_tile_rows(func) else (1,)
    return found + [
        VectorStrategy(gang, 1, rows, least, gathers=gathers) for gang in GANGS for rows in tiles
    ]


def name_of(strategy: VectorStrategy) -> str:
    """What tables call ``strategy``."""
    if strategy.gang == 1:
        return "loops" if strategy.loop_lanes > 1 else "single"
    return f"gang {strategy.gang}" + (f" x {strategy.tile_rows}" if strategy.tile_rows > 1 else "")


def subjects() -> Iterator[Subject]:
    """All kernels at all shapes."""
    for case in CASES:
        size = max(case.size // PART_OF_SIZE, 1)

        def of_suite(case: Any = case, size: int = size) -> Any:
            prepared = in_language(kc, case, case.data(size))
            return prepared.forward, prepared.adjoint

        yield Subject(case.name, of_suite)
    for name, make, args, shape, grid in strategy_kernels.cases(Random):
        dtype = args[0].dtype.name

        def of_kernel(
            make: Any = make,
            args: Any = args,
            shape: Any = shape,
            grid: Any = grid,
            dtype: Any = dtype,
        ) -> Any:
            return _launches(make(kc, getattr(kc, dtype)), args, np.zeros(shape, dtype), grid)

        yield Subject(name, of_kernel)


def _launches(
    kernel: Any, args: Sequence[Any], result: np.ndarray, grid: Sequence[int]
) -> tuple[Callable[[], object], Callable[[], object]]:
    cotangents = [
        np.zeros_like(a) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else None
        for a in args
    ]
    ones = np.ones_like(result)

    def forward() -> None:
        kc.launch(kernel, grid, args, [result])

    def adjoint() -> None:
        kc.launch(
            kernel, grid, args, [result], adj_inputs=cotangents, adj_outputs=[ones], adjoint=True
        )

    return forward, adjoint


def measured(subject: Subject) -> Iterator[tuple[str, dict[str, Timing], str]]:
    """Per direction the name, times by strategy, and what the cost model chooses."""
    for is_adjoint, suffix in ((False, ""), (True, ", adjoint")):
        runs: dict[str, Contender] = {}
        chosen = ""
        while found := _with_strategy(subject, len(runs), is_adjoint=is_adjoint):
            run, strategy, chosen = found
            runs[strategy] = Contender(run)
        if runs:
            found, behind = timed_within(runs, SECONDS_PER_ROW, time.process_time, chosen)
            found |= {name: Timing(us, us, us) for name, us in behind.items()}
            yield subject.name + suffix, found, chosen


def _with_strategy(
    subject: Subject, number: int, *, is_adjoint: bool
) -> tuple[Callable[[], object], str, str] | None:
    """A launch that is compiled with a strategy by its number, its name, and what is chosen."""
    # The last kernel that is compiled is the one that is launched.
    names: list[tuple[str | None, str]] = []

    def choose(func: Func) -> VectorStrategy | None:
        func = running_form(code_form(func))
        best = choose_strategy(func, host())
        every = {name_of(s): s for s in [*strategies(func), best]}
        picked = [*every.items(), (None, None)][min(number, len(every))]
        names.append((picked[0], name_of(best)))
        # What is chosen runs with what some launches run instead.
        return None if picked[0] == name_of(best) else picked[1]

    with strategies_by(choose):
        run = subject.make()[is_adjoint]
        if run is None:
            return None
        run()
    picked, best = names[-1]
    return None if picked is None else (run, picked, best)


def ratio_of(timings: Mapping[str, Timing], chosen: str) -> float:
    """The time of the chosen strategy as a multiple of the shortest one."""
    return timings[chosen].median / min(t.median for t in timings.values())


def main() -> None:
    kc.set_num_threads(1)
    rows: dict[str, tuple[float, str]] = {}
    for subject in subjects():
        if not all(word in subject.name for word in sys.argv[1:]):
            continue
        for name, timings, chosen in measured(subject):
            ratio = ratio_of(timings, chosen)
            by_time = sorted(timings, key=lambda who: timings[who].median)
            times = ", ".join(f"{who} {timings[who].median:.4g}" for who in by_time)
            rows[name] = ratio, f"{ratio:6.2f}  {name:45s} {chosen:10s} | us: {times}"
            print(rows[name][1], flush=True)
            best = by_time[0]
            record(name, {who: asdict(timings[who]) for who in (chosen, best)})
    ratios = [ratio for ratio, _ in rows.values()]
    print("\nthe worst:")
    for _, line in sorted(rows.values(), reverse=True)[:WORST_ROWS]:
        print(line)
    goals = [
        Goal("chosen / best strategy: geometric mean", geometric_mean(ratios), "times", MEAN_GOAL),
        Goal("chosen / best strategy: worst", max(ratios), "times", WORST_GOAL),
    ]
    for goal in goals:
        print(goal)
    record("strategies", {}, goals)


if __name__ == "__main__":
    main()
