"""Results in the memory of operands, for callers that need the operands no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import replace
from kernelcore.compiler.launch_descriptor import Role, ZeroFill
from kernelcore.ir.core import Atom, Eqn, Region, Var
from kernelcore.ir.walk import rewrite
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.operators.whole_results import covers
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.access.final_elements import first_writes, with_stores


def in_place(
    op: Operation,
    given_up: Sequence[int],
    shapes: Sequence[Sequence[Any]],
    *,
    in_order: bool = False,
) -> Operation:
    """``op``, for operands of ``shapes``, with results in the memory of the operands ``given_up``.

    With ``in_order``, result ``k`` may only take the memory of operand ``k``.

    The kernel updates such an operand as it does an in-out array. That takes a result alike, which
    the kernel writes as a whole, each element after the last load of the operand's element.
    """
    writes = _results_in_place(op, given_up, shapes, in_order=in_order)
    pairs = tuple(sorted((operand, result) for operand, (result, _) in writes.items()))
    return op.once(("in place", pairs), lambda: _updating(op, writes)) if pairs else op


# Per operand the result in its memory, and the writes that reach the result's elements first.
_Writes = Mapping[int, tuple[int, Sequence[Eqn]]]


def _results_in_place(
    op: Operation, given_up: Sequence[int], shapes: Sequence[Sequence[Any]], *, in_order: bool
) -> _Writes:
    accesses, params = AccessMap(op.func), op.func.params
    results = [evaluate(r.shape, shapes) for r in op.results]
    shape_of: dict[Atom, Sequence[Any]] = {
        p: shapes[b.operand] if b.operand >= 0 else results[b.result]
        for p, b in zip(params, op.bindings, strict=True)
    }
    goes_through = covers(shape_of, evaluate(op.grid, shapes))
    found: dict[int, tuple[int, Sequence[Eqn]]] = {}
    for operand, at, k in _alike(op, given_up, [tuple(shape_of[p]) for p in params]):
        result = op.bindings[k].result
        if operand in found or result in {taken for taken, _ in found.values()}:
            continue
        if in_order and operand != result:
            continue
        first = first_writes(accesses, params[k], goes_through)
        if first is not None and accesses.may_be_one(params[at], params[k]):
            found[operand] = result, first
    return found


def _alike(
    op: Operation, given_up: Sequence[int], shapes: Sequence[tuple[Any, ...]]
) -> list[tuple[int, int, int]]:
    """Operands given up, their parameters, and those of new results of their type and shape.

    Those of one position come first: a step gives values in the order in which it takes them, so
    that the memory of a carried array stays its own.
    """
    params, bindings = op.func.params, op.bindings
    found = [
        (position != new.result, operand, at, k)
        for position, operand in enumerate(given_up)
        if (at := op.param_of_operand(operand)) is not None and bindings[at].role is Role.INPUT
        for k, new in enumerate(bindings)
        if new.role is Role.OUTPUT and new.operand < 0 and new.result < op.visible
        if (params[k].type, shapes[k]) == (params[at].type, shapes[at])
    ]
    return [(operand, at, k) for _, operand, at, k in sorted(found)]


def _updating(op: Operation, writes: _Writes) -> Operation:
    func = with_stores(op.func, [eqn for _, first in writes.values() for eqn in first])
    memory: dict[Var, Atom] = {}
    bindings = list(op.bindings)
    for operand, (result, _) in writes.items():
        at = op.param_of_operand(operand)
        assert at is not None
        bindings[at] = replace(bindings[at], role=Role.INOUT, result=result, zero=ZeroFill.NEVER)
        memory[func.params[op.param_of_result(result)]] = func.params[at]
    kept = [k for k, param in enumerate(func.params) if param not in memory]
    changed = rewrite(func.body, lambda eqn: eqn, memory)
    body = Region(tuple(func.params[k] for k in kept), changed.eqns, changed.yields)
    return Operation(
        replace(func, body=body, param_locs=tuple(func.param_loc(k) for k in kept)),
        op.operands,
        op.results,
        op.visible,
        tuple(bindings[k] for k in kept),
        op.grid,
    )
