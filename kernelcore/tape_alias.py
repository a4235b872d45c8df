"""Arrays that share memory, but no count of writes, since they are no views of each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelcore.data import Array
from kernelcore.errors import KernelGradError
from kernelcore.recording import whole_line
from kernelcore.tape_record import LaunchRecord, Record


class Aliases:
    """The memory of the arrays that a Tape has seen."""

    def __init__(self) -> None:
        # By root: its memory, the roots that share it, and whether it was written. They are held,
        # so that neither an address nor the memory is used again.
        self._roots: list[Array] = []
        self._bounds: dict[int, tuple[int, int]] = {}
        self._twins: dict[int, list[int]] = {}
        self._written: set[int] = set()

    def check(self, record: Record) -> None:
        """Refuse a write that other arrays would not be told of, and a read of one.

        Raises:
            KernelGradError: Naming the array.
        """
        for array in (*record.inputs, *record.outputs):
            self._see(array.root)
        for array in record.outputs:
            if self._twins[id(array.root)]:
                raise _error(record, record.name_of(array))
            self._written.add(id(array.root))
        for array in record.inputs:
            if self._written.intersection(self._twins[id(array.root)]):
                raise _error(record, record.name_of(array))
        if isinstance(record, LaunchRecord):
            self._check_others(record)

    def _check_others(self, record: LaunchRecord) -> None:
        """Refuse arrays of other libraries that are written in the memory of a known array."""
        for i, leaf in enumerate(record.leaves):
            if not record.kernel.effects[i].writes or isinstance(leaf, Array):
                continue
            memory = _bounds(np.asarray(leaf))
            if any(_overlap(memory, known) for known in self._bounds.values()):
                raise _error(record, record.kernel.func.params[i].name)

    def _see(self, root: Array) -> None:
        key = id(root)
        if key in self._bounds:
            return
        memory = root.bounds
        twins = [other for other, known in self._bounds.items() if _overlap(memory, known)]
        self._roots.append(root)
        self._bounds[key], self._twins[key] = memory, twins
        for other in twins:
            self._twins[other].append(key)


def _bounds(data: Any) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(data)
    return (low, high if data.size else low)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _error(record: Record, name: str) -> KernelGradError:
    return KernelGradError(
        f"{record.label}: '{name}' shares memory with another array of the tape that is no view "
        "of it, and one of them is written",
        whole_line(record.site),
        "make one array, and take views of it",
    )
