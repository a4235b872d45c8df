"""Scalar types of the kernel language and torch dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kernelcore.base.errors import KernelTypeError
from kernelcore.operators import SCALARS, Scalar, type_of

_TO_TORCH: dict[Scalar, torch.dtype] = {s: getattr(torch, s.name) for s in SCALARS}
_FROM_TORCH = {dtype: scalar for scalar, dtype in _TO_TORCH.items()}


def dtype_to_torch(dtype: Any) -> torch.dtype:
    """The torch dtype of the same layout as ``dtype``: a scalar type, or Python's own.

    Raises:
        KernelTypeError: It is not a scalar type.
    """
    found = _TO_TORCH.get(dtype)
    if found is None:
        scalar = type_of(dtype)
        if not isinstance(scalar, Scalar):
            raise KernelTypeError(
                f"expected a scalar type, found {dtype if scalar is None else scalar}",
                remedy="give that of the components, such as kc.float32",
            )
        found = _TO_TORCH[scalar]
    return found


def tensor_from_number(number: Any, dtype: torch.dtype, device: Any = "cpu") -> torch.Tensor:
    """A tensor without dimensions; floats are rounded as kernels round their arguments."""
    if not dtype.is_floating_point:
        if is_wide(number):  # Torch takes integers as signed: these are the same bits.
            return torch.full((), number - (1 << 64), dtype=torch.int64, device=device).view(dtype)
        return torch.full((), number, dtype=dtype, device=device)
    # Not in one step: torch.full refuses what float32 rounds to infinity.
    value: Any = torch.sym_float(number)
    return torch.full((), value, dtype=torch.float64, device=device).to(dtype)


def tensor_from_symbol(number: Any, dtype: torch.dtype, device: Any = "cpu") -> torch.Tensor:
    """A tensor without dimensions that holds ``number``, a symbol of a graph.

    torch.compile keeps a float a symbol only if it is an operand of elementary arithmetic; any
    other operation makes the graph one for that value. A product with one is exact.
    """
    return (torch.ones((), dtype=torch.float64, device=device) * number).to(dtype)


def is_wide(number: Any) -> bool:
    """Whether ``number`` exceeds the 64-bit signed integers of torch's schemas."""
    return isinstance(number, int) and number >= 1 << 63


def tensor_from_array(array: npt.NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of ``dtype`` on the memory of an array of the same dtype."""
    # Torch does not know the bfloat16 of NumPy arrays.
    bits = array.view(np.uint16) if dtype is torch.bfloat16 else array
    return torch.from_numpy(bits).view(dtype)


def dtype_from_torch(dtype: torch.dtype) -> Scalar:
    """The kernelcore scalar of the same layout as ``dtype``.

    Raises:
        KernelTypeError: The kernel language has no such scalar.
    """
    if dtype not in _FROM_TORCH:
        known = ", ".join(str(d) for d in _FROM_TORCH)
        raise KernelTypeError(f"expected a dtype among {known}, found {dtype}")
    return _FROM_TORCH[dtype]
