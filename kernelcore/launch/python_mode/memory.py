"""Arrays of a launch in Python, with checks of indices, of races and of what is written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import (
    KernelFiniteError,
    KernelIndexError,
    KernelNameError,
    KernelRaceError,
)
from kernelcore.builtins.reference import as_scalar
from kernelcore.language.composite import Composite, value_class
from kernelcore.language.types import Dense, Scalar, StructType
from kernelcore.runtime.array import unset_elements
from kernelcore.runtime.structs import struct_class

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
                f"{name}[{_index(at)}] is read before it has a value",
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


@dataclass(frozen=True, slots=True)
class Added:
    """What an update adds to an element, or with the operator 'sub' takes from it."""

    operator: str
    value: Any

    def number(self, place: tuple[int, ...], shape: tuple[int, ...]) -> float:
        """What it adds to the component at ``place``."""
        found = float(np.broadcast_to(np.asarray(self.value), shape)[place])
        return found if self.operator == "add" else -found


def _race(
    name: str, at: Any, does: str, point: Point, did: str, other: Point | None
) -> KernelRaceError:
    return KernelRaceError(
        f"thread {shown(point)} {does} {name}[{_index(at)}], which thread {shown(other)} {did}",
        remedy="let one thread alone write an element, or use atomic_add or its like",
    )


def shown(point: Point | None) -> str:
    """A grid point in a message."""
    return "" if point is None else str(point[0]) if len(point) == 1 else str(point)


def _index(at: tuple[Any, ...]) -> str:
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


class ArrayView:
    """An array as a kernel sees it: a view of the caller's memory.

    Attributes:
        name: The parameter.
        data: The memory, with the axes of a composite element last.
        element: The type of an element.
        ndim: The number of dimensions in the kernel.
        tables: Of an indexed array, the indices into ``data`` per dimension, else None.
    """

    __slots__ = ("data", "element", "memory", "name", "ndim", "origin", "tables")

    def __init__(
        self,
        name: str,
        data: Any,
        element: Any,
        memory: Memory,
        origin: tuple[Any, ...] = (),
        tables: Sequence[Any] | None = None,
    ) -> None:
        self.name, self.data, self.element, self.memory = name, data, element, memory
        inner = len(element.extents) if isinstance(element, Dense) else 0
        self.ndim = data.ndim - inner
        self.origin = origin
        self.tables = tables

    def __repr__(self) -> str:
        return f"{self.name} {self.data!r}"

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents without those of components."""
        if self.tables is not None:
            return tuple(map(len, self.tables))
        return self.data.shape[: self.ndim]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The elements; fields of structs take what has them."""
        return np.asarray(self.data, dtype)

    def __bool__(self) -> bool:
        return 0 not in self.shape

    def __len__(self) -> int:
        return self.extents[0]

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents, as int32."""
        return tuple(map(np.int32, self.extents))

    @property
    def size(self) -> Any:
        """The number of elements."""
        return np.int32(np.prod(self.extents, dtype=np.int64))

    @property
    def dtype(self) -> Any:
        """The type of an element."""
        return self.element if isinstance(self.element, Scalar) else _class_of(self.element)

    def selected(self, key: Any) -> tuple[tuple[Any, ...], Any, bool]:
        """The checked index, the memory there, and whether that is one element."""
        index: tuple[Any, ...] = cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)
        if not any(isinstance(i, slice) or i is Ellipsis for i in index):
            for axis, i in enumerate(index[: self.ndim]):
                if not 0 <= i < self.extents[axis]:
                    raise KernelIndexError(
                        f"index {i} is outside of array '{self.name}', whose axis {axis} has "
                        f"{self.extents[axis]} elements",
                        remedy="guard the access, or launch over fewer points",
                    )
            is_element = len(index) == self.ndim
        else:
            is_element = False
        return index, self.data[(*self._places(index), ...)], is_element

    def _places(self, index: tuple[Any, ...]) -> tuple[Any, ...]:
        """``index`` as it is for ``data``, whose axes that a slice takes stay whole."""
        if self.tables is None:
            return index
        pairs = zip(index, self.tables, strict=False)
        return tuple(slice(None) if isinstance(i, slice) else table[i] for i, table in pairs)

    def _tables_left(self, index: tuple[Any, ...]) -> list[Any] | None:
        """The tables of what ``index`` leaves."""
        if self.tables is None:
            return None
        kept = [
            table[i] for i, table in zip(index, self.tables, strict=False) if isinstance(i, slice)
        ]
        return [*kept, *self.tables[len(index) :]]

    def __getitem__(self, key: Any) -> Any:
        return self.part(key, is_read=True)

    def part(self, key: Any, *, is_read: bool = False) -> Any:
        """What is at ``key``, to be stored to unless it ``is_read``."""
        index, data, is_element = self.selected(key)
        if not is_element:
            origin, tables = (*self.origin, *index), self._tables_left(index)
            return ArrayView(self.name, data, self.element, self.memory, origin, tables)
        at = (*self.origin, *index)
        if is_read:
            self.memory.require_set(self.name, at, data)
        self.memory.read(self.name, at, data)
        return loaded(self.element, data)

    def store(
        self, key: Any, value: Any, *, is_atomic: bool = False, added: Added | None = None
    ) -> None:
        """Write ``value``, the sum if something is ``added``, to the element at ``key``."""
        index, data, _ = self.selected(key)
        old, new = data.tobytes(), _stored(self.element, value)
        if config.check_finite:
            self._expect_finite((*self.origin, *index), data, new, added)
        data[...] = new
        self.memory.written(self.name, (*self.origin, *index), data, old, is_atomic=is_atomic)

    def atomically(self, key: Any, update: Any, added: Added | None = None) -> Any:
        """Replace an element by ``update`` of it, unless that is the old one; returns the old one.

        ``added`` is what ``update`` adds, if it does.
        """
        index, data, _ = self.selected(key)
        at = (*self.origin, *index)
        self.memory.require_set(self.name, at, data)
        self.memory.read(self.name, at, data, is_atomic=True)
        old = loaded(self.element, data)
        if (new := update(old)) is not old:
            self.store(key, new, is_atomic=True, added=added)
        return old

    def _expect_finite(self, at: tuple[Any, ...], data: Any, new: Any, added: Added | None) -> None:
        """Refuse ``new`` in place of ``data``, the element ``at``, if it is not finite.

        Of a composite or a struct, components that keep their bits may belong to earlier writes.
        """
        filled = np.empty_like(data)
        filled[...] = new
        for name, old, found in _float_leaves(self.name, data, filled):
            is_wrong = ~np.isfinite(found.astype(np.float64))
            if found.ndim or name != self.name:
                width = f"u{found.dtype.itemsize}"
                bits = (np.ascontiguousarray(a).view(width).reshape(a.shape) for a in (old, found))
                is_wrong &= np.not_equal(*bits)
            for place in np.argwhere(is_wrong):
                raise self._not_finite(name, at, tuple(place.tolist()), found, added)

    def _not_finite(
        self,
        name: str,
        at: tuple[Any, ...],
        place: tuple[int, ...],
        found: Any,
        added: Added | None,
    ) -> KernelFiniteError:
        value, result = float(found[place]), ""
        does, given = "stores", value
        if added is not None:
            does, given = "adds", added.number(place, found.shape)
            result = f", which makes {value:g}" if np.isfinite(given) else ""
        component = f"[{_index(place)}]" if place else ""
        return KernelFiniteError.of(
            f"{self.memory.kernel}(): thread {shown(self.memory.point)} {does} {given:g} to "
            f"{name}[{_index(at)}]{component}{result}",
            None,
        )


