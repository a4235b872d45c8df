"""LaunchObserver: receives the launches and writes of a thread; a capture postpones them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from kernelcore._native import ArrayMemory
from kernelcore.base.dataclass import dataclass
from kernelcore.runtime.device import Device


class LaunchObserver(Protocol):
    """Receives the launches, copies and new arrays of a thread.

    A Tape runs and records them, a Graph keeps them for replays, a trace makes a Program of them.
    """

    @property
    def sink(self) -> CaptureSink | None:
        """The graph that captures executed calls; None if they run at once."""
        ...

    @property
    def has_elements(self) -> bool:
        """Whether arrays have elements while it observes; those of a trace have none."""
        ...

    def record_launch(self, kernel: Any, dim: Any, args: Sequence[Any]) -> None:
        """Receive a launch of ``kernel``."""
        ...

    def record_copy(self, target: Any, source: Any | None, write: Callable[[], None]) -> None:
        """Receive ``write``, which copies array ``source``, or constants, to ``target``."""
        ...

    def make_array(self, shape: Any, dtype: Any, is_zero: bool) -> Any:
        """The object that stands for a new array; None for an ordinary array."""
        ...


class CaptureSink(LaunchObserver, Protocol):
    """Captures calls for replays."""

    def add(self, call: Callable[[], object]) -> None:
        """Append a call."""
        ...

    def add_launch(self, signature: Any, dim: Any, args: Sequence[Any]) -> bool:
        """Append a launch; False if an array that the kernel needs exclusively shares memory."""
        ...

    def add_device_launch(
        self, executable: Any, device: Any, dim: Any, args: Sequence[Any], sizes: tuple[int, int]
    ) -> None:
        """Append a launch on a GPU; ``sizes`` are the threads of a block and the most blocks."""
        ...


# One per thread and asynchronous task: launches of other threads are not observed.
observer: ContextVar[LaunchObserver | None] = ContextVar("observer", default=None)


class LaunchChecks:
    """A LaunchObserver that looks at every launch; what is active without it receives the launches.

    Attributes:
        check: Raises for a launch that must not run.
        outer: The observer that is active without it.
    """

    def __init__(
        self,
        check: Callable[[Any, Any, Sequence[Any]], None],
        run: Callable[[Any, Any, tuple[Any, ...]], None],
    ) -> None:
        self.check = check
        self.outer = recording()
        self._run = run

    @property
    def sink(self) -> CaptureSink | None:
        """That of the observer that is active without it."""
        return None if self.outer is None else self.outer.sink

    @property
    def has_elements(self) -> bool:
        """As of the observer that is active without it."""
        return self.outer is None or self.outer.has_elements

    def record_launch(self, kernel: Any, dim: Any, args: Sequence[Any]) -> None:
        """Check a launch, and run it."""
        self._run(kernel, dim, tuple(args))

    def record_copy(self, target: Any, source: Any, write: Callable[[], None]) -> None:
        """Run or record a write."""
        if self.outer is None:
            perform_write(target, write)
        else:
            self.outer.record_copy(target, source, write)

    def make_array(self, shape: Any, dtype: Any, is_zero: bool) -> Any:
        """What the observer that is active without it makes."""
        return None if self.outer is None else self.outer.make_array(shape, dtype, is_zero)


def recording() -> LaunchObserver | None:
    """What records launches of this thread; None if they only run."""
    current = observer.get()
    return current.outer if isinstance(current, LaunchChecks) else current


# Whether new arrays of floats require a gradient.
new_arrays_require_gradients: ContextVar[bool] = ContextVar("gradients", default=False)


@contextmanager
def temporaries(require_gradients: bool) -> Generator[None]:
    """Arrays of floats that are made inside require a gradient, if ``require_gradients`` is set."""
    token = new_arrays_require_gradients.set(require_gradients)
    try:
        yield
    finally:
        new_arrays_require_gradients.reset(token)


def capture_sink() -> CaptureSink | None:
    """The capture of this thread; None if calls run at once."""
    current = observer.get()
    return None if current is None else current.sink


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """A call that queues work in the current stream, the same work in every replay.

    Attributes:
        device: The GPU.
        run: Queues the work.
        written: The arrays that the work writes.
        used: The memory that the work uses.
    """

    device: Device
    run: Callable[[], object]
    written: Sequence[Any]
    used: Sequence[ArrayMemory]

    def __call__(self) -> None:
        self.run()


def perform(call: Callable[[], object]) -> None:
    """Run ``call`` now, or in every replay of the capture."""
    sink = capture_sink()
    if sink is None:
        call()
    else:
        sink.add(call)


def perform_write(target: Any, write: Callable[[], object]) -> None:
    """``perform(write)`` for a ``write`` that overwrites elements of the array ``target``."""
    perform(write)
    if capture_sink() is not None:
        # Replays change the array: a Tape must not take its present elements for saved ones.
        target.mark_write()
