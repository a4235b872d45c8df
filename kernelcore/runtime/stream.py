"""Streams and events: the order of launches, and the time between them."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

from kernelcore.base import native
from kernelcore.base.errors import KernelArgumentError
from kernelcore.runtime.device import Device, require_device


class Event:
    """A mark in a stream, to wait for or to measure time between.

    On the CPU, where a launch is complete when it returns, it is a point in time.

    Attributes:
        device: The device of its streams.
        mark: The backend's event.
        enable_timing: Whether ``get_event_elapsed_time`` takes it.
        is_recorded: Whether it was recorded in a stream.
    """

    def __init__(
        self,
        device: object = None,
        cuda_event: Any = None,
        enable_timing: bool = False,
        interprocess: bool = False,
    ) -> None:
        """An event that is not recorded yet.

        Args:
            device: The device of its streams.
            cuda_event: A CUDA handle to wrap; GPUs only.
            enable_timing: Whether ``get_event_elapsed_time`` takes it.
            interprocess: Whether other processes may wait for it; no effect on the CPU.

        Raises:
            KernelArgumentError: There is no such device or handle.
        """
        self.device: Device = require_device("Event", device)
        _refuse_handle("Event", "cuda_event", self.device, cuda_event)
        backend, ordinal = self.device.backend, self.device.ordinal
        self.mark: Any = (
            backend.wrap_event(ordinal, cuda_event)
            if cuda_event
            else backend.make_event(ordinal, enable_timing, interprocess)
        )
        self.enable_timing = enable_timing
        # The owner of the handle may have recorded it.
        self.is_recorded = bool(cuda_event)

    @property
    def cuda_event(self) -> int:
        """The CUDA handle; 0 on the CPU."""
        return self.mark.handle

    @property
    def is_complete(self) -> bool:
        """Whether all work before it is complete; true for an event that was never recorded."""
        return not self.is_recorded or self.mark.is_over()


class Stream:
    """A queue of launches, which run one after the other.

    On the CPU launches run at once, so all streams are always empty. On a GPU the default is the
    legacy default stream, as in other libraries. It does not wait for streams that are made here.

    Attributes:
        device: Its device.
        priority: -1 (high) or 0.
        queue: The backend's stream.
    """

    def __init__(self, device: object = None, priority: int = 0, cuda_stream: Any = None) -> None:
        """A new stream.

        Args:
            device: Its device.
            priority: -1 (high) or 0; no effect on the CPU.
            cuda_stream: A CUDA handle or native stream to wrap; GPUs only. It must outlive this
                stream and the arrays that use it.

        Raises:
            KernelArgumentError: There is no such device or handle.
        """
        self.device: Device = require_device("Stream", device)
        _refuse_handle("Stream", "cuda_stream", self.device, cuda_stream)
        self.priority = max(-1, min(priority, 0))
        backend, ordinal = self.device.backend, self.device.ordinal
        if isinstance(cuda_stream, native.CudaStream):
            self.queue: Any = cuda_stream
        elif cuda_stream is None:
            self.queue = backend.make_stream(ordinal, self.priority)
        else:
            self.queue = backend.wrap_stream(ordinal, cuda_stream)

    @property
    def cuda_stream(self) -> int:
        """The CUDA handle; 1 is the legacy default stream; 0 on the CPU."""
        return self.queue.handle

    @property
    def is_complete(self) -> bool:
        """Whether all queued work is complete."""
        return self.queue.is_idle()

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event``, or a new one, behind the work queued so far.

        Raises:
            KernelArgumentError: The event is of another device.
        """
        found = Event(self.device) if event is None else event
        if found.device != self.device:
            raise KernelArgumentError(
                f"record_event: expected an event of {self.device}, found one of {found.device}"
            )
        found.mark.record(self.queue)
        found.is_recorded = True
        return found

    def wait_event(self, event: Event) -> None:
        """Make work that is queued later wait for ``event``."""
        if event.is_recorded and event.device.kind == self.device.kind:
            event.mark.delay(self.queue)

    def wait_stream(self, other_stream: Stream, event: Event | None = None) -> None:
        """Make work that is queued later wait for the work of ``other_stream``.

        The ``event`` is recorded there for this purpose; by default a new one.
        """
        if event is None and other_stream.device.kind == self.device.kind:
            self.queue.follow(other_stream.queue)
        else:
            self.wait_event(other_stream.record_event(event))

    def __repr__(self) -> str:
        return f"<stream of {self.device}>"


