"""Tape: records launches, and computes gradients by running their adjoints in reverse order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Token
from types import TracebackType
from typing import Any, Self, cast

import numpy as np

from kernelcore.data import Array
from kernelcore.errors import KernelArgumentError, KernelGradError
from kernelcore.execute import Dims, argument_leaves, execute_leaves
from kernelcore.kernel import Kernel
from kernelcore.recording import Recorder, call_site, perform, perform_write, recorder, whole_line
from kernelcore.runtime import native
from kernelcore.tape_alias import Aliases
from kernelcore.tape_cut import Cuts, memory_span
from kernelcore.tape_graph import dot_text, mermaid_text
from kernelcore.tape_record import (
    CopyRecord,
    FuncRecord,
    LaunchRecord,
    Record,
    add_to,
    clear,
    is_tracked,
)


class Tape:
    """Records the launches of a ``with`` block, and computes gradients by reverse mode.

    Gradients are added to ``grad`` of arrays with ``requires_grad``; arrays without are constants.
    To use one as a constant that was computed from arrays with gradients on this tape is refused,
    since the gradient would be cut; launch with ``record_tape=False`` to mean it.

    Assignments to arrays (``assign``, ``fill_``, ``a[i] = ...``, ``copy``, ``clone``) are recorded
    too. Tapes nest: all of them record. A tape records what its own thread launches; adjoints are
    not recorded. Of NumPy's and other libraries' arrays that the adjoint needs, copies are kept.
    To overwrite an array that it needs is an error of the backward pass. Who writes to one through
    its ``numpy()`` or through another library has to tell by ``mark_write()``.
    """

    def __init__(self, *, keep_overwritten: bool = False) -> None:
        """An empty tape.

        Args:
            keep_overwritten: Whether to copy what the backward pass needs before a recorded launch
                or assignment overwrites it; else the backward pass refuses. What a kernel both
                loads and writes is copied in any case.
        """
        self._keep_overwritten = keep_overwritten
        self._needs: dict[int, list[tuple[LaunchRecord, int]]] = {}
        self._records: list[Record] = []
        self._tokens: list[Token[Recorder | None]] = []
        self._outer: Tape | None = None
        self._writers: dict[int, list[tuple[int, Record]]] = {}
        self._cuts = Cuts()
        self._aliases = Aliases()

    def __enter__(self) -> Self:
        if self._tokens:
            raise KernelArgumentError(
                "the Tape is recording already", remedy="make another Tape to nest them"
            )
        known = recorder.get()
        self._outer = known if isinstance(known, Tape) else None
        self._tokens.append(recorder.set(self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        recorder.reset(self._tokens.pop())
        self._outer = None

    def __len__(self) -> int:
        return len(self._records)

    # Recording

    def _chain(self) -> Iterator[Tape]:
        tape: Tape | None = self
        while tape is not None:
            yield tape
            tape = tape._outer

    def record_launch(self, kernel: Kernel, dim: Dims, args: Sequence[Any]) -> None:
        """Run ``kernel``, and record it; what ``launch`` does while the tape is active.

        Raises:
            KernelArgumentError: An argument does not fit the kernel; nothing was run.
            KernelGradError: A gradient would be cut; nothing was run.
        """
        kernel = kernel.for_arguments(args)
        leaves = argument_leaves(kernel, args)
        site = call_site()
        self._record(
            lambda: LaunchRecord(kernel, dim, leaves, site),
            lambda: execute_leaves(kernel, dim, leaves),
        )

    def record_copy(self, target: Array, source: Array | None, write: Callable[[], None]) -> None:
        """Call ``write``, after which ``target`` holds ``source`` or constants, and record it."""
        site = call_site()
        self._record(lambda: CopyRecord(target, source, site), lambda: perform_write(target, write))

    def make_array(self, shape: Any, dtype: Any, is_zero: bool) -> None:
        """Arrays that are made while the tape is active are arrays as any other."""

    def record_func(self, backward: Callable[[], object], arrays: Sequence[Array] = ()) -> None:
        """Record a function that the backward pass calls at this place.

        Args:
            backward: Reads cotangents of outputs from their ``grad``, clears these, and adds to
                ``grad`` of inputs.
            arrays: The arrays whose gradients it touches, for ``gradients`` and ``zero``.
        """
        site = call_site()
        self._record(lambda: FuncRecord(backward, tuple(arrays), site), lambda: None)

    def _record(self, make: Callable[[], Record], run: Callable[[], None]) -> None:
        pairs = [(tape, make()) for tape in self._chain()]
        for tape, record in pairs:
            record.prepare()
            tape._check_gaps(record)
            tape._aliases.check(record)
            tape._cuts.check(record)
        untouched = [need for tape, record in pairs for need in tape._before_write(record)]
        run()
        for earlier, i in untouched:
            earlier.versions[i] = earlier.leaves[i].version
        for tape, record in pairs:
            record.finish()
            tape._keep(record)

    def _keep(self, record: Record) -> None:
        self._records.append(record)
        for array in record.outputs:
            self._writers.setdefault(id(array.root), []).append((array.version, record))
        if isinstance(record, LaunchRecord):
            for i in record.versions:
                self._needs.setdefault(id(record.leaves[i].root), []).append((record, i))
        self._cuts.learn(record)

    def _before_write(self, record: Record) -> list[tuple[LaunchRecord, int]]:
        """What the backward pass needs of arrays that ``record`` writes elsewhere.

        Of what it is about to overwrite, a copy is kept if that is asked for.
        """
        untouched: list[tuple[LaunchRecord, int]] = []
        spans: dict[int, list[native.Span]] = {}
        for array in record.outputs:
            spans.setdefault(id(array.root), []).append(memory_span(array))
        for root, written in spans.items():
            left: list[tuple[LaunchRecord, int]] = []
            for earlier, i in self._needs.pop(root, ()):
                leaf = earlier.leaves[i]
                if leaf.version != earlier.versions[i]:
                    continue
                span = memory_span(leaf)
                if not any(span.overlaps(other) for other in written):
                    left.append((earlier, i))
                elif self._keep_overwritten:
                    earlier.saved[i] = np.array(leaf.numpy())
                    del earlier.versions[i]
            self._needs[root] = left
            untouched += left
        return untouched

    def _check_gaps(self, record: Record) -> None:
        """Refuse arrays that the tape wrote, and something else wrote since without a record."""
        for array in (*record.inputs, *record.outputs):
            known = self._writers.get(id(array.root))
            if known and array.version != known[-1][0] and is_tracked(array):
                raise KernelGradError(
                    f"{record.label} uses '{record.name_of(array)}', which {known[-1][1].label} "
                    "wrote, and something that was not recorded has written to since",
                    whole_line(record.site),
                    "record all that writes it, or write to another array",
                )

    # Gradients

    def backward(
        self,
        loss: Array | None = None,
        grads: Mapping[Array, Any] | None = None,
    ) -> None:
        """Add the gradients of recorded launches to ``grad`` of their arrays.

        Arrays that the tape wrote have, afterwards, the cotangents of what they held before it.
        Without ``loss`` and ``grads``, the ``grad`` of arrays are taken as the cotangents of what
        they hold now.

        Args:
            loss: An array of one element with ``requires_grad``, whose gradients are computed.
            grads: Cotangents of arrays, in arrays of the same shapes.

        Raises:
            KernelArgumentError: ``loss`` is no such array, or a cotangent does not fit.
            KernelGradError: A launch has no exact derivative, or what it needs was overwritten.
        """
        if loss is not None:
            _check_loss(loss)
        written = {id(array.root): array for array in self._arrays(written=True)}
        if loss is not None and id(loss.root) not in written:
            raise KernelArgumentError(
                "backward: nothing that was recorded writes the loss",
                remedy="launch the kernel that computes it inside of the with block",
            )
        if loss is not None or grads is not None:
            for array in self._arrays(written=True):
                if array.grad is not None:
                    clear(array.grad)
        if loss is not None and (gradient := loss.grad) is not None:
            perform(lambda: gradient.numpy().fill(1))
        for array, cotangent in (grads or {}).items():
            _seed(array, cotangent)
        for record in reversed(self._records):
            record.backward(self._writers)

    def _arrays(self, *, written: bool = False) -> list[Array]:
        """Recorded arrays that require gradients, in order."""
        found: dict[int, Array] = {}
        for record in self._records:
            for array in (*(() if written else record.inputs), *record.outputs):
                if is_tracked(array):
                    found.setdefault(id(array), array)
        return list(found.values())

    @property
    def gradients(self) -> dict[Array, Array]:
        """The gradients of recorded arrays with ``requires_grad``."""
        return {array: cast("Array", array.grad) for array in self._arrays()}

    @property
    def adjoints(self) -> dict[Array, Array]:
        """As ``gradients``."""
        return self.gradients

    def zero(self) -> None:
        """Zero the gradients of all recorded arrays."""
        for gradient in self.gradients.values():
            clear(gradient)

    def reset(self) -> None:
        """Forget what was recorded, and zero the gradients."""
        self.zero()
        self._records.clear()
        self._writers.clear()
        self._cuts = Cuts()
        self._aliases = Aliases()
        self._needs.clear()

    def visualize(
        self,
        filename: str | None = None,
        array_labels: Mapping[Array, str] | None = None,
        graph_direction: str = "LR",
        *,
        language: str = "dot",
    ) -> str:
        """The recorded launches and the arrays between them as the text of a graph.

        Args:
            filename: Where to write the text as well.
            array_labels: Names of arrays; others are named by the parameters they were passed for.
            graph_direction: 'LR' from left to right, 'TB' from top to bottom.
            language: 'dot' (Graphviz) or 'mermaid'.

        Raises:
            KernelArgumentError: Another language.
        """
        writers = {"dot": dot_text, "mermaid": mermaid_text}
        if language not in writers:
            raise KernelArgumentError(
                f"visualize: expected language 'dot' or 'mermaid', found {language!r}"
            )
        text = writers[language](self._records, dict(array_labels or {}), graph_direction)
        if filename is not None:
            with open(filename, "w", encoding="utf-8") as file:
                file.write(text)
        return text


def _check_loss(loss: Any) -> None:
    is_one = isinstance(loss, Array) and loss.numpy().size == 1 and loss.requires_grad
    if not is_one:
        found = f"shape {loss.shape} of {loss.element}" if isinstance(loss, Array) else repr(loss)
        if isinstance(loss, Array) and not loss.requires_grad:
            found += " without requires_grad"
        raise KernelArgumentError(
            f"backward: expected a loss of one float with requires_grad, found {found}",
            remedy="make it with kc.zeros(1, requires_grad=True), or give grads",
        )


def _seed(array: Any, cotangent: Any) -> None:
    gradient = array.grad if isinstance(array, Array) else None
    if gradient is None:
        raise KernelArgumentError(
            "backward: grads: expected arrays with requires_grad as keys",
            remedy="make them with requires_grad=True",
        )
    found = np.asarray(cotangent)
    if found.shape != gradient.numpy().shape or found.dtype != gradient.numpy().dtype:
        raise KernelArgumentError(
            f"backward: grads: expected shape {gradient.numpy().shape} and dtype "
            f"{gradient.numpy().dtype}, found {found.shape} and {found.dtype}",
            remedy="give cotangents of the shape and dtype of their array",
        )
    add_to(gradient, found)
