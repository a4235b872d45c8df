"""Latency of every kernel of the suite: its first launch, and that of its adjoint.

Each is launched by a process of its own that has launched another kernel before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import kernelcore as kc
from tests.bench.results import Goal, show
from tests.bench.suite import CASES
from tests.bench.suite.prepared import in_language
from tests.bench.timing import Timing, timing_of

PROCESSES = 3
# So small that launches take no time.
SIZE = 16
# Milliseconds.
FORWARD_GOAL, ADJOINT_GOAL = 100.0, 250.0


@kc.kernel
def another(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] + 1.0


def first_launches(name: str) -> None:
    """Print the microseconds until a kernel has run, and until its adjoint has run, too."""
    case = next(c for c in CASES if c.name == name)
    data = case.data(SIZE)
    kc.launch(another, 1, [kc.zeros(1, dtype=float)], [kc.zeros(1, dtype=float)])
    start = time.perf_counter()
    prepared = in_language(kc, case, data)
    prepared.forward()
    times = [time.perf_counter() - start]
    if prepared.adjoint is not None:
        prepared.adjoint()
        times.append(time.perf_counter() - start)
    print(*(1e6 * seconds for seconds in times))


def measured() -> dict[str, Timing]:
    """What processes without a disk cache print, turn by turn."""
    samples: dict[str, list[float]] = {}
    for _ in range(PROCESSES):
        for case in CASES:
            command = [sys.executable, "-m", __spec__.name, case.name]
            env = {**os.environ, "KC_CACHE": "0"}
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            words = done.stdout.splitlines()[-1].split()
            for suffix, word in zip(("", ", with its adjoint"), words, strict=False):
                samples.setdefault(case.name + suffix, []).append(float(word))
    return {name: timing_of(found) for name, found in samples.items()}


def slowest(timings: dict[str, Timing], limit_ms: float) -> Goal:
    """The kernel that takes longest, against ``limit_ms``."""
    name = max(timings, key=lambda n: timings[n].median)
    return Goal(f"first launch, slowest: {name}", timings[name].median / 1e3, "ms", limit_ms)


def main() -> None:
    if len(sys.argv) > 1:
        first_launches(sys.argv[1])
        return
    timings = measured()
    forward = {c.name: timings[c.name] for c in CASES}
    adjoint = {name: t for name, t in timings.items() if name not in forward}
    goals = [slowest(forward, FORWARD_GOAL), slowest(adjoint, ADJOINT_GOAL)]
    show("first launch of a further kernel", timings, CASES[0].name, goals)


if __name__ == "__main__":
    main()
