"""Arrays that end where memory does: the first byte behind them cannot be read."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def ending_at_a_guard(array: np.ndarray) -> np.ndarray:
    """A copy of ``array`` whose last byte is the last one before a page without access."""
    room = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, room + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    if _libc.mprotect(start + room, mmap.PAGESIZE, _PROT_NONE) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    found = np.frombuffer(pages, array.dtype, array.size, room - array.nbytes)
    found = found.reshape(array.shape)
    found[...] = array
    return found
