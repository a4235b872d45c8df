"""torch_op: a kernel as a torch operator, and what a call of one does."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

import torch
from torch._ops import OpOverload, _OpNamespace

from kernelcore.errors import KernelArgumentError
from kernelcore.kernel import Kernel
from kernelcore.opshape import ShapeSpec, kernel_operation
from kernelcore.opspec import Operation
from kernelcore.types import Scalar, element_type, uint64
from torch_ext import native
from torch_ext.check import check_arguments, check_number
from torch_ext.derivation import parse_name
from torch_ext.dtype import dtype_to_torch, is_wide, tensor_from_array, tensor_from_number
from torch_ext.operator import NAMESPACE, TorchOperator
from torch_ext.traced import Forms, traceable

# By the callable that torch_op returned; registered operators live as long as the process.
_public: dict[Callable[..., Any], OpOverload] = {}

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

    Returns:
        A function of the kernel's parameters without ``outputs``, by position or by name: tensors
        on the CPU of the declared dtype and rank with any strides; for a scalar a number, or a
        tensor of its dtype without dimensions, which can then be differentiated and batched;
        likewise for a vector or a matrix a sequence of numbers, or a tensor of its components. An
        array of such elements is a tensor with the components as last axes. It returns a new
        contiguous tensor, or a tuple of them.

    Raises:
        KernelArgumentError: The parameters are not as described, or the name is taken.
    """
    operation = kernel_operation(kernel, outputs, in_out, launch_dims, output_dims)
    call = _Call(operation, None if name is None else _qualified(name, operation))
    traced = traceable(operation, exported=call.forms, compiled=Forms.of(operation))
    entry = native.fast_entry(
        call.numbers.native, kernel.name, kernel.__doc__ or "", call.differentiated, call.checked
    )
    is_compiling = torch.compiler.is_compiling

    def op(*args: Any, **kwargs: Any) -> Any:
        # torch.compile follows Python only; the rest of the world need not pay for it.
        return traced(*args, **kwargs) if is_compiling() else entry(*args, **kwargs)

    op.__name__ = op.__qualname__ = kernel.name
    op.__module__ = kernel.pyfunc.__module__
    op.__doc__ = kernel.__doc__
    op.__signature__ = Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in call.names]
    )
    _public[op] = call.numbers.public
    return op


def overload(op: Callable[..., Any]) -> OpOverload:
    """The registered operator behind a function that ``torch_op`` returned.

    Its scalar parameters are numbers. In what is to be compiled, call the function instead: caches
    of torch.compile know operators by name, and a name that was given does not tell the content.
    """
    return _public[op]


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


class _Call:
    """Calls of an operator that native code does not take.

    Scalars are numbers to one operator; where one of them is a tensor, all are tensors to another.
    """

    def __init__(self, operation: Operation, qualname: str | None) -> None:
        self.operation = operation
        self.names = operation.argument_names
        self.values = {
            i: o.type for i, o in enumerate(operation.operands) if isinstance(o.type, Scalar)
        }
        self.composites = {
            i: dtype_to_torch(element_type(o.type))
            for i, o in enumerate(operation.operands)
            if operation.is_composite(i)
        }
        # Operands that may be numbers which torch's schemas do not have.
        self.wide = [i for i, dtype in self.values.items() if dtype == uint64]
        self.forms = Forms.of(operation, qualname)
        self.numbers, self.tensors = self.forms

    def differentiated(self, *args: Any) -> Any:
        """A call on tensors that require grad."""
        if any(is_wide(args[i]) for i in self.wide):
            return self.checked(*args)
        return self.numbers.differentiated(*args)

    def checked(self, *args: Any, **kwargs: Any) -> Any:
        """Any call."""
        given = self.positional(args, kwargs)
        for i, dtype in self.composites.items():
            if not isinstance(given[i], torch.Tensor):
                given[i] = tensor_from_array(self.operation.composite(i, given[i]), dtype)
        if any(isinstance(given[i], torch.Tensor) for i in self.values) or any(
            is_wide(given[i]) for i in self.wide
        ):
            for i, dtype in self.values.items():
                if not isinstance(given[i], torch.Tensor):
                    check_number(self.operation, i, given[i], dtype)
                    given[i] = tensor_from_number(given[i], dtype_to_torch(dtype))
            return self.run(self.tensors, given)
        return self.run(self.numbers, given)

    def run(self, operator: TorchOperator, args: Sequence[Any]) -> Any:
        if not torch._C._is_any_autocast_enabled():  # Else dtypes may change, then are checked.
            check_arguments(self.operation, operator.tensor_values, args)
        return operator.public(*args)

    def positional(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """``args`` and ``kwargs``, one per operand."""
        operation, names = self.operation, self.names
        given = dict(zip(names, args, strict=False))
        wrong = [f"unknown argument '{n}'" for n in kwargs if n not in names]
        wrong += [f"argument '{n}' is given twice" for n in kwargs if n in given]
        wrong += [f"argument '{n}' is missing" for n in names if n not in {**given, **kwargs}]
        if len(args) > len(names):
            wrong.append(f"expected {len(names)} arguments, found {len(args)}")
        if wrong:
            raise KernelArgumentError(
                f"{operation.func.name}(): {wrong[0]}",
                operation.func.loc,
                f"its arguments are {', '.join(names)}",
            )
        given.update(kwargs)
        return [given[n] for n in names]
