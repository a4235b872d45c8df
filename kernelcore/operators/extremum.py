"""Operations that take atomic minima or maxima, for their derivatives: which values remained.

Such an operation is differentiated in two steps. ``Selection.count`` counts, per element of a
result, the values that attained what remained; ``Selection.picked`` adds up their shares, and is
differentiated in the place of the operation, everything known of the first step being constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kernelcore.compiler.launch_descriptor import Binding, Role, ZeroFill
from kernelcore.language.types import int32
from kernelcore.operators.derive import Assembly
from kernelcore.operators.operation import Operand, Operation
from kernelcore.passes.access.effects import effects
from kernelcore.passes.autodiff.atomic_extrema import (
    count_attaining,
    extremum_arrays,
    tie_weights,
    weighted_sums,
)
from kernelcore.passes.pipeline import normalize
from kernelcore.passes.simplify.dead_code import drop_unused_params


@dataclass(frozen=True, slots=True)
class Extremum:
    """A result that holds minima or maxima.

    Attributes:
        result: Its index.
        start: The operand that it starts as a copy of; None if it starts from zeros.
    """

    result: int
    start: int | None


class Selected(NamedTuple):
    """What is constant in derivatives of ``Selection.picked``.

    Attributes:
        operands: Those that follow the operands of the operation.
        own: By operand that a result starts from: the share of its elements in what remained.
    """

    operands: list[Any]
    own: dict[int, Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """What stands for an operation when it is differentiated.

    Attributes:
        extrema: The results concerned.
        count: Takes the operands, then what remained of each; its results are int32 counts of the
            values among the updates that attained it.
        picked: Takes the operands, then what remained of each, then the share of each value that
            attains it; its results are those of the operation, if each of ``extrema`` starts from
            its own share.
    """

    extrema: tuple[Extremum, ...]
    count: Operation
    picked: Operation


def selection(op: Operation, active: Sequence[int]) -> Selection | None:
    """What stands for ``op`` in derivatives by operands ``active``; None where it can itself."""
    sources = [p for k in active if (p := op.param_of_operand(k)) is not None]
    chosen = extremum_arrays(op.func, sources)
    if not chosen or any(op.bindings[i].role not in (Role.OUTPUT, Role.INOUT) for i in chosen):
        return None
    key = ("selection", chosen)
    if key not in op.derived:
        bound = [op.bindings[i] for i in chosen]
        found = tuple(Extremum(b.result, b.operand if b.operand >= 0 else None) for b in bound)
        op.derived[key] = Selection(found, _count(op, chosen), _picked(op, chosen))
    return op.derived[key]


def select(
    chosen: Selection,
    operands: Sequence[Any],
    results: Sequence[Any],
    run: Callable[[Operation, Sequence[Any]], Sequence[Any]],
    cast: Callable[[Any, Any], Any],
) -> Selected:
    """What ``picked`` takes besides the operands, which must be seen as constants here.

    Args:
        chosen: What stands for the operation.
        operands: Arrays of any library.
        results: Those of the operation on ``operands``.
        run: Applies an Operation.
        cast: The first array, with the dtype of the second one.
    """
    remained = [results[e.result] for e in chosen.extrema]
    counts = run(chosen.count, [*operands, *remained])
    found: list[Any] = []
    own: dict[int, Any] = {}
    for extremum, last, count in zip(chosen.extrema, remained, counts, strict=True):
        start = None if extremum.start is None else operands[extremum.start]
        share, kept = tie_weights(start, last, count, cast)
        found.append(share)
        if extremum.start is not None:
            own[extremum.start] = kept
    return Selected([*remained, *found], own)


def _remained(op: Operation, chosen: Sequence[int], suffix: str) -> list[Operand]:
    """An operand like each of the results that parameters ``chosen`` hold."""
    results = [op.results[op.bindings[i].result] for i in chosen]
    return [Operand(f"{r.name}_{suffix}", r.type, r.shape) for r in results]


def _count(op: Operation, chosen: Sequence[int]) -> Operation:
    assembly = Assembly(op, {})
    assembly.operands += _remained(op, chosen, "remained")
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


def _picked(op: Operation, chosen: Sequence[int]) -> Operation:
    more = [*_remained(op, chosen, "remained"), *_remained(op, chosen, "share")]
    places = range(len(op.operands), len(op.operands) + len(more))
    return Operation(
        normalize(weighted_sums(op.func, chosen)),
        (*op.operands, *more),
        op.results,
        op.visible,
        (*op.bindings, *(Binding(Role.INPUT, k) for k in places)),
        op.grid,
    )
