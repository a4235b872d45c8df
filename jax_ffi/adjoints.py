"""The adjoint of a kernel, in place of the transpose of its tangents.

Both compute the same. Made of the kernel itself, an adjoint records less, and takes what loops of
the forward have computed (``kernelcore/operators/saving.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelcore.base.errors import KernelGradError
from kernelcore.operators import (
    DerivedOperation,
    Operation,
    derive,
    operand_lists,
    saving,
    vjp_of_saved,
)


@dataclass(frozen=True, slots=True)
class Tangents:
    """What a launch computes the tangents of, and how its operands are those of the adjoint.

    Attributes:
        operation: The kernel, without the results that it saves.
        active: The operands of ``operation`` that have tangents.
        results: The results of ``operation`` whose tangents the launch computes.
        operands: Per operand of the launch a number: those of the operands of ``operation``, then
            of the tangents of ``active``, then of what ``operation`` has saved.
        shapes: The shapes of the operands of ``operation`` that the launch does not take.
    """

    operation: Operation
    active: tuple[int, ...]
    results: tuple[int, ...]
    operands: tuple[int, ...]
    shapes: tuple[tuple[int, tuple[int, ...]], ...]


def saving_forward(operation: Operation, active: tuple[int, ...]) -> Operation:
    """``operation`` with more results, if its adjoint for ``active`` takes any."""
    try:
        return saving(operation, active) or operation
    except KernelGradError:
        return operation  # It may have tangents.


def read_by_adjoint(
    operation: Operation, active: tuple[int, ...], *, is_saved: bool
) -> frozenset[int] | None:
    """The operands of ``operation`` that its adjoint takes; None if it has no adjoint."""
    seeds = tuple(j for j, r in enumerate(operation.outputs) if r.type.dtype.is_float)
    try:
        adjoint = _adjoint(operation, active, seeds, is_saved).operation
    except KernelGradError:
        return None
    every = range(len(operation.operands))
    return frozenset(k for k in every if adjoint.param_of_operand(k) is not None)


def _adjoint(
    operation: Operation, active: tuple[int, ...], seeds: tuple[int, ...], is_saved: bool
) -> DerivedOperation:
    make = vjp_of_saved if is_saved else derive.vjp
    return make(operation, active, seeds)


@dataclass(frozen=True, slots=True)
class Adjoint:
    """The adjoint that is the transpose of a launch.

    Attributes:
        derived: What produces the cotangents.
        operands: Those of the launch that it takes, before the cotangents.
        places: Per operand of the kernel that has a cotangent, its tangent's place in the launch.
    """

    derived: DerivedOperation
    operands: list[int]
    places: dict[int, int]


def adjoint_of(tangents: Tangents, wrt: Sequence[int], given: Sequence[int]) -> Adjoint | None:
    """The transpose of a launch as an adjoint; None where it is none.

    Args:
        tangents: What the launch computes.
        wrt: The operands that it is transposed in.
        given: The results that have cotangents.
    """
    operation, numbers = tangents.operation, tangents.operands
    first, end = len(operation.operands), len(operation.operands) + len(tangents.active)
    if [n for n, k in enumerate(numbers) if first <= k < end] != list(wrt):
        return None  # Some tangents are constants.
    seeds = tuple(tangents.results[j] for j in given)
    is_saved = any(k >= end for k in numbers)
    derived = _adjoint(operation, tangents.active, seeds, is_saved)
    shape_of = dict(tangents.shapes)
    left = operand_lists.without(derived.operation, shape_of, shape_of)
    return Adjoint(
        DerivedOperation(left, derived.produced),
        [n for n, k in enumerate(numbers) if not first <= k < end],
        {tangents.active[k - first]: n for n, k in enumerate(numbers) if first <= k < end},
    )
