"""Rules of torch.distributed.tensor: operators of elementwise kernels keep their inputs sharded."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from kernelcore.operators import Operation, Part, Role, as_array, parts

# Imported by users of DTensor only: it takes long.
_MODULE = "torch.distributed.tensor"
_pending: list[tuple[OpOverload, Operation]] = []


def add_rule(overload: OpOverload, operation: Operation) -> None:
    """Give ``overload`` its sharding rule as soon as torch.distributed.tensor is imported."""
    _pending.append((overload, operation))
    add_pending()


def add_pending() -> None:
    """Register what waited for torch.distributed.tensor."""
    if not _pending or _MODULE not in sys.modules:
        return
    register = importlib.import_module(f"{_MODULE}.experimental").register_sharding
    while _pending:
        overload, operation = _pending.pop()
        register(overload)(_strategies(operation))


def _strategies(operation: Operation) -> Callable[..., Any]:
    """All placements of one mesh dimension that give the right results without communication."""
    tensor = importlib.import_module(_MODULE)
    found = _parts(operation)
    rank = len(operation.grid)

    def strategies(*specs: Any) -> list[tuple[list[Any], list[Any]]]:
        is_tensor = [hasattr(s, "shape") for s in specs]
        everywhere = [tensor.Replicate() if one else None for one in is_tensor]
        rows: list[tuple[list[Any], list[Any]]] = [
            ([tensor.Replicate()] * operation.visible, everywhere)
        ]
        if found is None:
            return rows
        operands, results = found
        own = [i for i, part in enumerate(operands) if part is Part.OWN]
        if len({tuple(specs[i].shape[:rank]) for i in own}) != 1:
            return rows
        for axis in range(rank):
            given = [tensor.Shard(axis) if i in own else s for i, s in enumerate(everywhere)]
            made = [tensor.Shard(axis) if p is Part.OWN else tensor.Partial() for p in results]
            rows.append((made, given))
        return rows

    return strategies


def _parts(operation: Operation) -> tuple[list[Part], list[Part]] | None:
    """The part of every operand that a part of the grid needs, and of every visible result."""
    found = parts(operation.func)
    if found is None or not operation.results:
        return None
    operands = [Part.ALL] * len(operation.operands)
    results = [Part.OWN] * operation.visible
    rank = len(operation.grid)
    for bound, part in zip(operation.bindings, found, strict=True):
        if bound.role in (Role.INPUT, Role.VALUE):
            operands[bound.operand] = part
        elif bound.role is Role.SCRATCH or (bound.operand >= 0 and part is not Part.OWN):
            return None
        else:
            results[bound.result] = part
            if bound.operand >= 0:
                operands[bound.operand] = part
    own = {i for i, part in enumerate(operands) if part is Part.OWN}
    for shape in (operation.grid, *(r.shape[:rank] for r in _own(operation, results))):
        # The grid and what is made are those of the arrays that are cut.
        if [e.axis for e in shape] != list(range(rank)) or any(e.operand not in own for e in shape):
            return None
    sums = (r for r, p in zip(operation.outputs, results, strict=True) if p is Part.SUM)
    if any(e.operand in own for r in sums for e in r.shape):
        return None
    shapes = [as_array(operation.operands[i].type) for i in own]
    return (operands, results) if all(s.outer_ndim == rank for s in shapes) else None


def _own(operation: Operation, results: list[Part]) -> list[Any]:
    return [r for r, p in zip(operation.outputs, results, strict=True) if p is Part.OWN]