def _class_of(element: Any) -> Any:
    return value_class(element) if isinstance(element, Dense) else struct_class(element)


def _float_leaves(name: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """The floats of an element and of its replacement, by the names of fields."""
    fields = new.dtype.names
    if fields is None:
        if new.dtype.kind not in "iub":
            yield name, old, new
        return
    for field_name in fields:
        yield from _float_leaves(f"{name}.{field_name}", old[field_name], new[field_name])


def loaded(element: Any, data: Any) -> Any:
    """An element in memory as a value of its own."""
    match element:
        case Dense():
            return value_class(element)._of(data.copy())  # pyright: ignore[reportPrivateUsage]
        case StructType():
            return struct_class(element).from_numpy(data[()].copy())
        case _:
            return data[()]


def _stored(element: Any, value: Any) -> Any:
    match value:
        case ArrayView():
            return value.data
        case Composite():
            return np.asarray(value)
        case np.generic():
            return cast("Any", value)
        case bool() | int() | float():
            scalar = element.scalar if isinstance(element, Dense) else element
            return as_scalar(value, scalar)
        case _:
            return value.to_numpy()


def _leaf_fields(array: Any) -> Iterator[Any]:
    """The arrays of the fields of a structured array, those of nested structs in their place."""
    for name in array.dtype.names:
        leaf = array[name]
        if leaf.dtype.names is None:
            yield leaf
        else:
            yield from _leaf_fields(leaf)
