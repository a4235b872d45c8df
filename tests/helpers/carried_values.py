"""What a loop carries, as the reference interpreter keeps it: in order, or sums in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelcore.builtins.reference import nothing_added
from kernelcore.ir.core import Var
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


class InParts:
    """Sums of a loop that runs backwards along a row, each of ``MANY`` parts and of ``FEW``."""

    def __init__(self, values: Sequence[Any], sums: Sequence[Var], trips: int, step: int) -> None:
        self._values, self._trips, self._step = values, trips, step
        types = [v.type for v in sums if isinstance(v.type, Scalar)]
        self._parts = [np.full(MANY + FEW, nothing_added(t), t.numpy) for t in types]

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
        return [x + _total(parts) for x, parts in zip(self._values, self._parts, strict=True)]


def _total(parts: np.ndarray) -> Any:
    found = _halved(parts[:MANY], FEW) + parts[MANY:]
    return _halved(found, 1)[0]


def _halved(parts: np.ndarray, least: int) -> np.ndarray:
    while len(parts) > least:
        parts = parts[: len(parts) // 2] + parts[len(parts) // 2 :]
    return parts
