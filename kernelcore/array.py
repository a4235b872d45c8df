"""``array``: annotations of parameters and data arrays; arrays looked up through indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kernelcore.components import describe, scalar_of_numpy
from kernelcore.creation import make_array, zeros
from kernelcore.data import Array
from kernelcore.device import Device
from kernelcore.element import as_numpy
from kernelcore.errors import KernelArgumentError, KernelTypeError
from kernelcore.types import MAX_ARRAY_DIMS, ArrayOf, StructType, has_layout, int32, type_of


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """Makes the types of array parameters, and data arrays.

    ``array(dtype=float, ndim=2)`` and ``array2d[vec3]`` are annotations. ``dtype`` is a kernelcore
    scalar type, Python's bool, int (32 bits) or float (32 bits), the class of a vector, matrix,
    quaternion, transform or struct, or typing.Any for any of them. ``is_open`` says that a call may
    give another number of dimensions than ``ndim``.

    With data or a shape it makes an Array: ``array([1.0, 2.0], dtype=float)``; see
    ``creation.make_array`` for the arguments. With a shape alone the array holds zeros.

    Raises:
        KernelTypeError: No type of an element, or a number of dimensions that kernels do not have.
        KernelArgumentError: Data of another shape.
    """

    name: str
    ndim: int
    is_open: bool = False

    def __call__(
        self,
        data: Any = None,
        dtype: Any = None,
        shape: Any = None,
        *,
        ndim: int | None = None,
        **options: Any,
    ) -> Any:
        is_type = data is Any or type_of(data) is not None
        if shape is None and not options and (data is None or is_type):
            # As an annotation, it also takes dtype and ndim in order.
            element, dims = (data, ndim if dtype is None else dtype) if is_type else (dtype, ndim)
            return _array_of(self, float if element is None else element, dims, is_indexed=False)
        if data is None or is_type:
            if shape is None:
                raise KernelArgumentError(
                    f"{self.name}: expected data or a shape, found {', '.join(options)} alone",
                    remedy="give data, or leave these out to annotate a parameter",
                )
            return zeros(shape, float if dtype is None else dtype, **options)
        wanted = self.ndim if ndim is None and not self.is_open else ndim
        return make_array(data, dtype, shape, ndim=wanted, **options)

    def __getitem__(self, dtype: object) -> ArrayOf:
        return _array_of(self, dtype, None, is_indexed=False)


@dataclass(frozen=True, slots=True)
class IndexedArrayAnnotation:
    """Makes types of parameters that are looked up through indices, and arguments for them.

    ``indexedarray(dtype=float, ndim=2)`` and ``indexedarray2d[vec3]`` are annotations as those of
    arrays are; ``indexedarray(data, [indices, None])`` is an IndexedArray.

    Raises:
        KernelTypeError: As for arrays.
        KernelArgumentError: As for IndexedArray.
    """

    name: str
    ndim: int
    is_open: bool = False

    def __call__(
        self,
        data: Any = None,
        indices: Sequence[Any] | None = None,
        *,
        dtype: object = None,
        ndim: int | None = None,
    ) -> Any:
        is_annotation = data is None or data is Any or type_of(data) is not None
        if not is_annotation and dtype is None and ndim is None:
            return IndexedArray(data, () if indices is None else indices)
        if not is_annotation or indices is not None or (data is not None and dtype is not None):
            raise KernelTypeError(
                f"{self.name}: expected a type or an array, found both",
                remedy="annotate with dtype and ndim, or give data and indices",
            )
        element = dtype if dtype is not None else float if data is None else data
        return _array_of(self, element, ndim, is_indexed=True)

    def __getitem__(self, dtype: object) -> ArrayOf:
        return _array_of(self, dtype, None, is_indexed=True)


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
        """As ``tables``, on ``device``, for as long as this array.

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
            # At once, whatever is recorded or captured.
            for placed, table in zip(found, self.tables(ndim), strict=True):
                placed.writer(table)()
        return found

    def tables(self, ndim: int) -> list[npt.NDArray[np.int32]]:
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


def _index_array(position: int, index: Any, extent: int) -> npt.NDArray[np.int32]:
    """A private copy of ``index``, so that what was checked stays in range."""
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


def _array_of(
    maker: ArrayAnnotation | IndexedArrayAnnotation,
    dtype: object,
    ndim: int | None,
    *,
    is_indexed: bool,
) -> ArrayOf:
    element = None if dtype is Any else type_of(dtype)
    if isinstance(element, ArrayOf) or (element is None and dtype is not Any):
        raise KernelTypeError(
            f"{maker.name}: expected a scalar, vector or struct as dtype, found {dtype!r}",
            remedy="use float, int, bool, or a type such as kc.float64 or kc.vec3",
        )
    if isinstance(element, StructType) and not has_layout(element):
        raise KernelTypeError(
            f"{maker.name}: struct {element} holds arrays, so there are no arrays of it",
            remedy="keep the arrays in one struct, or pass them on their own",
        )
    ndim = maker.ndim if ndim is None else ndim
    lowest, highest = (1, MAX_ARRAY_DIMS) if maker.is_open else (maker.ndim, maker.ndim)
    is_int = isinstance(ndim, int)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_int or not lowest <= ndim <= highest:
        raise KernelTypeError(
            f"{maker.name}: expected {lowest} to {highest} dimensions, found {ndim!r}",
            remedy="use array(dtype=..., ndim=...)",
        )
    return ArrayOf(element, ndim, is_indexed)


array = ArrayAnnotation("array", 1, is_open=True)
array1d = ArrayAnnotation("array1d", 1)
array2d = ArrayAnnotation("array2d", 2)
array3d = ArrayAnnotation("array3d", 3)
array4d = ArrayAnnotation("array4d", 4)
indexedarray = IndexedArrayAnnotation("indexedarray", 1, is_open=True)
indexedarray1d = IndexedArrayAnnotation("indexedarray1d", 1)
indexedarray2d = IndexedArrayAnnotation("indexedarray2d", 2)
indexedarray3d = IndexedArrayAnnotation("indexedarray3d", 3)
indexedarray4d = IndexedArrayAnnotation("indexedarray4d", 4)
