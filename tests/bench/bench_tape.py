"""Costs of a Tape over a chain of launches: recorded by native code, and by Python alone.

Run: python -m tests.bench.bench_tape
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import kernelcore as kc
from kernelcore.autograd.tape import Tape

LAUNCHES, SIZE, ROUNDS = 20, 64, 400


@kc.kernel
def squared(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def total(y: kc.array(dtype=float), s: kc.array(dtype=float)):
    kc.atomic_add(s, 0, y[kc.tid()])


def step(arrays: list[Any], loss: Any) -> tuple[float, float, float]:
    """Microseconds of recording, of the backward pass, and of clearing the gradients."""
    tape = kc.Tape()
    times = [time.perf_counter()]
    with tape:
        for x, y in pairwise(arrays):
            kc.launch(squared, SIZE, [x], [y])
        kc.launch(total, SIZE, [arrays[-1]], [loss])
    times.append(time.perf_counter())
    tape.backward(loss)
    times.append(time.perf_counter())
    tape.zero()
    times.append(time.perf_counter())
    first, second, third = (1e6 * (b - a) for a, b in pairwise(times))
    return first, second, third


def main() -> None:
    arrays = [kc.ones(SIZE, requires_grad=True) for _ in range(LAUNCHES + 1)]
    loss = kc.zeros(1, requires_grad=True)
    rows: dict[str, list[tuple[float, float, float]]] = {"native": [], "Python": []}
    for round_ in range(ROUNDS):
        taken = {"native": step(arrays, loss)}
        with patch.object(Tape, "_is_recorded_natively", lambda *_: False):
            taken["Python"] = step(arrays, loss)
        if round_ > ROUNDS // 20:
            for name, row in taken.items():
                rows[name].append(row)
    for name, found in rows.items():
        record, backward, zero = (statistics.median(part) for part in zip(*found, strict=True))
        print(f"{name}: record {record:.1f} us, backward {backward:.1f} us, zero {zero:.1f} us")


if __name__ == "__main__":
    main()
