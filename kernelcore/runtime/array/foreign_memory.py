"""Memory of other libraries: conversion to NumPy, and errors for memory that is not shared."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.conversion import describe
from kernelcore.language.types import SCALARS, bfloat16, uint16
from kernelcore.runtime.device_memory import downloaded, layout_of


def numpy_of(memory: ArrayMemory) -> np.ndarray[Any, np.dtype[Any]]:
    """A NumPy array over the memory, which it keeps alive; a copy of a GPU's memory."""
    if memory.is_on_cuda:
        return downloaded(memory, layout_of(memory))
    if memory.scalar_index == bfloat16.index:
        # NumPy's DLPack reader does not know bfloat16.
        return np.from_dlpack(memory.as_scalar(uint16.index)).view(bfloat16.numpy)
    return np.from_dlpack(memory)


def is_foreign(data: object) -> bool:
    """Whether ``data`` exports its memory by DLPack and is not NumPy's."""
    return not isinstance(data, np.ndarray | np.generic) and hasattr(data, "__dlpack__")


def is_ordered(source: object) -> bool:
    """Whether ``source`` names the stream in which a GPU writes its elements."""
    return hasattr(source, "__dlpack_device__") or hasattr(source, "__cuda_array_interface__")


def refuse_masked(name: str, data: object) -> None:
    """Refuse an array of ``numpy.ma``, whose masked elements kernels would use.

    Raises:
        KernelArgumentError: It is one.
    """
    if type(data) is not np.ndarray and isinstance(data, np.ma.MaskedArray):
        raise KernelArgumentError(
            f"{name}: expected an array, found a masked array",
            remedy="give the masked elements values with x.filled(value), or pass x.data for all",
        )


def unreadable(source: object, error: BaseException) -> KernelArgumentError:
    """The error for a ``source`` whose memory could not be read because of ``error``."""
    if isinstance(error, KernelArgumentError):
        return error
    refuse_masked("array", source)
    return KernelArgumentError(
        f"expected an array in CPU memory, found {describe(source)}: {error}",
        remedy="copy it to the CPU; kc.array(...) makes a copy of whatever NumPy can view",
    )


def unusable(memory: ArrayMemory, source: Any) -> KernelArgumentError:
    """The error for ``source``, whose memory was read but holds no elements of data arrays."""
    if memory.has_lazy_sign:
        return KernelArgumentError(
            f"expected an array, found {describe(source)} with a pending negation",
            remedy="call .resolve_neg() on it first",
        )
    kind, index = memory.__dlpack_device__()
    if not (memory.is_on_host or memory.is_on_cuda):
        return KernelArgumentError(
            f"expected memory of the CPU or a GPU, found {describe(source)} on device "
            f"{kind}:{index} of DLPack",
            remedy="copy it to the CPU first",
        )
    return KernelArgumentError(
        f"expected elements of the kernel language, found {describe(source)} of dtype "
        f"{getattr(source, 'dtype', 'that is unknown')}",
        remedy="convert it; complex numbers are vectors of two floats, "
        "as torch.view_as_real or ndarray.view gives them",
    )


def check_layout(
    memory: ArrayMemory, expected: str, layout: np.dtype[Any], extents: tuple[int, ...]
) -> None:
    """Refuse memory without NumPy's dtype ``layout`` or without the trailing ``extents``.

    Raises:
        KernelArgumentError: Naming what was expected.
    """
    first = memory.total_ndim - len(extents)
    scalar = SCALARS[memory.scalar_index]
    if scalar.numpy != layout or first < 0 or memory.extents[first:] != extents:
        raise KernelArgumentError(
            f"expected {expected}, found {scalar} of shape {memory.extents}",
            remedy="convert it first, or make a copy with kc.array(data, dtype=...)",
        )
