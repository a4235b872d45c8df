"""What a loop carries, as the reference interpreter keeps it: in order, or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelcore.codegen.analysis.independent_loops import IndependentLoop
from kernelcore.codegen.analysis.panels import LEAST_ROWS_TRANSPOSED
from kernelcore.ir.op import Op
from kernelcore.language.types import Scalar

# Iterations that are lanes, and those of the rest (``kernelcore/codegen/simd/partial_sums.py``).
MANY, FEW = 32, 8


class InOrder:
    """Each iteration takes what the one before it gave."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = tuple(values)

    def before(self, k: int) -> Sequence[Any]:
        """What iteration ``k`` takes."""
        del k
        return self._values

    def keep(self, k: int, values: Sequence[Any]) -> None:
        """What iteration ``k`` gives."""
        del k
        self._values = tuple(values)

    def after(self) -> Sequence[Any]:
        """What the loop gives."""
        return self._values


def kept_by(
    loop: IndependentLoop | None, values: Sequence[Any], trips: int, rows: int
) -> InOrder | InParts:
    """What keeps ``values`` through ``trips`` iterations in a launch of ``rows`` rows.

    ``loop`` is one that may have parts.
    """
    if loop is None or (loop.is_ordered_if_short and trips < MANY):
        return InOrder(values)
    if rows >= LEAST_ROWS_TRANSPOSED and trips <= loop.most_in_panels:
        return InOrder(values)
    return InParts(loop, values, trips)


class InParts:
    """Sums and extrema of a loop along a row, each of ``MANY`` parts and of ``FEW``."""

    def __init__(self, loop: IndependentLoop, values: Sequence[Any], trips: int) -> None:
        self._values, self._trips, self._step = values, trips, loop.step
        self._ops = [_Collecting(op) for op in loop.collects]
        types = [v.type for v in loop.body.params[1:] if isinstance(v.type, Scalar)]
        self._parts = [op.nothing(t) for op, t in zip(self._ops, types, strict=True)]

    def _place(self, k: int) -> int:
        """The number of the part to which iteration ``k`` adds."""
        whole = self._trips // MANY * MANY
        size = MANY if k < whole else min(FEW, self._trips - k // FEW * FEW)
        at = k % (MANY if k < whole else FEW)
        return (0 if k < whole else MANY) + (at if self._step > 0 else size - 1 - at)

    def before(self, k: int) -> Sequence[Any]:
        """What iteration ``k`` takes."""
        return [parts[self._place(k)] for parts in self._parts]

    def keep(self, k: int, values: Sequence[Any]) -> None:
        """What iteration ``k`` gives."""
        for parts, value in zip(self._parts, values, strict=True):
            parts[self._place(k)] = value

    def after(self) -> Sequence[Any]:
        """What the loop gives."""
        kept = zip(self._ops, self._values, self._parts, strict=True)
        return [op.joined(np.array([x]), op.total(parts))[0] for op, x, parts in kept]


class _Collecting:
    """The operation by which a loop collects a value."""

    def __init__(self, op: Op) -> None:
        self._op = op

    def nothing(self, dtype: Scalar) -> np.ndarray:
        """Parts in which nothing is collected yet."""
        assert self._op.neutral is not None
        return np.full(MANY + FEW, self._op.neutral(dtype), dtype.numpy)

    def joined(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Element by element, what both have collected."""
        assert self._op.ref is not None
        found = [self._op.ref(x, y) for x, y in zip(first, second, strict=True)]
        return np.array(found, first.dtype)

    def total(self, parts: np.ndarray) -> np.ndarray:
        """What all parts have collected, one element."""
        return self._halved(self.joined(self._halved(parts[:MANY], FEW), parts[MANY:]), 1)

    def _halved(self, parts: np.ndarray, least: int) -> np.ndarray:
        while len(parts) > least:
            half = len(parts) // 2
            parts = self.joined(parts[:half], parts[half:])
        return parts
