"""Time of the adjoint of every derivative pattern as a multiple of the time of the pattern."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.base import native
from kernelcore.compiler.launch_descriptor import Role, ZeroFill
from kernelcore.language.types import element_type
from kernelcore.launch.executable import Executable
from kernelcore.operators import derive
from kernelcore.operators.extremum import (
    ExtremumOperations,
    TieWeights,
    extremum_operations,
    find_ties,
)
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.pipeline import optimize
from tests.bench.results import Goal, record
from tests.bench.timing import interleaved
from tests.helpers.operations import run_operation
from tests.helpers.patterns import PATTERNS, Pattern

INSTANCES = 4000
GOAL = 3.0
WORST = 12


def prepared(op: Operation, operands: Sequence[Any]) -> Callable[[], object]:
    """A call of ``op``: copies of what it updates, zeros where it needs them, and one launch."""
    shapes = [np.shape(o) for o in operands]
    grid = evaluate(op.grid, shapes)
    results = [np.empty(evaluate(r.shape, shapes), r.type.dtype.numpy) for r in op.results]
    args: list[Any] = []
    copies: list[tuple[np.ndarray, Any]] = []
    for bound in op.bindings:
        if bound.role in (Role.VALUE, Role.INPUT):
            args.append(operands[bound.operand])
            continue
        args.append(results[bound.result])
        if bound.operand >= 0:
            copies.append((results[bound.result], operands[bound.operand]))
        elif bound.zero is not ZeroFill.NEVER:
            copies.append((results[bound.result], 0))
    signature = Executable(lambda: optimize(op.func)).signature

    def call() -> None:
        for target, source in copies:
            target[...] = source
        native.launch(signature, grid, args)

    return call


def batched(pattern: Pattern) -> tuple[Operation, list[np.ndarray]]:
    """``INSTANCES`` instances of a pattern as one operation, and its operands."""
    op = kernel_operation(pattern.kernel, **pattern.options)
    given = zip(pattern.arguments(np.random.default_rng(0)), op.operands, strict=True)
    point = [np.asarray(a, element_type(o.type).numpy) for a, o in given]
    op = derive.batch(op, [True] * len(point))
    return op, [np.repeat(a[None], INSTANCES, axis=0) for a in point]


def selecting(
    op: Operation,
    chosen: ExtremumOperations,
    operands: Sequence[Any],
    cotangents: Sequence[Any],
    wrt: Sequence[int],
) -> Callable[[], object]:
    """A call of the adjoint of ``op``, which takes minima or maxima: all steps that it takes."""
    results = run_operation(op, operands)
    remained = [results[e.result] for e in chosen.extrema]
    counts = [np.ones(a.shape, np.int32) for a in remained]

    def known() -> TieWeights:
        return find_ties(
            chosen, operands, results, lambda _, args: counts, lambda x, like: x.astype(like.dtype)
        )

    derived = derive.vjp(chosen.weighted, wrt, range(op.visible)).operation
    steps = [
        prepared(op, operands),
        prepared(chosen.count, [*operands, *remained]),
        known,
        prepared(derived, [*operands, *known().operands, *cotangents]),
    ]

    def call() -> None:
        for step in steps:
            step()

    return call


def times(pattern: Pattern) -> tuple[float, float]:
    """Microseconds of the pattern, and of its adjoint with respect to all floats."""
    op, operands = batched(pattern)
    shapes = [np.shape(o) for o in operands]
    cotangents = [np.ones(evaluate(r.shape, shapes), r.type.dtype.numpy) for r in op.outputs]
    wrt = [k for k, a in enumerate(operands) if a.dtype.kind == "f"]
    forward = prepared(op, operands)
    chosen = extremum_operations(op, wrt)
    if chosen is None:
        derived = derive.vjp(op, wrt, range(op.visible)).operation
        adjoint = prepared(derived, [*operands, *cotangents])
    else:
        adjoint = selecting(op, chosen, operands, cotangents, wrt)
    medians = interleaved({"forward": forward, "adjoint": adjoint})
    return medians["forward"], medians["adjoint"]


def main() -> None:
    kc.set_num_threads(1)
    rows = sorted(((*times(p), p.name) for p in PATTERNS), key=lambda r: r[0] / r[1])
    mean = math.exp(sum(math.log(b / a) for a, b, _ in rows) / len(rows))
    print(f"\nadjoint of {len(rows)} patterns, {INSTANCES} instances each; the slowest")
    for forward, adjoint, name in rows[:WORST]:
        print(f"  {name:44s} {forward:10.2f} us {adjoint:10.2f} us   x{adjoint / forward:.2f}")
    goal = Goal("adjoint / forward, geometric mean of patterns", mean, "x", GOAL)
    print(f"  {goal}")
    record(f"adjoints of {len(rows)} patterns", {}, [goal])


if __name__ == "__main__":
    main()
