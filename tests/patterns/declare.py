"""How patterns are declared: a kernel, its arguments, its meaning in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kernelcore as kc

F64 = kc.array(dtype=kc.float64)
F64_2D = kc.array2d(dtype=kc.float64)
I32 = kc.array(dtype=kc.int32)


@dataclass(frozen=True)
class Pattern:
    """A kernel as an operation.

    ``arguments`` makes the operands; ``reference`` computes the results from copies of them, one
    grid point after the other, in plain Python.
    """

    kernel: kc.Kernel
    arguments: Callable[[np.random.Generator], list[Any]]
    reference: Callable[..., tuple[np.ndarray, ...]]
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        return self.kernel.name


PATTERNS: list[Pattern] = []


def pattern(
    arguments: Callable[[np.random.Generator], list[Any]],
    reference: Callable[..., tuple[np.ndarray, ...]],
    **options: Any,
) -> Callable[[kc.Kernel], kc.Kernel]:
    def register(kernel: kc.Kernel) -> kc.Kernel:
        PATTERNS.append(Pattern(kernel, arguments, reference, options))
        return kernel

    return register


def vectors(*sizes: int, low: float = 0.4, high: float = 1.6) -> Callable[..., list[Any]]:
    return lambda rng: [rng.uniform(low, high, size) for size in sizes]


def each(function: Callable[..., float]) -> Callable[..., tuple[np.ndarray, ...]]:
    """A reference that maps ``function`` over the elements of its arguments."""
    return lambda *arrays: (np.array([function(*row) for row in zip(*arrays, strict=True)]),)
