"""A kernel of the suite: its text in the common language, its arguments, and what it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

# The names of elements that are no scalars; scalars are those of the array's own dtype.
VECTOR = "vec3"


@dataclass(frozen=True, slots=True)
class Data:
    """One launch: its grid, the arguments in order, and how many of them are inputs.

    Attributes:
        dim: The grid.
        args: NumPy arrays and numbers; an array of vectors has an axis of 3 components.
        vectors: Positions of arrays of vectors in ``args``.
        num_inputs: The rest are outputs, zero before the first launch.
    """

    dim: tuple[int, ...]
    args: tuple[Any, ...]
    num_inputs: int
    vectors: frozenset[int] = frozenset()

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        """The arrays that the kernel writes."""
        return self.args[self.num_inputs :]

    @property
    def varied(self) -> tuple[int, ...]:
        """Positions of inputs that are arrays of floats: what is differentiated by."""
        arrays = enumerate(self.args[: self.num_inputs])
        return tuple(i for i, a in arrays if isinstance(a, np.ndarray) and a.dtype.kind == "f")


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with its data, its meaning, and the same in numba.

    Attributes:
        name: What tables call it.
        make: The kernel in the language of a module: ``kernelcore`` or ``warp``.
        data: Its arguments at a size; the same for equal sizes.
        size: The size at which it is timed.
        reference: The outputs by NumPy, from the arguments, in double precision.
        tolerance: How far an element may be off, as a part of the largest.
        mismatches: The part of the elements that may be off further: points at which rounding
            decides how often a loop turns.
        adjoint: Whether the kernel has floats to differentiate.
        gradient: The cotangents of the varied inputs from the arguments, for outputs of ones;
            needed where Warp's are wrong.
        compute_bound: Whether two threads should take half of the time.
        atomic: Whether threads meet at the same elements.
        flops: Floating-point operations of one launch at a size, where they are counted.
    """

    name: str
    make: Callable[[ModuleType], Any]
    data: Callable[[int], Data]
    size: int
    reference: Callable[..., Sequence[np.ndarray]]
    tolerance: float = 1e-5
    mismatches: float = 0.0
    adjoint: bool = True
    gradient: Callable[..., Sequence[np.ndarray]] | None = None
    compute_bound: bool = False
    atomic: bool = False
    flops: Callable[[int], float] | None = None

    def check(self, outputs: Sequence[np.ndarray], data: Data, who: str) -> None:
        """Refuse to time something that computes something else.

        Raises:
            ArithmeticError: ``outputs`` are not those of ``reference``.
        """
        for found, wanted in zip(outputs, self.reference(*data.args), strict=True):
            error = np.abs(found.astype(float) - wanted)
            # Not a number is off, too.
            off = ~(error <= self.tolerance * np.abs(wanted).max())
            if off.mean() > self.mismatches:
                raise ArithmeticError(
                    f"{self.name}: {who}: {off.mean():.2%} of the elements differ"
                )


def random_floats(size: int | tuple[int, ...], low: float, high: float) -> np.ndarray:
    """The same float32 numbers for equal arguments."""
    return np.random.default_rng(0).uniform(low, high, size).astype(np.float32)
