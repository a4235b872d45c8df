"""Streams and events of the CPU, where a launch is complete when it returns."""

from __future__ import annotations

import time


class CpuStream:
    """A queue that is always empty."""

    handle = 0

    def synchronize(self) -> None:
        """Return at once."""

    def is_idle(self) -> bool:
        """Whether all queued work is complete: always."""
        return True

    def follow(self, other: CpuStream) -> None:
        """Return at once: ``other`` is empty."""


class CpuEvent:
    """A point in time."""

    handle = 0

    def __init__(self) -> None:
        self._time_ns = 0

    def record(self, stream: CpuStream) -> None:
        """Note the time."""
        self._time_ns = time.perf_counter_ns()

    def delay(self, stream: CpuStream) -> None:
        """Return at once: the event is complete."""

    def synchronize(self) -> None:
        """Return at once."""

    def is_over(self) -> bool:
        """Whether it is complete: always."""
        return True

    def ms_until(self, end: CpuEvent) -> float:
        """Milliseconds between two events."""
        return (end._time_ns - self._time_ns) / 1e6
