"""Rules of torch.distributed.tensor: operators keep their inputs sharded where parts run apart.

A launch whose parts are the same kernel over parts of the tensors gets placements, which torch
chooses from. Others, with borders, the launch index or tensors that are never read, run as
``sharded_launch.py`` says.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from kernelcore.operators import (
    AxisSplit,
    Extent,
    Operation,
    axis_splits,
    is_launch_of_parts,
    usable_splits,
)
from torch_ext.operator import TorchOperator
from torch_ext.rank_part import known
from torch_ext.sharded_launch import ShardedLaunch, unread_operands, warn_of_gathers

# Imported by users of DTensor only: it takes long.
_MODULE = "torch.distributed.tensor"
_pending: list[tuple[OpOverload, TorchOperator, torch.library.Library]] = []


def add_rule(overload: OpOverload, operator: TorchOperator, library: torch.library.Library) -> None:
    """Give ``overload`` its sharding rule as soon as torch.distributed.tensor is imported."""
    _pending.append((overload, operator, library))
    add_pending()


def add_pending() -> None:
    """Register what waited for torch.distributed.tensor."""
    if not _pending or _MODULE not in sys.modules:
        return
    tensor = importlib.import_module(_MODULE)
    register = importlib.import_module(f"{_MODULE}.experimental").register_sharding
    while _pending:
        overload, operator, library = _pending.pop()
        if _has_placements_only(operator.operation):
            register(overload)(_strategies(operator.operation))
        else:
            launch, name = ShardedLaunch(operator, tensor), overload.name()
            known[name] = operator
            torch.library.register_torch_dispatch(name, tensor.DTensor, launch.run, lib=library)


def _has_placements_only(operation: Operation) -> bool:
    """Whether every way to cut ``operation`` is one of DTensor's placements."""
    splits = axis_splits(operation).items()
    return not unread_operands(operation) and all(_runs_as_it_is(operation, *s) for s in splits)


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
        if all(isinstance(s, int) for spec in specs for s in getattr(spec, "shape", ())):
            shapes = operation.shapes(specs)
            for split in usable_splits(operation, shapes).values():
                given = list(everywhere)
                for k, window in split.operands.items():
                    given[k] = tensor.Shard(window.axis)
                made = [tensor.Replicate()] * operation.visible
                for k, window in split.results.items():
                    made[k] = tensor.Shard(window.axis)
                for k in split.sums:
                    made[k] = tensor.Partial()
                rows.append((made, given))
        given = [getattr(spec, "placements", ()) for spec in specs]
        kept: list[Sequence[Any]] = [[row[k] for _, row in rows] for k in range(len(specs))]
        warn_of_gathers(operation, given, kept, reported)
        return rows

    return strategies


def _runs_as_it_is(operation: Operation, axis: int, split: AxisSplit) -> bool:
    """Whether ``operation`` on parts of its operands is what one device runs."""
    if not is_launch_of_parts(operation, axis, split) or split.extrema:
        return False
    if operation.visible != len(operation.results):
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
