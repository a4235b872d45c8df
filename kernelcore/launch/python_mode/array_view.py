"""Arrays as kernels in Python see them, with checks of indices and of what is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base.config import config
from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelFiniteError, KernelIndexError
from kernelcore.builtins.reference import as_scalar
from kernelcore.language.composite import Composite, value_class
from kernelcore.language.types import Dense, Scalar, StructType
from kernelcore.launch.python_mode.memory import Memory, index_text, shown
from kernelcore.runtime.structs import struct_class


@dataclass(frozen=True, slots=True)
class Added:
    """What an update adds to an element, or with the operator 'sub' takes from it."""

    operator: str
    value: Any

    def number(self, place: tuple[int, ...], shape: tuple[int, ...]) -> float:
        """What it adds to the component at ``place``."""
        found = float(np.broadcast_to(np.asarray(self.value), shape)[place])
        return found if self.operator == "add" else -found


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
        component = f"[{index_text(place)}]" if place else ""
        return KernelFiniteError.of(
            f"{self.memory.kernel}(): thread {shown(self.memory.point)} {does} {given:g} to "
            f"{name}[{index_text(at)}]{component}{result}",
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
