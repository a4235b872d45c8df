"""Elements of ``kc.empty`` that nothing has written, as Python mode finds them.

There is no flag per element: new memory is filled with one byte, which any write replaces, of
whichever library. Elements with scalars of less than four bytes could hold it by chance, and are
not filled.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right, insort
from typing import Any

import numpy as np

_BYTE = 0xA5
_SMALLEST_SCALAR = 4

# The first and the last address of each filled array that is alive, in order.
_ranges: list[tuple[int, int]] = []


def fill(data: Any) -> None:
    """Mark all elements of ``data``, a new array of NumPy, as unset."""
    if data.size == 0 or _smallest_scalar(data.dtype) < _SMALLEST_SCALAR:
        return
    data.reshape(-1).view(np.uint8)[...] = _BYTE
    note(data)


def note(data: Any) -> None:
    """Look for unset elements in ``data``, contiguous memory, as long as it is alive."""
    start = data.ctypes.data
    found = start, start + data.nbytes - 1
    insort(_ranges, found)
    weakref.finalize(data, _ranges.remove, found).atexit = False


def may_be_unset(data: Any) -> bool:
    """Whether the first element of ``data`` is in memory with elements that may be unset."""
    if not _ranges:
        return False
    start = data.__array_interface__["data"][0]
    place = bisect_right(_ranges, (start, 1 << 64)) - 1
    return place >= 0 and start <= _ranges[place][1]


def is_unset(data: Any) -> bool:
    """Whether nothing has written ``data``, one element in its array."""
    return may_be_unset(data) and data.tobytes() == bytes([_BYTE]) * data.nbytes


def _smallest_scalar(dtype: Any) -> int:
    if dtype.fields is None:
        return dtype.base.itemsize
    return min(_smallest_scalar(field) for field, *_ in dtype.fields.values())
