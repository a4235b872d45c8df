"""Placement: which part of a launch each device runs, and the shardings that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Placement:
    """Which part of a launch each device runs.

    Attributes:
        tiles: The number of parts of each launch axis that is cut.
        devices: Devices by their part of each of these axes; the last axis counts devices that run
            the same part.
        grid: The shape of the whole launch.
        operands: Shapes of the whole operands.
        operand_cuts: Their windows along the axes that are cut.
        results: Shapes of the whole results, hidden ones included.
        result_cuts: Likewise.
        members: Groups of devices; ``devices`` are positions in each of them.
    """

    tiles: Mapping[int, int]
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
        not cut where its parts would not be equal, or thinner than the borders they need.
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

        def parts(windows: Windows, sharding: Any) -> dict[int, int]:
            if not sharding.is_tiled():
                return {}
            dims = sharding.tile_assignment_dimensions()
            counts = {a: dims[w.axis] for a, w in windows.items()}
            return {
                a: n for a, n in counts.items() if n > 1 and _is_cut_evenly(splits[a], grid[a], n)
            }

        cuts = [parts(w, s) for w, s in zip(arrays, shardings, strict=False)]
        best = max(range(len(cuts)), key=lambda k: int(np.prod(list(cuts[k].values()))))
        tiles = cuts[best]
        devices = np.zeros(1, np.int64)
        if tiles:
            dims = shardings[best].tile_assignment_dimensions()
            devices = np.array(shardings[best].tile_assignment_devices()).reshape(dims)
            devices = np.moveaxis(devices, [arrays[best][a].axis for a in tiles], range(len(tiles)))
            devices = devices.reshape(*tiles.values(), -1)
        chosen = [{a: w for a, w in windows.items() if a in tiles} for windows in arrays]
        count = len(operands)
        return Placement(
            tiles,
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

    def local(self, shape: Shape, windows: Windows, with_border: bool = False) -> Shape:
        """The shape of the window of one device, perhaps ``with_border``."""
        made = list(shape)
        for axis, window in windows.items():
            made[window.axis] //= self.tiles[axis]
            made[window.axis] += (window.below + window.above) * with_border
        return tuple(made)

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


def _is_cut_evenly(split: AxisSplit, extent: int, parts: int) -> bool:
    if extent % parts:
        return False
    windows = split.parts.windows.values()
    return all(max(w.below, w.above) <= extent // parts for w in windows)
