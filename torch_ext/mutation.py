"""Operators that update tensors in place: the pure operator, and copies of what it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue]

from kernelcore.base.errors import KernelArgumentError
from kernelcore.operators import Arguments, ElementPlaces, Operation, require_apart, shared_elements
from torch_ext.check import argument_error


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
    named = {operation.operands[i].name: i for i in updated}

    def refuse(name: str, expected: str, found: str, remedy: str) -> KernelArgumentError:
        return argument_error(operation, named[name], expected, found, remedy)

    places = [(name, _places(given[i])) for name, i in named.items()]
    require_apart([(name, found) for name, found in places if found is not None], refuse)


def _requires_grad(arg: Any) -> bool:
    return isinstance(arg, torch.Tensor) and arg.requires_grad


def repeats_elements(tensor: Any) -> bool:
    """Whether two indices reach one element; torch knows expanded axes only."""
    places = _places(tensor)
    return places is not None and shared_elements.repeats_elements(places)


def share_elements(first: Any, second: Any) -> bool:
    """Whether two tensors with memory have an element in common."""
    one, other = _places(first), _places(second)
    return one is not None and other is not None and shared_elements.share_elements(one, other)


def _places(tensor: Any) -> ElementPlaces | None:
    """Where the elements of a tensor with strides are; those of symbols are not known.

    Of a tensor in a batch they are those of the whole batch.
    """
    while isinstance(tensor, torch.Tensor) and _functorch.is_batchedtensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return None
    shape, strides, size = tuple(tensor.shape), tensor.stride(), tensor.element_size()
    if not all(isinstance(number, int) for number in (*shape, *strides)):
        return None
    address = tensor.data_ptr() if _has_memory(tensor) else None
    return ElementPlaces(address, shape, tuple(s * size for s in strides), size)


def _has_memory(tensor: Any) -> bool:
    # Subclasses that dispatch calls may have memory elsewhere, or none.
    plain: Any = torch.Tensor
    if type(tensor).__torch_dispatch__ is not plain.__torch_dispatch__ or tensor.is_meta:
        return False
    # Transformations and modes trace tensors that look plain.
    tracing = torch._C._len_torch_dispatch_stack(), torch._C._are_functorch_transforms_active()
    return not any(tracing)
