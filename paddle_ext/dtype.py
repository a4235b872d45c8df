"""Scalar types of the kernel language and Paddle dtypes."""

from __future__ import annotations

from typing import Any

import paddle

from kernelcore import types
from kernelcore.base.errors import KernelTypeError
from kernelcore.operators import SCALARS, Scalar, element_of, scalar_in

# Paddle has no unsigned integers of these sizes (its name uint16 is bfloat16): these are the bits.
SIGNED = {
    types.uint16: types.int16,
    types.uint32: types.int32,
    types.uint64: types.int64,
}

_TO_PADDLE: dict[Scalar, Any] = {
    s: paddle.bool if s is types.boolean else getattr(paddle, s.name)
    for s in SCALARS
    if s not in SIGNED
}
_FROM_PADDLE = {dtype: scalar for scalar, dtype in _TO_PADDLE.items()}


def dtype_to_paddle(warp_dtype: Any) -> Any:
    """The Paddle dtype of the layout of a scalar type, or of the components of a composite.

    Unsigned integers of 16 bits and more become the signed ones of the same size.

    Raises:
        KernelTypeError: Paddle has none.
    """
    scalar = scalar_in(element_of(warp_dtype)[0])
    if not isinstance(scalar, Scalar):
        raise KernelTypeError(f"expected a dtype that Paddle has, found {scalar}")
    return _TO_PADDLE[SIGNED.get(scalar, scalar)]


def dtype_from_paddle(paddle_dtype: Any) -> Scalar:
    """The kernelcore scalar of the same layout as a Paddle dtype.

    Raises:
        KernelTypeError: The kernel language has no such scalar.
    """
    found = _FROM_PADDLE.get(paddle_dtype)
    if found is None:
        known = ", ".join(s.name for s in _TO_PADDLE)
        raise KernelTypeError(f"expected a dtype among {known}, found {paddle_dtype}")
    return found
