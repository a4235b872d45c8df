"""Capture of launches and assignments, to be replayed any number of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kernelcore._native import ArrayMemory, LaunchList
from kernelcore.base import native
from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.conversion import describe
from kernelcore.launch.dispatch import argument_leaves, execute_leaves
from kernelcore.runtime.array.element_layout import as_numpy
from kernelcore.runtime.device import Device, require_device
from kernelcore.runtime.graph_step import Branches, DeviceStep, run_in
from kernelcore.runtime.hooks import Recorder, captured, perform, perform_write, recorder
from kernelcore.runtime.stream import ScopedStream, Stream, current_stream

# Whoever launches has it already; importing it would import the compiler.
if TYPE_CHECKING:
    from kernelcore.launch.executable import Executable


class Graph:
    """What was captured: launches, assignments, and branches and loops of these.

    Arguments are those of the capture, whose arrays it keeps in place: a replay reads and writes
    the same memory, and takes numbers as they were.
    """

    def __init__(self) -> None:
        self._steps: list[LaunchList | Callable[[], object]] = []
        # What a GPU runs as a whole, and of how many steps.
        self._whole: native.CudaGraph | None = None
        self._captured = -1

    def add(self, step: Callable[[], object]) -> None:
        """Append what ``step`` does."""
        self._steps.append(step)

    def add_launch(self, signature: Any, dim: Any, args: Sequence[Any]) -> bool:
        """Append a launch, whose arguments are checked now.

        Returns:
            False, and nothing was appended, if the arrays share memory that the kernel must have
            for itself.

        Raises:
            KernelArgumentError: An argument does not fit the kernel.
        """
        if any(_is_element(a) for a in args):
            # What stands for a value is read in every replay.
            LaunchList().add(signature, dim, args)
            self._steps.append(lambda: native.launch(signature, dim, args))
            return True
        last = self._steps[-1] if self._steps else None
        launches = last if isinstance(last, LaunchList) else LaunchList()
        is_added = launches.add(signature, dim, args)
        if is_added and launches is not last:
            self._steps.append(launches)
        return is_added

    def add_device_launch(
        self,
        executable: Executable,
        device: Device,
        dim: Any,
        args: Sequence[Any],
        sizes: tuple[int, int],
    ) -> None:
        """Append a launch on a GPU, whose arguments are checked and whose code is loaded now.

        Raises:
            KernelArgumentError: An argument does not fit the kernel.
        """
        kernel = executable.on_device(device.ordinal)
        if not kernel.prepare(current_stream(device).queue, dim, args):
            kernel = executable.on_device(device.ordinal, is_serial=True)
            kernel.prepare(current_stream(device).queue, dim, args)

        def run() -> None:
            kernel.launch(current_stream(device).queue, dim, args, *sizes)

        # What stands for a value is read in every replay, which a GPU does not do by itself.
        is_fixed = not any(_is_element(a) for a in args)
        written = [args[i] for i in executable.written]
        self._steps.append(DeviceStep(device, run, written) if is_fixed else run)

    @property
    def device(self) -> Device | None:
        """The GPU that can run it as a whole; None where steps are the CPU's or of several."""
        found = {getattr(step, "device", None) for step in self._steps}
        return found.pop() if len(found) == 1 else None

    @property
    def written(self) -> Sequence[Any]:
        """The arrays that it writes, as far as a GPU can run it as a whole."""
        return [array for step in self._steps for array in getattr(step, "written", ())]

    def update(self, other: Graph) -> None:
        """Take the steps of ``other``; what a GPU runs as a whole is changed in place if it can be.

        Raises:
            KernelArgumentError: ``other`` is this graph.
        """
        if other is self:
            raise KernelArgumentError("update: expected another graph, found the same")
        self._steps = list(other._steps)
        self._captured = -1

    def run(self) -> None:
        """Do it all, in order.

        Raises:
            KernelArgumentError: A Tape is active, which would not know.
        """
        if recorder.get() is not None:
            raise KernelArgumentError(
                "a graph was run while launches are recorded, which its own are not",
                remedy="run it before or after, or capture the Tape and its backward pass with it",
            )
        device = self.device
        if device is not None and not current_stream(device).queue.is_capturing:
            self._run_whole(device)
            return
        for step in self._steps:
            if isinstance(step, LaunchList):
                step.run()
            else:
                step()

    __call__ = run

    def _run_whole(self, device: Device) -> None:
        """Let the GPU run all steps, which are captured when there are other ones than before."""
        if self._whole is None or self._whole.ordinal != device.ordinal:
            self._whole, self._captured = native.CudaGraph(device.ordinal), -1
        if self._captured != len(self._steps):
            self._whole.capture(lambda queue: run_in(device, queue, self.run))
            self._captured = len(self._steps)
        self._whole.launch(current_stream(device).queue)
        for array in self.written:
            native.note_written(array)

    def __len__(self) -> int:
        return sum(len(s) if isinstance(s, LaunchList) else 1 for s in self._steps)

    def __repr__(self) -> str:
        return f"<graph of {len(self)} steps>"


def _is_element(arg: object) -> bool:
    """Whether ``arg`` is an array without dimensions, which may stand for a value."""
    return not isinstance(arg, np.generic) and getattr(arg, "ndim", None) == 0


