"""Graph: captured calls, replayed any number of times, as one CUDA graph where possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelcore._native import ArrayMemory
from kernelcore.base import native
from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelArgumentError
from kernelcore.launch.dispatch import argument_leaves, execute_leaves, is_element
from kernelcore.runtime.device import Device
from kernelcore.runtime.hooks import DeviceCall, perform_write, recording
from kernelcore.runtime.stream import ScopedStream, Stream, current_stream

# Importing it would import the compiler.
if TYPE_CHECKING:
    from kernelcore.launch.executable import Executable


class Graph:
    """A list of captured calls: launches, assignments, and branches and loops of these.

    It observes the launches of its capture, and keeps their arguments: a replay reads and writes
    the memory of the captured arrays, and takes numbers as they were.
    """

    has_elements = True

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []
        # The calls as one CUDA graph, and the number of calls that it has.
        self._whole: native.CudaGraph | None = None
        self._captured = -1

    @property
    def sink(self) -> Graph:
        """Itself."""
        return self

    def record_launch(self, kernel: Any, dim: Any, args: Sequence[Any]) -> None:
        """Append a launch of ``kernel``."""
        kernel = kernel.for_arguments(args)
        execute_leaves(kernel, dim, argument_leaves(kernel, args))

    def record_copy(self, target: Any, source: Any | None, write: Callable[[], None]) -> None:
        """Append an assignment to the array ``target``."""
        perform_write(target, write)

    def make_array(self, shape: Any, dtype: Any, is_zero: bool) -> None:
        """Arrays that are made during a capture are ordinary arrays."""

    def add(self, call: Callable[[], object]) -> None:
        """Append a call."""
        self._calls.append(call)

    def add_launch(self, signature: Any, dim: Any, args: Sequence[Any]) -> bool:
        """Append a launch, whose arguments are checked now.

        Returns:
            False, and nothing was appended, if an array that the kernel needs exclusively shares
            memory.

        Raises:
            KernelArgumentError: An argument does not fit the kernel.
        """
        prepared = native.prepare_launch(signature, dim, args)
        if prepared is None:
            return False
        # Every replay reads the element that an array without dimensions holds then.
        is_fixed = not any(is_element(a) for a in args)
        again = prepared if is_fixed else partial(native.launch, signature, dim, args)
        self._calls.append(again)
        return True

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
        written = [args[i] for i in executable.written]
        # Replays use the memory that the arrays have now, which a CUDA graph knows by address.
        kept = list(args)
        for i in executable.arrays:
            kept[i] = _kept(kept[i], device)

        def run() -> None:
            kernel.launch(current_stream(device).queue, dim, kept, *sizes)
            for array in written:
                native.note_written(array)

        # The host reads an element before every replay, so a CUDA graph cannot hold the launch.
        is_fixed = not any(is_element(a) for a in args)
        used = [kept[i] for i in executable.arrays]
        self._calls.append(DeviceCall(device, run, written, used) if is_fixed else run)

    @property
    def device(self) -> Device | None:
        """The GPU that can run the whole graph; None if none can."""
        found = {getattr(call, "device", None) for call in self._calls}
        return found.pop() if len(found) == 1 else None

    @property
    def written(self) -> Sequence[Any]:
        """The arrays that the graph writes, if a GPU can run the whole graph."""
        return [array for call in self._calls for array in getattr(call, "written", ())]

    @property
    def used(self) -> Sequence[ArrayMemory]:
        """The memory that the graph uses, if a GPU can run the whole graph."""
        return [array for call in self._calls for array in getattr(call, "used", ())]

    def update(self, other: Graph) -> None:
        """Take over the calls of ``other``; a CUDA graph is updated in place where possible.

        Raises:
            KernelArgumentError: ``other`` is this graph.
        """
        if other is self:
            raise KernelArgumentError("update: expected another graph, found the same")
        self._calls = list(other._calls)
        self._captured = -1

    def run(self) -> None:
        """Replay all calls in order.

        Raises:
            KernelArgumentError: A Tape is active, which does not record a replay.
        """
        if recording() is not None:
            raise KernelArgumentError(
                "a graph was run while launches are recorded, which its own are not",
                remedy="run it before or after, or capture the Tape and its backward pass with it",
            )
        device = self.device
        if device is not None and not current_stream(device).queue.is_capturing:
            self._run_whole(device)
            return
        for call in self._calls:
            call()

    __call__ = run

    def run_in(self, device: Device, queue: native.CudaStream) -> None:
        """Replay all calls while ``queue`` is the current stream of ``device``."""
        with ScopedStream(Stream(device, cuda_stream=queue), sync_enter=False):
            self.run()

    def _run_whole(self, device: Device) -> None:
        """Queue the CUDA graph, which is captured again if the calls have changed.

        Raises:
            KernelArgumentError: Memory of an array was taken back; nothing was queued.
        """
        for array in self.used:
            array.require_memory()
        if self._whole is None or self._whole.ordinal != device.ordinal:
            self._whole, self._captured = native.CudaGraph(device.ordinal), -1
        if self._captured != len(self._calls):
            self._whole.capture(lambda queue: self.run_in(device, queue))
            self._captured = len(self._calls)
        self._whole.launch(current_stream(device).queue)
        for array in self.written:
            native.note_written(array)

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        return f"<graph of {len(self)} steps>"


def _kept(array: Any, device: Device) -> ArrayMemory:
    """The memory that ``array`` has now, whatever memory it gets later."""
    if isinstance(array, ArrayMemory):
        return array
    found = ArrayMemory(array)
    if found.scalar_index >= 0:
        return found
    # An array that exports its memory for use in a stream only.
    return native.adopted_in(ArrayMemory, array, current_stream(device).queue)


@dataclass(frozen=True, slots=True)
class Conditional:
    """A branch or a loop of a graph.

    Attributes:
        condition: An array of one integer or bool.
        holds: Reads the condition.
        on_true: Runs if, or as long as, the condition is not zero.
        on_false: Runs if the condition is zero.
        repeats: Whether it is a loop.
    """

    condition: Any
    holds: Callable[[], bool]
    on_true: Graph
    on_false: Graph
    repeats: bool = False

    def __call__(self) -> None:
        device = self.device
        queue = None if device is None else current_stream(device).queue
        if device is not None and queue is not None and queue.is_capturing:
            branches = [(False, self.repeats, partial(self.on_true.run_in, device))]
            if len(self.on_false):
                branches.append((True, False, partial(self.on_false.run_in, device)))
            native.cuda_add_branches(queue, self.condition, branches)
        elif self.repeats:
            while self.holds():
                self.on_true.run()
        else:
            (self.on_true if self.holds() else self.on_false).run()

    @property
    def device(self) -> Device | None:
        """The GPU that holds the condition and can run both graphs as a whole."""
        if not getattr(self.condition, "is_on_cuda", False):
            return None
        device: Device = self.condition.device
        graphs = [graph for graph in (self.on_true, self.on_false) if len(graph)]
        is_whole = bool(graphs) and all(graph.device == device for graph in graphs)
        return device if is_whole and native.cuda_prepare_branches(device.ordinal) else None

    @property
    def written(self) -> Sequence[Any]:
        """The arrays that either graph writes."""
        return [*self.on_true.written, *self.on_false.written]

    @property
    def used(self) -> Sequence[ArrayMemory]:
        """The memory that the condition and either graph use."""
        return [self.condition, *self.on_true.used, *self.on_false.used]
