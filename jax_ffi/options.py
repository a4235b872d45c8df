"""Options of jax_kernel and jax_callable, as the contract of an operator."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, SupportsIndex, cast

import numpy as np
from jax.core import Tracer

from kernelcore.operators import Declaration, Spec, parse

VMAP_METHODS = (
    *("sequential", "sequential_unrolled", "expand_dims", "broadcast_all"),
    "legacy_vectorized",
)

Dims = int | str | Sequence[int | str]
OutputDims = Dims | Mapping[str, Dims]
# The same in hashable form: a parameter whose shape it is, or extents.
FrozenDims = str | tuple[int | str, ...]
FrozenOutputDims = tuple[tuple[str, FrozenDims], ...]


def contract(
    declared: Declaration,
    num_outputs: object,
    in_out_argnames: str | Iterable[str] | None,
    launch_dims: Dims | None = None,
    output_dims: OutputDims | None = None,
    block_dim: int | None = None,
) -> Spec:
    """The contract of what is ``declared``, whose last parameters are the outputs.

    Raises:
        KernelArgumentError: An option does not fit.
    """
    in_out = declared.named("in_out_argnames", in_out_argnames)
    outputs = _last_outputs(declared, num_outputs, in_out)
    spec = parse(declared, outputs=outputs, in_out=in_out, block_dim=block_dim)
    return with_shapes(declared, spec, launch_dims, output_dims)


def with_shapes(declared: Declaration, spec: Spec, launch_dims: Any, output_dims: Any) -> Spec:
    """``spec``, whose outputs are known, with other shapes, in the form in which calls keep them.

    Raises:
        KernelArgumentError: One is not a shape, or is that of no output.
    """
    shapes = output_shapes(declared, spec.outputs or (), output_dims)
    return replace(
        spec,
        launch_dims=frozen(declared, launch_dims),
        output_dims=None if shapes is None else dict(shapes),
    )


def _last_outputs(
    declared: Declaration, num_outputs: object, in_out: tuple[str, ...]
) -> tuple[str, ...]:
    """The parameters that are results only: the last ones that are not in-out."""
    remedy = "give the number of results, in-out arguments included"
    if not isinstance(num_outputs, SupportsIndex):
        raise declared.refuse(f"num_outputs: expected an integer, found {num_outputs!r}", remedy)
    count = operator.index(num_outputs)
    candidates = [n for n in declared.parameters if n not in in_out]
    if count < 1 or not 0 <= count - len(in_out) <= len(candidates):
        text = (
            f"num_outputs: found {count}, with {len(in_out)} in-out arguments "
            f"and {len(declared.parameters)} parameters"
        )
        raise declared.refuse(text, remedy)
    return tuple(candidates[len(candidates) + len(in_out) - count :])


def frozen(declared: Declaration, dims: Dims | None) -> FrozenDims | None:
    """``dims`` in hashable form.

    Raises:
        KernelArgumentError: An entry is neither a number nor text.
    """
    if dims is None or isinstance(dims, str):
        return dims
    found = entries_of(dims)
    if found is not None:
        return found
    parts = dims if isinstance(dims, list | tuple) else (dims,)
    is_traced = any(isinstance(part, Tracer) for part in parts)
    raise declared.refuse(
        "a shape: expected numbers or extents of arguments, "
        f"found {'a value that is traced' if is_traced else repr(dims)}",
        "name an extent that is known at run time only: 'x.shape[0]'",
    )


def output_shapes(
    declared: Declaration, outputs: tuple[str, ...], dims: OutputDims | None
) -> FrozenOutputDims | None:
    """Shapes of ``outputs``, by name, in hashable form.

    Raises:
        KernelArgumentError: ``dims`` names something other than an output, or is not a shape.
    """
    if dims is None:
        return None
    named = dims if isinstance(dims, Mapping) else dict.fromkeys(outputs, dims)
    for name in named:
        if name not in outputs:
            raise declared.refuse(
                f"output_dims: '{name}' is no output",
                f"its outputs are {', '.join(outputs) or 'in-out arguments only'}",
            )
    rows = ((name, frozen(declared, named[name])) for name in outputs if name in named)
    return tuple((name, shape) for name, shape in rows if shape is not None)


def check_vmap_method(declared: Declaration, method: str | None) -> None:
    """Refuse a ``method`` that JAX does not have either.

    Raises:
        KernelArgumentError: It is not one of VMAP_METHODS.
    """
    if method is not None and method not in VMAP_METHODS:
        raise declared.refuse(
            f"vmap_method: expected one of {', '.join(VMAP_METHODS)}, found {method!r}",
            "leave it out: every instance of a batch runs on its own in any case",
        )


def entries_of(spec: object) -> tuple[int | str, ...] | None:
    """The numbers and the text that ``spec``, a number or many, consists of; None if it does not.

    A mapping or a set is not a shape, because its order is arbitrary.
    """
    try:
        # Arrays without dimensions are numbers, and say only when asked that they are not many.
        if isinstance(spec, SupportsIndex) and np.ndim(cast(Any, spec)) == 0:
            return (operator.index(spec),)
        if not isinstance(spec, Iterable) or isinstance(spec, Mapping | Set):
            return None
        return tuple(e if isinstance(e, str) else operator.index(e) for e in spec)
    except TypeError:
        return None
