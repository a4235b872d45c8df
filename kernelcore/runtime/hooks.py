"""Who is told of launches and copies while they are recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol


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
        self, executable: Any, device: Any, dim: Any, args: Sequence[Any], sizes: tuple[int, int]
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
