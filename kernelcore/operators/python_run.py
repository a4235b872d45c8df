"""Operations in Python mode: the kernel runs as plain Python over NumPy arrays."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelcore.base.config import config
from kernelcore.base.lazy import Deferred
from kernelcore.compiler.launch_descriptor import Binding, Role
from kernelcore.language.composite import value_class
from kernelcore.language.types import ArrayOf, ArrayType, Dense, Scalar, SourceType, StructType
from kernelcore.operators.array_text import array_text
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.runtime.array.element_layout import as_numpy
from kernelcore.runtime.structs import struct_class

if TYPE_CHECKING:
    from kernelcore.launch.python_mode import run as python_run
else:
    python_run = Deferred("kernelcore.launch.python_mode.run")


def runs_in_python(operation: Operation) -> bool:
    """Whether calls of ``operation`` on arrays of the CPU run Python.

    Derivatives, batches and kernels over indexed arrays are compiled in every mode.
    """
    kernel = operation.kernel
    return (
        config.mode == "python"
        and kernel is not None
        and not any(isinstance(p.type, ArrayOf) and p.type.is_indexed for p in kernel.parameters)
    )


def warn_of_compiled(name: str, where: str, remedy: str) -> None:
    """Tell a user of Python mode that ``name`` runs compiled code in ``where``."""
    if config.mode == "python":
        text = f"{name}(): config.mode is 'python', but {where} runs compiled code"
        warnings.warn(f"{text}: {remedy} to step through the kernel", stacklevel=2)


def run_in_python(operation: Operation, operands: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The visible results of ``operation``, for which ``runs_in_python`` holds, as new arrays.

    Args:
        operation: What to run.
        operands: One array in CPU memory, or number, per operand.

    Raises:
        KernelArgumentError: An operand does not fit the kernel; nothing was run.
        KernelError: What Python finds in the kernel.
    """
    kernel = operation.kernel
    assert kernel is not None
    given = [_checked(operation, k, a) for k, a in enumerate(operands)]
    shapes = operation.shapes(given)
    operation.check_extents(shapes)
    bound = zip(operation.func.params, operation.bindings, strict=True)
    leaves = [_leaf(operation, p.type, b, given, shapes) for p, b in bound]
    rest = iter(leaves)
    structured: list[tuple[Any, list[Any]]] = []
    args = [_argument(p.type, rest, structured) for p in kernel.parameters if p.type is not None]
    python_run.run(kernel, evaluate(operation.grid, shapes), args)
    for array, parts in structured:
        for part, found in zip(parts, _fields(array), strict=True):
            if part.flags.writeable:
                part[...] = found
    return [leaves[operation.param_of_result(j)] for j in range(operation.visible)]


def _checked(operation: Operation, index: int, given: Any) -> Any:
    """An operand as a NumPy array, or a number."""
    type_ = operation.operands[index].type
    if not isinstance(type_, ArrayType):
        # A number may be an array without dimensions.
        return as_numpy(given)[()] if hasattr(given, "shape") else given
    if operation.is_composite(index):
        return operation.composite(index, given)
    found = as_numpy(given)
    if found.ndim != type_.ndim or found.dtype != type_.dtype.numpy:
        text = f"expected {array_text(type_)}, found {found.dtype} of shape {found.shape}"
        raise operation.argument_error(index, text, "convert or reshape it")
    return found


def _leaf(
    operation: Operation,
    type_: Any,
    bound: Binding,
    given: Sequence[Any],
    shapes: Sequence[Sequence[Any]],
) -> Any:
    """What a parameter of the IR is bound to: an operand, or a new array."""
    if bound.role in (Role.INPUT, Role.VALUE):
        return _read_only(given[bound.operand])
    if bound.operand >= 0:
        return given[bound.operand].copy()
    return np.zeros(evaluate(operation.results[bound.result].shape, shapes), type_.dtype.numpy)


def _read_only(operand: Any) -> Any:
    if not isinstance(operand, np.ndarray):
        return operand
    view = cast("Any", operand).view()
    view.flags.writeable = False
    return view


def _argument(
    type_: SourceType, leaves: Iterator[Any], structured: list[tuple[Any, list[Any]]]
) -> Any:
    """The argument of a parameter of ``type_``, of the next of ``leaves``.

    Arrays of structs are copies; they are appended to ``structured`` with the arrays they copy.
    """
    match type_:
        case ArrayOf(element=StructType() as element):
            parts = [next(leaves) for _ in _leaf_fields(element)]
            ndim = type_.ndim
            array = np.empty(parts[0].shape[:ndim], struct_class(element).numpy_dtype())
            for part, field in zip(parts, _fields(array), strict=True):
                field[...] = part
            structured.append((array, parts))
            return array
        case StructType(fields=fields):
            values = {name: _argument(member, leaves, structured) for name, member in fields}
            return struct_class(type_).of_fields(values)
        case Dense():
            data = np.array(next(leaves)).reshape(type_.extents)
            return value_class(type_)._of(data)  # pyright: ignore[reportPrivateUsage]
        case Scalar():
            found = next(leaves)
            return type_(found[()] if isinstance(found, np.ndarray) else found)
        case _:
            return next(leaves)


def _leaf_fields(type_: StructType) -> Iterator[str]:
    for name, member in type_.fields:
        if isinstance(member, StructType):
            yield from _leaf_fields(member)
        else:
            yield name


def _fields(array: Any) -> Iterator[Any]:
    """The arrays of the fields of a structured array, those of nested structs in their place."""
    for name in array.dtype.names:
        field = array[name]
        if field.dtype.names is None:
            yield field
        else:
            yield from _fields(field)
