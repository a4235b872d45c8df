"""Operators that update tensors in place: the pure operator, and copies of what it made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import torch

from kernelcore import Array
from kernelcore.base.errors import KernelArgumentError
from kernelcore.operators import Arguments, Operation
from torch_ext.check import PLAIN_TENSORS, argument_error


def mutating(
    op: Callable[..., Any], operation: Operation, arguments: Arguments, mutates: Sequence[str]
) -> Callable[..., Any]:
    """``op``, whose results for the operands ``mutates`` are written to them and not returned.

    Autograd, functionalization and batches see copies, which compiled graphs do in place.

    Raises:
        KernelArgumentError: One of ``mutates`` is not an in-out array.
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
    """Refuse tensors whose elements would be written twice."""
    for k, i in enumerate(updated):
        if repeats_elements(given[i]):
            raise argument_error(
                operation,
                i,
                "a tensor to be written",
                "one of which several elements share memory",
                "give a clone: .clone() or .contiguous()",
            )
        for other in updated[:k]:
            if share_elements(given[i], given[other]):
                raise argument_error(
                    operation,
                    i,
                    "a tensor to be written",
                    f"one that shares elements with '{operation.operands[other].name}', which is "
                    "written too",
                    "give a clone of one of them",
                )


def _requires_grad(arg: Any) -> bool:
    return isinstance(arg, torch.Tensor) and arg.requires_grad


def repeats_elements(tensor: Any) -> bool:
    """Whether two indices certainly reach one element; torch knows expanded axes only."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return False
    axes = [(s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1]
    if not all(isinstance(number, int) for axis in axes for number in axis):
        return False
    if any(n == 0 for _, n in axes):
        return False
    return any(s == 0 for s, _ in axes) or any(
        t // math.gcd(s, t) < n and s // math.gcd(s, t) < m
        for (s, n), (t, m) in combinations(axes, 2)
    )


def share_elements(first: Any, second: Any) -> bool:
    """Whether two tensors with memory have an element in common."""
    if not all(type(t) in PLAIN_TENSORS for t in (first, second)):
        return False
    if any(t.is_meta for t in (first, second)):
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._are_functorch_transforms_active():
        return False
    return Array.sharing(first.detach()).span.overlaps(Array.sharing(second.detach()).span)
