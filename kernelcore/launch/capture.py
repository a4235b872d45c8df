"""Capture of launches and assignments as a graph."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Self

from kernelcore._native import ArrayMemory
from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.conversion import describe
from kernelcore.launch.graph import Conditional, Graph
from kernelcore.runtime.array.element_layout import as_numpy
from kernelcore.runtime.device import require_device
from kernelcore.runtime.hooks import LaunchObserver, capture_sink, observer, perform
from kernelcore.runtime.stream import ScopedStream, Stream


class ScopedCapture:
    """Captures the launches and assignments of a ``with`` block, instead of running them.

    Attributes:
        graph: The captured calls, once the block is left.
    """

    def __init__(
        self,
        device: object = None,
        stream: object = None,
        force_module_load: bool | None = None,
        external: bool = False,
    ) -> None:
        """A capture; the arguments but ``device`` have no effect on the CPU.

        Raises:
            KernelArgumentError: There is no such device.
        """
        require_device("ScopedCapture", device)
        self.graph = Graph()
        self._token: Token[LaunchObserver | None] | None = None

    def __enter__(self) -> Self:
        if capture_sink() is not None:
            raise KernelArgumentError(
                "capture: launches are being captured already", remedy="end that capture first"
            )
        self.graph = Graph()
        self._token = observer.set(self.graph)
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._token is not None
        observer.reset(self._token)


# What ``capture_begin`` started, where ``observer`` is as it set it.
_open: ContextVar[ScopedCapture | None] = ContextVar("kernelcore_capture", default=None)


def capture_begin(
    device: object = None,
    stream: object = None,
    force_module_load: bool | None = None,
    external: bool = False,
) -> None:
    """Capture launches and assignments from now on, instead of running them.

    Raises:
        KernelArgumentError: There is no such device, or a capture has begun before.
    """
    capture = ScopedCapture(device, stream, force_module_load, external)
    capture.__enter__()
    _open.set(capture)


def capture_end(device: object = None, stream: object = None) -> Graph:
    """End the capture and return its graph.

    Raises:
        KernelArgumentError: None has begun.
    """
    capture = _open.get()
    if capture is None:
        raise KernelArgumentError(
            "capture_end: nothing is being captured", remedy="call capture_begin() first"
        )
    _open.set(None)
    capture.__exit__(None, None, None)
    return capture.graph


def capture_launch(graph: Graph, stream: object = None) -> None:
    """Replay a graph in ``stream`` of a GPU, by default the current one; a capture includes it.

    A graph that one GPU can run as a whole is queued as one CUDA graph.
    """
    if capture_sink() is None:
        with ScopedStream(stream if isinstance(stream, Stream) else None):
            graph.run()
    else:
        perform(graph)


def is_capturing() -> bool:
    """Whether launches of this thread are captured."""
    return capture_sink() is not None


Body = Graph | Callable[..., object] | None


def capture_if(
    condition: Any,
    on_true: Body = None,
    on_false: Body = None,
    stream: object = None,
    **kwargs: Any,
) -> None:
    """Run ``on_true`` if ``condition`` is not zero, else ``on_false``.

    Within a capture every replay reads the condition; else it is read now.

    Args:
        condition: An array of one integer or bool.
        on_true: A graph, or a function of ``kwargs`` that launches.
        on_false: Likewise.
        stream: The stream to run in, by default the current one; no effect in a capture.
        kwargs: Arguments of the functions.

    Raises:
        KernelArgumentError: ``condition`` is no such array, or a Tape records the capture.
    """
    holds = _condition("capture_if", condition)
    if capture_sink() is None:
        _now(on_true if holds() else on_false, kwargs)
        return
    yes, no = _branch("capture_if", on_true, kwargs), _branch("capture_if", on_false, kwargs)
    perform(Conditional(condition, holds, yes, no))


def capture_while(
    condition: Any,
    while_body: Graph | Callable[..., object],
    stream: object = None,
    **kwargs: Any,
) -> None:
    """Run ``while_body`` as long as ``condition`` is not zero; see ``capture_if``.

    Raises:
        KernelArgumentError: ``condition`` is no integer, or a Tape records the capture.
    """
    holds = _condition("capture_while", condition)
    if capture_sink() is None:
        while holds():
            _now(while_body, kwargs)
        return
    body = _branch("capture_while", while_body, kwargs)
    perform(Conditional(condition, holds, body, Graph(), repeats=True))


def _condition(name: str, condition: Any) -> Callable[[], bool]:
    values = as_numpy(condition)
    is_on_cuda = isinstance(condition, ArrayMemory) and condition.is_on_cuda
    if values.size != 1 or values.dtype.kind not in "biu":
        raise KernelArgumentError(
            f"{name}: expected a condition of one integer, found {describe(condition)} of shape "
            f"{values.shape} and dtype {values.dtype}",
            remedy="make it with kc.zeros(1, dtype=int)",
        )
    return (lambda: bool(as_numpy(condition).any())) if is_on_cuda else lambda: bool(values.any())


def _now(body: Body, arguments: dict[str, Any]) -> None:
    if isinstance(body, Graph):
        body.run()
    elif body is not None:
        body(**arguments)


def _branch(name: str, body: Body, arguments: dict[str, Any]) -> Graph:
    if not isinstance(observer.get(), Graph):
        raise KernelArgumentError(
            f"{name}: a Tape cannot record what a replay decides",
            remedy="leave the Tape before, or run it without a capture",
        )
    if body is None or isinstance(body, Graph):
        return body or Graph()
    graph = Graph()
    token = observer.set(graph)
    try:
        body(**arguments)
    finally:
        observer.reset(token)
    return graph