def _refuse_handle(name: str, argument: str, device: Device, handle: Any) -> None:
    if handle and not device.is_cuda:
        raise KernelArgumentError(
            f"{name}: {argument}: device '{device}' has no handles of CUDA's, found {handle!r}",
            remedy="leave it out, or give the device that it belongs to",
        )


# The current streams of this thread (and asynchronous task), by device.
_streams: ContextVar[dict[Device, Stream] | None] = ContextVar("streams", default=None)


def get_stream(device: object = None) -> Stream:
    """The current stream of ``device``, which takes launches that name no stream.

    Raises:
        KernelArgumentError: There is no such device.
    """
    return current_stream(require_device("get_stream", device))


def current_stream(found: Device) -> Stream:
    """The current stream of a device that exists."""
    known = _streams.get()
    if known is None or found not in known:
        known = {**(known or {}), found: Stream(found, cuda_stream=0 if found.is_cuda else None)}
        _streams.set(known)
    return known[found]


def set_stream(stream: Stream, device: object = None) -> None:
    """Make ``stream`` the current stream of its device.

    Raises:
        KernelArgumentError: ``device`` is another device.
    """
    if device is not None and require_device("set_stream", device) != stream.device:
        raise KernelArgumentError(
            f"set_stream: expected a stream of {device}, found one of {stream.device}"
        )
    _streams.set({**(_streams.get() or {}), stream.device: stream})


class ScopedStream:
    """Makes a stream the current one of its device within a ``with`` block.

    It waits for the stream that was current before, unless ``sync_enter`` is False; with
    ``sync_exit`` that one waits for it when the block is left.
    """

    def __init__(
        self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False
    ) -> None:
        self.stream = stream
        self._sync_enter = sync_enter
        self._sync_exit = sync_exit
        self._entered: list[tuple[Stream, Token[dict[Device, Stream] | None]]] = []

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            before = get_stream(self.stream.device)
            if self._sync_enter:
                self.stream.wait_stream(before)
            known = {**(_streams.get() or {}), self.stream.device: self.stream}
            self._entered.append((before, _streams.set(known)))
        return self.stream

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            before, token = self._entered.pop()
            if self._sync_exit:
                before.wait_stream(self.stream)
            _streams.reset(token)


def record_event(event: Event | None = None) -> Event:
    """Record ``event``, or a new one, in the current stream."""
    return get_stream(None if event is None else event.device).record_event(event)


def wait_event(event: Event) -> None:
    """Make the current stream wait for ``event``."""
    get_stream(event.device).wait_event(event)


def wait_stream(other_stream: Stream, event: Event | None = None) -> None:
    """Make the current stream wait for ``other_stream``; see ``Stream.wait_stream``."""
    get_stream(other_stream.device).wait_stream(other_stream, event)


def synchronize_stream(stream_or_device: Stream | object = None) -> None:
    """Wait for the work of a stream, or of the current stream of a device.

    Raises:
        KernelArgumentError: There is no such device.
        KernelError: A kernel has failed on the device.
    """
    is_stream = isinstance(stream_or_device, Stream)
    stream = stream_or_device if is_stream else get_stream(stream_or_device)
    stream.queue.synchronize()


def synchronize_event(event: Event) -> None:
    """Wait for the work before ``event``."""
    event.mark.synchronize()


def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """Milliseconds between two recorded events.

    Raises:
        KernelArgumentError: One was not recorded, or made without ``enable_timing``.
    """
    if synchronize:
        synchronize_event(end_event)
    for name, event in (("start_event", start_event), ("end_event", end_event)):
        if not event.is_recorded or not event.enable_timing:
            raise KernelArgumentError(
                f"get_event_elapsed_time: {name}: expected a recorded event with enable_timing",
                remedy="make it with kc.Event(enable_timing=True), and record it in a stream",
            )
    return start_event.mark.ms_until(end_event.mark)
