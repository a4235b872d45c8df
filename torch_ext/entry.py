"""torch_op: a kernel as a torch operator, and what a call of one does."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload, _OpNamespace

from kernelcore.errors import KernelArgumentError
from kernelcore.kernel import Kernel
from kernelcore.opshape import ShapeSpec, kernel_operation
from kernelcore.opspec import Operation
from torch_ext.arguments import Arguments, taken_apart
from torch_ext.arguments import Parameter as Taken
from torch_ext.call import Call, as_function
from torch_ext.derivation import parse_name
from torch_ext.operator import NAMESPACE
from torch_ext.traced import Forms, traceable

# By the callable that torch_op returned; registered operators live as long as the process.
_forms: dict[Callable[..., Any], Forms] = {}

# Namespaces of torch itself, and attributes of any namespace that are no operators.
_TORCHS_NAMESPACES = frozenset({"_", "aten", "prim", "prims"})
_TORCHS_NAMES = frozenset(dir(_OpNamespace)) | frozenset(vars(_OpNamespace(NAMESPACE)))


def torch_op(
    kernel: Kernel,
    name: str | None = None,
    *,
    outputs: Sequence[str] | None = None,
    in_out: Sequence[str] = (),
    launch_dims: ShapeSpec = None,
    output_dims: ShapeSpec | Mapping[str, ShapeSpec] = None,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Make a torch operator of a kernel: a function of tensors without side effects.

    It is registered with torch, so it works eagerly, in ``torch.compile`` and ``torch.export``,
    under autograd to any order, and under the transforms of ``torch.func``. Arrays
    that every thread indexes by its launch index must be as large as the launch; other indices
    are not checked.

    Args:
        kernel: The kernel.
        name: ``name`` or ``namespace::name`` of the operator, to be set where exported programs
            outlive the kernel's text. Default: made of the kernel's name and content.
        outputs: Parameters that are results. Default: the arrays that it writes and never loads.
        in_out: Parameters that are operands, and results that start as copies of them. Default,
            where ``outputs`` is not given: the other arrays that it writes.
        launch_dims: The launch shape: a number, the name of an operand ('x', its shape), or a
            tuple of numbers and extents ('x.shape[0]'). Default: that of the first array operand.
            The components of elements are no part of it.
        output_dims: Likewise the shape of every output, or a mapping by name; components may be
            left out. Default: the launch shape.
        defaults: Values of parameters that calls may leave out, by name.

    Returns:
        A function of the kernel's parameters without ``outputs``, by position or by name: tensors
        on the CPU of the declared dtype and rank with any strides; for a scalar a number, or a
        tensor of its dtype without dimensions, which can then be differentiated and batched;
        likewise for a vector or a matrix a sequence of numbers, or a tensor of its components. An
        array of such elements is a tensor with the components as last axes. A struct, and an array
        of structs, is a mapping, a tuple of the fields in order, or an object with these as
        attributes; or all fields are given, one after the other, in place of all parameters. The
        function returns a new contiguous tensor, or a tuple of them.

    Raises:
        KernelArgumentError: The parameters are not as described, or the name is taken.
    """
    operation = kernel_operation(kernel, outputs, in_out, launch_dims, output_dims)
    arguments = _arguments(kernel, operation, defaults or {})
    qualname = None if name is None else _qualified(name, operation)
    call = Call(operation, arguments, qualname)
    traced = traceable(operation, arguments, exported=call.forms, compiled=Forms.of(operation))
    op = as_function(kernel.pyfunc, arguments, traced, call.entry())
    _forms[op] = call.forms
    return op


def _arguments(kernel: Kernel, operation: Operation, defaults: Mapping[str, Any]) -> Arguments:
    operands = [o.name for o in operation.operands]
    made: list[Taken] = []
    for parameter in kernel.parameters:
        assert parameter.type is not None
        taken = taken_apart(parameter.name, parameter.type, operands)
        if taken is not None:
            made.append(taken)
    title = (kernel.name, operation.func.loc)
    return Arguments(title, made, operation.argument_names, defaults)


def overload(op: Callable[..., Any]) -> OpOverload:
    """The registered operator behind a function that ``torch_op`` returned.

    Its scalar parameters are numbers. In what is to be compiled, call the function instead: caches
    of torch.compile know operators by name, and a name that was given does not tell the content.
    """
    return _forms[op].numbers.public


def forms(op: Callable[..., Any]) -> Forms:
    """The registered operators behind a function that ``torch_op`` returned."""
    found = _forms.get(op)
    if found is None:
        raise KernelArgumentError(
            f"expected an operator, found {op!r}", remedy="give what torch_op returned"
        )
    return found


def _qualified(name: object, operation: Operation) -> str:
    parts = name.split("::") if isinstance(name, str) else []
    if not 1 <= len(parts) <= 2 or not all(
        part.isascii() and part.isidentifier() and not keyword.iskeyword(part) for part in parts
    ):
        raise KernelArgumentError(
            f"torch_op: expected a name such as 'op' or 'namespace::op', found {name!r}",
            operation.func.loc,
            "use ASCII letters, digits and underscores, and no keyword",
        )
    namespace, op = parts if len(parts) == 2 else (NAMESPACE, parts[0])
    if (
        namespace in _TORCHS_NAMESPACES
        or not isinstance(getattr(torch.ops, namespace), _OpNamespace)
        or op in _TORCHS_NAMES
        or parse_name(op) is not None
    ):
        raise KernelArgumentError(
            f"torch_op: the name '{name}' is reserved",
            operation.func.loc,
            "use a namespace of your own, for example 'mylib::op'",
        )
    return f"{namespace}::{op}"
