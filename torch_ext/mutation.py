"""Operators that update tensors in place: the pure operator, and copies of what it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelcore.errors import KernelArgumentError
from kernelcore.opspec import Operation
from torch_ext.arguments import Arguments
from torch_ext.check import argument_error

# What torch._debug_has_internal_overlap answers where elements certainly share memory.
_OVERLAPS = 1


def mutating(
    op: Callable[..., Any], operation: Operation, arguments: Arguments, mutates: Sequence[str]
) -> Callable[..., Any]:
    """``op``, whose results for the operands ``mutates`` are written to them and not returned.

    Autograd, functionalization and batches see copies, which compiled graphs do in place.

    Raises:
        KernelArgumentError: One of ``mutates`` is no in-out array.
    """
    made = {b.operand: b.result for b in operation.bindings if b.operand >= 0 and b.result >= 0}
    operands = {o.name: i for i, o in enumerate(operation.operands) if i in made}
    for name in mutates:
        if name not in operands:
            known = ", ".join(operands) or "none"
            raise KernelArgumentError(
                f"{operation.func.name}: mutates: '{name}' is no array that is both read and "
                f"written, or in in_out; these are: {known}",
                operation.func.loc,
                "name it in in_out as well where the kernel only writes it",
            )
    updated = [(operands[name], made[operands[name]]) for name in mutates]
    gone = {result for _, result in updated}
    kept = [j for j in range(operation.visible) if j not in gone]
    is_single = operation.visible == 1
    flat = arguments.flattened()
    is_compiling = torch.compiler.is_compiling

    def call(*args: Any, **kwargs: Any) -> Any:
        given = flat(args, kwargs)
        if given is None:
            return op(*args, **kwargs)  # It says what is wrong.
        if not is_compiling():
            _check_memory(operation, given, [i for i, _ in updated])
        pure = list(given)
        if torch.is_grad_enabled() and any(_requires_grad(a) for a in given):
            for i, _ in updated:  # Backward may need what is overwritten here.
                pure[i] = given[i].clone()
        found = op(*pure)
        found = (found,) if is_single else found
        for i, j in updated:
            given[i].copy_(found[j])
        if not kept:
            return None
        return found[kept[0]] if len(kept) == 1 else tuple(found[j] for j in kept)

    return call


def _check_memory(operation: Operation, given: Sequence[Any], updated: Sequence[int]) -> None:
    for i in updated:
        if isinstance(given[i], torch.Tensor) and _overlaps_itself(given[i]):
            raise argument_error(
                operation,
                i,
                "a tensor to be written",
                "one of which several elements share memory",
                "give a clone: .clone() or .contiguous()",
            )


def _requires_grad(arg: Any) -> bool:
    return isinstance(arg, torch.Tensor) and arg.requires_grad


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    found: Any = getattr(torch, "_debug_has_internal_overlap")(tensor)  # noqa: B009
    return bool(found == _OVERLAPS)
