"""What a Tape knows of the memory of arrays: who wrote it, who needs it, and who shares it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelcore.data import Array
from kernelcore.errors import KernelGradError
from kernelcore.recording import whole_line
from kernelcore.tape_cut import memory_span
from kernelcore.tape_launch import LaunchRecord
from kernelcore.tape_record import Record

# A value that the backward pass needs: the launch that does, and its parameter.
Need = tuple[LaunchRecord, int]


class Memory:
    """The memory of one root.

    Attributes:
        root: The array, which is held so that neither its address nor the memory is used again.
        begin: Its first address.
        end: The address past its end.
        twins: Memory of other roots, no views of this one, that shares bytes with it.
        is_written: Whether a record was about to write it.
        writers: The count of writes after each record that wrote it, and the record.
        needs: Values in it that the backward pass needs.
    """

    __slots__ = ("begin", "end", "is_written", "needs", "root", "twins", "writers")

    def __init__(self, root: Array) -> None:
        self.root, self.is_written = root, False
        self.begin, self.end = root.bounds
        self.writers: list[tuple[int, Record]] = []
        self.needs: list[Need] = []
        self.twins: list[Memory] = []

    def overlaps(self, begin: int, end: int) -> bool:
        """Whether it has bytes in common with those from ``begin`` up to ``end``."""
        return begin < self.end and self.begin < end

    def before_write(self, record: Record, *, is_kept: bool) -> list[Need]:
        """What the backward pass needs of this memory beside of what ``record`` writes to.

        Of what it is about to overwrite, a copy is kept if ``is_kept``.
        """
        spans = [memory_span(array) for array in record.outputs if array.root is self.root]
        left: list[Need] = []
        for earlier, i in self.needs:
            leaf = earlier.leaves[i]
            if leaf.version != earlier.versions[i]:
                continue
            span = memory_span(leaf)
            if not any(span.overlaps(other) for other in spans):
                left.append((earlier, i))
            elif is_kept:
                earlier.saved[i] = np.array(leaf.numpy())
                del earlier.versions[i]
        self.needs = left
        return left


class Memories:
    """The memory of the arrays that a Tape has seen."""

    def __init__(self) -> None:
        self._known: dict[int, Memory] = {}
        self._has_twins = False

    def _of(self, array: Array) -> Memory:
        root = array.root
        return self._known.get(id(root)) or self._see(root)

    def _see(self, root: Array) -> Memory:
        memory = Memory(root)
        begin, end = memory.begin, memory.end
        for other in self._known.values():
            if begin < other.end and other.begin < end:
                memory.twins.append(other)
                other.twins.append(memory)
                self._has_twins = True
        self._known[id(root)] = memory
        return memory

    def writers(self, root: Array) -> Sequence[tuple[int, Record]]:
        """Who wrote the memory of ``root``: the count of writes after it, and the record."""
        memory = self._known.get(id(root))
        return () if memory is None else memory.writers

    def check(self, record: Record) -> list[Memory]:
        """Refuse a ``record`` of memory that was written without the Tape being told, or will be.

        Returns:
            The memory that it writes.

        Raises:
            KernelGradError: Naming the array.
        """
        for array in record.inputs:
            memory = self._of(array)
            if memory.writers and memory.writers[-1][0] != array.version:
                _refuse_gap(record, array, memory)
        written: list[Memory] = []
        for array in record.outputs:
            memory = self._of(array)
            if memory.writers and memory.writers[-1][0] != array.version:
                _refuse_gap(record, array, memory)
            written.append(memory)
        if self._has_twins:
            self._refuse_twins(record, written)
        for memory in written:
            memory.is_written = True
        if isinstance(record, LaunchRecord) and record.plan.others:
            self._check_others(record)
        return written

    def _refuse_twins(self, record: Record, written: Sequence[Memory]) -> None:
        """Refuse to write what other arrays share, and to read what one of these has written."""
        for array, memory in zip(record.outputs, written, strict=True):
            if memory.twins:
                raise _alias_error(record, record.name_of(array))
            memory.is_written = True
        for array in record.inputs:
            if any(twin.is_written for twin in self._of(array).twins):
                raise _alias_error(record, record.name_of(array))

    def _check_others(self, record: LaunchRecord) -> None:
        """Refuse arrays of other libraries that are written in the memory of a known array."""
        for i in record.plan.others:
            bounds = _bounds(np.asarray(record.leaves[i]))
            if any(known.overlaps(*bounds) for known in self._known.values()):
                raise _alias_error(record, record.kernel.func.params[i].name)

    def keep(self, record: Record, written: Sequence[Memory]) -> None:
        """Note what ``record`` wrote to the memory that ``check`` returned, and what it needs."""
        for array, memory in zip(record.outputs, written, strict=True):
            memory.writers.append((array.version, record))
        if isinstance(record, LaunchRecord):
            for i in record.versions:
                self._of(record.leaves[i]).needs.append((record, i))


def _refuse_gap(record: Record, array: Array, memory: Memory) -> None:
    """Refuse an array with a gradient that was written since a record wrote it."""
    if array.requires_grad:
        raise KernelGradError(
            f"{record.label} uses '{record.name_of(array)}', which {memory.writers[-1][1].label} "
            "wrote, and something that was not recorded has written to since",
            whole_line(record.site),
            "record all that writes it, or write to another array",
        )


def _bounds(data: Any) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(data)
    return (low, high if data.size else low)


def _alias_error(record: Record, name: str) -> KernelGradError:
    return KernelGradError(
        f"{record.label}: '{name}' shares memory with another array of the tape that is no view "
        "of it, and one of them is written",
        whole_line(record.site),
        "make one array, and take views of it",
    )
