"""Checks of recorded memory: writes that would lose a gradient are refused, or values saved."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore._native import ArrayMemory
from kernelcore.autograd.records import FuncRecord, LaunchRecord, Record, Records, record_at
from kernelcore.base import native
from kernelcore.base.errors import KernelGradError
from kernelcore.launch.array_ops import copy_of
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.call_site import whole_line

# An array that the backward pass reads: the record of a launch, and the parameter.
Need = tuple[LaunchRecord, int]


class RecordedMemory:
    """The memory of the arrays of a Tape.

    Attributes:
        known: Its writers, its readers in the backward pass, and its aliases.
    """

    def __init__(self, records: Records) -> None:
        self.known = native.TapeMemory()
        self._records = records

    def writers(self, array: Array) -> Sequence[tuple[int, Record]]:
        """The version of the memory of ``array`` after each recorded write, and the record."""
        return [(version, record_at(self._records, n)) for version, n in self.known.writers(array)]

    def check(self, record: Record) -> None:
        """Refuse a ``record`` whose memory has writes that the Tape did not record.

        Raises:
            KernelGradError: Naming the array.
        """
        fault = self.known.fault([*record.inputs], [*record.outputs])
        if isinstance(record, FuncRecord) and fault is not None and fault[0] != "alias":
            # Its outputs were written before it is recorded.
            outputs = {*record.outputs}
            fault = self.known.fault([a for a in record.inputs if a not in outputs], [])
        if fault is not None:
            reason, array = fault
            name = record.name_of(array)
            if reason == "alias":
                raise _alias_error(record, name)
            raise _gap_error(record, name, self.writers(array)[-1][1])
        if isinstance(record, LaunchRecord):
            for i in record.plan.others:
                memory = ArrayMemory(record.leaves[i]).span
                if self.known.overlaps(memory.begin, memory.end):
                    raise _alias_error(record, record.kernel.leaves[i][0])

    def before_write(self, record: Record, *, is_kept: bool) -> list[Need]:
        """Saved inputs in the memory that ``record`` writes which it does not overwrite.

        Their versions are refreshed after the write. Overwritten ones are copied if ``is_kept``.
        """
        left: list[Need] = []
        for output in record.outputs:
            spans = [other.span for other in record.outputs if other.root is output.root]
            for n, i in self.known.take_needs(output):
                earlier = record_at(self._records, n)
                assert isinstance(earlier, LaunchRecord)
                leaf = earlier.leaves[i]
                if leaf.version != earlier.versions.get(i):
                    continue
                if not any(leaf.span.overlaps(span) for span in spans):
                    left.append((earlier, i))
                    self.known.need(leaf, n, i)
                elif is_kept:
                    earlier.saved[i] = copy_of(leaf)
                    del earlier.versions[i]
        return left

    def keep(self, record: Record, number: int) -> None:
        """Note the writes and the needs of ``record``, which has this number."""
        for array in record.outputs:
            self.known.wrote(array, number)
        if isinstance(record, LaunchRecord):
            for i in record.versions:
                self.known.need(record.leaves[i], number, i)


def _gap_error(record: Record, name: str, writer: Record) -> KernelGradError:
    return KernelGradError(
        f"{record.label} uses '{name}', which {writer.label} wrote, and something that was not "
        "recorded has written to since",
        whole_line(record.site),
        "record all that writes it, or write to another array",
    )


def _alias_error(record: Record, name: str) -> KernelGradError:
    return KernelGradError(
        f"{record.label}: '{name}' shares memory with another array of the tape that is no view "
        "of it, and one of them is written",
        whole_line(record.site),
        "make one array, and take views of it",
    )
