"""Checks of the arguments of an operator, with errors that quote the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from kernelcore import ArrayType
from kernelcore.base.errors import KernelArgumentError
from kernelcore.operators import (
    SCALARS,
    Operation,
    Scalar,
    annotation_text,
    array_text,
    as_array,
    dimensions_text,
    element_type,
    rank_remedy,
)
from torch_ext.dtype import dtype_to_torch

# The classes of tensors that native code takes.
PLAIN_TENSORS = torch.Tensor, torch.nn.Parameter
# A meta tensor is a shape; nothing runs on it.
_DEVICES = ("cpu", "cuda", "meta")
# Integers from here on exceed every float type.
_FLOAT_LIMIT = 1 << 1023


def check_arguments(operation: Operation, tensor_values: bool, args: Sequence[Any]) -> None:
    """Check ``args``, one per operand in order.

    Args:
        operation: What is called.
        tensor_values: Whether scalar operands are tensors without dimensions.
        args: Tensors (real, fake or of a transform) and numbers.

    Raises:
        KernelArgumentError: An argument has the wrong type, dtype, rank or device.
    """
    check_numbers(operation, tensor_values, args)
    for index, (operand, arg) in enumerate(zip(operation.operands, args, strict=True)):
        if not operand.is_number(tensor_values):
            _check_tensor(operation, index, arg)
    leader = leading_tensor(args)
    if leader is not None and leader.device.type != "cpu":
        _check_devices(operation, args, leader.device)


def check_numbers(operation: Operation, tensor_values: bool, args: Sequence[Any]) -> None:
    """Check those of ``args`` that are numbers, as ``check_arguments`` does."""
    for index, (operand, arg) in enumerate(zip(operation.operands, args, strict=True)):
        if operand.is_number(tensor_values):
            assert isinstance(operand.type, Scalar)
            check_number(operation, index, arg, operand.type)


def leading_tensor(args: Sequence[Any]) -> torch.Tensor | None:
    """The first tensor that is not on the CPU, else the first: an operator runs where it is."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return next((t for t in tensors if t.device.type != "cpu"), next(iter(tensors), None))


def _check_devices(operation: Operation, args: Sequence[Any], device: torch.device) -> None:
    """Refuse tensors elsewhere than on ``device``; values may be on the CPU, as torch's may."""
    for index, (operand, arg) in enumerate(zip(operation.operands, args, strict=True)):
        if not isinstance(arg, torch.Tensor) or arg.device == device:
            continue
        is_value = as_array(operand.type).outer_ndim == 0
        # Autograd moves gradients of tensors without dimensions only.
        has_place = is_value and (arg.ndim == 0 or not arg.requires_grad)
        if arg.device.type == "cpu" and has_place:
            continue
        raise argument_error(
            operation,
            index,
            f"a tensor on {device}, where another argument is",
            f"one on {arg.device}",
            f"move it with .to('{device}')",
        )


def argument_error(
    operation: Operation, index: int, expected: str, found: str, remedy: str | None
) -> KernelArgumentError:
    """The error for operand ``index``."""
    return operation.argument_error(index, f"expected {expected}, found {found}", remedy)


def _check_tensor(operation: Operation, index: int, arg: Any) -> None:
    type_ = as_array(operation.operands[index].type)
    is_tensor = isinstance(arg, torch.Tensor) and not arg.is_nested
    if not is_tensor or arg.dtype != dtype_to_torch(type_.dtype) or arg.ndim != type_.ndim:
        raise operation.argument_error(index, *mismatch(type_, arg))
    operation.check_components(index, arg.shape)
    if arg.layout is not torch.strided:
        raise argument_error(
            operation, index, "a dense tensor", f"one of layout {arg.layout}", "use .to_dense()"
        )
    if arg.device.type not in _DEVICES:
        raise argument_error(
            operation,
            index,
            "a tensor on the CPU or a CUDA device",
            f"one on {arg.device}",
            "move it with .cpu()",
        )


def mismatch(wanted: ArrayType, given: Any) -> tuple[str, str]:
    """Problem and remedy of ``given``, which is not a tensor of the dtype and rank ``wanted``.

    The texts are those of ``check_array`` in csrc/bind/launch/argument.cc, which checks plain
    tensors of eager calls.
    """
    if not isinstance(given, torch.Tensor):
        found = f"an object of type {type(given).__name__}"
        remedy = "pass a torch tensor, for example torch.as_tensor(...)"
    elif given.is_nested:
        found = "a nested tensor"
        remedy = "call the operator for each of .unbind(), or use .to_padded_tensor(...)"
    elif given.dtype == dtype_to_torch(wanted.dtype):
        found = dimensions_text(wanted.dtype, given.ndim)
        if wanted.components:
            found = f"shape {tuple(given.shape)}"
        remedy = rank_remedy(wanted)
    else:
        name = str(given.dtype).removeprefix("torch.")
        found = dimensions_text(name, given.ndim)
        remedy = f"convert it with .to(torch.{wanted.dtype})"
        if any(name == scalar.name for scalar in SCALARS):
            remedy += f", or annotate the parameter {annotation_text(wanted, name)}"
    return f"expected {array_text(wanted)}, found {found}", remedy


def check_number(operation: Operation, index: int, arg: Any, dtype: Scalar) -> None:
    """Check that ``arg``, for operand ``index``, is a number that ``dtype`` holds."""
    match dtype.kind:
        case "bool":
            fits = isinstance(arg, bool | torch.SymBool)
        case "int" | "uint":
            fits = isinstance(arg, Integral | torch.SymInt)
        case _:
            fits = isinstance(arg, Real | torch.SymInt | torch.SymFloat)
    # NumPy counts durations among the integers.
    fits = fits and not isinstance(arg, np.timedelta64)
    if fits and dtype.kind != "bool" and isinstance(arg, Integral):
        low, high = (-_FLOAT_LIMIT, _FLOAT_LIMIT - 1) if dtype.is_float else dtype.limits
        fits = low <= int(arg) <= high
    if not fits:
        raise number_error(operation, index, f"{arg!r} of {type(arg)}")


def number_error(operation: Operation, index: int, found: str) -> KernelArgumentError:
    """The error for operand ``index``, a number that its type does not hold."""
    dtype = element_type(operation.operands[index].type)
    return argument_error(
        operation,
        index,
        f"a number that {dtype} holds",
        found,
        f"pass a Python {dtype.kind.removeprefix('u')} in its range, "
        "or annotate the parameter accordingly",
    )
