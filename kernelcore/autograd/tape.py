"""Tape: records launches, and computes gradients by running their adjoints in reverse order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from typing import Any, Self

from kernelcore._native import ArrayMemory
from kernelcore.autograd.cotangents import Cotangents
from kernelcore.autograd.detached_checks import DetachedMemory
from kernelcore.autograd.launch_plan import plan_of
from kernelcore.autograd.overwrite_checks import RecordedMemory
from kernelcore.autograd.records import (
    CopyRecord,
    FuncRecord,
    Gradients,
    LaunchRecord,
    Record,
    Records,
    record_at,
)
from kernelcore.autograd.retained import RetainedGradients, retaining, undo
from kernelcore.autograd.visualize import LANGUAGES, graph_text
from kernelcore.base import native
from kernelcore.base.errors import KernelArgumentError, KernelPlacementError
from kernelcore.launch.array_ops import clear, set_one
from kernelcore.launch.dispatch import Dims, argument_leaves, device_of_launch, execute_leaves
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.call_site import Line, call_line, call_site
from kernelcore.runtime.device import Device, get_device
from kernelcore.runtime.hooks import (
    CaptureSink,
    LaunchObserver,
    capture_sink,
    observer,
    perform_write,
    recording,
)
from kernelcore.runtime.launch_options import requested
from kernelcore.runtime.stream import ScopedStream, current_stream

# What users need of a tape; completion offers these, and the rest is for kernelcore.
_PUBLIC = frozenset(
    {"adjoints", "backward", "gradients", "record_func", "reset", "visualize", "zero"}
)


class Tape:
    """Records the launches of a ``with`` block, and computes gradients by reverse mode.

    Gradients are added to ``grad`` of arrays with ``requires_grad``; arrays without are constants.
    An array without ``requires_grad`` that was computed from arrays with gradients is refused as an
    input, since it would detach the gradient; launch with ``record_tape=False`` to detach it.

    Assignments to arrays (``assign``, ``fill_``, ``a[i] = ...``, ``copy``, ``clone``) are recorded
    too. Tapes nest: all of them record. A tape records the launches of its own thread, and no
    adjoints. It copies NumPy's and other libraries' arrays that the backward pass needs. The
    backward pass refuses to run if one of kernelcore's own arrays that it needs was overwritten.
    After writing to an array through ``numpy()`` or another library, call its ``mark_write()``.
    """

    has_elements = True

    def __init__(self, *, keep_overwritten: bool = False) -> None:
        """An empty tape.

        Args:
            keep_overwritten: Whether to copy an array that the backward pass needs before a
                recorded launch or assignment overwrites it; else the backward pass refuses. An
                array that a kernel both loads and writes is copied in any case.
        """
        self._keep_overwritten = keep_overwritten
        self._tokens: list[Token[LaunchObserver | None]] = []
        # The tapes that it is nested in.
        self._outer: tuple[Tape, ...] = ()
        self.sink: CaptureSink | None = None
        self._forget()

    def __repr__(self) -> str:
        return f"<Tape of {len(self._records)} records over {len(self._arrays)} arrays>"

    def __dir__(self) -> Iterable[str]:
        return sorted(_PUBLIC | {name for name in super().__dir__() if name.startswith("__")})

    def _forget(self) -> None:
        self._records: Records = []
        # The arrays of the records in order, and those that a record wrote.
        self._arrays: dict[Array, None] = {}
        self._written: dict[Array, None] = {}
        self._memory = RecordedMemory(self._records)
        self._detached = DetachedMemory()
        # The streams of recorded launches by device and handle.
        self._queues: dict[tuple[Device, int], native.CudaStream] = {}

    def __enter__(self) -> Self:
        if self._tokens:
            raise KernelArgumentError(
                "the Tape is recording already", remedy="make another Tape to nest them"
            )
        outer = recording()
        self._outer = (outer, *outer._outer) if isinstance(outer, Tape) else ()
        self.sink = capture_sink()
        self._tokens.append(observer.set(self))
        return self

    def __exit__(self, *exception: object) -> None:
        observer.reset(self._tokens.pop())
        self._outer, self.sink = (), None

    def __len__(self) -> int:
        return len(self._records)

    # Recording

    def record_launch(self, kernel: Kernel, dim: Dims, args: Sequence[Any]) -> None:
        """Run ``kernel``, and record it; ``launch`` calls this while the tape is active.

        Raises:
            KernelArgumentError: An argument does not fit the kernel; nothing was run.
            KernelGradError: A gradient would be detached; nothing was run.
        """
        line = call_line()
        # A list may change before the backward pass.
        dim = tuple(dim) if isinstance(dim, list) else dim
        if self._is_recorded_natively(kernel, dim, args, line):
            return
        kernel = kernel.for_arguments(args)
        leaves = argument_leaves(kernel, args)
        device = device_of_launch(kernel, leaves)
        # Copies of arrays that the launch overwrites are queued before it in its stream.
        with ScopedStream(requested.get().stream, sync_enter=False):
            plan = plan_of(kernel, leaves, dim)
            if plan.adjoint is None and device.is_cpu:
                plan.make_native()
            self._record(
                lambda: LaunchRecord(plan, dim, leaves, line, device),
                lambda: execute_leaves(kernel, dim, leaves),
            )

    def _is_recorded_natively(
        self, kernel: Kernel, dim: Dims, args: Sequence[Any], line: Line | None
    ) -> bool:
        """Run and record a launch on the fast path; False, and nothing was done, if it has none."""
        if self._outer or self._detached.known or self.sink is not None:
            return False
        if native.cuda_is_open() and not _is_on_cpu(args):
            return False
        try:
            return native.record_launch(
                self._memory.known,
                self._records,
                self._arrays,
                self._written,
                kernel.tape_plans,
                dim,
                tuple(args),
                line or (),
            )
        except KernelPlacementError:
            # An array is on a GPU, and this process had not used one before.
            if native.cuda_device_of(args) < 0:
                raise
            return False

    def record_copy(self, target: Array, source: Array | None, write: Callable[[], None]) -> None:
        """Call ``write``, which copies ``source`` or constants to ``target``, and record it."""
        site = call_site()
        self._record(lambda: CopyRecord(target, source, site), lambda: perform_write(target, write))

    def make_array(self, shape: Any, dtype: Any, is_zero: bool) -> None:
        """Return None: new arrays are ordinary arrays."""

    def record_func(
        self,
        backward: Callable[[], object],
        arrays: Sequence[Array] = (),
        *,
        outputs: Sequence[Array] = (),
    ) -> None:
        """Record a function that the backward pass calls at this place.

        Args:
            backward: Reads cotangents of outputs from their ``grad``, clears these, and adds to
                ``grad`` of inputs.
            arrays: The arrays whose gradients it touches, for ``gradients`` and ``zero``.
            outputs: The arrays that were written here, just before this call, and whose ``grad``
                it clears. They count as written by the tape, and may have ``retain_grad``. Launches
                that were recorded before cannot use what was overwritten: the backward pass raises
                a KernelGradError if one needs it.
        """
        site = call_site()
        # NumPy and other libraries may have written them.
        for array in outputs:
            array.mark_write()
        record = FuncRecord(backward, tuple(arrays), site, tuple(outputs))
        self._record(lambda: record, lambda: None)

    def _record(self, make: Callable[[], Record], run: Callable[[], object]) -> None:
        """Call ``run`` and keep a record of it, on this tape and on those that it is nested in.

        Raises:
            KernelGradError: A gradient would be lost; nothing was run.
        """
        records = [(tape, make()) for tape in (self, *self._outer)]
        for tape, record in records:
            if isinstance(record, LaunchRecord):
                record.save_before()
            tape._memory.check(record)
            tape._detached.check(record)
        untouched = [
            need
            for tape, record in records
            for need in tape._memory.before_write(record, is_kept=tape._keep_overwritten)
        ]
        run()
        for earlier, i in untouched:
            earlier.versions[i] = earlier.leaves[i].version
        for tape, record in records:
            if isinstance(record, LaunchRecord):
                record.save_after()
            tape._keep(record)

    def _keep(self, record: Record) -> None:
        if native.cuda_is_open():
            self._note_streams(record)
        self._arrays.update(dict.fromkeys((*record.inputs, *record.outputs)))
        self._written.update(dict.fromkeys(record.outputs))
        self._memory.keep(record, len(self._records))
        self._records.append(record)
        self._detached.learn(record)

    @property
    def records(self) -> list[Record]:
        """What was recorded, in order."""
        return [record_at(self._records, n) for n in range(len(self))]

    # Gradients

    def backward(
        self,
        loss: Array | None = None,
        grads: Mapping[Array, Any] | None = None,
    ) -> None:
        """Add the gradients of recorded launches to ``grad`` of their arrays.

        Afterwards, ``grad`` of an array that the tape wrote is the cotangent of its elements before
        the first recorded write; with ``retain_grad``, that of its elements after the last one.
        Without ``loss`` and ``grads``, the ``grad`` of arrays are taken as the cotangents of their
        present elements.

        Args:
            loss: An array of one element with ``requires_grad``, whose gradients are computed.
            grads: Cotangents of arrays, in arrays of the same shapes; ``{y: y.grad}`` takes the
                ``grad`` of ``y`` as it is.

        Raises:
            KernelArgumentError: ``loss`` is no such array, or a cotangent does not fit.
            KernelGradError: A launch has no exact derivative, or its saved input was overwritten.
        """
        if loss is not None:
            _check_loss(loss)
        written = self._written
        if loss is not None and loss not in written and not _is_view(loss, written):
            raise KernelArgumentError(
                "backward: nothing that was recorded writes the loss",
                remedy="launch the kernel that computes it inside of the with block",
            )
        self._wait_for_launches()
        is_seeded = loss is not None or grads is not None
        kept = [array for array in written if array.retain_grad]
        retained = RetainedGradients(kept, self._records, is_seeded=is_seeded)
        for array in dict.fromkeys(array.root for array in retained.arrays):
            # Launches that native code recorded become LaunchRecords, at which it stops.
            self._memory.writers(array)
        owners = retaining(self._arrays)
        cotangents = Cotangents(grads or {}, (*written, *owners) if is_seeded else ())
        if owners:
            # Views are cleared in part.
            whole = {array for array in written if array is array.gradient_owner}
            undo(owners, whole if is_seeded else ())
        if is_seeded:
            _clear_gradients(written)
        if loss is not None and (gradient := loss.grad) is not None:
            set_one(gradient)
        cotangents.add()
        left = len(self._records)
        while left > 0:
            if capture_sink() is None:
                left = native.replay_launches(self._records, left)
            if left > 0:
                left -= 1
                retained.keep(left)
                record_at(self._records, left).backward(self._memory.writers)
        retained.write()

    def _note_streams(self, record: Record) -> None:
        """Keep the current streams of the GPUs that hold arrays of ``record``."""
        for array in (*record.inputs, *record.outputs):
            if array.is_on_cuda:
                queue = current_stream(array.device).queue
                self._queues[array.device, queue.handle] = queue

    def _wait_for_launches(self) -> None:
        """Make the current streams wait for those of recorded launches."""
        if capture_sink() is None:
            for (device, _), queue in self._queues.items():
                current_stream(device).queue.wait_for(queue)

    @property
    def gradients(self) -> Gradients:
        """The gradients of recorded arrays with ``requires_grad``.

        Of a struct, as ``gradients[state].velocity``, a struct with those of its arrays, or None.
        """
        pairs = ((array, array.grad) for array in self._arrays)
        return Gradients({array: gradient for array, gradient in pairs if gradient is not None})

    @property
    def adjoints(self) -> Gradients:
        """Another name of ``gradients``."""
        return self.gradients

    def zero(self) -> None:
        """Zero the gradients of all recorded arrays."""
        _clear_gradients(self._arrays)

    def reset(self) -> None:
        """Forget all records, and zero the gradients."""
        self.zero()
        self._forget()

    def visualize(
        self,
        filename: str | None = None,
        array_labels: Mapping[Array, str] | None = None,
        graph_direction: str = "LR",
        *,
        language: str = "dot",
    ) -> str:
        """The text of a graph of the recorded launches and their arrays.

        Args:
            filename: Where to write the text as well.
            array_labels: Names of arrays; others have the names of their parameters.
            graph_direction: 'LR' from left to right, 'TB' from top to bottom.
            language: 'dot' (Graphviz) or 'mermaid'.

        Raises:
            KernelArgumentError: Another language.
        """
        if language not in LANGUAGES:
            raise KernelArgumentError(
                f"visualize: expected language 'dot' or 'mermaid', found {language!r}"
            )
        text = graph_text(language, self.records, array_labels or {}, graph_direction)
        if filename is not None:
            with open(filename, "w", encoding="utf-8") as file:
                file.write(text)
        return text


def _clear_gradients(arrays: Iterable[Array]) -> None:
    is_captured = capture_sink() is not None
    for array in arrays:
        gradient = array.grad
        if gradient is not None and (is_captured or not ArrayMemory.clear(gradient)):
            clear(gradient)


def _is_view(array: Array, written: Iterable[Array]) -> bool:
    """Whether ``array`` shares its memory with one of ``written`` that has a gradient."""
    return any(other.root is array.root and other.requires_grad for other in written)


def _check_loss(loss: Any) -> None:
    is_one = isinstance(loss, Array) and loss.numel == 1 and loss.requires_grad
    if not is_one:
        found = f"shape {loss.shape} of {loss.element}" if isinstance(loss, Array) else repr(loss)
        if isinstance(loss, Array) and not loss.requires_grad:
            found += " without requires_grad"
        raise KernelArgumentError(
            f"backward: expected a loss of one float with requires_grad, found {found}",
            remedy="make it with kc.zeros(1, requires_grad=True), or give grads",
        )


def _is_on_cpu(args: Sequence[Any]) -> bool:
    """Whether a launch over ``args`` runs on the CPU."""
    device = requested.get().device
    if device is None:
        return get_device().is_cpu and native.cuda_device_of(args) < 0
    return device.is_cpu
