"""Who is told of launches and copies while they are recorded."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from kernelcore.errors import SrcLoc


class Recorder(Protocol):
    """Keeps launches and copies, for a backward pass for instance."""

    def record_copy(self, target: Any, source: Any | None, write: Callable[[], None]) -> None:
        """Call ``write``, after which the elements of array ``target`` are those of ``source``.

        ``source`` is None if they are values then that do not depend on an array.
        """
        ...

    def record_launch(self, kernel: Any, dim: Any, args: Sequence[Any]) -> None:
        """Run ``kernel``, and record it."""
        ...

    def make_array(self, shape: Any, dtype: Any, is_zero: bool) -> Any:
        """What stands for a new array of ``dtype``; None if that is an array as any other."""
        ...


# Of this thread (and asynchronous task): what others launch is not recorded.
recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


class Program(Protocol):
    """Takes what would be done now, to be done later."""

    def add(self, step: Callable[[], object]) -> None:
        """Append what ``step`` does."""
        ...

    def add_launch(self, signature: Any, dim: Any, args: Sequence[Any]) -> bool:
        """Append a launch; False if the arrays share memory that the kernel must have alone."""
        ...

    def add_device_launch(
        self, direct: Any, device: Any, dim: Any, args: Sequence[Any], sizes: tuple[int, int]
    ) -> None:
        """Append a launch on a GPU, with so many threads of a block and blocks at most."""
        ...


# What captures this thread's launches; None where they run at once.
captured: ContextVar[Program | None] = ContextVar("captured", default=None)


def perform(step: Callable[[], object]) -> None:
    """Do ``step`` now, or where launches are captured, in every replay."""
    program = captured.get()
    if program is None:
        step()
    else:
        program.add(step)


def perform_write(target: Any, write: Callable[[], object]) -> None:
    """As ``perform``, of a ``write`` to the array ``target``."""
    perform(write)
    if captured.get() is not None:
        # It is going to be written: a Tape must not take what it holds now for what it kept.
        target.mark_write()


_PACKAGE = __name__.partition(".")[0] + "."


def as_text(site: SrcLoc | None) -> str:
    """Where a call was, for a message."""
    return "an unknown line" if site is None else str(site)


def whole_line(site: SrcLoc | None) -> SrcLoc | None:
    """All of the source line of ``site``, for an error."""
    if site is None:
        return None
    text = linecache.getline(site.file, site.line).rstrip()
    return SrcLoc(site.file, site.line, len(text) - len(text.lstrip()), len(text))


# A file and a number in it, from which a location is made where one is shown.
Line = tuple[str, int]


def call_line() -> Line | None:
    """The line outside of kernelcore that is being executed; for functions of its own."""
    # Neither this function nor the one that asks.
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def location(line: Line | None) -> SrcLoc | None:
    """The start of ``line``."""
    return None if line is None else SrcLoc(*line, 0, 0)


def call_site() -> SrcLoc | None:
    """The start of the line outside of kernelcore that is being executed."""
    return location(call_line())
