"""Checks of detached arrays: those without gradients, computed from arrays with gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kernelcore.autograd.records import CopyRecord, LaunchRecord, Record
from kernelcore.base import native
from kernelcore.base.errors import KernelGradError
from kernelcore.base.lazy import Deferred
from kernelcore.language.types import ArrayType, element_type
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.call_site import whole_line

if TYPE_CHECKING:
    from kernelcore.ir.core import Atom
    from kernelcore.passes.autodiff import activity
else:
    activity = Deferred("kernelcore.passes.autodiff.activity")


class DetachedMemory:
    """Memory of arrays without gradients that was computed from arrays with gradients.

    Attributes:
        known: The memory, the label of its writer, and the array, which keeps the memory alive.
    """

    def __init__(self) -> None:
        self.known: list[tuple[native.Span, str, Any]] = []

    def _writer(self, span: native.Span) -> str | None:
        """The label of the writer of detached memory at ``span``."""
        return next((label for known, label, _ in self.known if span.overlaps(known)), None)

    def _loaded(self, record: LaunchRecord) -> dict[int, str]:
        """The parameters that load detached memory, and the label of its writer."""
        found: dict[int, str] = {}
        if not self.known:
            return found
        params = zip(record.kernel.leaves, record.kernel.effects, record.leaves, strict=True)
        for i, ((_, type_), effect, leaf) in enumerate(params):
            is_array = isinstance(type_, ArrayType)
            is_loaded = effect.loads if is_array else isinstance(leaf, Array)
            if element_type(type_).is_float and is_loaded:
                label = self._writer(_span(record, i) if is_array else leaf.span)
                if label is not None:
                    found[i] = label
        return found

    def check(self, record: Record) -> None:
        """Refuse a ``record`` that would compute an array with gradients from detached memory.

        Raises:
            KernelGradError: Naming both.
        """
        match record:
            case CopyRecord(target, Array() as source):
                label = self._writer(source.span)
                if label is not None and target.requires_grad and not source.requires_grad:
                    raise _detached_error(record, "target", "source", label)
            case LaunchRecord() if loaded := self._loaded(record):
                func, active = record.kernel.func, _active(record, loaded)
                for i in record.plan.wrt:
                    if record.kernel.effects[i].writes and func.params[i] in active:
                        j, label = next(iter(loaded.items()))
                        names = func.params[i].name, func.params[j].name
                        raise _detached_error(record, *names, label)
            case _:
                pass

    def learn(self, record: Record) -> None:
        """Note the detached arrays that ``record`` wrote."""
        match record:
            case CopyRecord(target, source):
                whole = target.span
                if target.is_contiguous:
                    self.known = [
                        (span, label, leaf)
                        for span, label, leaf in self.known
                        if span.begin < whole.begin or span.end > whole.end
                    ]
                if source is None or target.requires_grad:
                    return
                if source.requires_grad or self._writer(source.span) is not None:
                    self.known.append((whole, record.label, target))
            case LaunchRecord() if record.plan.untracked:
                active = _active(record, [*record.plan.wrt, *self._loaded(record)])
                for i in record.plan.untracked:
                    if record.kernel.func.params[i] in active:
                        self.known.append((_span(record, i), record.label, record.leaves[i]))
            case _:
                pass


def _active(record: LaunchRecord, sources: Iterable[int]) -> set[Atom]:
    func = record.kernel.func
    wrt = [func.params[i] for i in sources]
    return activity.active_values(func, wrt) if wrt else set()


def _detached_error(record: Record, result: str, name: str, label: str) -> KernelGradError:
    return KernelGradError(
        f"{record.label}: the gradient of '{result}' would miss what flows through '{name}', which "
        f"has no gradient, although {label} computed it from arrays with gradients",
        whole_line(record.site),
        "make that array with requires_grad=True, or launch what writes it with "
        "record_tape=False if it is to be a constant",
    )


def _span(record: LaunchRecord, i: int) -> native.Span:
    return native.array_span(record.kernel.executable.interface(record.device), i, record.leaves[i])
