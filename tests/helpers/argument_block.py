"""The argument block of a kernel for arguments that are NumPy arrays and numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelcore.codegen.abi import Field
from kernelcore.language.types import ArrayType


def host_address(array: np.ndarray) -> int:
    """Where the elements of ``array`` start."""
    return array.ctypes.data


def pack(
    fields: Sequence[Field],
    size: int,
    args: Sequence[Any],
    address: Callable[[np.ndarray], int] = host_address,
) -> bytearray:
    """The argument block of ``args``; ``address`` says where the elements of an array are."""
    block = bytearray(size)
    for field, arg in zip(fields, args, strict=True):
        if isinstance(field.type, ArrayType):
            assert arg.dtype == field.type.dtype.numpy
            assert arg.ndim == field.type.ndim
            words = (address(arg), *arg.shape, *arg.strides)
            struct.pack_into(f"={len(words)}q", block, field.offset, *words)
        else:
            data = field.type(arg).tobytes()
            block[field.offset : field.offset + len(data)] = data
    return block
