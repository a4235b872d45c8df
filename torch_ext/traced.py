"""What a call of torch_op is to torch.compile and torch.export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from kernelcore.opspec import Operation
from kernelcore.types import Scalar
from torch_ext.check import int_limit, number_error
from torch_ext.derivation import root_name
from torch_ext.dtype import dtype_to_torch, tensor_from_number
from torch_ext.operator import NAMESPACE, TorchOperator, root_operation, root_operator

# What NumPy scalars are converted to, without knowing their value: never a smaller integer.
_SMALL_INTS = (torch.uint8, torch.int8, torch.int16, torch.int32)
_INTS = (*_SMALL_INTS, torch.int64)
_REALS = (*_INTS, torch.float16, torch.float32, torch.float64)
_SOURCES: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bool: (),
    torch.int32: _SMALL_INTS,
    torch.int64: _INTS,
    torch.float32: _REALS,
    torch.float64: _REALS,
}
_NUMBERS: dict[str, tuple[type, ...]] = {
    "bool": (bool, torch.SymBool),
    "int": (int, torch.SymInt),
    "float": (float, int, torch.SymFloat, torch.SymInt),
}


class Forms(NamedTuple):
    """The operators of one operation: scalars are numbers to one, tensors to the other."""

    numbers: TorchOperator
    tensors: TorchOperator

    @staticmethod
    def of(operation: Operation, qualname: str | None = None) -> Forms:
        """The operators called ``qualname``, by default as their content is."""
        numbers = root_operator(operation, False, qualname)
        if not any(isinstance(o.type, Scalar) for o in operation.operands):
            return Forms(numbers, numbers)
        return Forms(numbers, root_operator(operation, True, qualname))


def traceable(operation: Operation, *, exported: Forms, compiled: Forms) -> Callable[..., Any]:
    """Any call, in Python that torch.compile can follow; the fake kernel checks tensors.

    Args:
        operation: What is called.
        exported: The operators that exported programs name.
        compiled: Those that other graphs name. Caches know operators by name only, so these names
            must tell the content.
    """
    names = tuple(o.name for o in operation.operands)
    scalar = {
        i: _scalar_rule(root_name(operation), i, o.type)
        for i, o in enumerate(operation.operands)
        if isinstance(o.type, Scalar)
    }
    # Operators alone: torch.compile sets a guard on everything that it reads here.
    in_export, in_compile = ((f.numbers.public, f.tensors.public) for f in (exported, compiled))
    is_exporting = torch.compiler.is_exporting

    def call(*args: Any, **kwargs: Any) -> Any:
        numbers, tensors = in_export if is_exporting() else in_compile
        rest = names[len(args) :]
        if len(args) + len(kwargs) != len(names) or not all(n in kwargs for n in rest):
            return numbers(*args, **kwargs)  # Torch says what is wrong.
        given = [*args, *(kwargs[n] for n in rest)]
        given = [scalar[i](a, False) if i in scalar else a for i, a in enumerate(given)]
        if not any(isinstance(given[i], torch.Tensor) for i in scalar):
            return numbers(*given)
        return tensors(*(scalar[i](a, True) if i in scalar else a for i, a in enumerate(given)))

    return call


def _scalar_rule(root: str, index: int, type_: Scalar) -> Callable[[Any, bool], Any]:
    """What makes of an argument for scalar ``index`` a number or a tensor, or only a tensor."""
    dtype, kind = dtype_to_torch(type_), type_.kind
    sources, numbers = _SOURCES[dtype], _NUMBERS[kind]
    limit = int_limit(type_)

    def convert(arg: Any, to_tensor: bool) -> Any:
        if isinstance(arg, torch.Tensor):
            return arg
        if isinstance(arg, (np.ndarray, np.generic)):  # To torch.compile, both are one.
            tensor = torch.as_tensor(arg)
            if tensor.dtype not in sources:
                _refuse(root, index, f"a NumPy value of {tensor.dtype}")
            return tensor.to(dtype)
        if not isinstance(arg, numbers):
            _refuse(root, index, f"{arg!r} of {type(arg)}")
        if not to_tensor:
            return arg  # The fake kernel and native code check the range.
        if kind == "int" and not -limit <= arg < limit:
            _refuse(root, index, f"{arg}")
        return tensor_from_number(arg, dtype)

    return convert


def _raise_number_error(root: str, operand: int, found: str) -> None:
    raise number_error(root_operation(root), operand, found)


# An operator, since torch.compile cannot follow Python that makes an error of ours.
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_library.define("refuse_number(str root, int operand, str found) -> ()")
_library.impl("refuse_number", _raise_number_error, "CompositeExplicitAutograd")
torch.library.register_fake(f"{NAMESPACE}::refuse_number", _raise_number_error, lib=_library)
_refuse = torch.ops.kernelcore.refuse_number.default
