"""Over several devices: along which axes a launch is cut, and what devices then exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelcore.base.dataclass import dataclass
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import effects
from kernelcore.passes.access.launch_parts import (
    Parts,
    extents_of,
    launch_parts,
    outer_ndim,
    parts_of_axis,
)

# Names of arrays and their bytes; None where extents are not known.
Sizes = Mapping[str, int | None]


@dataclass(frozen=True)
class LaunchAxis:
    """What devices exchange where arrays are cut along one axis of the launch.

    Attributes:
        axis: The launch axis.
        is_cut: Whether each device runs a part of the launch; else each runs the whole.
        borders: How many elements in front of its own, and behind, a device takes of its
            neighbours.
        sums: The arrays to which all devices add.
        extrema: The arrays that hold the maxima ("max") or minima ("min") of all devices.
        gathered: The arrays that every device needs whole, and gathers where they are cut.
    """

    axis: int
    is_cut: bool
    borders: Mapping[str, tuple[int, int]]
    sums: Sequence[str]
    extrema: Mapping[str, str]
    gathered: Sizes

    def __str__(self) -> str:
        whole = ", ".join(map(sized, self.gathered, self.gathered.values()))
        if not self.is_cut:
            return (
                f"not cut along launch axis {self.axis}: each device gathers {whole or 'nothing'}"
            )
        needs = [
            f"{below} before and {above} after its part of {name}"
            for name, (below, above) in self.borders.items()
        ]
        needs += [f"the sum of {', '.join(self.sums)} over the devices"] * bool(self.sums)
        needs += [f"the {u} of {name} over the devices" for name, u in self.extrema.items()]
        needs += [f"the whole of {whole}, which it gathers if that is cut"] * bool(whole)
        needed = "; ".join(needs) or "nothing of another"
        return f"cut along launch axis {self.axis}: a device needs {needed}"


def sized(name: str, size: int | None) -> str:
    return name if size is None else f"{name} ({size:,} bytes)"


def size_of(argument: Any, type_: ArrayType) -> int:
    """The bytes of an array argument."""
    return int(np.prod(np.shape(argument), dtype=np.int64)) * type_.dtype.size_bytes


def launch_axes(
    func: Func, arguments: Sequence[Any] | None, shape: Sequence[int] | None
) -> tuple[LaunchAxis, ...]:
    """The axes of a launch of ``func`` of ``shape``; ``arguments`` are one per parameter.

    Without these, all arrays have the extents of the launch.
    """
    if arguments is None or shape is None:
        found = launch_parts(func)
    else:
        arrays = {k: np.shape(arguments[k]) for k, p in enumerate(func.params) if outer_ndim(p)}
        known = {a: extents_of(func, arrays, shape[a]) for a in range(func.rank)}
        parts = ((a, parts_of_axis(func, a, extents)) for a, extents in known.items())
        found = {a: one for a, one in parts if one is not None}
    read: dict[int, int | None] = {
        k: None if arguments is None else size_of(arguments[k], p.type)
        for k, (p, effect) in enumerate(zip(func.params, effects(func), strict=True))
        if effect.loads and isinstance(p.type, ArrayType)
    }
    name = [p.name for p in func.params]
    made: list[LaunchAxis] = []
    none = Parts({}, frozenset(), {}, frozenset())
    for axis in range(func.rank):
        parts = found.get(axis, none)
        windows = parts.windows
        made.append(
            LaunchAxis(
                axis,
                axis in found,
                {name[k]: (w.below, w.above) for k, w in windows.items() if not w.is_own},
                [name[k] for k in sorted(parts.sums)],
                {name[k]: update for k, update in parts.extrema.items()},
                {
                    name[k]: size
                    for k, size in read.items()
                    if k not in windows and k not in parts.extrema
                },
            )
        )
    return tuple(made)
