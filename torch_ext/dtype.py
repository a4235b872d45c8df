"""Scalar types of the kernel language and torch dtypes."""

from __future__ import annotations

from typing import Any

import torch

from kernelcore.errors import KernelTypeError
from kernelcore.types import Scalar, boolean, float32, float64, int32, int64

_TO_TORCH: dict[Scalar, torch.dtype] = {
    boolean: torch.bool,
    int32: torch.int32,
    int64: torch.int64,
    float32: torch.float32,
    float64: torch.float64,
}
_FROM_TORCH = {dtype: scalar for scalar, dtype in _TO_TORCH.items()}


def dtype_to_torch(dtype: Scalar) -> torch.dtype:
    """The torch dtype of the same layout as ``dtype``."""
    return _TO_TORCH[dtype]


def tensor_from_number(number: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor without dimensions; floats are rounded as kernels round their arguments."""
    if not dtype.is_floating_point:
        return torch.full((), number, dtype=dtype)
    # Not in one step: torch.full refuses what float32 rounds to infinity.
    value: Any = torch.sym_float(number)
    return torch.full((), value, dtype=torch.float64).to(dtype)


def dtype_from_torch(dtype: torch.dtype) -> Scalar:
    """The kernelcore scalar of the same layout as ``dtype``.

    Raises:
        KernelTypeError: The kernel language has no such scalar.
    """
    if dtype not in _FROM_TORCH:
        known = ", ".join(str(d) for d in _FROM_TORCH)
        raise KernelTypeError(f"expected a dtype among {known}, found {dtype}")
    return _FROM_TORCH[dtype]
