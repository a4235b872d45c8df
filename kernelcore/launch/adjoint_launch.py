"""Runs the adjoints of kernels over cotangents that the caller provides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelcore.base import native
from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.types import element_type, int32
from kernelcore.launch.adjoint_kernel import Adjoint, Part
from kernelcore.launch.array_ops import copied_to, copy_of, layout, new_zeros, scale
from kernelcore.launch.dispatch import Dims, argument_leaves, check_count, single_axes, submit
from kernelcore.launch.executable import Executable
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import as_numpy
from kernelcore.runtime.device import CPU, Device, device_of_arrays
from kernelcore.runtime.device_memory import device_holding
from kernelcore.runtime.flatten_arguments import cotangent_leaves
from kernelcore.runtime.hooks import capture_sink


def launch_adjoint(
    kernel: Kernel,
    dim: Dims,
    args: tuple[Any, ...],
    given: tuple[Sequence[Any] | None, Sequence[Any] | None],
    num_inputs: int,
) -> None:
    """Add to the cotangents that are ``given`` for inputs, from those for outputs; see ``launch``.

    Raises:
        KernelArgumentError: A cotangent does not fit, or a value that is needed is overwritten.
        KernelGradError: The kernel has no exact derivative.
    """
    kernel = kernel.for_arguments(args)
    cotangents = _cotangents(kernel, given, num_inputs, len(args))
    leaves = argument_leaves(kernel, args)
    for i, leaf in enumerate(leaves):
        if i in cotangents or not isinstance(leaf, Array) or leaf.grad is None:
            continue
        if _is_float(kernel, i):
            cotangents[i] = leaf.grad
    key = tuple(sorted(cotangents)), single_axes(kernel, dim)
    adjoint = kernel.launched_adjoints.get(key)
    if adjoint is None:
        adjoint = kernel.launched_adjoints[key] = _adjoint(kernel, *key)
    execute_adjoint(kernel, adjoint, dim, leaves, cotangents)


def _adjoint(kernel: Kernel, asked: tuple[int, ...], single: frozenset[int]) -> Adjoint:
    """The adjoint of ``kernel`` for cotangents of the parameters ``asked``.

    The launch has one point on the axes ``single``.

    Raises:
        KernelArgumentError: One has no cotangent, a value that is needed is overwritten, or the
            adjoint would compute nothing.
        KernelGradError: The kernel has no exact derivative.
    """
    for i in asked:
        if not _is_float(kernel, i):
            name, type_ = kernel.leaves[i]
            raise KernelArgumentError(
                f"{kernel.name}(): argument '{name}' of type {type_} has no cotangent",
                kernel.func.param_loc(i),
                "pass None for it in adj_inputs or adj_outputs",
            )
    written = [effect.writes for effect in kernel.effects]
    wrt = tuple(i for i in asked if not written[i])
    seeds = tuple(i for i in asked if written[i])
    _refuse_without(kernel, seeds, [i for i, is_written in enumerate(written) if is_written])
    _refuse_without(kernel, wrt, [i for i, is_written in enumerate(written) if not is_written])
    adjoint = kernel.adjoint(wrt, seeds, single)
    _refuse_in_place(kernel, [i for i in range(len(written)) if _is_float(kernel, i)])
    _refuse_in_place(kernel, adjoint.primals)
    return adjoint


def execute_adjoint(
    kernel: Kernel,
    adjoint: Adjoint,
    dim: Dims,
    args: Sequence[Any],
    cotangents: Mapping[int, Any],
    saved: Mapping[int, Any] | None = None,
    final: Mapping[int, Any] | None = None,
) -> None:
    """Run ``adjoint`` of ``kernel``.

    Args:
        kernel: The primal, which is not generic.
        adjoint: Its adjoint.
        dim: The grid of the primal.
        args: The arguments of the primal, by parameter of the IR.
        cotangents: An array per cotangent parameter of ``adjoint``, by parameter of the primal.
        saved: Copies of arrays from before the primal, to be used instead.
        final: Copies of the arrays ``adjoint.extrema`` from after the primal.

    Raises:
        KernelArgumentError: Shapes do not fit, or arrays share memory.
    """
    known: dict[Part, Mapping[int, Any]] = {
        Part.PRIMAL: {**dict(enumerate(args)), **(saved or {})},
        Part.COTANGENT: cotangents,
        Part.FINAL: final or {},
    }
    start_weights: Mapping[int, Any] = {}
    if adjoint.extrema:
        known[Part.TIE_WEIGHT], start_weights = _tie_weights(adjoint, dim, known)
    actual = tuple([known[part][i] for i, part in adjoint.order])
    device = device_of_arrays(actual) or CPU
    fault = adjoint_memory(kernel, adjoint, device).fault(args, actual)
    if fault is not None:
        raise fault_error(kernel, "cotangent", *fault)
    submit(adjoint.executable, dim, actual)
    for i, weight in start_weights.items():
        if i in cotangents:
            scale(cotangents[i], weight)


def adjoint_memory(kernel: Kernel, adjoint: Adjoint, device: Device) -> native.AdjointMemory:
    """The rule for the arrays of ``adjoint`` of ``kernel`` on ``device``."""
    if device not in adjoint.memories:
        order = enumerate(adjoint.order)
        cotangents = [(n, i, True) for n, (i, part) in order if part is Part.COTANGENT]
        adjoint.memories[device] = memory_rule(kernel, adjoint.executable, cotangents, device)
    return adjoint.memories[device]


def memory_rule(
    kernel: Kernel, derived: Executable, derivatives: list[tuple[int, int, bool]], device: Device
) -> native.AdjointMemory:
    """The rule for the arrays of ``kernel`` and of ``derived``, a derivative of it, on ``device``.

    ``derivatives`` are rows of a parameter of ``derived`` that holds a tangent or a cotangent, its
    parameter of ``kernel``, and whether ``derived`` writes it.
    """
    return native.AdjointMemory(
        kernel.executable.interface(device),
        derived.interface(device),
        [effect.writes for effect in kernel.effects],
        derivatives,
    )


def fault_error(
    kernel: Kernel, derivative: str, reason: str, array: tuple[int, bool], *details: Any
) -> KernelArgumentError:
    """The error for what ``AdjointMemory.fault`` found; a ``derivative`` is called so."""

    def name(array: tuple[int, bool]) -> str:
        i, is_derivative = array
        return f"{f'the {derivative} of ' if is_derivative else ''}'{kernel.leaves[i][0]}'"

    if reason == "shape":
        expected, found = details
        return KernelArgumentError(
            f"{kernel.name}(): {name(array)[4:]}: expected shape {expected}, found {found}",
            kernel.func.param_loc(array[0]),
            "give an array of the shape of the argument",
        )
    if reason == "shared":
        return KernelArgumentError(
            f"{kernel.name}(): {name(details[0])} and {name(array)} share memory",
            kernel.func.loc,
            "give each its own array",
        )
    return KernelArgumentError(
        f"{kernel.name}(): elements of {name(array)} share memory with each other",
        kernel.func.loc,
        "give an array with an element per index, not an expanded view",
    )


def _is_float(kernel: Kernel, i: int) -> bool:
    return element_type(kernel.leaves[i][1]).is_float


def _tie_weights(
    adjoint: Adjoint, dim: Dims, known: Mapping[Part, Mapping[int, Any]]
) -> tuple[Mapping[int, Any], Mapping[int, Any]]:
    """Per array of ``adjoint.extrema``, the weights of updates that attained the final values.

    Returns as well the weights of the elements from before the launch.
    """
    if capture_sink() is not None:
        raise KernelArgumentError(
            "gradients of atomic minima and maxima are not captured",
            adjoint.primal.loc,
            "run the backward pass outside of the capture",
        )
    primal, final = known[Part.PRIMAL], known[Part.FINAL]
    finals = [final[i] for i in adjoint.extrema]
    counts = [new_zeros(layout(last)[0], int32, device_holding(last)) for last in finals]
    before = [copy_of(a) if i in adjoint.count_writes else a for i, a in primal.items()]
    args = (*before, *finals, *counts)
    submit(adjoint.count, dim, [args[i] for i in adjoint.count_order])
    weights: dict[int, Any] = {}
    start_weights: dict[int, Any] = {}
    for i, last, count in zip(adjoint.extrema, finals, counts, strict=True):
        held = as_numpy(primal[i]), as_numpy(last), as_numpy(count)
        weight, start_weights[i] = tie_weights(*held, cast=lambda x, y: x.astype(y.dtype))
        weights[i] = copied_to(device_holding(last), weight)
    return weights, start_weights


def tie_weights(
    start: Any, final: Any, count: Any, cast: Callable[[Any, Any], Any]
) -> tuple[Any, Any]:
    """The weight of every value that attained the final one, and of ``start``, 0 if it did not.

    Args:
        start: What the elements held before: an array of any library, or None for zeros.
        final: What they hold afterwards.
        count: How many updates attained that.
        cast: The first array, with the dtype of the second one.
    """
    if start is None:
        is_same = final == 0.0
    else:
        is_same = (start == final) | ((start != start) & (final != final))
    is_same = cast(is_same, final)
    # Without any attaining value the weight is infinite, so that the error cannot go unnoticed.
    # NumPy gives quotients of small floats another type.
    weight = cast(1.0 / (cast(count, final) + is_same), final)
    return weight, weight * is_same


def _cotangents(
    kernel: Kernel,
    given: tuple[Sequence[Any] | None, Sequence[Any] | None],
    num_inputs: int,
    num_args: int,
) -> dict[int, Any]:
    """The cotangent arrays by parameter of the IR."""
    check_count(kernel, num_args)
    counts = (num_inputs, num_args - num_inputs)
    rows: list[Any] = []
    for name, arrays, count in zip(("adj_inputs", "adj_outputs"), given, counts, strict=True):
        row = [None] * count if arrays is None else list(arrays)
        if len(row) != count:
            raise KernelArgumentError(
                f"{kernel.name}(): {name}: expected {count} entries, found {len(row)}",
                kernel.func.loc,
                "give one array or None per argument",
            )
        rows.extend(row)
    parts = rows if kernel.is_plain else _flattened(kernel, rows)
    return {i: a for i, a in enumerate(parts) if a is not None}


def _flattened(kernel: Kernel, rows: Sequence[Any]) -> list[Any]:
    """One cotangent per parameter of the IR, from one per parameter of ``kernel``."""
    parts: list[Any] = []
    for parameter, row in zip(kernel.parameters, rows, strict=True):
        assert parameter.type is not None
        parts += cotangent_leaves(parameter.type, row, f"cotangent of '{parameter.name}'")
    return parts


def _refuse_without(kernel: Kernel, asked: Sequence[int], params: Sequence[int]) -> None:
    """Refuse an adjoint where none of ``params``, read or written, has a cotangent in ``asked``."""
    if asked:
        return
    names = [kernel.leaves[i][0] for i in params if _is_float(kernel, i)]
    does = "writes" if params and kernel.effects[params[0]].writes else "reads"
    raise KernelArgumentError(
        f"{kernel.name}(): the adjoint would compute nothing: expected a cotangent of a float that "
        f"the kernel {does} ({', '.join(names) or 'there is none'}), found none",
        kernel.func.loc,
        "give adj_inputs and adj_outputs, or pass arrays that were made with requires_grad=True",
    )


def _refuse_in_place(kernel: Kernel, params: Sequence[int]) -> None:
    for i in params:
        if i in kernel.losses:
            raise KernelArgumentError(
                f"{kernel.name}(): '{kernel.leaves[i][0]}' is loaded and written, so what the "
                "adjoint needs of it is gone after the launch",
                kernel.func.param_loc(i),
                "record the launch with kc.Tape, or use torch_op or jax_kernel, which keep the "
                "values, or write to a second array",
            )
