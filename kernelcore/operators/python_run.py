"""Operations in Python mode: the kernel runs as plain Python over NumPy arrays."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelcore.base.config import config
from kernelcore.base.lazy import Deferred
from kernelcore.compiler.launch_descriptor import Binding, Role
from kernelcore.language.types import ArrayOf, ArrayType, Dense, Scalar, SourceType, StructType
from kernelcore.operators.array_text import array_text
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.runtime.array.element_layout import as_numpy

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
    args = [_argument(p.type, rest) for p in kernel.parameters if p.type is not None]
    python_run.run(kernel, evaluate(operation.grid, shapes), args)
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


def _argument(type_: SourceType, leaves: Iterator[Any]) -> Any:
    """The argument of a parameter of ``type_``, of the next of ``leaves``."""
    match type_:
        case ArrayOf(element=StructType() as element):
            return _columns(element, leaves)
        case StructType(fields=fields):
            return {name: _argument(member, leaves) for name, member in fields}
        case Dense():
            return np.array(next(leaves)).reshape(type_.extents)
        case Scalar():
            found = next(leaves)
            return type_(found[()] if isinstance(found, np.ndarray) else found)
        case _:
            return next(leaves)


def _columns(type_: StructType, leaves: Iterator[Any]) -> dict[str, Any]:
    """An array of structs as an array per field, those of nested structs in mappings."""
    return {
        name: _columns(member, leaves) if isinstance(member, StructType) else next(leaves)
        for name, member in type_.fields
    }
