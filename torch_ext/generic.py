"""Operators of generic kernels: one per combination of types that calls give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch

from kernelcore import Kernel, types
from kernelcore.operators import Arguments, ArrayOf, Scalar, Spec
from torch_ext.call import recorded
from torch_ext.dtype import dtype_from_torch


class Sample(NamedTuple):
    """The part of a tensor that determines the type of its parameter.

    Attributes:
        dtype: Its dtype.
        shape: Its shape, with 0 for extents other than those of components.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]


class SampleValue(NamedTuple):
    """The type that a tensor without dimensions, or an extent, gives a scalar.

    Attributes:
        argument_type: Its type, under the name by which kernelcore asks for it.
    """

    argument_type: Scalar


def generic_operator(
    kernel: Kernel, spec: Spec, specialise: Callable[[Kernel], Callable[..., Any]]
) -> tuple[Callable[..., Any], Callable[..., Any], Arguments]:
    """A generic kernel for graphs and for eager calls, and its arguments.

    Args:
        kernel: A generic kernel.
        spec: Its contract, which names the outputs.
        specialise: Makes an operator of a kernel that is not generic.
    """
    given = [p for p in kernel.parameters if p.name not in (spec.outputs or ())]
    open_ = [(i, p.name, _outer(p.wanted)) for i, p in enumerate(given) if p.type is None]
    names = (*(p.name for p in given), *spec.sizes)
    arguments = Arguments.of_names(kernel.name, kernel.parameters[0].loc, names, spec.defaults)
    operators: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def run(*args: Any) -> Any:
        if torch._C._is_any_autocast_enabled():
            args = _widened(args, [i for i, _, _ in open_])
        samples = tuple(_sample(args[i], outer) for i, _, outer in open_)
        key = tuple(s if isinstance(s, Sample | SampleValue) else type(s) for s in samples)
        found = operators.get(key)
        if found is None:
            given = {name: s for (_, name, _), s in zip(open_, samples, strict=True)}
            found = operators[key] = specialise(kernel.for_inputs(given))
        return found(*args)

    def entry(*args: Any, **kwargs: Any) -> Any:
        return run(*arguments.bind(args, kwargs))

    return recorded(run, arguments), entry, arguments


def _widened(args: Sequence[Any], positions: Sequence[int]) -> tuple[Any, ...]:
    """``args``, with floats at ``positions`` of one dtype, as autocast has operands of its own.

    Float64 stays as it is: autocast casts none.
    """
    found = {
        k: args[k]
        for k in positions
        if isinstance(args[k], torch.Tensor)
        and args[k].is_floating_point()
        and args[k].dtype != torch.float64
    }
    dtypes = {tensor.dtype for tensor in found.values()}
    if len(dtypes) < 2:
        return tuple(args)
    widest = reduce(torch.promote_types, dtypes)
    return tuple(arg.to(widest) if k in found else arg for k, arg in enumerate(args))


def _outer(wanted: Any) -> int | None:
    """Dimensions without those of components; None for a composite value.

    Of an array of any rank it is minus the number of dimensions of components.
    """
    if not isinstance(wanted, ArrayOf):
        return None
    return -len(getattr(wanted.element, "shape", ())) if wanted.is_flat else wanted.ndim


def _sample(arg: Any, outer: int | None) -> Any:
    if isinstance(arg, torch.SymInt | torch.SymFloat):
        return SampleValue(types.int32 if isinstance(arg, torch.SymInt) else types.float32)
    if not isinstance(arg, torch.Tensor):
        return arg
    if arg.ndim == 0 and outer is None:
        return SampleValue(dtype_from_torch(arg.dtype))
    # Extents of components alone are read: reading others would fix them in compiled graphs.
    if outer is not None and outer <= 0:
        return Sample(arg.dtype, (0, *(int(n) for n in arg.shape[arg.ndim + outer :])))
    known = arg.ndim if outer is None else min(outer, arg.ndim)
    return Sample(arg.dtype, (0,) * known + tuple(int(n) for n in arg.shape[known:]))
