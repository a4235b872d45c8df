"""What a Tape recorded, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernelcore.tape_launch import LaunchRecord
from kernelcore.tape_record import Record


class Records:
    """Records by number; what native code recorded becomes one when it is looked at.

    Attributes:
        items: The records, and what ``native.record_launch`` has of launches.
    """

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[Any] = []

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Record:
        found = self.items[number]
        if found.__class__ is tuple:
            (plan, _), dim, leaves, line, versions = found
            found = self.items[number] = LaunchRecord(plan, dim, leaves, line)
            found.versions = dict(zip(plan.versions, versions, strict=True))
        return found

    def __iter__(self) -> Iterator[Record]:
        return (self[number] for number in range(len(self)))
