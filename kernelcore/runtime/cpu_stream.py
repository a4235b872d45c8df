"""Streams and events of the CPU, where a launch of a thread is over when it returns."""

from __future__ import annotations

import time


class CpuStream:
    """A queue that is always empty."""

    handle = 0

    def synchronize(self) -> None:
        """Wait for nothing."""

    def is_idle(self) -> bool:
        """Whether all that it was given is over: it is."""
        return True

    def follow(self, other: CpuStream) -> None:
        """Go on, since ``other`` is empty."""


class CpuEvent:
    """A point in time."""

    handle = 0

    def __init__(self) -> None:
        self._time_ns = 0

    def record(self, stream: CpuStream) -> None:
        """Take the time."""
        self._time_ns = time.perf_counter_ns()

    def delay(self, stream: CpuStream) -> None:
        """Let ``stream`` go on."""

    def synchronize(self) -> None:
        """Wait for nothing."""

    def is_over(self) -> bool:
        """Whether it was reached: it was."""
        return True

    def ms_until(self, end: CpuEvent) -> float:
        """Milliseconds between two events."""
        return (end._time_ns - self._time_ns) / 1e6
