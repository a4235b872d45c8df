"""What a Tape recorded: records, and launches that become records when they are looked at."""

from __future__ import annotations

from typing import Any

from kernelcore.tape_launch import LaunchRecord
from kernelcore.tape_record import Record

# In order; what is no Record is what ``native.record_launch`` appended.
Records = list[Any]


def record_at(records: Records, number: int) -> Record:
    """The record of that number."""
    found = records[number]
    if found.__class__ is tuple:
        (plan, _), dim, leaves, line, versions = found
        found = records[number] = LaunchRecord(plan, dim, leaves, line or None)
        found.versions = dict(zip(plan.versions, versions, strict=True))
    return found
