"""Arrays whose dimensions are looked up in arrays of indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.language.conversion import describe, scalar_of_numpy
from kernelcore.language.types import (
    MAX_ARRAY_DIMS,
    int32,
)
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import as_numpy
from kernelcore.runtime.device import Device


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
