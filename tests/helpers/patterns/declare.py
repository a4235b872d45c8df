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
VEC3 = kc.array(dtype=kc.vec3d)
MAT33 = kc.array(dtype=kc.mat33d)
QUAT = kc.array(dtype=kc.quatd)


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


def tensors(*shapes: tuple[int, ...], low: float = 0.4, high: float = 1.6) -> Callable[..., Any]:
    """Arguments of given shapes; ``()`` is a number."""

    def arguments(rng: np.random.Generator) -> list[Any]:
        made = [rng.uniform(low, high, shape) for shape in shapes]
        return [a if np.ndim(a) else float(a) for a in made]

    return arguments


def rows(function: Callable[..., Any], count: int = 1) -> Callable[..., tuple[np.ndarray, ...]]:
    """A reference that maps ``function`` over the elements of its first ``count`` arguments.

    The others are the same for all; a tuple that it returns is several results.
    """

    def reference(*arguments: Any) -> tuple[np.ndarray, ...]:
        arrays, shared = [np.array(a) for a in arguments[:count]], arguments[count:]
        found = [function(*row, *shared) for row in zip(*arrays, strict=True)]
        if isinstance(found[0], tuple):
            return tuple(np.array(column) for column in zip(*found, strict=True))
        return (np.array(found),)

    return reference
