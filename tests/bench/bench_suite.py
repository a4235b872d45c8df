"""The suite: 13 kernels, forward and adjoint, on one and two threads, beside Warp and numba.

``python -m tests.bench.bench_suite n-body matmul`` times the kernels whose names hold one of these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from statistics import geometric_mean, median

import numpy as np

import kernelcore
from tests.bench.results import Goal, record
from tests.bench.roofline import copier, multiplier
from tests.bench.scaling import Scaling, scaling
from tests.bench.suite import CASES
from tests.bench.suite.case import Case
from tests.bench.suite.contenders import in_numba, quiet_warp, use_threads
from tests.bench.suite.prepared import Prepared, in_language
from tests.bench.timing import Contender, Timing, timed

# Of inputs and outputs together: beyond the level-2 cache, within the level-3 cache.
COPY_BYTES = 12 << 20
# What contracting products and sums changes in a gradient, as a part of the largest.
GRADIENT_TOLERANCE = 1e-4
# Until the system has given a new thread a processor.
THREADS_START_SECONDS = 0.1
OURS, OURS_2 = "kernelcore", "kernelcore, 2 threads"
WARP, NUMBA, NUMBA_2 = "Warp", "numba", "numba, 2 threads"

Row = dict[str, Timing]


def main() -> None:
    wanted = sys.argv[1:]
    cases = [c for c in CASES if not wanted or any(w.lower() in c.name.lower() for w in wanted)]
    if not cases:
        names = ", ".join(case.name for case in CASES)
        sys.exit(f"no kernel's name holds {' or '.join(map(repr, wanted))}; the kernels: {names}")
    forward: dict[str, Row] = {}
    adjoint: dict[str, Row] = {}
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"\n{'':24}" + "".join(f"{n:>22}" for n in (OURS, OURS_2, WARP, NUMBA, NUMBA_2)))
    scalings: dict[str, Scaling] = {}
    for case in cases:
        forward[case.name], adjoint[case.name] = measure(case, scalings)
        show(case.name, forward[case.name])
        show("  adjoint", adjoint[case.name])
    adjoint = {name: row for name, row in adjoint.items() if row}
    for name, found in scalings.items():
        print(f"two threads, {name:20} {found}")
    goals = list(verdicts(cases, forward, adjoint, scalings))
    for goal in goals:
        print(goal)
    rows = {"forward": forward, "adjoint": adjoint}
    kept = {k: {c: as_json(row) for c, row in part.items()} for k, part in rows.items()}
    kept["two threads"] = {name: asdict(found) for name, found in scalings.items()}
    record("kernels, one launch", kept, goals)


def measure(case: Case, scalings: dict[str, Scaling]) -> tuple[Row, Row]:
    """Times of the contenders at ``case``, whose results are compared first.

    What two threads gain goes to ``scalings``, where they are to gain something.
    """
    data = case.data(case.size)
    ours, warp = (in_language(m, case, data) for m in (kernelcore, quiet_warp()))
    numba = in_numba(case, data)
    for threads in (1, 2):
        use_threads(threads)
        for who, contender in ((OURS, ours), (WARP, warp), (NUMBA, numba)):
            for array in contender.outputs():
                array[...] = 0
            contender.forward()
            case.check(contender.outputs(), data, f"{who}, {threads} threads")
    one, two = partial(use_threads, 1), partial(use_threads, 2)
    contenders = {
        OURS: Contender(ours.forward, one),
        WARP: Contender(warp.forward, one),
        NUMBA: Contender(numba.forward, one),
        OURS_2: Contender(ours.forward, two, THREADS_START_SECONDS),
        NUMBA_2: Contender(numba.forward, two, THREADS_START_SECONDS),
    }
    if case.name == "saxpy":
        contenders["copy"] = Contender(copier(COPY_BYTES), one)
    if case.flops is not None:
        contenders["peak"] = Contender(multiplier()[0], one)
    forward = timed(contenders)
    if case.compute_bound or case.atomic:
        scalings[case.name] = scaling(contenders[OURS], contenders[OURS_2])
    if ours.adjoint is None or warp.adjoint is None:
        return forward, {}
    check_gradients(case, ours, warp)
    adjoints = {
        OURS: Contender(ours.adjoint, one),
        WARP: Contender(warp.adjoint, one),
        OURS_2: Contender(ours.adjoint, two, THREADS_START_SECONDS),
    }
    return forward, timed(adjoints)


def check_gradients(case: Case, ours: Prepared, warp: Prepared) -> None:
    """Compare the gradients with the closed form where the case has one, else with Warp's.

    Raises:
        ArithmeticError: They differ.
    """
    assert ours.adjoint is not None
    assert warp.adjoint is not None
    warp.adjoint()
    expected = warp.gradients() if case.gradient is None else case.gradient(*ours.data.args)
    for threads in (1, 2):
        use_threads(threads)
        for array in ours.gradients():
            array[...] = 0
        ours.adjoint()
        for found, wanted in zip(ours.gradients(), expected, strict=True):
            error = np.abs(found - wanted).max() / np.abs(wanted).max()
            if not error <= GRADIENT_TOLERANCE:
                raise ArithmeticError(f"{case.name}: adjoint, {threads} threads: off by {error}")


def show(name: str, row: Row) -> None:
    """Print the times of one kernel in milliseconds, with the spread of the rounds."""
    if not row:
        return
    cells = (row.get(n) for n in (OURS, OURS_2, WARP, NUMBA, NUMBA_2))
    texts = ("" if t is None else f"{t.median / 1e3:9.3f} ms +-{t.spread / 2:4.0%}" for t in cells)
    print(f"{name:24}" + "".join(f"{t:>22}" for t in texts), flush=True)


def ratio(row: Row, peer: str, ours: str = OURS) -> float:
    """How many times as long as ``ours`` the ``peer`` takes."""
    return row[peer].median / row[ours].median


def verdicts(
    cases: list[Case],
    forward: dict[str, Row],
    adjoint: dict[str, Row],
    scalings: dict[str, Scaling],
) -> Iterator[Goal]:
    """The figures that the suite is run for."""
    for peer, goal in ((WARP, 8.0), (NUMBA, 3.0)):
        ratios = {name: ratio(row, peer) for name, row in forward.items()}
        text = f"forward, {peer} / kernelcore"
        yield Goal(f"{text}, geometric mean", geometric_mean(ratios.values()), "x", goal, True)
        least = min(ratios, key=lambda n: ratios[n])
        yield Goal(f"{text}, least: {least}", ratios[least], "x", 1.0, True)
    if adjoint:
        mean = geometric_mean(ratio(row, WARP) for row in adjoint.values())
        yield Goal("adjoint, Warp / kernelcore, geometric mean", mean, "x", 10.0, True)
    for case in cases:
        if case.name in scalings:
            goal = 1.8 if case.compute_bound else 1.5
            found = scalings[case.name]
            where = "free processors" if found.rounds else "a busy machine"
            yield Goal(f"two threads, {case.name}, on {where}", found.gain, "x", goal, True)
    if scalings:
        bare = median(found.bare for found in scalings.values())
        yield Goal("two threads of work in registers alone", bare, "x", 1.8, True)
    for case in cases:
        row = forward[case.name]
        if "copy" in row:
            part = row["copy"].median / row[OURS].median
            yield Goal("saxpy, part of the rate of a copy in L3", part, "", 0.9, True)
        if case.flops is not None:
            # Of the quicker rounds: other programs slow the two down by different parts.
            peak = multiplier()[1] / row["peak"].low
            part = case.flops(case.size) / row[OURS].low / peak
            name = f"{case.name}, part of the peak of {peak / 1e3:.0f} GFLOP/s"
            yield Goal(name, part, "", 0.55, True)


def as_json(row: Row) -> dict[str, dict[str, float]]:
    """``row`` as JSON has it."""
    return {name: asdict(timing) for name, timing in row.items()}


if __name__ == "__main__":
    main()
