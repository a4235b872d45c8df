"""The peaks of this machine: bytes through memory and operations of floats, a second."""

# The types of parameters are objects.
# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from kernelcore.base import native
from kernelcore.builtins.arithmetic import fma
from kernelcore.frontend.calls.intrinsics import tid
from kernelcore.language.function import func
from kernelcore.launch.declare import kernel
from kernelcore.launch.launch import launch
from kernelcore.runtime.array.array import array

_COPIED_ELEMENTS = 1 << 24
_POINTS, _STEPS, _FLOPS_PER_STEP = 1 << 14, 128, 4
_ROUNDS = 5


class Roofs(NamedTuple):
    """The peaks of this machine, on the threads that launches use.

    Attributes:
        bytes_per_second: Read and written, of arrays that caches do not hold.
        flops_per_second: Of float32, by multiplications and additions, fused where the processor
            has an instruction for both.
    """

    bytes_per_second: float
    flops_per_second: float


@kernel
def _copy(x: array[float], y: array[float]):
    i = tid()
    y[i] = x[i]


@func
def _rounded_twice(x: float, y: float, z: float) -> float:
    return x * y + z


_multiply_and_add = fma if native.has_fma else _rounded_twice


@kernel
def _multiply_and_add_often(x: array[float], y: array[float], steps: int):
    i = tid()
    a = x[i]
    b = a + 1.0
    for _ in range(steps):
        a = _multiply_and_add(a, 0.5, 0.25)
        b = _multiply_and_add(b, 0.5, 0.125)
    y[i] = a + b


@cache
def roofs() -> Roofs:
    """The peaks of this machine, measured once in about 100 ms."""
    x, y = (np.ones(_COPIED_ELEMENTS, np.float32) for _ in range(2))
    copying = fastest(lambda: launch(_copy, _COPIED_ELEMENTS, [x], [y]), _ROUNDS)
    few, made = x[:_POINTS], y[:_POINTS]
    run = _multiply_and_add_often
    adding = fastest(lambda: launch(run, _POINTS, [few], [made, _STEPS]), _ROUNDS)
    return Roofs(2 * x.nbytes / copying, _POINTS * _STEPS * _FLOPS_PER_STEP / adding)


def fastest(run: Callable[[], object], rounds: int) -> float:
    """The seconds of the fastest of ``rounds`` calls, after one that does not count."""
    run()
    found: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)
