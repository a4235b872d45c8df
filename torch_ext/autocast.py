"""Autocast: an operator gets the dtypes that its kernel declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import _C

from kernelcore.operators import element_type
from torch_ext.check import check_arguments
from torch_ext.dtype import dtype_to_torch
from torch_ext.operator import TorchOperator

DISPATCH_KEYS = ("AutocastCPU", "AutocastCUDA")
_REDUCED = (torch.float16, torch.bfloat16)
_WIDE = (torch.float32, torch.float64)


def autocast_kernel(operator: TorchOperator, key: str) -> Callable[..., Any]:
    """The kernel for autocast key ``key``: converts float16 and bfloat16 to the declared dtype."""
    operation = operator.operation
    wanted: list[torch.dtype | None] = []
    for operand in operation.operands:
        dtype = dtype_to_torch(element_type(operand.type))
        wanted.append(dtype if dtype in _WIDE else None)
    excluded = _C.DispatchKeySet(getattr(_C.DispatchKey, key))

    def kernel(keyset: Any, *args: Any) -> Any:
        with _C._ExcludeDispatchKeyGuard(excluded):
            cast = [
                arg.to(dtype)
                if dtype is not None and isinstance(arg, torch.Tensor) and arg.dtype in _REDUCED
                else arg
                for arg, dtype in zip(args, wanted, strict=True)
            ]
            check_arguments(operation, operator.tensor_values, cast)
            return operator.public(*cast)

    return kernel