class _Capturing:
    """Sends launches and assignments to the graph of the capture."""

    def record_launch(self, kernel: Any, dim: Any, args: Sequence[Any]) -> None:
        kernel = kernel.for_arguments(args)
        execute_leaves(kernel, dim, argument_leaves(kernel, args))

    def record_copy(self, target: Any, source: Any | None, write: Callable[[], None]) -> None:
        perform_write(target, write)

    def make_array(self, shape: Any, dtype: Any, is_zero: bool) -> Any:
        return None


class ScopedCapture:
    """Captures what a ``with`` block launches, instead of running it.

    Attributes:
        graph: What was captured, once the block is left.
    """

    def __init__(
        self,
        device: object = None,
        stream: object = None,
        force_module_load: bool | None = None,
        external: bool = False,
    ) -> None:
        """A capture; the arguments but ``device`` are of no effect on the CPU.

        Raises:
            KernelArgumentError: There is no such device.
        """
        require_device("ScopedCapture", device)
        self.graph = Graph()
        self._tokens: list[tuple[Token[Any], Token[Recorder | None]]] = []

    def __enter__(self) -> Self:
        if self._tokens or captured.get() is not None:
            raise KernelArgumentError(
                "capture: launches are being captured already", remedy="end that capture first"
            )
        self._begin()
        return self

    def _begin(self) -> None:
        self.graph = Graph()
        self._tokens.append((captured.set(self.graph), recorder.set(_Capturing())))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        program, launches = self._tokens.pop()
        recorder.reset(launches)
        captured.reset(program)

    def captured_of(self, body: Callable[..., object], arguments: dict[str, Any]) -> Graph:
        """What a call of ``body`` launches, within a capture."""
        self._begin()
        try:
            body(**arguments)
        finally:
            self.__exit__(None, None, None)
        return self.graph


# Captures that ``capture_begin`` started, innermost last.
_open: list[ScopedCapture] = []


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
    _open.append(capture)


def capture_end(device: object = None, stream: object = None) -> Graph:
    """End the capture; what was captured.

    Raises:
        KernelArgumentError: None has begun.
    """
    if not _open:
        raise KernelArgumentError(
            "capture_end: nothing is being captured", remedy="call capture_begin() first"
        )
    capture = _open.pop()
    capture.__exit__(None, None, None)
    return capture.graph


def capture_launch(graph: Graph, stream: object = None) -> None:
    """Run what was captured, in ``stream`` of a GPU or the one in use; in a capture, capture it.

    What can be run by one GPU as a whole is queued as a graph of CUDA's.
    """
    if captured.get() is None:
        with ScopedStream(stream if isinstance(stream, Stream) else None):
            graph.run()
    else:
        perform(graph)


def is_capturing() -> bool:
    """Whether launches of this thread are captured."""
    return captured.get() is not None


Body = Graph | Callable[..., object] | None


def capture_if(
    condition: Any,
    on_true: Body = None,
    on_false: Body = None,
    stream: object = None,
    **kwargs: Any,
) -> None:
    """Do ``on_true`` if ``condition`` is not zero, else ``on_false``.

    Within a capture the condition is looked at by every replay; else now.

    Args:
        condition: An array of one integer or bool.
        on_true: A graph, or a function of ``kwargs`` that launches.
        on_false: Likewise.
        stream: Where to do it now, by default the stream in use; of no effect in a capture.
        kwargs: Arguments of the functions.

    Raises:
        KernelArgumentError: ``condition`` is something else, or a Tape records the capture.
    """
    holds = _condition("capture_if", condition)
    if captured.get() is None:
        _now(on_true if holds() else on_false, kwargs)
        return
    yes, no = _branch("capture_if", on_true, kwargs), _branch("capture_if", on_false, kwargs)
    perform(Branches(condition, holds, yes, no))


def capture_while(
    condition: Any,
    while_body: Graph | Callable[..., object],
    stream: object = None,
    **kwargs: Any,
) -> None:
    """Do ``while_body`` as long as ``condition`` is not zero; see ``capture_if``.

    Raises:
        KernelArgumentError: ``condition`` is no integer, or a Tape records the capture.
    """
    holds = _condition("capture_while", condition)
    if captured.get() is None:
        while holds():
            _now(while_body, kwargs)
        return
    body = _branch("capture_while", while_body, kwargs)
    perform(Branches(condition, holds, body, Graph(), repeats=True))


def _condition(name: str, condition: Any) -> Callable[[], bool]:
    values = as_numpy(condition)
    is_far = isinstance(condition, ArrayMemory) and condition.is_on_cuda
    if values.size != 1 or values.dtype.kind not in "biu":
        raise KernelArgumentError(
            f"{name}: expected a condition of one integer, found {describe(condition)} of shape "
            f"{values.shape} and dtype {values.dtype}",
            remedy="make it with kc.zeros(1, dtype=int)",
        )
    return (lambda: bool(as_numpy(condition).any())) if is_far else lambda: bool(values.any())


def _now(body: Body, arguments: dict[str, Any]) -> None:
    if isinstance(body, Graph):
        body.run()
    elif body is not None:
        body(**arguments)


def _branch(name: str, body: Body, arguments: dict[str, Any]) -> Graph:
    if not isinstance(recorder.get(), _Capturing):
        raise KernelArgumentError(
            f"{name}: a Tape cannot record what a replay decides",
            remedy="leave the Tape before, or run it without a capture",
        )
    if body is None or isinstance(body, Graph):
        return body or Graph()
    return ScopedCapture().captured_of(body, arguments)
