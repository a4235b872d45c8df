"""The adjoint of a kernel that saves results of loops, in place of the transpose of its tangents.

Both compute the same, unless users give derivatives. Made of the kernel itself, an adjoint records
less, and takes what the loops have computed (``kernelcore/operators/saving.py``).
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
class Primal:
    """The kernel that a launch computes the tangents of, where it saves results of loops.

    The operands of the launch are those of the kernel that it or the adjoint reads, the tangents of
    ``active``, then the saved results.

    Attributes:
        operation: The kernel, without the results that it saves.
        active: The operands of ``operation`` that have tangents.
        results: The results of ``operation`` whose tangents the launch computes.
        taken: The operands of ``operation`` that the launch takes.
        saved: How many results it takes.
        shapes: The shapes of the operands of ``operation`` that the launch does not take.
    """

    operation: Operation
    active: tuple[int, ...]
    results: tuple[int, ...]
    taken: tuple[int, ...]
    saved: int
    shapes: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Transpose:
    """The transpose of a launch.

    Attributes:
        derived: What produces the cotangents.
        known: The operands of the launch that it takes, before the cotangents.
        places: Per index that ``derived`` produces, the operand of the launch.
    """

    derived: DerivedOperation
    known: Sequence[int]
    places: dict[int, int]


def saving_forward(operation: Operation, active: tuple[int, ...]) -> Operation:
    """``operation`` with more results, if its adjoint for ``active`` takes any."""
    if derive.has_given_rules(operation):
        return operation
    try:
        return saving(operation, active) or operation
    except KernelGradError:
        return operation  # It may have tangents.


def read_by_adjoint(operation: Operation, active: tuple[int, ...]) -> frozenset[int]:
    """The operands of ``operation``, which saves results for it, that its adjoint takes."""
    seeds = tuple(j for j, r in enumerate(operation.outputs) if r.type.dtype.is_float)
    adjoint = vjp_of_saved(operation, active, seeds).operation
    every = range(len(operation.operands))
    return frozenset(k for k in every if adjoint.param_of_operand(k) is not None)


def adjoint_of(primal: Primal, wrt: Sequence[int], given: Sequence[int]) -> Transpose | None:
    """The transpose of a launch of the tangents of ``primal`` as its adjoint.

    Args:
        primal: The kernel.
        wrt: The operands that the launch is transposed in.
        given: The results that have cotangents.

    Returns:
        The transpose; None where some tangents are constants.
    """
    first, count = len(primal.taken), len(primal.active)
    tangents = range(first, first + count)
    if list(wrt) != list(tangents):
        return None
    seeds = tuple(primal.results[j] for j in given)
    derived = vjp_of_saved(primal.operation, primal.active, seeds)
    shape_of = dict(primal.shapes)
    left = operand_lists.without(derived.operation, shape_of, shape_of)
    saved = range(tangents.stop, tangents.stop + primal.saved)
    places = dict(zip(primal.active, tangents, strict=True))
    return Transpose(DerivedOperation(left, derived.produced), [*range(first), *saved], places)
