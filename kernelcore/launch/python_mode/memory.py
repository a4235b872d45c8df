"""Memory of a launch in Python, with checks of races: what its threads did there."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelNameError, KernelRaceError
from kernelcore.runtime.array import unset_elements

Point = tuple[int, ...]


@dataclass(slots=True)
class _Uses:
    """The threads that used an element of memory, as their grid points."""

    writer: Point | None = None
    is_atomic: bool = False
    reader: Point | None = None
    # A second one: a thread that writes may be the first.
    other_reader: Point | None = None


@dataclass(slots=True)
class Memory:
    """What the threads of one launch did to memory so far.

    Attributes:
        kernel: The name of the kernel.
        point: The grid point of the current thread.
        on_copies: Whether the caller's arrays stay as they are.
        copies: By address, extents, strides and dtype of the array.
        uses: By the address of a scalar.
        columns: Arrays of structs that callers gave as an array per field, with these arrays.
        given: The callers' arrays, each with the memory that the launch writes.
    """

    kernel: str = ""
    point: Point = (0,)
    on_copies: bool = False
    copies: dict[tuple[Any, ...], Any] = field(default_factory=dict[tuple[Any, ...], Any])
    uses: dict[int, _Uses] = field(default_factory=dict[int, _Uses])
    columns: list[tuple[Any, Sequence[Any]]] = field(
        default_factory=list[tuple[Any, Sequence[Any]]]
    )
    given: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])

    def taken(self, data: Any, given: Any = None) -> Any:
        """``data``, or the copy of it that the launch writes.

        Args:
            data: The memory of an array.
            given: The caller's array, if it was an argument.
        """
        if not self.on_copies:
            if given is not None:
                self.given.append((given, data))
            return data
        key = (data.ctypes.data, data.shape, data.strides, data.dtype.str)
        if key not in self.copies:
            self.copies[key] = data.copy()
            if data.size and unset_elements.may_be_unset(data):
                unset_elements.note(self.copies[key])
        return self.copies[key]

    def gathered(
        self, dtype: np.dtype[Any], given: Sequence[Any], columns: Sequence[Any], ndim: int
    ) -> Any:
        """An array of structs of ``dtype`` and ``ndim`` dimensions with the given leaf fields.

        Args:
            dtype: Of the array.
            given: The callers' arrays.
            columns: Their memory.
            ndim: Of the array.
        """
        array = np.empty(columns[0].shape[:ndim], dtype)
        self.given.extend((leaf, array) for leaf in given)
        for column, leaf in zip(columns, _leaf_fields(array), strict=True):
            leaf[...] = column
        self.columns.append((array, columns))
        return array

    def give_back(self) -> None:
        """Write what the launch wrote to gathered arrays to the caller's, and count writes."""
        if self.on_copies:
            return
        written = sorted(at for at, uses in self.uses.items() if uses.writer is not None)
        for given, data in self.given:
            first, end = _span(data)
            if bisect_left(written, first) < bisect_left(written, end):
                native.note_written(given)
        for array, columns in self.columns:
            for column, leaf in zip(columns, _leaf_fields(array), strict=True):
                if column.flags.writeable:
                    column[...] = leaf

    def read(self, name: str, at: Any, data: Any, *, is_atomic: bool = False) -> None:
        """The current thread reads ``data``, the element ``at`` of array ``name``."""
        for address in addresses(data):
            uses = self.uses.setdefault(address, _Uses())
            if uses.writer not in (None, self.point) and not (is_atomic and uses.is_atomic):
                raise _race(name, at, "reads", self.point, "wrote", uses.writer)
            if is_atomic:
                continue
            if uses.reader is None:
                uses.reader = self.point
            elif uses.reader != self.point:
                uses.other_reader = self.point

    def require_set(self, name: str, at: Any, data: Any) -> None:
        """Refuse to read ``data``, an element of ``kc.empty`` of which nothing was written.

        Raises:
            KernelNameError: It is such an element.
        """
        if unset_elements.is_unset(data):
            raise KernelNameError(
                f"{name}[{index_text(at)}] is read before it has a value",
                remedy="write it first, or make the array with kc.zeros",
            )

    def written(self, name: str, at: Any, data: Any, old: bytes, *, is_atomic: bool) -> None:
        """The current thread has written ``data``, which was ``old``; equal bits are no change."""
        new, found = data.tobytes(), addresses(data)
        width = len(new) // max(len(found), 1)
        for place, address in enumerate(found):
            part = slice(place * width, (place + 1) * width)
            uses = self.uses.setdefault(address, _Uses())
            if new[part] == old[part] and not is_atomic:
                uses.writer, uses.is_atomic = uses.writer or self.point, False
                continue
            both_atomic = is_atomic and uses.is_atomic
            if uses.writer not in (None, self.point) and not both_atomic:
                raise _race(name, at, "writes", self.point, "wrote", uses.writer)
            for reader in (uses.reader, uses.other_reader):
                if reader not in (None, self.point):
                    raise _race(name, at, "writes", self.point, "read", reader)
            uses.writer, uses.is_atomic = self.point, is_atomic


def _span(data: Any) -> tuple[int, int]:
    """The addresses from the first byte of ``data`` to behind the last one."""
    first: int = data.ctypes.data
    if not data.size:
        return first, first
    reaches = [(n - 1) * step for n, step in zip(data.shape, data.strides, strict=True)]
    end = first + sum(max(reach, 0) for reach in reaches) + data.itemsize
    return first + sum(min(reach, 0) for reach in reaches), end


def _race(
    name: str, at: Any, does: str, point: Point, did: str, other: Point | None
) -> KernelRaceError:
    return KernelRaceError(
        f"thread {shown(point)} {does} {name}[{index_text(at)}], which thread {shown(other)} {did}",
        remedy="let one thread alone write an element, or use atomic_add or its like",
    )


def shown(point: Point | None) -> str:
    """A grid point in a message."""
    return "" if point is None else str(point[0]) if len(point) == 1 else str(point)


def index_text(at: tuple[Any, ...]) -> str:
    """An index as errors show it."""
    return ", ".join(str(i) for i in at)


def addresses(data: Any) -> list[int]:
    """The addresses of the scalars of ``data``, of the bytes of a structured one."""
    start: int = data.__array_interface__["data"][0]
    if data.dtype.names is not None:
        return list(range(start, start + data.dtype.itemsize))
    if not data.ndim:
        return [start]
    return [
        start + sum(i * s for i, s in zip(index, data.strides, strict=True))
        for index in np.ndindex(data.shape)
    ]


def _leaf_fields(array: Any) -> Iterator[Any]:
    """The arrays of the fields of a structured array, those of nested structs in their place."""
    for name in array.dtype.names:
        leaf = array[name]
        if leaf.dtype.names is None:
            yield leaf
        else:
            yield from _leaf_fields(leaf)
