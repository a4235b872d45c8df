"""Launches over DTensors that ranks run a part of each, with borders of their neighbours' parts.

Every rank plans alike, from the shapes and placements of the whole: which axis of the launch each
dimension of the mesh cuts. ``rank_part.py`` runs the parts.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from kernelcore.operators import AxisSplit, Operation, evaluate, operand_lists, usable_splits
from torch_ext.operator import TorchOperator
from torch_ext.rank_part import Cut, run_part, span

# Plans that an operator keeps: programs have few combinations of shapes and placements.
_MAX_PLANS = 64


class _Plan(NamedTuple):
    """How a launch is cut over the ranks of a mesh.

    Attributes:
        cut: Which part each rank runs; None if all run the whole.
        operands: Per operand the placements that it is given with; None of numbers.
        results: Per visible result its placements.
        shapes: Per visible result the shape of the whole.
    """

    cut: Cut | None
    operands: Sequence[Sequence[Any] | None]
    results: Sequence[Sequence[Any]]
    shapes: Sequence[tuple[int, ...]]


class ShardedLaunch:
    """The rule of torch for an operator of which some operands are DTensors."""

    def __init__(self, operator: TorchOperator, tensor: Any) -> None:
        self.operator = operator
        self.operation = operator.operation
        self.tensor = tensor  # The module torch.distributed.tensor.
        self.plans: OrderedDict[Any, _Plan] = OrderedDict()
        self.reported: set[int] = set()
        self.unread = unread_operands(self.operation)

    def run(
        self, cls: Any, overload: Any, types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """A call, which torch makes below autograd."""
        del cls, overload, types
        assert not kwargs
        mesh = self.mesh(args)
        with torch.no_grad():
            plan = self.plan(mesh, args)
            given: list[Any] = []
            for k, (arg, placements) in enumerate(zip(args, plan.operands, strict=True)):
                if placements is not None and tuple(arg.placements) != tuple(placements):
                    arg = arg.redistribute(placements=placements)
                local = arg if placements is None else arg.to_local()
                is_shape = placements is not None and k in self.unread
                given.append(local.new_empty(()).expand(arg.shape) if is_shape else local)
            operator = self.operator
            if plan.cut is None:
                found = operator.results(operator.direct(*given))
            else:
                found = run_part(operator, plan.cut, given)
            made = tuple(
                self.tensor.DTensor.from_local(
                    local, mesh, placed, run_check=False, shape=shape, stride=_strides(shape)
                )
                for local, placed, shape in zip(found, plan.results, plan.shapes, strict=True)
            )
        return made[0] if len(made) == 1 else made

    def mesh(self, args: Sequence[Any]) -> Any:
        """The mesh of all DTensors among ``args``.

        Raises:
            KernelArgumentError: They have several, or a tensor with elements has none.
        """
        meshes: list[Any] = [a.device_mesh for a in args if isinstance(a, self.tensor.DTensor)]
        for k, arg in enumerate(args):
            if isinstance(arg, self.tensor.DTensor):
                is_right, found = arg.device_mesh == meshes[0], f"one on {arg.device_mesh}"
            else:
                is_right = not isinstance(arg, torch.Tensor) or arg.numel() == 1
                found = "a tensor that is on no mesh"
            if not is_right:
                raise self.operation.argument_error(
                    k,
                    f"expected a DTensor on {meshes[0]}, as another argument is, found {found}",
                    "distribute_tensor(x, mesh, [Replicate()]) makes a DTensor that all ranks have",
                )
        return meshes[0]

    def plan(self, mesh: Any, args: Sequence[Any]) -> _Plan:
        """How a call is cut; found once per shapes and placements. It warns of gathers."""
        shapes = self.operation.shapes(args)
        given = tuple(a.placements if self.is_sharded(a) else () for a in args)
        numbers = (n for s in shapes for n in s)
        if not all(isinstance(n, int) for n in numbers) or any(map(_is_symbol, args)):
            return self.cheapest(mesh, {}, args, shapes)
        key = (mesh, tuple(map(tuple, shapes)), given)
        plan = self.plans.get(key)
        if plan is None:
            splits = usable_splits(self.operation, shapes)
            plan = self.plans[key] = self.cheapest(mesh, splits, args, shapes)
            if len(self.plans) > _MAX_PLANS:
                self.plans.popitem(last=False)
            warn_of_gathers(self.operation, given, [p or () for p in plan.operands], self.reported)
        return plan

    def is_sharded(self, arg: Any) -> bool:
        return isinstance(arg, self.tensor.DTensor)

    def cheapest(
        self, mesh: Any, splits: Mapping[int, AxisSplit], args: Sequence[Any], shapes: Sequence[Any]
    ) -> _Plan:
        """The cut of the least communication; mesh dimensions choose in turn."""
        operation, tensor = self.operation, self.tensor
        grid = evaluate(operation.grid, shapes)
        sizes: tuple[int, ...] = tuple(mesh.size(d) for d in range(mesh.ndim))
        axes: list[int | None] = []
        for dim, size in enumerate(sizes):
            options: list[int | None] = [None]
            for axis, split in splits.items():
                counts = [n for n, a in zip(sizes, axes, strict=False) if a == axis]
                if size > 1 and _is_wide_enough(split, grid[axis], [*counts, size]):
                    options.append(axis)
            costs = [
                self.cost(dim, None if a is None else splits[a], args, shapes) for a in options
            ]
            axes.append(options[costs.index(min(costs))])
        chosen = [None if a is None else splits[a] for a in axes]
        whole: list[tuple[int, int]] = []
        operands: list[Sequence[Any] | None] = [None] * len(args)
        for k, arg in enumerate(args):
            if not self.is_sharded(arg):
                continue
            windows = [None if s is None else s.operands.get(k) for s in chosen]
            cut = [None if w is None else w.axis for w in windows]
            placements = [tensor.Replicate() if a is None else tensor.Shard(a) for a in cut]
            for dim, along in enumerate(cut):
                is_only = along is not None and cut.count(along) == 1
                if is_only and arg.placements[dim].is_replicate():
                    placements[dim] = tensor.Replicate()
                    whole.append((k, dim))
            operands[k] = arg.placements if k in self.unread else placements
        results: list[list[Any]] = []
        for k in range(operation.visible):
            placements = []
            for split in chosen:
                window = None if split is None else split.results.get(k)
                is_sum = split is not None and k in split.sums
                kind = tensor.Partial() if is_sum else tensor.Replicate()
                placements.append(kind if window is None else tensor.Shard(window.axis))
            results.append(placements)
        groups = [mesh.get_group(d).group_name for d in range(mesh.ndim)]
        cut = Cut(axes, groups, [tuple(s) for s in shapes], whole)
        made = [evaluate(r.shape, shapes) for r in operation.outputs]
        return _Plan(None if not any(chosen) else cut, operands, results, made)

    def cost(
        self, dim: int, split: AxisSplit | None, args: Sequence[Any], shapes: Sequence[Any]
    ) -> float:
        """Elements that one rank receives if mesh dimension ``dim`` cuts the launch so."""
        total = 0.0
        for k, arg in enumerate(args):
            if not self.is_sharded(arg) or k in self.unread:
                continue
            window = None if split is None else split.operands.get(k)
            given, count, size = arg.placements[dim], arg.numel(), arg.device_mesh.size(dim)
            if window is not None and count:
                total += count / arg.shape[window.axis] * (window.below + window.above)
            if given.is_replicate() or (window is not None and given.is_shard(window.axis)):
                continue
            total += count * (2 if given.is_partial() else 1) / (1 if window is None else size)
        for k in () if split is None else (*split.sums, *split.extrema):
            total += 2 * math.prod(evaluate(self.operation.results[k].shape, shapes))
        return total


def unread_operands(operation: Operation) -> tuple[int, ...]:
    """Arrays of which the launch takes the shape alone."""
    used = operand_lists.without_unused(operation)
    arrays = (k for k, o in enumerate(used.operands) if not o.is_number(False))
    return operand_lists.unread(used, tuple(arrays))


def _is_symbol(arg: Any) -> bool:
    return isinstance(arg, torch.SymInt | torch.SymFloat | torch.SymBool)


def _is_wide_enough(split: AxisSplit, extent: int, sizes: Sequence[int]) -> bool:
    """Whether parts along an axis hold the borders of their neighbours."""
    border = max(max(w.below, w.above) for w in split.parts.windows.values())
    if not border:
        return True
    if len(sizes) > 1:
        return False  # Neighbours in one mesh dimension may be none in the other.
    return min(span(extent, sizes, [p])[1] for p in range(sizes[0])) >= border


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    behind = itertools.accumulate(reversed(shape[1:]), lambda a, b: a * max(b, 1), initial=1)
    return tuple(reversed([*behind])) if shape else ()


def warn_of_gathers(
    operation: Operation,
    given: Iterable[Sequence[Any]],
    kept: Sequence[Sequence[Any]],
    reported: set[int],
) -> None:
    """Warn once of each operand that is sharded along an axis that none of ``kept`` has."""
    for k, (placements, allowed) in enumerate(zip(given, kept, strict=True)):
        lost = [p for p in placements if p.is_shard() and p not in allowed]
        if lost and k not in reported:
            reported.add(k)
            warnings.warn(
                f"{operation.func.label}: operand '{operation.operands[k].name}' is sharded along "
                f"axis {lost[0].dim}, along which its launch is not cut: every rank gathers it. "
                "A launch is cut along axes that every access indexes near the launch index, into "
                "parts no thinner than the borders: shard such an axis, or gather the operand "
                "before with x.redistribute(placements=[Replicate()])",
                stacklevel=1,
            )
