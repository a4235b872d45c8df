"""Registers functions of the kernel language with the arguments that tests call them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kernelcore as kc

F64 = kc.array(dtype=kc.float64)
F32 = kc.array(dtype=kc.float32)
F64_2D = kc.array2d(dtype=kc.float64)
I32 = kc.array(dtype=kc.int32)

X = np.array([0.5, -1.5, 2.0, 3.25])
M = np.arange(6.0).reshape(2, 3)

CASES: list[tuple[kc.Function, list[tuple[Any, ...]]]] = []


def case(*calls: tuple[Any, ...]) -> Callable[[Callable[..., Any]], kc.Function]:
    """Check the decorated function on these arguments."""

    def register(pyfunc: Callable[..., Any]) -> kc.Function:
        function = kc.func(pyfunc)
        CASES.append((function, list(calls)))
        return function

    return register
