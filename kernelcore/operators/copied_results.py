"""Results of an Operation that repeat the elements of its operands, which needs no launch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.compiler.launch_descriptor import Role
from kernelcore.ir.core import Atom
from kernelcore.ir.op import MESSAGES
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.operators.whole_results import covers
from kernelcore.passes.access.copied_arrays import copied_arrays
from kernelcore.passes.simplify.dead_code import dce, drop_unused_params


@dataclass(frozen=True, slots=True)
class CopiedResult:
    """The elements of an operand as a result.

    Attributes:
        operand: The operand.
        axes: For each axis of the operand, that of the result; along all others elements repeat.
        shape: The shape of the result.
    """

    operand: int
    axes: tuple[int, ...]
    shape: Sequence[Any]

    @property
    def is_whole(self) -> bool:
        """Whether the result is the operand."""
        return self.axes == tuple(range(len(self.shape)))


def copied_results(
    op: Operation, shapes: Sequence[Sequence[Any]] | None = None
) -> Mapping[int, CopiedResult]:
    """The visible results that hold the elements of operands of these shapes.

    Without shapes, those that do in every call, and the shapes of the results are ``Shape``.
    """
    if any(eqn.op.kind in MESSAGES for eqn in walk_eqns(op.func.body)):
        return {}
    results: list[Sequence[Any]]
    operands: Sequence[Sequence[Any]]
    grid: Sequence[Any]
    if shapes is None:
        operands, grid = [op.like(k) for k in range(len(op.operands))], op.grid
        results = [r.shape for r in op.results]
    else:
        operands, grid = shapes, evaluate(op.grid, shapes)
        results = [evaluate(r.shape, shapes) for r in op.results]
    bound = list(zip(op.func.params, op.bindings, strict=True))
    shape_of: dict[Atom, Sequence[Any]] = {
        p: operands[b.operand] if b.operand >= 0 else results[b.result] for p, b in bound
    }
    found: dict[int, CopiedResult] = {}
    for param, copied in copied_arrays(op.func, covers(shape_of, grid)).items():
        made, given = op.bindings[param], op.bindings[copied.source]
        is_new = made.role is Role.OUTPUT and made.operand < 0 and made.result < op.visible
        if is_new and given.role is Role.INPUT:
            shape = results[made.result]
            if all(operands[given.operand][n] == shape[a] for n, a in enumerate(copied.axes)):
                found[made.result] = CopiedResult(given.operand, copied.axes, shape)
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
