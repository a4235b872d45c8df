"""Records of assignments and functions, and how a Tape runs them backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelcore.base import native
from kernelcore.base.errors import KernelGradError, SrcLoc
from kernelcore.launch.array_ops import clear, pull
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.call_site import as_text, whole_line
from kernelcore.runtime.hooks import capture_sink


class Record(Protocol):
    """A launch, an assignment or a function that a Tape has recorded."""

    @property
    def site(self) -> SrcLoc | None:
        """The line of the program."""
        ...

    @property
    def label(self) -> str:
        """The event and its line, for messages."""
        ...

    @property
    def inputs(self) -> Sequence[Array]:
        """Arrays that were loaded."""
        ...

    @property
    def outputs(self) -> Sequence[Array]:
        """Arrays that were written."""
        ...

    def name_of(self, array: Array) -> str:
        """The name of one of its arrays."""
        ...

    def backward(self, writers: Writers) -> None:
        """Pull the cotangents of its outputs back to its inputs."""
        ...


# The version of an array's memory after each recorded write, and the record.
Writers = Callable[[Array], Sequence[tuple[int, Record]]]


@dataclass(frozen=True, eq=False, slots=True)
class CopyRecord:
    """An assignment of array ``source``, or of constants, to ``target``."""

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

    def backward(self, writers: Writers) -> None:
        source = None if self.source is None else self.source.grad
        if self.target.grad is not None and source is not None:
            _check_same_scalars(self)
        if self.target.grad is not None:
            pull(self.target.grad, source)


def _check_same_scalars(record: CopyRecord) -> None:
    assert record.source is not None
    if record.source.element != record.target.element:
        raise KernelGradError(
            f"{record.label} converts {record.source.element} to {record.target.element}, "
            "which has no gradient",
            whole_line(record.site),
            "convert it in a kernel",
        )


@dataclass(frozen=True, eq=False, slots=True)
class FuncRecord:
    """An event that ``function`` runs backwards."""

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

    def backward(self, writers: Writers) -> None:
        self.function()


def clear_gradients(arrays: Iterable[Array]) -> None:
    """Zero the gradients of ``arrays``; no Tape records it."""
    if capture_sink() is None:
        left = native.clear_gradients(arrays)
    else:
        left = [gradient for array in arrays if (gradient := array.grad) is not None]
    for gradient in left:
        clear(gradient)
