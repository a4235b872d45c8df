"""ScopedMemoryTracker: the memory that data arrays allocate in a block of code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from kernelcore import _native


class ScopedMemoryTracker:
    """Counts the memory that kernelcore allocates for arrays within a ``with`` block.

    Gradients and copies count, memory of GPUs and of other libraries does not. All threads count.
    Blocks nest.

    Attributes:
        count: The number of allocations, once the block is left.
        size_bytes: Their bytes in total.
        peak_bytes: The most bytes in use at once, less those at entry.
        live_bytes: The bytes in use, less those at entry.
    """

    def __init__(
        self,
        name: str = "root",
        active: bool = True,
        print: bool = True,
        report_func: Callable[[str], object] | None = None,
    ) -> None:
        """A tracker.

        Args:
            name: The name of the block in the report.
            active: Whether to count.
            print: Whether to print the report when the block is left.
            report_func: Called with the report, instead of printing.
        """
        self.name = name
        self.active = active
        self.count = self.size_bytes = self.peak_bytes = self.live_bytes = 0
        self._prints = print
        self._report = report_func
        self._start = (0, 0, 0, 0, 0)

    def __enter__(self) -> Self:
        if self.active:
            self._start = _native.allocation_counts()
            _native.restart_peak()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.active:
            return
        count, size_bytes, _, live_bytes, peak_bytes = _native.allocation_counts()
        first_count, first_bytes, _, first_live, outer_peak = self._start
        # The peak of an outer block includes this one.
        _native.restart_peak(max(outer_peak, peak_bytes))
        self.count, self.size_bytes = count - first_count, size_bytes - first_bytes
        self.peak_bytes, self.live_bytes = peak_bytes - first_live, live_bytes - first_live
        if self._report is not None:
            self._report(self.report())
        elif self._prints:
            print(self.report())

    def report(self) -> str:
        """The counts in one line."""
        return (
            f"{self.name}: {self.count} allocations of {self.size_bytes} bytes, at most "
            f"{self.peak_bytes} bytes at once, {self.live_bytes} more than before still in use"
        )
