"""launch: run a kernel, or its adjoint, over arrays that the caller provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelcore.errors import KernelArgumentError
from kernelcore.kernel import Adjoint, Kernel, not_a_kernel
from kernelcore.leaves import cotangent_leaves, leaves
from kernelcore.passes.activity import is_float
from kernelcore.runtime import native
from kernelcore.types import ArrayType

Dims = int | Sequence[int]


def launch(
    kernel: Kernel,
    dim: Dims,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] | None = None,
    adj_outputs: Sequence[Any] | None = None,
    device: str | None = None,
    *,
    adjoint: bool = False,
) -> None:
    """Run ``kernel`` once per point of the grid ``dim``.

    Arrays that every thread indexes by its launch index must be as large as the launch; other
    indices are not checked.

    Args:
        kernel: The kernel.
        dim: Grid shape; as many dimensions as the kernel asks ``tid`` for.
        inputs: Arguments for the parameters in order: arrays (NumPy, torch, JAX, or anything with
            the buffer protocol or DLPack) of the dtype and rank that the kernel declares, with any
            strides, and numbers for scalars. Arrays that the kernel writes are written in place.
        outputs: Arguments for the parameters that follow; a split for the reader only.
        adj_inputs: With ``adjoint``: one array or None per argument in ``inputs``. Cotangents of
            arguments are added to these arrays; those of a scalar to an array without dimensions.
        adj_outputs: With ``adjoint``: likewise for ``outputs``; cotangents of arrays that the
            kernel writes are read from here. Where the kernel stores an element more than once,
            the cotangents that it used are zeroed.
        device: 'cpu' or None.
        adjoint: Run the adjoint of the kernel instead of the kernel.

    Raises:
        KernelArgumentError: An argument does not fit the kernel; nothing was run.
        KernelGradError: The kernel has no exact derivative.
    """
    if not isinstance(kernel, Kernel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise not_a_kernel(kernel)
    if device is not None and device != "cpu":
        raise KernelArgumentError(
            f"launch: expected device 'cpu', found {device!r}", kernel.func.loc, "use device='cpu'"
        )
    if adjoint:
        kernel = kernel.for_arguments((*inputs, *outputs))
        _launch_adjoint(kernel, dim, (*inputs, *outputs), (adj_inputs, adj_outputs), len(inputs))
        return
    if adj_inputs is not None or adj_outputs is not None:
        raise KernelArgumentError(
            "launch: adj_inputs and adj_outputs are arguments of the adjoint",
            kernel.func.loc,
            "pass adjoint=True as well",
        )
    args = (*inputs, *outputs)
    direct = kernel.ready
    if direct is None:
        kernel = kernel.for_arguments(args)
        args = argument_leaves(kernel, args)
        direct = kernel.direct
    if direct.exclusive and _shares_memory(kernel, args):
        direct = kernel.shared
    native.launch(direct.signature, dim, args)


def _launch_adjoint(
    kernel: Kernel,
    dim: Dims,
    args: tuple[Any, ...],
    given: tuple[Sequence[Any] | None, Sequence[Any] | None],
    num_inputs: int,
) -> None:
    cotangents = _cotangents(kernel, given, num_inputs, len(args))
    args = argument_leaves(kernel, args)
    _refuse_in_place(kernel, [i for i, p in enumerate(kernel.func.params) if is_float(p)])
    written = [effect.writes for effect in kernel.effects]
    wrt = tuple(i for i in cotangents if not written[i])
    seeds = tuple(i for i in cotangents if written[i])
    adjoint = kernel.adjoint(wrt, seeds)
    _refuse_in_place(kernel, [i for i, is_cotangent in adjoint.order if not is_cotangent])
    actual = tuple(cotangents[i] if is_cotangent else args[i] for i, is_cotangent in adjoint.order)
    _check_adjoint_memory(kernel, adjoint, args, actual)
    native.launch(adjoint.direct.signature, dim, actual)


def argument_leaves(kernel: Kernel, args: Sequence[Any]) -> tuple[Any, ...]:
    """One object per parameter of the IR: composites and structs are taken apart.

    Raises:
        KernelArgumentError: Another number of arguments, or one that does not fit its type.
    """
    _check_count(kernel, len(args))
    found: list[Any] = []
    for parameter, arg in zip(kernel.parameters, args, strict=True):
        assert parameter.type is not None
        try:
            found.extend(leaves(parameter.type, arg, f"argument '{parameter.name}'"))
        except KernelArgumentError as error:
            message = f"{kernel.name}(): {error.message}"
            raise KernelArgumentError(message, parameter.loc, error.remedy) from None
    return tuple(found)


def _check_count(kernel: Kernel, found: int) -> None:
    if found != len(kernel.parameters):
        raise KernelArgumentError(
            f"{kernel.name}(): expected {len(kernel.parameters)} arguments, found {found}",
            kernel.func.loc,
        )


def _cotangents(
    kernel: Kernel,
    given: tuple[Sequence[Any] | None, Sequence[Any] | None],
    num_inputs: int,
    num_args: int,
) -> dict[int, Any]:
    """The cotangent arrays by parameter of the IR."""
    _check_count(kernel, num_args)
    func = kernel.func
    counts = (num_inputs, num_args - num_inputs)
    rows: list[Any] = []
    for name, arrays, count in zip(("adj_inputs", "adj_outputs"), given, counts, strict=True):
        row = [None] * count if arrays is None else list(arrays)
        if len(row) != count:
            raise KernelArgumentError(
                f"{kernel.name}(): {name}: expected {count} entries, found {len(row)}",
                func.loc,
                "give one array or None per argument",
            )
        rows.extend(row)
    parts: list[Any] = []
    for parameter, row in zip(kernel.parameters, rows, strict=True):
        assert parameter.type is not None
        parts.extend(cotangent_leaves(parameter.type, row, f"cotangent of '{parameter.name}'"))
    found = {i: a for i, a in enumerate(parts) if a is not None}
    for i in found:
        if not is_float(func.params[i]):
            raise KernelArgumentError(
                f"{kernel.name}(): argument '{func.params[i].name}' of type {func.params[i].type} "
                "has no cotangent",
                func.param_loc(i),
                "pass None for it in adj_inputs or adj_outputs",
            )
    return found


def _refuse_in_place(kernel: Kernel, params: Sequence[int]) -> None:
    for i in params:
        param, effect = kernel.func.params[i], kernel.effects[i]
        if effect.loads and effect.writes and isinstance(param.type, ArrayType):
            raise KernelArgumentError(
                f"{kernel.name}(): '{param.name}' is loaded and written, so what the adjoint needs "
                "of it is gone after the launch",
                kernel.func.param_loc(i),
                "use torch_op or jax_kernel, which keep the values, or write to a second array",
            )


def _shares_memory(kernel: Kernel, args: tuple[Any, ...]) -> bool:
    """Whether an element that the kernel updates without atomics may be reached in two ways."""
    signature, exclusive = kernel.direct.signature, kernel.direct.exclusive
    if len(args) != len(kernel.func.params):
        return False  # refused by the launch
    spans = {
        i: native.array_span(signature, i, args[i])
        for i, p in enumerate(kernel.func.params)
        if isinstance(p.type, ArrayType)
    }
    return any(
        not spans[i].is_distinct
        or any(spans[i].overlaps(span) for j, span in spans.items() if j != i)
        for i in exclusive
    )


def _check_adjoint_memory(
    kernel: Kernel, adjoint: Adjoint, args: tuple[Any, ...], actual: tuple[Any, ...]
) -> None:
    """Refuse cotangents of another shape than their argument, and arrays that share memory.

    What the launch wrote must not share memory with what the adjoint loads, and no cotangent with
    anything.
    """
    func = kernel.func
    written = {i for i, effect in enumerate(kernel.effects) if effect.writes}
    primal = {
        i: native.array_span(kernel.direct.signature, i, args[i])
        for i, p in enumerate(func.params)
        if isinstance(p.type, ArrayType)
    }
    known = [(f"'{func.params[i].name}'", primal[i], i in written) for i in primal]
    for place, (i, is_cotangent) in enumerate(adjoint.order):
        if not is_cotangent:
            continue
        span = native.array_span(adjoint.direct.signature, place, actual[place])
        name, loc = func.params[i].name, func.param_loc(i)
        shape = primal[i].shape if i in primal else ()
        if span.shape != shape:
            raise KernelArgumentError(
                f"{kernel.name}(): cotangent of '{name}': expected shape {shape}, "
                f"found {span.shape}",
                loc,
                "give an array of the shape of the argument",
            )
        known.append((f"the cotangent of '{name}'", span, True))
    for n, (name, span, is_written) in enumerate(known):
        for other, other_span, other_written in known[:n]:
            if (is_written or other_written) and span.overlaps(other_span):
                raise KernelArgumentError(
                    f"{kernel.name}(): {other} and {name} share memory",
                    func.loc,
                    "give each its own array",
                )
        if is_written and not span.is_distinct:
            raise KernelArgumentError(
                f"{kernel.name}(): elements of {name} share memory with each other",
                func.loc,
                "give an array with an element per index, not an expanded view",
            )
