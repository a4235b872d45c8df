"""Checks of detached arrays: those without gradients, computed from arrays with gradients."""

from __future__ import annotations

from typing import Any

from kernelcore.autograd.launch_record import LaunchRecord
from kernelcore.autograd.records import CopyRecord, Record
from kernelcore.base import native
from kernelcore.base.errors import KernelGradError
from kernelcore.language.types import ArrayType
from kernelcore.passes.autodiff.activity import active_values, is_float
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.call_site import whole_line


class DetachedMemory:
    """Memory of arrays without gradients that was computed from arrays with gradients.

    Attributes:
        known: The memory, the label of its writer, and the array, which keeps the memory alive.
    """

    def __init__(self) -> None:
        self.known: list[tuple[native.Span, str, Any]] = []

    def learn(self, record: Record) -> None:
        """Note the detached arrays that ``record`` wrote."""
        if isinstance(record, LaunchRecord):
            self._learn_launch(record)
        elif isinstance(record, CopyRecord):
            self._learn_copy(record)

    def _loaded(self, record: LaunchRecord) -> dict[int, str]:
        """Parameters that load detached memory, and its writer."""
        found: dict[int, str] = {}
        if not self.known:
            return found
        for i, (param, effect) in enumerate(
            zip(record.kernel.func.params, record.kernel.effects, strict=True)
        ):
            is_value = not isinstance(param.type, ArrayType)
            if not is_float(param) or not (is_value or effect.loads):
                continue
            leaf = record.leaves[i]
            if is_value and not isinstance(leaf, Array):
                continue
            label = self._found_at(leaf.span if is_value else _span(record, i))
            if label is not None:
                found[i] = label
        return found

    def _found_at(self, span: native.Span) -> str | None:
        """The writer of detached memory at ``span``."""
        return next((label for known, label, _ in self.known if span.overlaps(known)), None)

    def check(self, record: Record) -> None:
        """Refuse a ``record`` that would compute an array with gradients from detached memory.

        Raises:
            KernelGradError: Naming both.
        """
        if not self.known:
            return
        if isinstance(record, CopyRecord):
            self._check_copy(record)
        if not isinstance(record, LaunchRecord) or not (loaded := self._loaded(record)):
            return
        func = record.kernel.func
        active = active_values(func, [func.params[i] for i in loaded])
        for i in record.plan.wrt:
            if record.kernel.effects[i].writes and func.params[i] in active:
                j, label = next(iter(loaded.items()))
                raise _detached_error(record, func.params[i].name, func.params[j].name, label)

    def _check_copy(self, record: CopyRecord) -> None:
        source = record.source
        if source is None or source.requires_grad or not record.target.requires_grad:
            return
        label = self._found_at(source.span)
        if label is not None:
            raise _detached_error(record, "target", "source", label)

    def _learn_launch(self, record: LaunchRecord) -> None:
        plan = record.plan
        sources = [*plan.wrt, *self._loaded(record)] if plan.unmarked else []
        if not sources:
            return
        func = record.kernel.func
        active = active_values(func, [func.params[i] for i in sources])
        for i in plan.unmarked:
            if func.params[i] in active:
                self.known.append((_span(record, i), record.label, record.leaves[i]))

    def _learn_copy(self, record: CopyRecord) -> None:
        target, source = record.target.span, record.source
        if record.target.is_contiguous:
            self.known = [
                (span, label, leaf)
                for span, label, leaf in self.known
                if span.begin < target.begin or span.end > target.end
            ]
        if source is None or record.target.requires_grad:
            return
        if source.requires_grad or self._found_at(source.span) is not None:
            self.known.append((target, record.label, record.target))


def _detached_error(record: Record, result: str, name: str, label: str) -> KernelGradError:
    return KernelGradError(
        f"{record.label}: the gradient of '{result}' would be cut at '{name}', which {label} "
        "computed from arrays with gradients",
        whole_line(record.site),
        "make that array with requires_grad=True, or launch what writes it with "
        "record_tape=False if it is to be a constant",
    )


def _span(record: LaunchRecord, i: int) -> native.Span:
    return native.array_span(record.kernel.executable.interface(record.device), i, record.leaves[i])
