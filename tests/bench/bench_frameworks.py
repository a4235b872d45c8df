"""Operators that are written as kernels, beside what users of torch or JAX would call instead.

Forward, and forward with the gradient: for a cotangent in memory, and for that of ``.sum()``, whose
strides are zero. ``python -m tests.bench.bench_frameworks softmax --quick`` times the operators
whose names hold the word, on one thread and beside torch and jax.jit only, in seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean

import jax
import torch

import kernelcore as kc
from tests.bench.framework_contenders import (
    EXPANDED,
    FORWARD,
    GRADIENT,
    OURS,
    TRANSPOSED,
    TRANSPOSED_OPERANDS,
    WARP,
    Problem,
    Runs,
    contenders_of,
    differences,
    problem_of,
)
from tests.bench.framework_operators import CASES, Case
from tests.bench.results import Goal, record
from tests.bench.timing import FEWEST_ROUNDS, ROUNDS, Contender, Timing, timed
from tests.helpers.environment import ROOT

KINDS = (FORWARD, GRADIENT, EXPANDED)
# What operands of other strides are compared with.
DENSE_KINDS = {TRANSPOSED_OPERANDS: FORWARD, TRANSPOSED: GRADIENT, EXPANDED: GRADIENT}
THREADS = (1, 2)
GOAL, STRIDED_GOAL = 0.8, 1.1
WORST_ROWS = 10
SECONDS_PER_ROW = 8.0


@dataclass(frozen=True, slots=True)
class Row:
    """Times of one operator, by contender.

    Attributes:
        name: What was run.
        timings: The times.
        ours: Whose time is compared.
        best: With whose.
        limit: The largest ratio that is accepted.
    """

    name: str
    timings: Mapping[str, Timing]
    ours: str
    best: str
    limit: float

    @property
    def ratio(self) -> float:
        """Our time as a multiple of the best one."""
        return self.timings[self.ours].median / self.timings[self.best].median

    def __str__(self) -> str:
        times = (f"{name} {t.median / 1e3:.3g}" for name, t in self.timings.items())
        return f"{self.ratio:6.2f}  {self.name:55s} {', '.join(times)}"


def main() -> int:
    options = _options()
    if len(options.threads) > 1:
        return max(_in_process(threads) for threads in options.threads)
    (threads,) = options.threads
    _use_threads(threads)
    cases = [c for c in CASES if all(word in c.name for word in options.words)]
    if options.quick:
        cases = [case for case in cases if not case.is_long]
    if not cases:
        names = "; ".join(case.name for case in CASES)
        sys.exit(f"no operator's name holds {' and '.join(options.words)}; the operators: {names}")
    rounds = FEWEST_ROUNDS if options.quick else ROUNDS
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{threads} threads; ratio to the best alternative, then times in ms", flush=True)
    rows: list[Row] = []
    strided: list[Row] = []
    for case in cases:
        problem = problem_of(case)
        found = contenders_of(problem, is_quick=options.quick)
        if not options.strides:
            rows += _measured(problem, found, rounds)
        if not case.is_long:
            strided += _strided(case, found[OURS], rounds, threads)
    _conclude(rows, strided, threads)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words that are in the names of operators")
    parser.add_argument("--quick", action="store_true", help="one thread, two peers, few rounds")
    parser.add_argument("--strides", action="store_true", help="only operands of other strides")
    parser.add_argument("--threads", type=int, action="append", choices=THREADS)
    found = parser.parse_args()
    found.threads = found.threads or ([1] if found.quick else list(THREADS))
    return found


def _in_process(threads: int) -> int:
    """The same in a process of its own: how many threads JAX has is settled once."""
    command = [sys.executable, "-m", "tests.bench.bench_frameworks", *sys.argv[1:]]
    command += ["--threads", str(threads)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _use_threads(threads: int) -> None:
    # XLA reads it when the first array is made.
    os.environ["NPROC"] = str(threads)
    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(threads)
    kc.set_num_threads(threads)


def _measured(problem: Problem, found: Mapping[str, Runs], rounds: int) -> list[Row]:
    """The rows of an operator, whose results are compared first.

    Raises:
        ArithmeticError: A contender computes something else.
    """
    rows: list[Row] = []
    for kind in KINDS:
        name = f"{problem.case.name}, {kind}"
        runs = {who: r[kind] for who, r in found.items() if kind in r}
        for who, error in differences(problem, found, kind):
            if error <= 1.0:
                continue
            if who != WARP:
                raise ArithmeticError(f"{name}: {who}: off by {error:.3g} times the tolerance")
            # Its adjoints of loops that carry values are not the derivatives.
            print(f"        {name}: {who} is left out, off by {error:.3g} times the tolerance")
            del runs[who]
        contenders = {who: Contender(run) for who, run in runs.items()}
        timings = timed(contenders, rounds, SECONDS_PER_ROW)
        others = (who for who in timings if OURS not in who)
        best = min(others, key=lambda who: timings[who].median)
        rows.append(Row(name, timings, OURS, best, problem.case.limit))
        print(rows[-1], flush=True)
    return rows


def _strided(case: Case, runs: Runs, rounds: int, threads: int) -> list[Row]:
    """Our times for operands of other strides as multiples of those for dense ones."""
    contenders = {kind: Contender(run) for kind, run in runs.items()}
    # Processor time of one thread does not depend on what else the machine does.
    clock = time.process_time if threads == 1 else time.perf_counter
    timings = timed(contenders, rounds, SECONDS_PER_ROW, clock)
    rows: list[Row] = []
    for kind, dense in DENSE_KINDS.items():
        pair = {kind: timings[kind], dense: timings[dense]}
        rows.append(Row(f"{case.name}, {kind}", pair, kind, dense, STRIDED_GOAL))
        print(rows[-1], flush=True)
    return rows


def _conclude(rows: Sequence[Row], strided: Sequence[Row], threads: int) -> None:
    """Print and record the rows, their mean and the worst ones."""
    many = f"{threads} thread{'s' if threads > 1 else ''}"
    for title, all_rows in (
        (f"ours / best alternative, {many}", rows),
        (f"operands of other strides / dense ones, {many}", strided),
    ):
        if not all_rows:
            continue
        mean = geometric_mean(row.ratio for row in all_rows)
        worst = sorted(all_rows, key=lambda row: row.ratio / row.limit, reverse=True)
        missed = sum(row.ratio > row.limit for row in all_rows)
        print(f"\n{title}: geometric mean {mean:.2f} of {len(all_rows)} rows; the worst:")
        for row in worst[:WORST_ROWS]:
            print(row)
        goals = [Goal(f"{title}: rows beyond their limits", missed, "rows", 0)]
        if all_rows is rows:
            goals.append(Goal(f"{title}: geometric mean", mean, "times", GOAL))
        kept = {
            row.name: {who: asdict(row.timings[who]) for who in (row.ours, row.best)}
            for row in all_rows
        }
        for goal in goals:
            print(goal)
        # Drawn in one panel, a line per operator.
        for name, timings in kept.items():
            record(f"{name}, {many}", timings)
        record(title, {}, goals)


if __name__ == "__main__":
    sys.exit(main())
