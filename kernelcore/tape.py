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
from kernelcore.passes.activity import is_float, varied
from kernelcore.recording import Recorder, call_site, recorder, whole_line
from kernelcore.runtime import native
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
from kernelcore.types import ArrayType


class Tape:
    """Records the launches of a ``with`` block, and computes gradients by reverse mode.

    Gradients are added to ``grad`` of arrays with ``requires_grad``; arrays without are constants.
    To use one as a constant that was computed from arrays with gradients on this tape is refused,
    since the gradient would be cut; launch with ``record_tape=False`` to mean it.

    Assignments to arrays (``assign``, ``fill_``, ``a[i] = ...``, ``copy``, ``clone``) are recorded
    too. Tapes nest: all of them record. A tape records what its own thread launches; adjoints are
    not recorded. Of NumPy's and other libraries' arrays that the adjoint needs, copies are kept.
    """

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._tokens: list[Token[Recorder | None]] = []
        self._outer: Tape | None = None
        self._writers: dict[tuple[int, int], str] = {}
        self._cut: list[tuple[native.Span, str, Any]] = []

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
        pairs = [(tape, LaunchRecord(kernel, dim, leaves, site)) for tape in self._chain()]
        for tape, record in pairs:
            record.prepare()
            tape._check_cut(record)
        execute_leaves(kernel, dim, leaves)
        for tape, record in pairs:
            record.finish()
            tape._keep(record)

    def record_copy(self, target: Array, source: Array | None) -> None:
        """Record that the elements of ``target`` became those of ``source``, or constants."""
        site = call_site()
        for tape in self._chain():
            tape._keep(CopyRecord(target, source, site))

    def record_func(
        self, backward: Callable[[], object], arrays: Sequence[Array] = ()
    ) -> None:
        """Record a function that the backward pass calls at this place.

        Args:
            backward: Reads cotangents of outputs from their ``grad``, clears these, and adds to
                ``grad`` of inputs.
            arrays: The arrays whose gradients it touches, for ``gradients`` and ``zero``.
        """
        self._keep(FuncRecord(backward, tuple(arrays), call_site()))

    def _keep(self, record: Record) -> None:
        self._records.append(record)
        for array in record.outputs:
            self._writers[id(array.root), array.version] = record.label
        if isinstance(record, LaunchRecord):
            self._mark_cut(record)
        elif isinstance(record, CopyRecord):
            self._mark_cut_copy(record)

    # Gradients that would be cut: arrays without gradients that depend on arrays with them

    def _loaded_cuts(self, record: LaunchRecord) -> dict[int, str]:
        """Parameters that load what depends on arrays with gradients, and who wrote it."""
        found: dict[int, str] = {}
        if not self._cut:
            return found
        for i, (param, effect) in enumerate(
            zip(record.kernel.func.params, record.kernel.effects, strict=True)
        ):
            if not effect.loads or not is_float(param) or not isinstance(param.type, ArrayType):
                continue
            if i in record.wrt:
                continue
            span = _span(record, i)
            for cut, label, _ in self._cut:
                if span.overlaps(cut):
                    found[i] = label
        return found

    def _check_cut(self, record: LaunchRecord) -> None:
        cuts = self._loaded_cuts(record)
        if not cuts:
            return
        func = record.kernel.func
        reached = varied(func, [func.params[i] for i in cuts])
        for i in record.wrt:
            if record.kernel.effects[i].writes and func.params[i] in reached:
                j, label = next(iter(cuts.items()))
                raise KernelGradError(
                    f"{record.label}: the gradient of '{func.params[i].name}' would be cut at "
                    f"'{func.params[j].name}', which {label} computed from arrays with gradients",
                    whole_line(record.site),
                    "make that array with requires_grad=True, or launch what writes it with "
                    "record_tape=False if it is to be a constant",
                )

    def _mark_cut(self, record: LaunchRecord) -> None:
        func, does = record.kernel.func, record.kernel.effects
        unmarked = [
            i
            for i, param in enumerate(func.params)
            if does[i].writes and is_float(param) and i not in record.wrt
        ]
        sources = [*record.wrt, *self._loaded_cuts(record)] if unmarked else []
        if not sources:
            return
        reached = varied(func, [func.params[i] for i in sources])
        for i in unmarked:
            if func.params[i] in reached:
                self._cut.append((_span(record, i), record.label, record.leaves[i]))

    def _mark_cut_copy(self, record: CopyRecord) -> None:
        target, source = _memory(record.target), record.source
        if record.target.is_contiguous:
            inside = [c for c in self._cut if target[0] <= c[0].begin and c[0].end <= target[1]]
            self._cut = [c for c in self._cut if c not in inside]
        if source is not None and source.requires_grad and not record.target.requires_grad:
            span = native.Span(*target, record.target.shape, True)
            self._cut.append((span, record.label, record.target))

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
        if loss is not None and loss.grad is not None:
            loss.grad.numpy()[...] = 1
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
        self._cut.clear()

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
            found += " without"
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


def _span(record: LaunchRecord, i: int) -> native.Span:
    return native.array_span(record.kernel.direct.signature, i, record.leaves[i])


def _memory(array: Array) -> tuple[int, int]:
    begin, end = np.lib.array_utils.byte_bounds(array.numpy())
    return (begin, end)
