"""Results of an Operation that are copies of its operands, which need no launch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernelcore.compiler.launch_descriptor import Role
from kernelcore.ir.op import MESSAGES
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.passes.access.copied_arrays import copied_arrays
from kernelcore.passes.simplify.dead_code import dce, drop_unused_params


def copied_results(op: Operation, shapes: Sequence[Any]) -> Mapping[int, int]:
    """Visible results by the operand that they are copies of, for operands of these shapes."""
    found: Mapping[int, int] = op.once("copied_results", lambda: _copied_results(op))
    grid = evaluate(op.grid, shapes) if found else ()

    def is_whole(result: int, operand: int) -> bool:
        shape = evaluate(op.results[result].shape, shapes)
        return shape == tuple(shapes[operand]) and shape[: len(grid)] == grid

    return {r: k for r, k in found.items() if is_whole(r, k)}


def _copied_results(op: Operation) -> Mapping[int, int]:
    if any(eqn.op.kind in MESSAGES for eqn in walk_eqns(op.func.body)):
        return {}
    found: dict[int, int] = {}
    for param, source in copied_arrays(op.func).items():
        made, given = op.bindings[param], op.bindings[source]
        is_new = made.role is Role.OUTPUT and made.operand < 0 and made.result < op.visible
        if is_new and given.role is Role.INPUT:
            found[made.result] = given.operand
    return found


def without_results(op: Operation, omit: Collection[int]) -> Operation:
    """``op`` without the visible results ``omit``, which its kernel only writes."""
    return op.once(("without results", *sorted(omit)), lambda: _without_results(op, omit))


def _without_results(op: Operation, omit: Collection[int]) -> Operation:
    pairs = list(zip(op.func.params, op.bindings, strict=True))
    observed = {p for p, b in pairs if isinstance(p.type, ArrayType) and b.result not in omit}
    func, kept = drop_unused_params(
        dce(op.func, observed), [k for k, (_, b) in enumerate(pairs) if b.role is Role.INOUT]
    )
    left = [r for r in range(len(op.results)) if r not in omit]
    place = {old: new for new, old in enumerate(left)}
    return Operation(
        func,
        op.operands,
        tuple(op.results[r] for r in left),
        op.visible - len(omit),
        tuple(replace(b, result=place.get(b.result, -1)) for b in (op.bindings[k] for k in kept)),
        op.grid,
    )
