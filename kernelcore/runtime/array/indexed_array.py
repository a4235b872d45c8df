"""Arrays whose dimensions are looked up in arrays of indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np

from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.language.conversion import describe, scalar_of_numpy
from kernelcore.language.types import (
    MAX_ARRAY_DIMS,
    int32,
)
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import Numbers, as_numpy, broadcast_elements
from kernelcore.runtime.device import CPU, Device
from kernelcore.runtime.hooks import observer


class IndexedArray:
    """An array whose dimensions are looked up in arrays of indices first.

    Attributes:
        data: Any array; for structs a structured array, or a mapping of fields to arrays.
        indices: Per dimension an int32 array of shape (extent,), or None for every index in order;
            dimensions that are not mentioned count as None.
    """

    __slots__ = ("_placed", "data", "indices")

    def __init__(self, data: Any, indices: Sequence[Any]) -> None:
        shape = shape_of(data)
        if not isinstance(indices, Sequence | np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelArgumentError(
                f"indexedarray: expected a list of index arrays, found {describe(indices)}",
                remedy="give one index array or None per dimension",
            )
        if len(indices) > min(len(shape), MAX_ARRAY_DIMS):
            raise KernelArgumentError(
                f"indexedarray: expected at most {min(len(shape), MAX_ARRAY_DIMS)} index arrays "
                f"for data of shape {shape}, found {len(indices)}",
                remedy="give one index array or None per dimension",
            )
        self.data = data
        self.indices = tuple(
            None if index is None else _index_array(k, index, shape[k])
            for k, index in enumerate(indices)
        )
        self._placed: dict[tuple[Device, int], list[Array]] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the elements that the indices select."""
        whole = shape_of(self.data)
        given = [None if index is None else len(index) for index in self.indices]
        found = [n if m is None else m for n, m in zip(whole, given, strict=False)]
        return (*found, *whole[len(found) :])

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the data."""
        return self.data.dtype

    @property
    def device(self) -> Device:
        """Where the data are."""
        return getattr(self.data, "device", CPU) if isinstance(self.data, Array) else CPU

    @property
    def is_contiguous(self) -> bool:
        """False: neighbours may lie anywhere."""
        return False

    def numpy(self) -> Numbers:
        """A copy of the elements that the indices select."""
        return as_numpy(self.data)[self._selection()]

    def list(self) -> list[Any]:
        """The elements that the indices select, in row-major order."""
        return self.contiguous().list()

    def contiguous(self) -> Array:
        """An array with copies of the elements that the indices select.

        Raises:
            KernelArgumentError: A Tape or a capture is active, which would not record the copy.
        """
        if observer.get() is not None:
            raise KernelArgumentError(
                "indexedarray: a Tape and a capture do not record this copy",
                remedy="copy with a launch, or before they begin",
            )
        data = self.data if isinstance(self.data, Array) else Array.sharing(self.data)
        found = Array.zeros(self.shape, data.element, data.dtype, self.device)
        found.assign(self.numpy())
        return found

    def clone(self, requires_grad: bool = False, *, device: Device | None = None) -> Array:
        """As ``contiguous``, on ``device``."""
        found = self.contiguous()
        found = found if device is None else found.to(device)
        found.requires_grad = requires_grad
        return found

    copy = clone

    def to(self, device: object) -> Array:
        """As ``contiguous``, on ``device``."""
        return self.contiguous().to(device)

    def assign(self, source: Any) -> None:
        """Overwrite the elements that the indices select with ``source``, which is broadcast.

        Raises:
            KernelArgumentError: A Tape or a capture is active, or shapes do not fit.
            KernelTypeError: The elements cannot be converted.
        """
        if observer.get() is not None:
            raise KernelArgumentError(
                "indexedarray: a Tape and a capture do not record this write",
                remedy="write with a launch, or before they begin",
            )
        data = self.data if isinstance(self.data, Array) else Array.sharing(self.data)
        whole = np.array(data.numpy()) if data.is_on_cuda else data.numpy()
        whole[self._selection()] = broadcast_elements(data.element, source, self.shape)
        if data.is_on_cuda:
            data.assign(whole)
        else:
            data.mark_write()

    def fill_(self, value: Any) -> Self:
        """Set every element that the indices select to ``value``."""
        self.assign(value)
        return self

    def zero_(self) -> Self:
        """Set every element that the indices select to zero."""
        return self.fill_(0)

    def _selection(self) -> tuple[Any, ...]:
        return np.ix_(*self.tables(self.ndim))

    def tables_on(self, device: Device, ndim: int) -> Sequence[Any]:
        """The index arrays of ``tables`` on ``device``, kept as long as this array.

        Raises:
            KernelArgumentError: The array has other dimensions.
        """
        if device.is_cpu:
            return self.tables(ndim)
        found = self._placed.get((device, ndim))
        if found is None:
            found = self._placed[device, ndim] = [
                Array.zeros(table.shape, int32, int32, device) for table in self.tables(ndim)
            ]
            # At once: copies of constants are neither recorded nor captured.
            for placed, table in zip(found, self.tables(ndim), strict=True):
                placed.writer(table)()
        return found

    def tables(self, ndim: int) -> list[np.ndarray[Any, np.dtype[np.int32]]]:
        """One index array per dimension of an array of ``ndim`` dimensions.

        Raises:
            KernelArgumentError: The array has other dimensions.
        """
        shape = shape_of(self.data)
        if len(self.indices) > ndim or len(shape) < ndim:
            raise KernelArgumentError(
                f"expected an indexed array of {ndim} dimensions, "
                f"found {max(len(self.indices), min(ndim, len(shape)))}",
                remedy="give one index array or None per dimension",
            )
        given = self.indices + (None,) * (ndim - len(self.indices))
        return [
            np.arange(extent, dtype=np.int32) if index is None else index
            for index, extent in zip(given, shape, strict=False)
        ]

    def __repr__(self) -> str:
        lengths = ", ".join("all" if index is None else str(len(index)) for index in self.indices)
        return f"<indexed array over shape {shape_of(self.data)}, indices {lengths or 'all'}>"


def shape_of(data: Any) -> tuple[int, ...]:
    """The shape of an array, or of the first leaf in a mapping of fields to arrays."""
    if isinstance(data, Mapping):
        fields = list(cast("Mapping[str, Any]", data).values())
        return shape_of(fields[0]) if fields else ()
    shape: Any = getattr(data, "shape", None)
    return tuple(int(n) for n in (np.shape(data) if shape is None else shape))


def _index_array(position: int, index: Any, extent: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A private copy of ``index``: checked indices stay in range."""
    try:
        array = as_numpy(index)
    except KernelTypeError:
        array = np.asarray(None)
    found = scalar_of_numpy(array.dtype)
    is_empty_list = array.size == 0 and not hasattr(index, "dtype")
    is_typed = hasattr(index, "dtype")
    fits = found == int32 or (not is_typed and found is not None and found.is_integer)
    if array.ndim != 1 or not (fits or is_empty_list):
        raise KernelArgumentError(
            f"indexedarray: index array {position}: expected int32 of one dimension, "
            f"found {describe(array)}",
            remedy="convert it with astype(numpy.int32)",
        )
    wrong = np.flatnonzero((array < 0) | (array >= extent))
    if wrong.size > 0:
        raise KernelArgumentError(
            f"indexedarray: index array {position}: index {array[wrong[0]]} at position "
            f"{wrong[0]} is outside the extent {extent}",
            remedy=f"give indices from 0 to {extent - 1}" if extent else "the data are empty",
        )
    private = np.array(array, np.int32)
    private.flags.writeable = False
    return private
