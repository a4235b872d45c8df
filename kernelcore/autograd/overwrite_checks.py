"""What a Tape does about memory: refuses what would lose a gradient, keeps what is overwritten."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore._native import ArrayMemory
from kernelcore.autograd.launch_record import LaunchRecord, Records, record_at
from kernelcore.autograd.records import Record
from kernelcore.base import native
from kernelcore.base.errors import KernelGradError
from kernelcore.launch.array_ops import copy_of
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.call_site import whole_line

# A value that the backward pass needs: the launch that does, and its parameter.
Need = tuple[LaunchRecord, int]


class Memories:
    """The memory of the arrays that a Tape has seen.

    Attributes:
        known: Who wrote it, who needs it, and who shares it.
    """

    def __init__(self, records: Records) -> None:
        self.known = native.TapeMemory()
        self._records = records

    def writers(self, array: Array) -> Sequence[tuple[int, Record]]:
        """Who wrote the memory of ``array``: the count of writes after it, and the record."""
        return [(version, record_at(self._records, n)) for version, n in self.known.writers(array)]

    def check(self, record: Record) -> None:
        """Refuse a ``record`` of memory that was written without the Tape being told, or will be.

        Raises:
            KernelGradError: Naming the array.
        """
        fault = self.known.fault([*record.inputs], [*record.outputs])
        if fault is not None:
            kind, array = fault
            name = record.name_of(array)
            raise (
                _alias_error(record, name)
                if kind == "twin"
                else _gap_error(record, name, self.writers(array)[-1][1])
            )
        if isinstance(record, LaunchRecord):
            for i in record.plan.others:
                memory = ArrayMemory(record.leaves[i]).span
                if self.known.overlaps(memory.begin, memory.end):
                    raise _alias_error(record, record.kernel.func.params[i].name)

    def before_write(self, record: Record, *, is_kept: bool) -> list[Need]:
        """What the backward pass needs of the same memory beside of what ``record`` writes to.

        Of what it is about to overwrite, a copy is kept if ``is_kept``.
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
        """Note what ``record``, which has this number, wrote, and what it needs."""
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
