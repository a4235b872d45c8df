"""Placement: which part of a launch each device runs, and the shardings that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxlib import xla_client

from kernelcore.operators import AxisSplit, Operation, Window, evaluate

Shape = tuple[int, ...]
# The windows of an array, by axis of the launch.
Windows = Mapping[int, Window]
# Groups of devices that run a launch each: XLA counts the devices of a group from 0.
Members = tuple[tuple[int, ...], ...]
# Pairs of devices: from and to.
Pairs = list[tuple[int, int]]


class AxisCut(NamedTuple):
    """How a launch axis is cut.

    Part ``p`` runs ``part`` points from ``p * part - shift`` on. Where ``is_guarded``, some of them
    are beyond the ends of the launch.
    """

    tiles: int
    part: int
    shift: int
    is_guarded: bool

    def held(self, extent: int) -> int:
        """How many of ``extent`` elements a device has, as XLA cuts arrays."""
        return -(-extent // self.tiles)

    def step(self, window: Window, extent: int) -> int:
        """How many elements more a device has than its points own: 0 where both are in step."""
        return self.held(extent) - window.times * self.part

    def borders(self, window: Window, extent: int) -> tuple[int, int]:
        """The elements that devices take of the parts before theirs, and of those behind."""
        step = self.step(window, extent)
        below = window.below + (self.tiles - 1) * max(step, 0)
        above = window.above - (step if step >= 0 else self.tiles * step)
        return below, max(above, 0)

    def offsets(self, window: Window, extent: int) -> list[int]:
        """Where the window of each part begins in its own elements between ``borders``."""
        step, (below, _) = self.step(window, extent), self.borders(window, extent)
        return [below - window.below - part * step for part in range(self.tiles)]


@dataclass(frozen=True)
class Placement:
    """Which part of a launch each device runs.

    Attributes:
        cuts: How each launch axis is cut that is.
        devices: Devices by their part of each of these axes; the last axis counts devices that run
            the same part.
        grid: The shape of the whole launch.
        operands: Shapes of the whole operands.
        operand_cuts: Their windows along the axes that are cut.
        results: Shapes of the whole results, hidden ones included.
        result_cuts: Likewise.
        members: Groups of devices; ``devices`` are positions in each of them.
    """

    cuts: Mapping[int, AxisCut]
    devices: np.ndarray[Any, Any]
    grid: Shape
    operands: list[Shape]
    operand_cuts: Sequence[Windows]
    results: list[Shape]
    result_cuts: Sequence[Windows]
    members: Members

    @staticmethod
    def of(
        operation: Operation,
        splits: Mapping[int, AxisSplit],
        operands: Sequence[Sequence[int]],
        shardings: Sequence[Any],
        members: Members,
    ) -> Placement:
        """The placement that follows the sharding which cuts the launch most.

        ``shardings`` are those of the operands, then those of the visible results. A launch axis is
        not cut where its parts would be thinner than the borders they need.
        """
        grid: Shape = evaluate(operation.grid, operands)
        results: list[Shape] = [evaluate(r.shape, operands) for r in operation.results]
        arrays = [
            *(
                {a: w for a, s in splits.items() if (w := s.operands.get(k))}
                for k in range(len(operands))
            ),
            *(
                {a: w for a, s in splits.items() if (w := s.results.get(k))}
                for k in range(len(results))
            ),
        ]

        def cut(axis: int, tiles: int) -> AxisCut | None:
            found = _axis_cut(operation, splits[axis], axis, operands, tiles)
            return None if found is not None and found.is_guarded and not members else found

        def parts(windows: Windows, sharding: Any) -> dict[int, AxisCut]:
            if not sharding.is_tiled():
                return {}
            dims = sharding.tile_assignment_dimensions()
            counts = {a: dims[w.axis] for a, w in windows.items()}
            found = ((a, cut(a, n)) for a, n in counts.items() if n > 1)
            return {a: one for a, one in found if one is not None}

        every = [parts(w, s) for w, s in zip(arrays, shardings, strict=False)]
        best = max(range(len(every)), key=lambda k: math.prod(c.tiles for c in every[k].values()))
        cuts = every[best]
        tiles = {a: c.tiles for a, c in cuts.items()}
        devices = np.zeros(1, np.int64)
        if tiles:
            dims = shardings[best].tile_assignment_dimensions()
            devices = np.array(shardings[best].tile_assignment_devices()).reshape(dims)
            devices = np.moveaxis(devices, [arrays[best][a].axis for a in tiles], range(len(tiles)))
            devices = devices.reshape(*tiles.values(), -1)
        chosen = [{a: w for a, w in windows.items() if a in tiles} for windows in arrays]
        count = len(operands)
        return Placement(
            cuts,
            devices,
            grid,
            [tuple(s) for s in operands],
            chosen[:count],
            results,
            chosen[count:],
            members,
        )

    def sharding(self, shape: Sequence[int], windows: Windows) -> Any:
        """The sharding of an array whose windows the devices take."""
        if not windows:
            return xla_client.HloSharding.replicate()
        order = {w.axis: a for a, w in windows.items()}
        axes = list(self.tiles)
        front = [axes.index(order[k]) for k in sorted(order)]
        devices = np.moveaxis(self.devices, front, range(len(front)))
        proto = xla_client.OpSharding()
        proto.type = xla_client.OpSharding.Type.OTHER
        dims = [self.tiles[order[k]] if k in order else 1 for k in range(len(shape))]
        rest = self.devices.size // int(np.prod(dims))
        proto.tile_assignment_dimensions = [*dims, rest] if rest > 1 else dims
        proto.tile_assignment_devices = [int(d) for d in devices.reshape(-1)]
        proto.replicate_on_last_tile_dim = rest > 1
        return xla_client.HloSharding.from_proto(proto)

    @property
    def tiles(self) -> dict[int, int]:
        """The number of parts of each launch axis that is cut."""
        return {a: c.tiles for a, c in self.cuts.items()}

    def held(self, shape: Shape, windows: Windows) -> Shape:
        """The shape of what one device has of an array."""
        made = list(shape)
        for axis, window in windows.items():
            made[window.axis] = self.cuts[axis].held(made[window.axis])
        return tuple(made)

    def window(self, shape: Shape, windows: Windows) -> Shape:
        """The shape of what the kernel of one device is given of an array, or makes."""
        made = list(shape)
        for axis, window in windows.items():
            own = window.times * self.cuts[axis].part
            made[window.axis] = own + window.below + window.above
        return tuple(made)

    def first(self, axis: int, part: int) -> int:
        """The first index of a part of a launch axis."""
        return part * self.cuts[axis].part - self.cuts[axis].shift

    def neighbours(self, axis: int, step: int, wraps: bool) -> Pairs:
        """Pairs of devices whose parts are ``step`` away along a launch axis."""
        rows = np.moveaxis(self.devices, list(self.tiles).index(axis), 0)
        count = len(rows)
        return [
            (group[a], group[b])
            for k in range(count)
            if wraps or 0 <= k + step < count
            for a, b in zip(rows[k].ravel(), rows[(k + step) % count].ravel(), strict=True)
            for group in self.members
        ]

    def groups(self, axes: Sequence[int]) -> list[list[int]]:
        """Groups of devices that differ in their parts of ``axes`` only."""
        places = [list(self.tiles).index(a) for a in axes]
        moved = np.moveaxis(self.devices, places, range(-len(axes), 0))
        size = int(np.prod([self.tiles[a] for a in axes]))
        rows = moved.reshape(-1, size)
        return [[group[d] for d in row] for group in self.members for row in rows]

    def part_of_device(self, axis: int) -> list[int]:
        """Per device its part of a launch axis."""
        places = [0] * sum(map(len, self.members))
        rows = np.moveaxis(self.devices, list(self.tiles).index(axis), 0)
        for k, row in enumerate(rows):
            for group in self.members:
                for d in row.ravel():
                    places[group[d]] = k
        return places


def _axis_cut(
    op: Operation, split: AxisSplit, axis: int, operands: Sequence[Any], tiles: int
) -> AxisCut | None:
    """The launch axis ``axis`` of ``op`` in ``tiles`` parts; None where devices cannot run them."""
    extent = evaluate(op.grid, operands)[axis]
    made = [evaluate(r.shape, operands) for r in op.results]
    arrays = [
        *((w, operands[k][w.axis]) for k, w in split.operands.items()),
        *((w, made[k][w.axis]) for k, w in split.results.items()),
    ]
    stored = [(w, made[k][w.axis]) for k, w in split.results.items() if k not in split.added]
    shift = split.parts.shift
    part = -(-(extent + shift) // tiles)
    for window, length in stored[:1]:
        part = -(-length // tiles) // window.times
    cut = AxisCut(tiles, part, shift, bool(shift) or part * tiles != extent)
    # Those that the kernel updates begin with what was given: their windows are what a device has.
    updated = {b.result for b in op.bindings if b.operand >= 0 and b.result >= 0}
    stored += [(w, made[k][w.axis]) for k, w in split.results.items() if k in updated]
    is_whole = part * tiles >= extent + shift and not any(cut.step(*array) for array in stored)
    return cut if is_whole and all(_is_within_neighbours(cut, *a) for a in arrays) else None


def _is_within_neighbours(cut: AxisCut, window: Window, extent: int) -> bool:
    """Whether the parts next to a device's hold the borders that it needs."""
    if window.wraps and (extent % cut.tiles or cut.step(window, extent)):
        return False
    return max(cut.borders(window, extent)) <= cut.held(extent)
