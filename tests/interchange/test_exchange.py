"""DLPack's exchange API of data arrays, as a library in C uses it."""

from __future__ import annotations

import ctypes
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from tests.interchange.producers import read_only


class Api(ctypes.Structure):
    """``DLPackExchangeAPI``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("prev_api", ctypes.c_void_p),
        ("allocator", ctypes.c_void_p),
        (
            "export",
            ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p)),
        ),
        (
            "take",
            ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object)),
        ),
        ("lend", ctypes.c_void_p),
        (
            "stream",
            ctypes.PYFUNCTYPE(
                ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
            ),
        ),
    )


def exchange_api() -> Any:
    """The API of data arrays."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule: Any = vars(kc.ArrayMemory)["__dlpack_c_exchange_api__"]
    return Api.from_address(get(capsule, b"dlpack_exchange_api"))


def there_and_back(array: Any) -> Any:
    """What the API makes of what it exports."""
    api, tensor, found = exchange_api(), ctypes.c_void_p(), ctypes.py_object()
    assert api.export(array, ctypes.byref(tensor)) == 0
    assert api.take(tensor, ctypes.byref(found)) == 0
    value = found.value
    # The reference is ours now, beside that of ``value``.
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(value))
    return value


def test_memory_goes_through_the_exchange_api() -> None:
    array = kc.array(np.arange(12.0).reshape(4, 3), dtype=float)
    for part in (array, array[1:, ::2], array.transpose(), array[:0]):
        found = there_and_back(part)
        assert (found.ptr, found.extents) == (part.ptr, part.shape)
        np.testing.assert_array_equal(kc.from_dlpack(found).numpy(), part.numpy())
    kept, expected = there_and_back(array), array.numpy().copy()
    del array, part, found
    np.testing.assert_array_equal(kc.from_dlpack(kept).numpy(), expected)


def test_the_exchange_api_reports_read_only_memory() -> None:
    array = kc.array(read_only(np.ones(3, np.float32)), copy=False)
    assert there_and_back(array).is_read_only


def test_the_exchange_api_knows_the_stream_of_the_cpu() -> None:
    stream = ctypes.c_void_p(1)
    assert exchange_api().stream(1, 0, ctypes.byref(stream)) == 0
    assert stream.value is None


def test_jax_takes_data_arrays() -> None:
    array = kc.array(np.arange(12.0).reshape(4, 3), dtype=float)
    for part in (array, array[1:], array[2], array[:0]):
        found = jnp.from_dlpack(part)
        np.testing.assert_array_equal(np.asarray(found), part.numpy())
    kept = jnp.from_dlpack(array, copy=False)
    assert kept.unsafe_buffer_pointer() == array.ptr
    expected = array.numpy().copy()
    del array, part, found
    np.testing.assert_array_equal(np.asarray(kept), expected)


def test_what_is_no_array_with_memory_is_refused() -> None:
    export, tensor = exchange_api().export, ctypes.byref(ctypes.c_void_p())
    with pytest.raises(TypeError, match="not initialized"):
        export(kc.ArrayMemory.__new__(kc.ArrayMemory), tensor)
    for other in (kc.array[float], object(), 3):
        with pytest.raises(TypeError, match="expected an array of kernelcore"):
            export(other, tensor)
