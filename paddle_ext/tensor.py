"""Paddle tensors as data arrays, and data arrays as Paddle tensors, without copies."""

from __future__ import annotations

from typing import Any

import paddle

from kernelcore import Array, ArrayMemory
from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.operators import StructType
from paddle_ext.dtype import SIGNED

_CODES = {unsigned.index: SIGNED[unsigned].index for unsigned in SIGNED}


def from_paddle(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> Any:
    """An array on the memory of a Paddle tensor, which it keeps in place.

    Args:
        t: A tensor on the CPU, of any strides.
        dtype: The type of an element; components of composites are the last dimensions of ``t``.
            Default: that of the tensor.
        requires_grad: Whether the array has a gradient, which it shares with the tensor: one is
            made where the tensor has none. Default: unless ``t.stop_gradient``.
        grad: A tensor or an array to keep the gradient in, instead of that of ``t``.
        return_ctype: Whether to return an ``ArrayMemory`` instead, which launches take: faster,
            and without gradient.
        retain_grad: Whether a backward pass of a Tape leaves the gradient of an array that a launch
            wrote; see ``Array.retain_grad``.

    Returns:
        An Array, or an ArrayMemory.

    Raises:
        KernelArgumentError: Memory of another device, elements that are not of ``dtype``, or no
            gradient to retain.
    """
    if return_ctype:
        return ArrayMemory(t)
    array = Array.sharing(t, dtype)
    if requires_grad is None:
        requires_grad = not t.stop_gradient or grad is not None
    array.requires_grad, array.retain_grad = requires_grad, retain_grad
    if requires_grad:
        if grad is None:
            grad = t.grad
            if grad is None:
                # Assigning to grad would copy.
                t.grad_ = grad = paddle.zeros_like(t)
        array.grad = grad if isinstance(grad, Array) else Array.sharing(grad, array.dtype)
    return array


def to_paddle(a: Array, requires_grad: bool | None = None) -> Any:
    """A Paddle tensor on the memory of an array, which it keeps in place.

    Args:
        a: An array on the CPU of no structs; components become the last dimensions.
            Unsigned integers of 16 bits and more become signed ones of the same bits.
        requires_grad: Whether the tensor has the gradient of the array as its own. Default: that
            of ``a``.

    Returns:
        A tensor.

    Raises:
        KernelTypeError: Paddle has no such elements.
        KernelArgumentError: The array is read-only, which tensors cannot be.
    """
    if isinstance(a.element, StructType):
        raise KernelTypeError(
            "to_paddle: expected an array of numbers or vectors, found one of structs",
            remedy="convert its fields one by one: to_paddle(a.fields['x'])",
        )
    if a.is_read_only:
        raise KernelArgumentError(
            "to_paddle: expected a writable array, found a read-only one",
            remedy="convert a copy of it: to_paddle(a.clone())",
        )
    tensor = _tensor(a)
    wanted = a.requires_grad if requires_grad is None else requires_grad
    if wanted:
        gradient = a.grad
        tensor.stop_gradient = False
        if gradient is not None:
            tensor.grad_ = _tensor(gradient)
    return tensor


def _tensor(array: Array) -> Any:
    code = _CODES.get(array.scalar_index)
    source: Any = array if code is None else array.as_scalar(code)
    return paddle.from_dlpack(source)
