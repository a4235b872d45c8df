"""Cost of the dispatch of kc.op, above the form that is bound to torch, and of names around it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import kernelcore as kc

SAMPLES, CALLS = 150, 2000


@kc.op
@kc.kernel
def square(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


A, B, C, D = 0.25, 2.0, 3.0, 4.0


@kc.op
@kc.kernel
def with_name(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i] * x[i] + A


@kc.op
@kc.kernel
def with_names(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i] * x[i] + A * B + C * D


def main() -> None:
    x = torch.ones(1)
    contenders: dict[str, Callable[..., Any]] = {
        "bound": square.torch,
        "kc.op": square,
        "bound, one name": with_name.torch,
        "bound, four names": with_names.torch,
    }
    quickest = dict.fromkeys(contenders, float("inf"))
    for _ in range(SAMPLES):
        for name, call in contenders.items():
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call(x, 2.0)
            quickest[name] = min(quickest[name], (time.perf_counter_ns() - start) / CALLS)
    for name, cost in quickest.items():
        print(f"{name:18} {cost:7.0f} ns")


if __name__ == "__main__":
    main()
