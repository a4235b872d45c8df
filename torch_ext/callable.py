"""torch_callable: a Python function that launches kernels, as one function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from kernelcore import ArrayType
from kernelcore.base.errors import KernelArgumentError
from kernelcore.operators import (
    Interface,
    Operation,
    Programs,
    Scalar,
    ShapeSpec,
    Spec,
    as_array,
    checked_keywords,
    declaration,
    interface,
    parse,
)
from torch_ext.call import Call, TorchFunction, as_function, recorded
from torch_ext.check import mismatch
from torch_ext.dtype import dtype_to_torch


@checked_keywords
def torch_callable(
    function: Callable[..., Any],
    *,
    outputs: Sequence[str] | None = None,
    in_out: Sequence[str] = (),
    output_dims: ShapeSpec | Mapping[str, ShapeSpec] = None,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Make a function of tensors of a Python function that launches kernels.

    ``function`` runs with stand-ins for its arguments, and what it launches is kept: later calls
    run the launches only. Temporaries, which it makes with ``kc.zeros`` or ``kc.empty``, come from
    torch's allocator. Each launch is an operator to torch, so the result works wherever those of
    ``torch_op`` do, and autograd keeps what the launches' derivatives need. A number or an extent
    that the function reads, as a loop over ``range(n)`` does, makes it run again for other values.

    Args:
        function: A function that returns nothing, with parameters annotated as those of kernels,
            without generic types.
        outputs: Parameters that are results only. Default: the last one, or none where ``in_out``
            is given.
        in_out: Parameters that are operands, and results that start as copies of them.
        output_dims: The shape of every output, or a mapping by name; see ``torch_op``. Default:
            that of the first array operand, of outputs that launches over it write at their launch
            index; other launches are refused then.
        defaults: Values of parameters that calls may leave out, by name.

    Returns:
        A function of the parameters without ``outputs``; see ``torch_op``.

    Raises:
        KernelArgumentError: The parameters are not as described.
    """
    spec = parse(
        declaration(function),
        outputs=outputs,
        in_out=in_out,
        output_dims=output_dims,
        defaults=defaults,
    )
    return function_operator(function, spec)


def function_operator(function: Callable[..., Any], spec: Spec) -> TorchFunction:
    """What ``torch_callable`` returns, of a function under a contract."""
    declared = interface(function, spec)
    arguments, run = declared.arguments, _Runner(declared).run

    def entry(*args: Any, **kwargs: Any) -> Any:
        return run(*arguments.bind(args, kwargs)) if arguments.is_flat else run(*args)

    op = as_function(function, arguments, recorded(run, arguments), entry)
    op.remake = partial(function_operator, function, spec)
    return op


class _Runner:
    """Runs the programs of a function, a launch after the other."""

    def __init__(self, declared: Interface) -> None:
        self.declared = declared
        self.programs = Programs(declared)
        self.arrays = [
            (i, dtype_to_torch(o.type.dtype), o.type.ndim)
            for i, o in enumerate(declared.operands)
            if isinstance(o.type, ArrayType) and o.type.outer_ndim
        ]
        self.scalars = [i for i, o in enumerate(declared.operands) if isinstance(o.type, Scalar)]
        self.entries: dict[Operation, Callable[..., Any]] = {}

    def run(self, *values: Any) -> Any:
        """The results for one value per operand."""
        for index, dtype, ndim in self.arrays:
            value = values[index]
            if not isinstance(value, torch.Tensor) or value.ndim != ndim or value.dtype != dtype:
                self.refuse(index, value)
        known = values
        if self.scalars:  # The value of a tensor is not known while launches are recorded.
            hidden = [i for i in self.scalars if isinstance(values[i], torch.Tensor)]
            known = [None if i in hidden else v for i, v in enumerate(values)] if hidden else values
        apply = self.apply
        if self.arrays and values[self.arrays[0][0]].is_cuda:
            apply = partial(self.apply_at, values[self.arrays[0][0]].device)
        found = self.programs.of(known).run(values, apply)
        return found[0] if len(found) == 1 else found

    def apply_at(
        self, device: torch.device, operation: Operation, given: Sequence[Any]
    ) -> Sequence[Any]:
        """As ``apply``; results of numbers alone, which no tensor tells a device, are moved."""
        found = self.apply(operation, given)
        if any(isinstance(one, torch.Tensor) for one in given):
            return found
        return tuple(one.to(device) for one in found)

    def apply(self, operation: Operation, given: Sequence[Any]) -> Sequence[Any]:
        """The visible results of ``operation``."""
        entry = self.entries.get(operation)
        if entry is None:
            entry = self.entries[operation] = Call.of(operation).entry()
        found = entry(*given)
        return (found,) if operation.visible == 1 else found

    def refuse(self, index: int, value: Any) -> None:
        """Refuse a value of an operand that is an array, unless autocast may change its dtype."""
        operand = self.declared.operands[index]
        type_ = as_array(operand.type)
        is_tensor = isinstance(value, torch.Tensor)
        if is_tensor and value.ndim == type_.ndim and torch._C._is_any_autocast_enabled():
            return
        text, remedy = mismatch(type_, value)
        raise KernelArgumentError(
            f"{self.declared.name}(): argument '{operand.name}': {text}",
            self.declared.operand_locs[index],
            remedy,
        )
