"""Operators below torch.vmap: the rule for the dispatcher, and eager calls past it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import _C
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue]
from torch._ops import OpOverload

from kernelcore.operators import Scalar
from torch_ext.check import PLAIN_TENSORS, check_number
from torch_ext.operator import TorchOperator

_BATCHED = _C.DispatchKeySet(_C.DispatchKey.FuncTorchBatched)
_NUMBERS = bool, int, float
_public, _entry = attrgetter("public"), attrgetter("entry")


def batch_kernel(operator: TorchOperator, overload: OpOverload) -> Callable[..., Any]:
    """The kernel of the public operator below torch.vmap.

    It is that of ``torch.library.register_vmap`` without the trees of arguments and results.
    """

    def kernel(keyset: Any, *args: Any) -> Any:
        del keyset
        interpreter = _functorch.peek_interpreter_stack()
        level = interpreter.level()
        given, in_dims = _unwrapped(args, level)
        with _C._ExcludeDispatchKeyGuard(_BATCHED):
            if all(d is None for d in in_dims):
                return overload(*given)
            size = _functorch.CVmapInterpreterPtr(interpreter).batchSize()
            found = operator.batch(size, in_dims, given, _public)
        return _wrapped(found, level)

    return kernel


def batched_call(operator: TorchOperator, args: Sequence[Any]) -> Any:
    """A call of ``operator`` with tensors of a batch, past torch's dispatcher.

    Returns:
        The results; ``NotImplemented`` where the dispatcher has to take the call: the innermost
        transform is another one, a mode or autocast is active, or the arguments are no plain
        tensors and numbers of the right types.

    Raises:
        KernelArgumentError: A number has the wrong type or is out of range.
    """
    interpreter = _functorch.peek_interpreter_stack()
    if interpreter is None or interpreter.key() != _functorch.TransformType.Vmap:
        return NotImplemented
    is_watched = _C._len_torch_function_stack() or _C._len_torch_dispatch_stack()
    if is_watched or _C._is_any_autocast_enabled():
        return NotImplemented
    level = interpreter.level()
    given, in_dims = _unwrapped(args, level)
    if all(d is None for d in in_dims) or not _are_plain(operator, given, in_dims):
        return NotImplemented
    size = _functorch.CVmapInterpreterPtr(interpreter).batchSize()
    # As ``temporarily_pop_interpreter_stack`` of torch, without the time of a context manager.
    left = _functorch.pop_dynamic_layer_stack()
    try:
        found = operator.batch(size, in_dims, given, _entry)
    finally:
        _functorch.push_dynamic_layer_stack(left)
    return _wrapped(found, level)


def _unwrapped(args: Sequence[Any], level: int) -> tuple[list[Any], list[int | None]]:
    """``args`` below the transform of that level, and where each has the batch."""
    pairs = [
        _functorch._unwrap_batched(a, level) if isinstance(a, torch.Tensor) else (a, None)
        for a in args
    ]
    return [a for a, _ in pairs], [d for _, d in pairs]


def _wrapped(found: Any, level: int) -> Any:
    """Results that have the batch in front, as the transform of that level has them."""
    if isinstance(found, torch.Tensor):
        return _functorch._add_batch_dim(found, 0, level)
    return tuple(_functorch._add_batch_dim(f, 0, level) for f in found)


def _are_plain(operator: TorchOperator, args: Sequence[Any], in_dims: Sequence[int | None]) -> bool:
    """Whether the arguments are plain tensors on one device and numbers, of the operator's types.

    Numbers are checked: the dispatcher would convert them.
    """
    operation, devices = operator.operation, set[torch.device]()
    wanted = zip(operation.operands, operator.tensor_types, strict=True)
    for k, (operand, type_) in enumerate(wanted):
        arg, dim = args[k], in_dims[k]
        if type_ is None:
            if type(arg) not in _NUMBERS:
                return False
            assert isinstance(operand.type, Scalar)
            check_number(operation, k, arg, operand.type)
            continue
        dtype, rank, components = type_
        is_array = type(arg) in PLAIN_TENSORS and not arg.is_nested and arg.dtype == dtype
        if not is_array or arg.layout is not torch.strided or arg.dim() != rank + (dim is not None):
            return False
        # A batch that is not in front may stand among the components.
        if components and (dim or arg.shape[-len(components) :] != components):
            return False
        devices.add(arg.device)
    return len(devices) == 1
