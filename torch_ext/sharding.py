"""Rules of torch.distributed.tensor: operators keep their inputs sharded where parts run apart."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch._ops import OpOverload

from kernelcore.operators import (
    AxisSplit,
    Extent,
    Operation,
    is_launch_of_parts,
    usable_splits,
)

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
    reported: set[int] = set()

    def strategies(*specs: Any) -> list[tuple[list[Any], list[Any]]]:
        is_tensor = [hasattr(s, "shape") for s in specs]
        everywhere = [tensor.Replicate() if one else None for one in is_tensor]
        rows: list[tuple[list[Any], list[Any]]] = [
            ([tensor.Replicate()] * operation.visible, everywhere)
        ]
        if not all(isinstance(s, int) for spec in specs for s in getattr(spec, "shape", ())):
            _report_replicated(operation, rows, specs, reported)
            return rows
        shapes = operation.shapes(specs)
        for axis, split in usable_splits(operation, shapes).items():
            if not _runs_as_it_is(operation, axis, split):
                continue
            given = list(everywhere)
            for k, window in split.operands.items():
                given[k] = tensor.Shard(window.axis)
            made = [tensor.Replicate()] * operation.visible
            for k, window in split.results.items():
                made[k] = tensor.Shard(window.axis)
            for k in split.sums:
                made[k] = tensor.Partial()
            rows.append((made, given))
        _report_replicated(operation, rows, specs, reported)
        return rows

    return strategies


def _report_replicated(
    operation: Operation,
    rows: Sequence[tuple[list[Any], list[Any]]],
    specs: Sequence[Any],
    reported: set[int],
) -> None:
    """Warn once of each operand that is sharded along an axis which none of ``rows`` keeps."""
    for k, (spec, operand) in enumerate(zip(specs, operation.operands, strict=False)):
        kept = [given[k] for _, given in rows]
        lost = [p for p in getattr(spec, "placements", ()) if p.is_shard() and p not in kept]
        if lost and k not in reported:
            reported.add(k)
            warnings.warn(
                f"{operation.func.label}: operand '{operand.name}' is sharded along axis "
                f"{lost[0].dim}, along which its launch is not cut: every rank gathers it. "
                "A launch is cut along axes where each thread accesses the elements of its own "
                "index only, and does not use the index or the extent otherwise",
                stacklevel=1,
            )


def _runs_as_it_is(operation: Operation, axis: int, split: AxisSplit) -> bool:
    """Whether ``operation`` on parts of its operands is what one device runs."""
    if not is_launch_of_parts(operation, axis) or operation.visible != len(operation.results):
        return False
    if split.extrema:
        return False
    if any(b.operand >= 0 and b.result in split.sums for b in operation.bindings):
        return False
    cut = {Extent.of(k, w.axis) for k, w in split.operands.items()}
    made = {(k, w.axis) for k, w in split.results.items()}
    shapes = [
        (k, place, e) for k, r in enumerate(operation.outputs) for place, e in enumerate(r.shape)
    ]
    return [e in cut for e in operation.grid] == [
        a == axis for a in range(len(operation.grid))
    ] and all((e in cut) == ((k, place) in made) for k, place, e in shapes)
