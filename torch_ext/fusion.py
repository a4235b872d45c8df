"""Elementwise operators in the graphs of Inductor: a decomposition in torch's own operations.

Inductor decomposes below autograd, so that derivatives are decomposed adjoints. All other backends,
exported programs and eager calls keep the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch.fx.experimental import proxy_tensor

from kernelcore.operators import (
    SCALARS,
    Arithmetic,
    Fuse,
    Operation,
    Scalar,
    computed,
    fits,
    is_fused,
    require_fusable,
)
from torch_ext.check import leading_tensor
from torch_ext.derivation import NAMESPACE
from torch_ext.dtype import dtype_to_torch

# Torch has no arithmetic of the wider unsigned integers.
_DTYPES = frozenset(s for s in SCALARS if s.kind != "uint" or s.bits == 8)
# C++ that Inductor makes for CPUs contracts nothing and keeps denormals; Triton contracts. Its
# elementary functions take as long as a launch, and a gradient with them reads memory once. It
# writes components one after the other (docs/decisions/201).
_ON_CPU = Arithmetic(_DTYPES, elementary=True, components=False)
_ON_GPU = Arithmetic(_DTYPES, rounds_once=False, components=False)

# An operator that no graph has: traces with a table of decompositions that has it are for Inductor.
# Operators themselves cannot be entered. Those of derivatives are made while a trace has a copy of
# the table, and what is entered must not stay in a graph, as calls with other shapes do.
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_library.define("decomposed() -> ()")
_MARK = torch.ops.kernelcore.decomposed.default


def require_arithmetic(operation: Operation, fuse: Fuse) -> None:
    """Refuse an operation that is to be fused and that torch cannot compute.

    Raises:
        KernelArgumentError: Naming the line and the reason.
    """
    require_fusable(operation, fuse, _ON_CPU)


def mark_table() -> None:
    """Let Inductor decompose; it takes seconds to import, so that only captures do it."""
    module = import_module("torch._inductor.decomposition")
    for table in (module.decompositions, module.fast_random_decomps()):
        table[_MARK] = _never


def _never() -> None:
    raise AssertionError("no graph has the operator")


def add_rule(
    qualname: str, operation: Operation, fuse: Fuse, library: torch.library.Library
) -> None:
    """Let traces for Inductor decompose ``qualname``, the operator of ``operation``."""
    if not (is_fused(operation, fuse, _ON_CPU) or is_fused(operation, fuse, _ON_GPU)):
        return

    def rule(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _MARK in _table(mode):
            with mode:
                found = _decomposed(operation, fuse, args)
            if found is not NotImplemented:
                return found
        return mode.__torch_dispatch__(func, types, args, kwargs)

    torch.library.register_torch_dispatch(
        qualname, proxy_tensor.ProxyTorchDispatchMode, rule, lib=library
    )


def _table(mode: Any) -> Any:
    """The decompositions of a trace; older versions of torch have one for all traces."""
    found = getattr(mode, "decomposition_table", None)
    return proxy_tensor.CURRENT_DECOMPOSITION_TABLE if found is None else found  # pyright: ignore


def _decomposed(operation: Operation, fuse: Fuse, args: Sequence[Any]) -> Any:
    """The results of a call, or NotImplemented where the operator is to be kept."""
    tensor = leading_tensor(args)
    place = torch.device("cpu") if tensor is None else tensor.device
    if not is_fused(operation, fuse, _ON_CPU if place.type == "cpu" else _ON_GPU):
        return NotImplemented
    if not fits(operation, args):
        return NotImplemented
    found = computed(operation, _Functions(place), args)
    return found[0] if len(found) == 1 else tuple(found)


def _comparison(compare: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def method(self: _Functions, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return compare(x, self.numbers.get(y, y))

    return method


class _Functions:
    """Functions of the Python array API on tensors of one device.

    Attributes:
        numbers: The values of tensors that are literals. Comparisons take those: Inductor takes a
            comparison with a tensor for a reduction, since the truth values are a bit less than a
            fourth of both operands, and keeps them for the backward in place of the operands.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.numbers: dict[torch.Tensor, float] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(torch, name)

    less = _comparison(torch.lt)
    less_equal = _comparison(torch.le)
    greater = _comparison(torch.gt)
    greater_equal = _comparison(torch.ge)
    equal = _comparison(torch.eq)
    not_equal = _comparison(torch.ne)
    bitwise_invert = staticmethod(torch.bitwise_not)

    def scalar(self, t: Scalar, value: float) -> torch.Tensor:
        made = self.value(t, value)
        self.numbers[made] = value
        return made

    def value(self, t: Scalar, given: Any) -> torch.Tensor:
        if isinstance(given, torch.Tensor):
            return given
        return torch.full((), given, dtype=dtype_to_torch(t), device=self.device)

    def astype(self, x: torch.Tensor, t: Scalar) -> torch.Tensor:
        return x.to(dtype_to_torch(t))

    def indices(self, count: int) -> torch.Tensor:
        return torch.arange(count, dtype=torch.int32, device=self.device)

    def result(self, x: torch.Tensor, shape: Sequence[Any], is_new: bool) -> torch.Tensor:
        whole = x.expand(tuple(shape))
        if is_new and whole is x:
            return whole.contiguous()
        return whole.clone(memory_format=torch.contiguous_format)
