"""Runs Operations on Paddle tensors in CPU memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import paddle

from kernelcore import Array, ArrayMemory, ArrayType
from kernelcore.base.errors import KernelTypeError
from kernelcore.operators import (
    Operation,
    array_text,
    element_type,
    evaluate,
    run_in_python,
    runs_in_python,
    take_scalar,
)
from paddle_ext.dtype import SIGNED, dtype_to_paddle
from paddle_ext.tensor import to_paddle

_EXTENTS = (paddle.int32, paddle.int64)


def run_operation(operation: Operation, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The visible results of ``operation``, run without recording derivatives.

    Args:
        operation: What to run.
        operands: Tensors, and numbers or tensors without dimensions for scalars.

    Raises:
        KernelArgumentError: An operand does not fit the kernel; nothing was run.
    """
    if runs_in_python(operation):
        found = run_in_python(
            operation,
            [_as_declared(a, o.type) for a, o in zip(operands, operation.operands, strict=True)],
        )
        return tuple(to_paddle(Array.sharing(a)) for a in found)
    shapes = infer_shapes(operation, operand_shapes(operation, operands))
    results = tuple(
        paddle.empty(list(shape), dtype=dtype_to_paddle(result.type.dtype))
        for shape, result in zip(shapes, operation.outputs, strict=True)
    )
    operation.native.run(
        [_as_declared(a, o.type) for a, o in zip(operands, operation.operands, strict=True)],
        [_as_declared(a, r.type) for a, r in zip(results, operation.outputs, strict=True)],
    )
    return results


def merged(numbers: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Numbers, and in the places where there is None the tensors in order."""
    left = iter(tensors)
    return [next(left) if number is None else number for number in numbers]


def operand_shapes(operation: Operation, operands: Sequence[Any]) -> list[tuple[int, ...]]:
    """Per operand its shape, or the extent that it is; -1 for what a program knows when it runs.

    Raises:
        KernelArgumentError: A value cannot be an extent.
    """
    given = list(operands)
    for k in operation.sizes:
        if isinstance(given[k], paddle.Tensor | np.ndarray):
            if given[k].ndim:
                found = f"found shape {tuple(given[k].shape)}"
                raise operation.argument_error(k, f"expected an extent, {found}", "give an integer")
            given[k] = given[k].item()
    shapes = operation.shapes(given)
    for k in operation.sizes:
        if not isinstance(shapes[k][-1], int):
            shapes[k] = (-1,)
    return [tuple(shape) for shape in shapes]


def infer_shapes(operation: Operation, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The shapes of the visible results for operands of ``shapes``, where -1 is an unknown extent.

    Raises:
        KernelArgumentError: An operand has another number of dimensions than the kernel declares,
            or is too small for the launch.
    """
    for index, (operand, shape) in enumerate(zip(operation.operands, shapes, strict=True)):
        wanted = operand.type.ndim if isinstance(operand.type, ArrayType) else int(operand.is_size)
        if len(shape) != wanted:
            what = array_text(operand.type) if wanted else f"one {operand.type}"  # pyright: ignore
            raise operation.argument_error(
                index,
                f"expected {what}, found shape {shape}",
                "reshape it, or annotate the parameter as it is",
            )
    if all(extent >= 0 for shape in shapes for extent in shape):
        operation.check_extents(shapes)
    return [evaluate(result.shape, shapes) for result in operation.outputs]


def declared_number(operation: Operation, operand: int, given: Any) -> Any:
    """The NumPy scalar that a launch makes of ``given``, a number or an array without dimensions.

    Raises:
        KernelArgumentError: The type of ``operand`` does not hold it.
    """
    type_ = element_type(operation.operands[operand].type)
    number = given[()] if isinstance(given, np.ndarray) and given.ndim == 0 else given
    # Launches take integers for bools, as C does.
    if type_.kind == "bool" and isinstance(number, int | np.integer):
        number = bool(number)
    try:
        return take_scalar(type_, number)
    except KernelTypeError as error:
        raise operation.argument_error(operand, error.message, error.remedy) from None


def check_values(operation: Operation, values: Sequence[Any]) -> None:
    """Refuse values of a static program that do not fit ``operation``.

    Raises:
        KernelArgumentError: A value has another dtype or number of dimensions than the kernel
            declares, is too small for the launch, or does not belong to the program.
    """
    for index, (operand, value) in enumerate(zip(operation.operands, values, strict=True)):
        if isinstance(value, paddle.Tensor):
            raise operation.argument_error(
                index,
                "expected a value of the program, found a tensor of dygraph mode",
                "pass it to the program as an argument, or register it as a buffer of the layer",
            )
        if operand.is_size and not isinstance(value, np.generic):
            is_extent = not len(value.shape) and value.dtype in _EXTENTS
            if not is_extent:
                found = f"{value.dtype} of shape {tuple(value.shape)}".removeprefix("paddle.")
                raise operation.argument_error(
                    index, f"expected an extent, found {found}", "give an int32 without dimensions"
                )
        # Other numbers are converted when the program runs.
        if not isinstance(operand.type, ArrayType):
            continue
        wanted = dtype_to_paddle(element_type(operand.type))
        if value.dtype != wanted:
            wanted, found = (str(dtype).removeprefix("paddle.") for dtype in (wanted, value.dtype))
            raise operation.argument_error(
                index,
                f"expected {array_text(operand.type)}, found {found}",
                f"convert it with .astype('{wanted}')",
            )
    infer_shapes(operation, operand_shapes(operation, values))


def _as_declared(given: Any, declared: Any) -> Any:
    """``given`` as launches take it: signed integers stand for the unsigned that Paddle lacks."""
    is_tensor = isinstance(declared, ArrayType) and isinstance(given, paddle.Tensor)
    if not is_tensor or declared.dtype not in SIGNED:
        return given
    if given.dtype != dtype_to_paddle(declared.dtype):
        return given  # refused by the launch
    return ArrayMemory(given).as_scalar(declared.dtype.index)
