"""Arrays of every kind that kernelcore takes memory from, in one table."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import paddle
import torch

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)


@dataclass(frozen=True, slots=True)
class Producer:
    """One kind of array.

    Attributes:
        name: What it is called.
        make: An array of it with the elements of a NumPy array.
        address: Where its first element is.
        dtypes: Names of the dtypes that it has.
        is_writable: Whether its memory may be written.
        has_strides: Whether it has other than contiguous memory.
    """

    name: str
    make: Callable[[np.ndarray], Any]
    address: Callable[[Any], int]
    dtypes: tuple[str, ...] = DTYPES
    is_writable: bool = True
    has_strides: bool = True


class DLPackOnly:
    """An array of which nothing is known but its DLPack export, of ``max_version`` or older."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **options: Any) -> Any:
        return self.owner.__dlpack__(max_version=max_version, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.owner.__dlpack_device__()


class OldDLPack:
    """As before DLPack 1.0, whose method takes a stream only."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __dlpack__(self, stream: None = None) -> Any:
        return self.owner.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.owner.__dlpack_device__()


class InterfaceOnly:
    """An array of which nothing is known but its ``__array_interface__``."""

    def __init__(self, owner: np.ndarray) -> None:
        self.owner = owner

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.owner.__array_interface__


class ArrayMethodOnly:
    """An array of which nothing is known but its ``__array__``, which gives its own memory."""

    def __init__(self, owner: np.ndarray) -> None:
        self.owner = owner

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.owner, dtype, copy=copy)


class CudaInterfaceOnly:
    """Stands for an array on a GPU: its description, and no memory that the CPU may touch."""

    def __init__(self, **changes: Any) -> None:
        described = {
            "version": 3,
            "typestr": "<f4",
            "shape": (3, 2),
            "strides": None,
            "data": (1 << 40, False),
            "stream": None,
        }
        self.__cuda_array_interface__ = {**described, **changes}


def to_torch(values: np.ndarray) -> torch.Tensor:
    if values.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(values.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(values)


def to_paddle(values: np.ndarray) -> Any:
    if values.dtype == ml_dtypes.bfloat16:
        return paddle.to_tensor(values.astype(np.float32)).astype("bfloat16")
    return paddle.from_dlpack(values)


def to_jax(values: np.ndarray) -> jax.Array:
    with jax.enable_x64(True):
        return jnp.array(values)


def numpy_address(owner: Any) -> int:
    return owner.ctypes.data


_WITHOUT_BFLOAT16 = tuple(d for d in DTYPES if d != "bfloat16")
_OF_PADDLE = tuple(d for d in DTYPES if d not in ("uint16", "uint32", "uint64"))

PRODUCERS = {
    p.name: p
    for p in (
        Producer("numpy", lambda a: a, numpy_address),
        Producer("torch", to_torch, lambda t: t.data_ptr()),
        Producer("paddle", to_paddle, lambda t: t.data_ptr(), dtypes=_OF_PADDLE),
        Producer(
            "jax",
            to_jax,
            lambda j: j.unsafe_buffer_pointer(),
            is_writable=False,
            has_strides=False,
        ),
        Producer("dlpack", lambda a: DLPackOnly(to_torch(a)), lambda d: d.owner.data_ptr()),
        Producer("old_dlpack", lambda a: OldDLPack(to_torch(a)), lambda d: d.owner.data_ptr()),
        Producer(
            "interface", InterfaceOnly, lambda d: numpy_address(d.owner), dtypes=_WITHOUT_BFLOAT16
        ),
        Producer(
            "method", ArrayMethodOnly, lambda d: numpy_address(d.owner), dtypes=_WITHOUT_BFLOAT16
        ),
    )
}


def elements(dtype: str, shape: tuple[int, ...] = (4, 3)) -> np.ndarray:
    """Different small numbers of ``dtype``."""
    count = int(np.prod(shape))
    numbers = np.arange(count) % 2 if dtype == "bool" else np.arange(count)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return np.asarray(numbers.astype(kind).reshape(shape))


def read_only(values: np.ndarray) -> np.ndarray:
    """``values``, which may not be written any more."""
    values.flags.writeable = False
    return values


def memory_at(address: int, size_bytes: int) -> bytes:
    """What lies in memory."""
    return ctypes.string_at(address, size_bytes)
