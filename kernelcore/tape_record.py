"""What a Tape keeps of an assignment or a function, and how it runs them backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.data import Array
from kernelcore.element import Numbers
from kernelcore.errors import KernelGradError, SrcLoc
from kernelcore.recording import as_text, captured, perform, whole_line
from kernelcore.runtime import native


class Record(Protocol):
    """One thing that happened while a Tape was active."""

    @property
    def site(self) -> SrcLoc | None:
        """Where it happened."""
        ...

    @property
    def label(self) -> str:
        """What happened and where, for messages."""
        ...

    @property
    def inputs(self) -> Sequence[Array]:
        """Arrays whose elements were used."""
        ...

    @property
    def outputs(self) -> Sequence[Array]:
        """Arrays that were written."""
        ...

    def name_of(self, array: Array) -> str:
        """What it calls one of its arrays."""
        ...

    def prepare(self) -> None:
        """Told before it happens."""
        ...

    def finish(self) -> None:
        """Told after it happened."""
        ...

    def backward(self, writers: Writers) -> None:
        """Turn cotangents of what was after it into those of what was before."""
        ...


# Who wrote the memory of an array: the count of writes after it, and the record.
Writers = Callable[[Array], Sequence[tuple[int, Record]]]


@dataclass(frozen=True, eq=False, slots=True)
class CopyRecord:
    """Elements of ``target`` became those of ``source``, or constants."""

    target: Array
    source: Array | None
    site: SrcLoc | None

    @property
    def label(self) -> str:
        return f"the assignment at {as_text(self.site)}"

    @property
    def inputs(self) -> Sequence[Array]:
        return () if self.source is None else (self.source,)

    @property
    def outputs(self) -> Sequence[Array]:
        return (self.target,)

    def name_of(self, array: Array) -> str:
        return "target" if array is self.target else "source"

    def prepare(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def backward(self, writers: Writers) -> None:
        source = None if self.source is None else self.source.grad
        if self.target.grad is not None and source is not None:
            _check_same_scalars(self)
        perform(lambda: self._pull(self.target.grad, source))

    def _pull(self, whole: Array | None, source: Array | None) -> None:
        if whole is None:
            return
        cotangent = np.array(whole.numpy())
        _clear(whole)
        if source is not None:
            _add_to(source, _summed(cotangent, source.numpy().shape))


def _check_same_scalars(record: CopyRecord) -> None:
    assert record.source is not None
    if record.source.element != record.target.element:
        raise KernelGradError(
            f"{record.label} converts {record.source.element} to {record.target.element}, "
            "which has no gradient",
            whole_line(record.site),
            "convert it in a kernel",
        )


def _summed(cotangent: Numbers, shape: tuple[int, ...]) -> Numbers:
    """The cotangent of an array of ``shape``, given that of what it was broadcast to."""
    lead = tuple(range(cotangent.ndim - len(shape)))
    if lead:
        cotangent = cotangent.sum(axis=lead)
    ones = tuple(k for k, n in enumerate(shape) if n == 1 and cotangent.shape[k] != 1)
    return cotangent.sum(axis=ones, keepdims=True) if ones else cotangent


@dataclass(frozen=True, eq=False, slots=True)
class FuncRecord:
    """Something else happened, which ``function`` runs backwards."""

    function: Callable[[], object]
    arrays: tuple[Array, ...]
    site: SrcLoc | None

    @property
    def label(self) -> str:
        return f"the function recorded at {as_text(self.site)}"

    @property
    def inputs(self) -> Sequence[Array]:
        return self.arrays

    @property
    def outputs(self) -> Sequence[Array]:
        return ()

    def name_of(self, array: Array) -> str:
        return "array"

    def prepare(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def backward(self, writers: Writers) -> None:
        self.function()


def clear_gradients(arrays: Iterable[Array]) -> None:
    """Zero the gradients of those of ``arrays`` that have one; no Tape records it."""
    if captured.get() is None:
        for gradient in native.clear_gradients(arrays):
            _clear(gradient)
        return
    gradients = [gradient for array in arrays if (gradient := array.grad) is not None]

    def clear() -> None:
        for gradient in gradients:
            _clear(gradient)

    perform(clear)


def _clear(array: Array) -> None:
    if ArrayMemory.clear(array):
        return
    array.numpy()[...] = np.zeros((), array.numpy().dtype)
    array.mark_write()


def add_to(array: Array, term: Any) -> None:
    """Add ``term``, an array of the same layout, to ``array``; no Tape records it."""
    perform(lambda: _add_to(array, term))


def _add_to(array: Array, term: Any) -> None:
    _add(array.numpy(), np.asarray(term))
    array.mark_write()


def _add(total: Numbers, term: Numbers) -> None:
    if total.dtype.names is None:
        if total.dtype.kind not in "biu":
            total += term
        return
    for name in total.dtype.names:
        _add(total[name], term[name])
