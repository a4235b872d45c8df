"""What a call of an operator costs: launches, operations of floats and bytes, from the IR."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.analysis.work import Counts, work_of
from kernelcore.language.types import ArrayType, Scalar
from kernelcore.operators.operation import Operation, evaluate


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call does; see ``Op.cost``.

    Attributes:
        launches: Launches of kernels.
        flops: Additions, multiplications, quotients and square roots of floats; elementary
            functions count with those that they consist of.
        loaded_bytes: Of the elements that threads load, each as often as the kernel loads it.
        stored_bytes: Of the elements that threads store or add to.
        is_known: Whether the numbers of iterations of all loops follow from the arguments; the
            figures count one iteration of each of the others.
    """

    launches: int
    flops: float
    loaded_bytes: float
    stored_bytes: float
    is_known: bool


@dataclass(frozen=True, slots=True)
class _Shaped:
    """What stands for an array, of which the shape alone counts."""

    shape: tuple[int, ...]


class CostCounter:
    """Sums up what launches do, which it does not run."""

    def __init__(self) -> None:
        self.launches = 0
        self.counts = Counts()

    @property
    def cost(self) -> Cost:
        """What was counted."""
        found = self.counts
        return Cost(
            self.launches, found.flops, found.loaded_bytes, found.stored_bytes, found.is_known
        )

    def apply(self, operation: Operation, given: Sequence[Any]) -> list[_Shaped]:
        """Count ``operation`` with one value per operand; stand-ins for its visible results.

        Raises:
            KernelArgumentError: A shape does not fit the operation.
        """
        shapes = [
            # A kernelcore array has its components in the type of its elements.
            (*shape, *type_.components)
            if isinstance(type_ := operand.type, ArrayType) and len(shape) == type_.outer_ndim
            else shape
            for operand, shape in zip(operation.operands, operation.shapes(given), strict=True)
        ]
        operation.check_extents(shapes)
        made = [_Shaped(evaluate(result.shape, shapes)) for result in operation.results]
        arguments = [
            made[bound.result]
            if bound.operand < 0
            else _Shaped(tuple(shapes[bound.operand]))
            if isinstance(type_ := operation.operands[bound.operand].type, ArrayType)
            else _number(type_, given[bound.operand])
            for bound in operation.bindings
        ]
        points = prod(evaluate(operation.grid, shapes))
        self.launches += 1
        self.counts.add(work_of(operation.func, arguments).counts, points)
        return made[: operation.visible]


def _number(type_: Scalar, given: Any) -> Any:
    """The argument of a scalar parameter; None for a tensor, whose value may not be known."""
    is_number = isinstance(given, bool | int | float | np.generic)
    return type_.numpy.type(given) if is_number else None
