"""ScopedTimer: the time that a block of code takes."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from typing import Any, Self

from kernelcore.runtime.device import synchronize


class ScopedTimer:
    """Measures the wall time of a ``with`` block.

    Attributes:
        elapsed: Milliseconds that the block took, once it is left.
    """

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,
        detailed: bool = False,
        dict: MutableMapping[str, list[float]] | None = None,
        synchronize: bool = False,
        report_func: Callable[[list[Any], str], object] | None = None,
        **ignored: Any,
    ) -> None:
        """A timer.

        Args:
            name: The name of the block in the report.
            active: Whether to measure.
            print: Whether to print the time when the block is left.
            detailed: Has no effect: profile the process with a profiler.
            dict: Where to append the time in milliseconds, by name.
            synchronize: Whether to wait for devices before the time is taken.
            report_func: Called with a list of results and the indentation, instead of printing.
            ignored: Options of other systems' tools: use_nvtx, color, cuda_filter, skip_tape.
        """
        self.name = name
        self.active = active
        self.elapsed = 0.0
        self._prints = print
        self._times = dict
        self._synchronizes = synchronize
        self._report = report_func
        self._start = 0

    def _now(self) -> int:
        if self._synchronizes:
            synchronize()
        return time.perf_counter_ns()

    def __enter__(self) -> Self:
        if self.active:
            self._start = self._now()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.active:
            return
        self.elapsed = (self._now() - self._start) / 1e6
        if self._times is not None:
            self._times.setdefault(self.name, []).append(self.elapsed)
        if self._report is not None:
            self._report([self], "")
        elif self._prints:
            print(f"{self.name} took {self.elapsed:.2f} ms")
