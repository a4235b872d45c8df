"""NumPy's own arrays are read without the buffer protocol, and mean what that says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc

TYPES = {
    "?": kc.bool,
    "b": kc.int8,
    "B": kc.uint8,
    "h": kc.int16,
    "H": kc.uint16,
    "i": kc.int32,
    "I": kc.uint32,
    "l": kc.int64 if np.dtype("l").itemsize == 8 else kc.int32,
    "L": kc.uint64 if np.dtype("L").itemsize == 8 else kc.uint32,
    "q": kc.int64,
    "Q": kc.uint64,
    "e": kc.float16,
    "f": kc.float32,
    "d": kc.float64,
}


@kc.kernel
def copied(x: kc.array2d(dtype=Any), y: kc.array2d(dtype=Any)):
    i, j = kc.tid()
    y[i, j] = x[i, j]


@kc.kernel
def copied_floats(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[i, j] = x[i, j]


def floats(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def packed(count: int) -> np.ndarray:
    """A field of records of five bytes."""
    records = np.zeros(count, [("value", "f4"), ("flag", "i1")])
    records["value"] = np.arange(count)
    return records["value"]


def read_only() -> np.ndarray:
    x = floats(2, 3)
    x.flags.writeable = False
    return x


VIEWS = {
    "adjacent": floats(3, 4),
    "transposed": floats(3, 4).T,
    "reversed": floats(3, 4)[::-1, ::-1],
    "strided": floats(6, 8)[1::2, ::3],
    "fortran": np.asfortranarray(floats(3, 4)),
    "permuted": floats(2, 3, 4).transpose(2, 0, 1)[:, 1],
    "one row": floats(6, 4)[::2][:1],
    "one column": floats(4, 6)[:, ::4][:, :1],
    "one element": floats(4, 4)[2:3, 1:2],
    "empty": floats(4, 4)[:0, ::2],
    "repeated": np.broadcast_to(np.float32(3), (2, 3)),
    "repeated, may be written": np.broadcast_arrays(floats(3), floats(2, 1))[0],
    "repeated rows": np.broadcast_to(floats(3), (2, 3)),
    "read only": read_only(),
    "one packed element": packed(1)[None],
    "packed": packed(4)[None],
    "unaligned": np.zeros(25, np.int8)[1:].view(np.float32).reshape(2, 3),
    "another size": floats(2, 3).astype(np.float64),
    "other bytes": floats(2, 3).astype(">f4"),
    "complex": floats(2, 3).astype(np.complex64),
    "a line": floats(6),
    "a number": np.array(1, np.float32),
    "windows": np.lib.stride_tricks.sliding_window_view(floats(6), 3),
    "many": floats(*[1] * 20),
}


def outcome(x: Any, y: Any, shape: tuple[int, ...]) -> str:
    """What a copy of ``x`` leaves in ``y``, or what is wrong with them."""
    try:
        kc.launch(copied_floats, shape, [x], [y])
    except kc.KernelArgumentError as error:
        return type(error).__name__ + str(error).partition("found")[0]
    return str(np.asarray(y))


@pytest.mark.parametrize("name", VIEWS)
def test_arrays_are_read_like_their_buffers(name: str) -> None:
    view = VIEWS[name]
    shape = view.shape if view.ndim == 2 else (1, 1)
    expected = outcome(memoryview(view), np.zeros(shape, np.float32), shape)
    assert outcome(view, np.zeros(shape, np.float32), shape) == expected
    ones = np.ones(shape, np.float32)
    assert outcome(ones, view, shape) == outcome(ones, memoryview(view), shape)


@pytest.mark.parametrize("letter", TYPES)
def test_every_dtype_of_kernels_is_known(letter: str) -> None:
    x = np.array([[0, 1, 2], [1, 0, 1]]).astype(letter)
    y = np.zeros_like(x)
    kernel = copied.overload([kc.array2d(dtype=TYPES[letter])] * 2)
    kc.launch(kernel, x.shape, [x], [y])
    np.testing.assert_array_equal(y, x)
    wrong = "i" if letter in "fd" else "f"
    with pytest.raises(kc.KernelArgumentError, match=f"found {np.dtype(wrong).name}"):
        kc.launch(kernel, x.shape, [x], [np.zeros(x.shape, wrong)])
