"""The part of a launch that one rank runs, between exchanges with ranks that have other parts.

Where a rank is in its mesh is found when a part runs: torch's caches of compiled graphs serve all
ranks, so graphs hold one opaque operator in its place.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from kernelcore.operators import (
    AxisSplit,
    Role,
    Window,
    cached_property,
    evaluate,
    sized_local_operation,
    usable_splits,
)
from torch_ext import derivation
from torch_ext.check import PLAIN_TENSORS
from torch_ext.derivation import NAMESPACE
from torch_ext.dtype import dtype_to_torch
from torch_ext.operator import TorchOperator


class Cut(NamedTuple):
    """How a launch is cut over ranks, the same on all of them.

    Attributes:
        axes: Per mesh dimension the axis of the launch that it cuts; None if none.
        groups: Per mesh dimension the name of the process group of this rank.
        shapes: Per operand the shape of the whole.
        whole: Operands that are given whole in a mesh dimension, which takes a part of them.
    """

    axes: Sequence[int | None]
    groups: Sequence[str]
    shapes: Sequence[Sequence[int]]
    whole: Sequence[tuple[int, int]]


def span(extent: int, sizes: Sequence[int], places: Sequence[int]) -> tuple[int, int]:
    """The first index and the number of indices of a part, as DTensor cuts tensors."""
    start, count = 0, extent
    for size, place in zip(sizes, places, strict=True):
        chunk = -(-count // size)
        first = min(place * chunk, count)
        start, count = start + first, min(chunk, count - first)
    return start, count


class RankPart:
    """The part of this rank of a launch of ``operator``."""

    def __init__(self, operator: TorchOperator, cut: Cut) -> None:
        self.operator = operator
        self.operation = operator.operation
        self.cut = cut
        groups = [_group(name) for name in cut.groups]
        self.sizes = [group.size() for group in groups]
        self.places = [group.rank() for group in groups]
        self.splits: Mapping[int, AxisSplit] = usable_splits(self.operation, cut.shapes)
        self.axes = tuple(sorted({a for a in cut.axes if a is not None}))
        self.grid = evaluate(self.operation.grid, cut.shapes)
        self.spans = {
            a: span(
                self.grid[a], *([k[d] for d in self.dims(a)] for k in (self.sizes, self.places))
            )
            for a in self.axes
        }

    def dims(self, axis: int) -> list[int]:
        """The mesh dimensions that cut a launch axis."""
        return [d for d, a in enumerate(self.cut.axes) if a == axis]

    def run(self, args: Sequence[Any]) -> list[torch.Tensor]:
        """The results of this part, from its parts of tensors and from numbers."""
        found = self.operator.derived(derivation.part(self.axes)).operator
        assert found is not None
        given = [self.operand(k, a) for k, a in enumerate(args)]
        made = found.results(found.direct(*given, *self.numbers))
        return [self.result(k, one) for k, one in enumerate(made)]

    @cached_property
    def numbers(self) -> list[int]:
        """What the kernel of a part takes besides the operands."""
        local = sized_local_operation(self.operation, self.axes)
        made = [self.spans[a][0] for a in local.starts]
        made += [self.grid[a] for a in local.extents]
        for whole, axis, border in local.sizes:
            extent = evaluate((whole,), self.cut.shapes)[0] if axis < 0 else self.spans[axis][1]
            made.append(extent + border)
        return made

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the results of this part."""
        made: list[tuple[int, ...]] = []
        for k, result in enumerate(self.operation.outputs):
            shape = list(evaluate(result.shape, self.cut.shapes))
            for axis in self.axes:
                if (window := self.splits[axis].results.get(k)) is not None:
                    shape[window.axis] = self.spans[axis][1]
            made.append(tuple(shape))
        return made

    def operand(self, k: int, local: Any) -> Any:
        """What the kernel is given for operand ``k``: the part with its border."""
        for operand, dim in self.cut.whole:
            if operand == k and (axis := self.cut.axes[dim]) is not None:
                window = self.splits[axis].operands[k]
                place = span(local.shape[window.axis], [self.sizes[dim]], [self.places[dim]])
                local = local.narrow(window.axis, *place)
        bound = next((b for b in self.operation.bindings if b.operand == k), None)
        result = -1 if bound is None or bound.role is not Role.INOUT else bound.result
        for axis in self.axes:
            split = self.splits[axis]
            if result in split.sums and self.spans[axis][0] > 0:
                local = torch.zeros_like(local)  # The first part starts from what was given.
            window = split.operands.get(k)
            if window is not None and not window.is_own:
                local = self.with_border(local, axis, window, result in split.added)
        return local

    def with_border(
        self, local: torch.Tensor, axis: int, window: Window, is_added: bool
    ) -> torch.Tensor:
        """``local`` between borders of its neighbours' parts; of zeros if the launch adds to it."""
        along, extent = window.axis, local.shape[window.axis]
        last = local.narrow(along, extent - window.below, window.below)
        first = local.narrow(along, 0, window.above)
        below = above = None
        if not is_added:
            below, above = self.exchanged(axis, window.wraps, last, first)
        below = torch.zeros_like(last) if below is None else below
        above = torch.zeros_like(first) if above is None else above
        return torch.cat((below, local, above), along)

    def result(self, k: int, local: torch.Tensor) -> torch.Tensor:
        """Result ``k`` of this part, with what others added to it."""
        for axis in reversed(self.axes):
            split = self.splits[axis]
            window = split.results.get(k)
            if window is not None and not window.is_own:
                local = self.own(local, axis, window, k in split.added)
            if (update := split.extrema.get(k)) is not None:
                local = self.extremum(axis, update, local)
        return local

    def own(self, local: torch.Tensor, axis: int, window: Window, is_added: bool) -> torch.Tensor:
        """``local`` without its border, plus what the neighbours' parts added if ``is_added``."""
        along = window.axis
        extent = local.shape[along] - window.below - window.above
        before = local.narrow(along, 0, window.below)
        behind = local.narrow(along, window.below + extent, window.above)
        own = local.narrow(along, window.below, extent).clone()
        if not is_added:
            return own
        first, last = self.exchanged(axis, window.wraps, behind, before)
        if last is not None:
            own.narrow(along, extent - window.below, window.below).add_(last)
        if first is not None:
            own.narrow(along, 0, window.above).add_(first)
        return own

    def exchanged(
        self, axis: int, wraps: bool, to_next: torch.Tensor, to_previous: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """What the previous and the next part along a launch axis send; None at the ends."""
        (dim,) = self.dims(axis)
        place, count = self.places[dim], self.sizes[dim]
        has_next, has_previous = wraps or place + 1 < count, wraps or place > 0
        following, previous = (place + 1) % count, (place - 1) % count
        # A message has a direction: of two ranks, both neighbours are the same.
        sent = [(following, 0, to_next)] * has_next + [(previous, 1, to_previous)] * has_previous
        taken = [(previous, 0, to_next)] * has_previous + [(following, 1, to_previous)] * has_next
        sent.sort(key=lambda m: m[:2])
        taken.sort(key=lambda m: m[:2])

        def sizes(messages: Sequence[tuple[int, int, torch.Tensor]]) -> list[int]:
            return [sum(t.nbytes for r, _, t in messages if r == rank) for rank in range(count)]

        # As bytes: not every backend has every dtype.
        data = [t.reshape(-1).contiguous().view(torch.uint8) for _, _, t in sent]
        buffer = torch.cat(data) if data else to_next.new_empty(0, dtype=torch.uint8)
        found = _collectives().all_to_all_single(
            buffer, sizes(taken), sizes(sent), self.cut.groups[dim]
        )
        found = _collectives().wait_tensor(found)
        ends = itertools.accumulate((t.nbytes for _, _, t in taken), initial=0)
        pieces: dict[int, torch.Tensor] = {}
        for (_, direction, like), start in zip(taken, ends, strict=False):
            piece = found[start : start + like.nbytes].clone().view(like.dtype)
            pieces[direction] = piece.reshape(like.shape)
        return pieces.get(0), pieces.get(1)

    def extremum(self, axis: int, update: str, local: torch.Tensor) -> torch.Tensor:
        """The maximum ("max") or minimum of ``local`` of all parts along a launch axis.

        Floats are compared as integers of their order: reductions of floats may drop NaNs.
        """
        keys = _ordered(local, update) if local.is_floating_point() else local
        for dim in self.dims(axis):
            keys = _collectives().all_reduce(keys, update, self.cut.groups[dim])
            keys = _collectives().wait_tensor(keys)
        return _from_ordered(keys, local.dtype) if local.is_floating_point() else keys


_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def _ordered(value: torch.Tensor, update: str) -> torch.Tensor:
    """Integers in the order of ``value``; NaNs behind all for maxima, before all for minima."""
    bits = value.view(_INTEGERS[value.itemsize])
    limits = torch.iinfo(bits.dtype)
    key = torch.where(bits < 0, bits ^ limits.max, bits)
    key = torch.where(value.isnan(), limits.max if update == "max" else limits.min, key)
    return key if value.itemsize > 2 else key.to(torch.int32)  # Backends lack int16.


def _from_ordered(key: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    key = key.to(_INTEGERS[dtype.itemsize])
    bits = torch.where(key < 0, key ^ torch.iinfo(key.dtype).max, key)
    return bits.view(dtype)


@cache
def _collectives() -> Any:
    """Collectives by the names of groups. Imported by programs that use them only."""
    return importlib.import_module("torch.distributed._functional_collectives")


def _group(name: str) -> Any:
    return importlib.import_module("torch.distributed.distributed_c10d")._resolve_process_group(
        name
    )


# By the qualified names of their overloads: operators whose launches may be cut so.
known: dict[str, TorchOperator] = {}
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_library.define(
    "rank_part(str operator, str cut, str kinds, Tensor[] tensors, Scalar[] numbers) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout),
)


def run_part(operator: TorchOperator, cut: Cut, args: Sequence[Any]) -> Sequence[torch.Tensor]:
    """The results of this rank's part of a launch; in a graph, those of an opaque operator."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if all(type(t) in PLAIN_TENSORS for t in tensors):
        return RankPart(operator, cut).run(args)
    numbers = [a for a in args if not isinstance(a, torch.Tensor)]
    kinds = "".join("t" if isinstance(a, torch.Tensor) else "n" for a in args)
    name = operator.inner.name()
    return torch.ops.kernelcore.rank_part(name, json.dumps(cut), kinds, tensors, numbers)


def _part_of(operator: str, cut: str) -> RankPart:
    if operator not in known:  # A graph that another process compiled names it; this defines it.
        namespace, name = operator.split("::")
        getattr(getattr(torch.ops, namespace), name)
    return RankPart(known[operator], Cut(*json.loads(cut)))


def _run(
    operator: str,
    cut: str,
    kinds: str,
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[Any],
) -> list[torch.Tensor]:
    given = {"t": iter(tensors), "n": iter(numbers)}
    return _part_of(operator, cut).run([next(given[kind]) for kind in kinds])


def _fake(
    operator: str,
    cut: str,
    kinds: str,
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[Any],
) -> list[torch.Tensor]:
    del kinds, numbers
    part = _part_of(operator, cut)
    outputs = zip(part.shapes, part.operation.outputs, strict=True)
    return [tensors[0].new_empty(s, dtype=dtype_to_torch(r.type.dtype)) for s, r in outputs]


_library.impl("rank_part", _run, "CompositeExplicitAutograd")
torch.library.register_fake(f"{NAMESPACE}::rank_part", _fake, lib=_library)
