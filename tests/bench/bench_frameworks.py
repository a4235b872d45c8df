"""Operators that are written as kernels, beside what users of torch or JAX would call instead.

Forward, and forward with the gradient: for a cotangent in memory, and for that of ``.sum()``, whose
strides are zero. Transposed operands are timed beside dense ones, and beside torch.
``python -m tests.bench.bench_frameworks`` writes ``output/frameworks.json`` and its chart.
``... softmax --quick`` times the operators whose names hold the word, on one thread and beside
torch and jax.jit only, in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import jax
import torch
from torch._inductor.config import cpp

import kernelcore as kc
from tests.bench import chart_frameworks
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
    compile_in_torch,
    contenders_of,
    differences,
    problem_of,
)
from tests.bench.framework_operators import CASES, Case
from tests.bench.results import Goal, record
from tests.bench.run import machine_description
from tests.bench.timing import Contender, Timing, timed_within
from tests.helpers.environment import ROOT

KINDS = (FORWARD, GRADIENT, EXPANDED)
# What operands of other strides are compared with.
DENSE_KINDS = {TRANSPOSED_OPERANDS: FORWARD, TRANSPOSED: GRADIENT, EXPANDED: GRADIENT}
# Only torch has operands of such strides: JAX copies them when it makes its arrays.
STRIDED_KINDS = (TRANSPOSED_OPERANDS, TRANSPOSED)
THREADS = (1, 2)
GOAL, STRIDED_GOAL = 0.8, 1.1
WORST_ROWS = 10
SECONDS_PER_ROW, QUICK_SECONDS_PER_ROW = 0.4, 0.3
OUTPUT = ROOT / "output" / "frameworks.json"


@dataclass(frozen=True, slots=True)
class Row:
    """Times of one operator, by contender.

    Attributes:
        operator: What was run.
        kind: Forward, or which gradient.
        timings: The times.
        ours: Whose time is compared.
        best: With whose.
        limit: The largest ratio that is accepted.
        behind: Microseconds of contenders that take too long to be timed again.
    """

    operator: str
    kind: str
    timings: Mapping[str, Timing]
    ours: str
    best: str
    limit: float
    behind: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def name(self) -> str:
        """The operator and the kind."""
        return f"{self.operator}, {self.kind}"

    @property
    def ratio(self) -> float:
        """Our time as a multiple of the best one."""
        return self.timings[self.ours].median / self.timings[self.best].median

    def __str__(self) -> str:
        times = [f"{name} {t.median / 1e3:.3g}" for name, t in self.timings.items()]
        times += [f"{name} {us / 1e3:.3g} (far behind)" for name, us in self.behind.items()]
        return f"{self.ratio:6.2f}  {self.name:55s} {', '.join(times)}"


def main() -> int:
    options = _options()
    if options.compile:
        _use_threads(1)
        for case in _cases(options):
            if not case.is_long:
                compile_in_torch(case)
        return 0
    if options.part is None:
        return _run_parts(options)
    begin = time.perf_counter()
    (threads,) = options.threads
    _use_threads(threads)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{threads} threads; ratio to the best alternative, then times in ms", flush=True)
    seconds = QUICK_SECONDS_PER_ROW if options.quick else SECONDS_PER_ROW
    rows: list[Row] = []
    strided: list[Row] = []
    beside: list[Row] = []
    for case in _cases(options):
        start = time.perf_counter()
        problem = problem_of(case)
        found = contenders_of(problem, is_quick=options.quick)
        if not options.strides:
            rows += _measured(problem, found, KINDS, seconds, threads)
        if not case.is_long:
            strided += _strided(case, found[OURS], seconds, threads)
            beside += _measured(problem, found, STRIDED_KINDS, seconds, threads)
        print(f"        {case.name}: {time.perf_counter() - start:.1f} s", flush=True)
    _conclude(rows, strided, beside, threads)
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{time.perf_counter() - begin:.0f} s, at most {gigabytes:.1f} GB")
    kept = [_entry(row, threads) for row in rows]
    options.part.write_text(json.dumps(kept))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words that are in the names of operators")
    parser.add_argument("--quick", action="store_true", help="one thread, two peers, less time")
    parser.add_argument("--strides", action="store_true", help="only operands of other strides")
    parser.add_argument("--threads", type=int, action="append", choices=THREADS)
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--part", type=Path, help=argparse.SUPPRESS)
    found = parser.parse_args()
    found.threads = found.threads or ([1] if found.quick else list(THREADS))
    return found


def _cases(options: argparse.Namespace) -> list[Case]:
    found = [c for c in CASES if all(word in c.name for word in options.words)]
    # Long ones first, while others are compiled.
    return [c for c in found if c.is_long and not options.quick] + [
        c for c in found if not c.is_long
    ]


def _run_parts(options: argparse.Namespace) -> int:
    """A process for each number of threads: how many JAX has is settled once."""
    if not _cases(options):
        names = "; ".join(case.name for case in CASES)
        sys.exit(f"no operator's name holds {' and '.join(options.words)}; the operators: {names}")
    OUTPUT.parent.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    flags = [f"--{name}" for name in ("quick", "strides") if getattr(options, name)]
    command = [sys.executable, "-m", __spec__.name, *options.words]
    # Ahead of the first part, which measures processor time.
    compiling = None if options.quick else subprocess.Popen([*command, "--compile"], cwd=ROOT)
    for threads in options.threads:
        part = OUTPUT.with_name(f"frameworks.{threads}.json")
        arguments = [*flags, "--threads", str(threads), "--part", str(part)]
        if compiling is not None and threads > 1:
            compiling.wait()
        done = subprocess.run([*command, *arguments], cwd=ROOT, check=False)
        if done.returncode != 0:
            return done.returncode
        rows += json.loads(part.read_text())
        part.unlink()
    OUTPUT.write_text(json.dumps({"machine": machine_description(), "rows": rows}, indent=1) + "\n")
    if rows:
        chart_frameworks.draw(rows, OUTPUT.with_suffix(".png"))
    return 0


def _use_threads(threads: int) -> None:
    # XLA reads it when the first array is made.
    os.environ["NPROC"] = str(threads)
    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(threads)
    # All operators are large enough for several threads: their code is the same for any number of
    # them, and compiled once.
    cpp.dynamic_threads = True
    kc.set_num_threads(threads)


def _clock(threads: int) -> Callable[[], float]:
    # Processor time of one thread does not depend on what else the machine does.
    return time.process_time if threads == 1 else time.perf_counter


def _measured(
    problem: Problem, found: Mapping[str, Runs], kinds: Sequence[str], seconds: float, threads: int
) -> list[Row]:
    """The rows of an operator, whose results are compared first.

    Raises:
        ArithmeticError: A contender computes something else.
    """
    rows: list[Row] = []
    scales: list[float] = []
    for kind in kinds:
        name = f"{problem.case.name}, {kind}"
        runs = {who: r[kind] for who, r in found.items() if kind in r}
        # The gradients for both cotangents are of one size.
        errors, scales = differences(problem, found, kind, scales if kind == EXPANDED else ())
        for who, error in errors.items():
            if error <= 1.0:
                continue
            if who != WARP:
                raise ArithmeticError(f"{name}: {who}: off by {error:.3g} times the tolerance")
            # Its adjoints of loops that carry values are not the derivatives.
            print(f"        {name}: {who} is left out, off by {error:.3g} times the tolerance")
            del runs[who]
        contenders = {who: Contender(run) for who, run in runs.items()}
        timings, behind = timed_within(contenders, seconds, _clock(threads), OURS)
        others = (who for who in timings if OURS not in who)
        best = min(others, key=lambda who: timings[who].median)
        rows.append(Row(problem.case.name, kind, timings, OURS, best, problem.case.limit, behind))
        print(rows[-1], flush=True)
    return rows


def _strided(case: Case, runs: Runs, seconds: float, threads: int) -> list[Row]:
    """Our times for operands of other strides as multiples of those for dense ones."""
    for run in runs.values():
        run()
    contenders = {kind: Contender(run) for kind, run in runs.items()}
    timings, behind = timed_within(contenders, seconds, _clock(threads))
    timings |= {kind: Timing(us, us, us) for kind, us in behind.items()}
    rows: list[Row] = []
    for kind, dense in DENSE_KINDS.items():
        pair = {kind: timings[kind], dense: timings[dense]}
        rows.append(Row(case.name, kind, pair, kind, dense, STRIDED_GOAL))
        print(rows[-1], flush=True)
    return rows


def _conclude(
    rows: Sequence[Row], strided: Sequence[Row], beside: Sequence[Row], threads: int
) -> None:
    """Print and record the rows, their mean and the worst ones."""
    many = f"{threads} thread{'s' if threads > 1 else ''}"
    for title, all_rows, goal_of_mean, suffix in (
        (f"ours / best alternative, {many}", rows, GOAL, ""),
        (f"operands of other strides / dense ones, {many}", strided, None, ""),
        (f"operands of other strides, ours / torch, {many}", beside, GOAL, ", beside torch"),
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
        if goal_of_mean is not None:
            goals.append(Goal(f"{title}: geometric mean", mean, "times", goal_of_mean))
        kept = {
            row.name: {who: asdict(row.timings[who]) for who in (row.ours, row.best)}
            for row in all_rows
        }
        for goal in goals:
            print(goal)
        # Drawn in one panel, a line per operator.
        for name, timings in kept.items():
            record(f"{name}{suffix}, {many}", timings)
        record(title, {}, goals)


def _entry(row: Row, threads: int) -> dict[str, Any]:
    return {
        "operator": row.operator,
        "kind": row.kind,
        "threads": threads,
        "limit": row.limit,
        "best": row.best,
        "ratio": row.ratio,
        "us": {name: asdict(timing) for name, timing in row.timings.items()},
        "us_of_those_far_behind": dict(row.behind),
    }


if __name__ == "__main__":
    sys.exit(main())
