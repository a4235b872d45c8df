"""Derivatives of operations with atomic minima or maxima: they go to the updates that tie.

Such an operation is differentiated in two steps. ``ExtremumOperations.count`` counts, per element
of a result, the updates that attained its final value. ``ExtremumOperations.weighted`` adds these
up, each times its tie weight; it is differentiated in place of the operation, with constant
weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.compiler.launch_descriptor import Binding, Role, ZeroFill
from kernelcore.language.types import int32
from kernelcore.launch.adjoint_launch import tie_weights
from kernelcore.operators.derive import Assembly
from kernelcore.operators.operation import Operand, Operation
from kernelcore.passes.access.effects import effects
from kernelcore.passes.autodiff.atomic_extrema import (
    count_attaining,
    extremum_arrays,
    weighted_sums,
)
from kernelcore.passes.pipeline import normalize
from kernelcore.passes.simplify.dead_code import drop_unused_params


class Extremum(NamedTuple):
    """A result that holds minima or maxima; ``start`` is the operand it is a copy of, or None."""

    result: int
    start: int | None


class TieWeights(NamedTuple):
    """The constants of derivatives of ``ExtremumOperations.weighted``.

    Attributes:
        operands: The operands that follow those of the operation.
        start: By operand that a result starts from: the weight of its elements.
    """

    operands: list[Any]
    start: dict[int, Any]


@dataclass(frozen=True, slots=True)
class ExtremumOperations:
    """The two operations that are differentiated in place of one with atomic minima or maxima.

    Attributes:
        extrema: The results that hold minima or maxima.
        count: Takes the operands, then the final values of each of ``extrema``; its results are
            int32 counts of the updates that attained them.
        weighted: Takes the operands, then the final values, then the tie weights; its results are
            those of the operation, if each of ``extrema`` starts from its own weighted value.
    """

    extrema: tuple[Extremum, ...]
    count: Operation
    weighted: Operation


def extremum_operations(op: Operation, active: Sequence[int]) -> ExtremumOperations | None:
    """What is differentiated for ``op`` by operands ``active``; None if it is ``op`` itself."""
    return op.once(("extrema by", tuple(active)), lambda: _extremum_operations(op, active))


def _extremum_operations(op: Operation, active: Sequence[int]) -> ExtremumOperations | None:
    sources = [p for k in active if (p := op.param_of_operand(k)) is not None]
    chosen = extremum_arrays(op.func, sources)
    if not chosen or any(op.bindings[i].role not in (Role.OUTPUT, Role.INOUT) for i in chosen):
        return None
    bound = [op.bindings[i] for i in chosen]
    found = tuple(Extremum(b.result, b.operand if b.operand >= 0 else None) for b in bound)
    return op.once(
        ("extremum", chosen),
        lambda: ExtremumOperations(found, _count(op, chosen), _weighted(op, chosen)),
    )


def find_ties(
    chosen: ExtremumOperations,
    operands: Sequence[Any],
    results: Sequence[Any],
    run: Callable[[Operation, Sequence[Any]], Sequence[Any]],
    cast: Callable[[Any, Any], Any],
) -> TieWeights:
    """The constants of ``chosen.weighted``.

    Args:
        chosen: What is differentiated in place of the operation.
        operands: Arrays of any library, which must count as constants here.
        results: Those of the operation on ``operands``.
        run: Applies an Operation.
        cast: The first array, with the dtype of the second one.
    """
    final = [results[e.result] for e in chosen.extrema]
    counts = run(chosen.count, [*operands, *final])
    weights: list[Any] = []
    start_weights: dict[int, Any] = {}
    for extremum, last, count in zip(chosen.extrema, final, counts, strict=True):
        start = None if extremum.start is None else operands[extremum.start]
        weight, start_weight = tie_weights(start, last, count, cast)
        weights.append(weight)
        if extremum.start is not None:
            start_weights[extremum.start] = start_weight
    return TieWeights([*final, *weights], start_weights)


def _like(op: Operation, chosen: Sequence[int], suffix: str) -> list[Operand]:
    """An operand like each of the results that parameters ``chosen`` hold."""
    results = [op.results[op.bindings[i].result] for i in chosen]
    return [Operand(f"{r.name}_{suffix}", r.type, r.shape) for r in results]


def _count(op: Operation, chosen: Sequence[int]) -> Operation:
    assembly = Assembly(op, {})
    assembly.operands += _like(op, chosen, "final")
    first, number = len(op.func.params), len(chosen)
    func, kept = drop_unused_params(normalize(count_attaining(op.func, chosen)))
    for effect, index in zip(effects(func), kept, strict=True):
        if index < first:
            assembly.bindings.append(assembly.bind_primal(op.bindings[index], effect))
        elif index < first + number:
            place = len(op.operands) + index - first
            assembly.bindings.append(Binding(Role.INPUT, place))
        else:
            place = index - first - number
            result = op.results[op.bindings[chosen[place]].result]
            counts = replace(result.type, dtype=int32)
            shown = assembly.show(f"{result.name}_count", place, counts, result.shape)
            assembly.bindings.append(Binding(Role.OUTPUT, -1, shown, ZeroFill.ALWAYS))
    return assembly.operation(func, range(number))


def _weighted(op: Operation, chosen: Sequence[int]) -> Operation:
    more = [*_like(op, chosen, "final"), *_like(op, chosen, "tie_weight")]
    places = range(len(op.operands), len(op.operands) + len(more))
    return Operation(
        normalize(weighted_sums(op.func, chosen)),
        (*op.operands, *more),
        op.results,
        op.visible,
        (*op.bindings, *(Binding(Role.INPUT, k) for k in places)),
        op.grid,
    )
