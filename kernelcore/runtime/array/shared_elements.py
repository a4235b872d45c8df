"""Whether arrays of any strides have elements in common, with themselves or with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelcore.language.scalars import SCALARS

if TYPE_CHECKING:
    from kernelcore._native import ArrayMemory

# Candidates that NumPy's search for a common byte may try; arrays of programs take a few.
# NumPy's annotations know two counts only.
_LARGEST_SEARCH: Any = 100_000


class ElementPlaces(NamedTuple):
    """Where the elements of an array are, on any device; the memory is not kept, and never read.

    Attributes:
        address: The address of the first element; None if the array has no memory.
        shape: The extents.
        strides: Bytes between neighbours along each axis.
        size: Bytes of an element.
    """

    address: int | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size: int

    @classmethod
    def of_numpy(cls, array: np.ndarray[Any, Any]) -> ElementPlaces:
        """Those of an array of NumPy."""
        address = array.__array_interface__["data"][0]
        return cls(address, array.shape, array.strides, array.itemsize)

    @classmethod
    def of_memory(cls, memory: ArrayMemory) -> ElementPlaces:
        """Those of a kernelcore array, component by component."""
        size = SCALARS[memory.scalar_index].numpy.itemsize
        return cls(memory.ptr, memory.extents, memory.stride_bytes, size)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """What NumPy makes an array of, which it searches for common bytes."""
        # NumPy takes the address 0, of no memory, for an array that has lost its own.
        return {
            "data": (self.address or 1, True),
            "shape": self.shape,
            "strides": self.strides,
            "typestr": f"|V{self.size}",
            "version": 3,
        }


def repeats_elements(places: ElementPlaces) -> bool:
    """Whether two indices reach the same bytes; also where a search for them takes too long."""
    axes = [(abs(s), n) for s, n in zip(places.strides, places.shape, strict=True) if n != 1]
    if any(n == 0 for _, n in axes):
        return False
    reach = places.size
    for stride, extent in sorted(axes):
        if stride < reach:
            break
        reach = stride * (extent - 1) + reach
    else:
        return False
    # Of two indices that meet, one has more along the first axis in which they differ.
    whole = np.asarray(places)
    return any(
        _meet(whole[(0,) * axis + (slice(1, None),)], whole[(0,) * axis + (slice(1),)])
        for axis in range(whole.ndim)
    )


def share_elements(first: ElementPlaces, second: ElementPlaces) -> bool:
    """Whether two arrays have a byte in common; also where a search for it takes too long."""
    if None in (first.address, second.address) or 0 in (*first.shape, *second.shape):
        return False
    return _meet(np.asarray(first), np.asarray(second))


def _meet(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    try:
        return np.shares_memory(first, second, max_work=_LARGEST_SEARCH)
    except np.exceptions.TooHardError:
        return True
