"""Steps of a graph that a GPU can run as a whole: launches, copies, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernelcore.base import native
from kernelcore.runtime.device import Device
from kernelcore.runtime.stream import ScopedStream, Stream, current_stream


@dataclass(frozen=True, slots=True)
class DeviceStep:
    """Something that is queued in the stream in use, and is the same in every replay.

    Attributes:
        device: The GPU.
        run: Queues it.
        written: The arrays that it writes.
    """

    device: Device
    run: Callable[[], object]
    written: Sequence[Any]

    def __call__(self) -> None:
        self.run()


class Steps(Protocol):
    """What a branch does."""

    def run(self) -> None:
        """Do it now."""
        ...

    @property
    def device(self) -> Device | None:
        """The GPU that can run it as a whole; None where there is none."""
        ...

    @property
    def written(self) -> Sequence[Any]:
        """The arrays that it writes, as far as a GPU can run it as a whole."""
        ...


@dataclass(frozen=True, slots=True)
class Branches:
    """Steps that are done if a condition holds, and others if not; or as long as it holds.

    Attributes:
        condition: An array of one integer or bool.
        holds: Looks at it.
        on_true: What is done if, or as long as, it is not zero.
        on_false: What is done if it is zero.
        repeats: Whether it is a loop.
    """

    condition: Any
    holds: Callable[[], bool]
    on_true: Steps
    on_false: Steps
    repeats: bool = False

    def __call__(self) -> None:
        device = self.device
        queue = None if device is None else current_stream(device).queue
        if queue is not None and queue.is_capturing:
            self._capture(queue)
        elif self.repeats:
            while self.holds():
                self.on_true.run()
        else:
            (self.on_true if self.holds() else self.on_false).run()

    @property
    def device(self) -> Device | None:
        """The GPU that has the condition and can run all of it."""
        if not getattr(self.condition, "is_on_cuda", False):
            return None
        device: Device = self.condition.device
        parts = [part for part in (self.on_true, self.on_false) if not is_empty(part)]
        is_whole = bool(parts) and all(part.device == device for part in parts)
        return device if is_whole and native.cuda_prepare_branches(device.ordinal) else None

    @property
    def written(self) -> Sequence[Any]:
        """The arrays that one of its branches writes."""
        return [*self.on_true.written, *self.on_false.written]

    def _capture(self, queue: native.CudaStream) -> None:
        branches = [(False, self.repeats, _giving(self.on_true))]
        if not is_empty(self.on_false):
            branches.append((True, False, _giving(self.on_false)))
        native.cuda_add_branches(queue, self.condition, branches)


def is_empty(steps: Any) -> bool:
    """Whether there is nothing to do."""
    return len(steps) == 0


def _giving(steps: Steps) -> Callable[[native.CudaStream], None]:
    """What gives ``steps`` to a stream that captures them."""
    device = steps.device
    return lambda queue: None if device is None else run_in(device, queue, steps.run)


def run_in(device: Device, queue: native.CudaStream, run: Callable[[], object]) -> None:
    """Call ``run`` while ``queue`` is the stream in use of ``device``."""
    with ScopedStream(Stream(device, cuda_stream=queue), sync_enter=False):
        run()
