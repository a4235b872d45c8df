"""Operators below torch.vmap: the rule for the dispatcher, and eager calls past it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import _C
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue]
from torch._ops import OpOverload

from torch_ext.check import PLAIN_TENSORS
from torch_ext.operator import TorchOperator

_BATCHED = _C.DispatchKeySet(_C.DispatchKey.FuncTorchBatched)
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

    Args:
        operator: What is called.
        args: Its arguments; autocast changes none of them.

    Returns:
        The results; ``NotImplemented`` where the dispatcher has to take the call: the innermost
        transform is another one, a mode is active, or a tensor has a class of its own.

    Raises:
        KernelArgumentError: A tensor is wrong; torch may raise another error for it.
    """
    interpreter = _functorch.peek_interpreter_stack()
    if interpreter is None or interpreter.key() != _functorch.TransformType.Vmap:
        return NotImplemented
    if _C._len_torch_function_stack() or _C._len_torch_dispatch_stack():
        return NotImplemented
    level = interpreter.level()
    given, in_dims = _unwrapped(args, level)
    for each in given:
        if isinstance(each, torch.Tensor) and type(each) not in PLAIN_TENSORS:
            return NotImplemented
    if all(d is None for d in in_dims):
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
    given, in_dims = [], []
    for arg in args:
        is_tensor = isinstance(arg, torch.Tensor)
        value, dim = _functorch._unwrap_batched(arg, level) if is_tensor else (arg, None)
        given.append(value)
        in_dims.append(dim)
    return given, in_dims


def _wrapped(found: Any, level: int) -> Any:
    """Results that have the batch in front, as the transform of that level has them."""
    if isinstance(found, torch.Tensor):
        return _functorch._add_batch_dim(found, 0, level)
    return tuple(_functorch._add_batch_dim(f, 0, level) for f in found)
