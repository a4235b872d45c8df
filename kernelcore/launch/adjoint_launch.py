"""Runs the adjoints of kernels over cotangents that the caller provides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelcore.base import native
from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.types import ArrayType, int32
from kernelcore.launch.adjoint_kernel import Adjoint, Part
from kernelcore.launch.array_ops import (
    copied_to,
    copy_of,
    layout,
    new_zeros,
    scale,
)
from kernelcore.launch.dispatch import Dims, argument_leaves, check_count, submit
from kernelcore.launch.kernel import Kernel
from kernelcore.passes.autodiff.activity import is_float
from kernelcore.passes.autodiff.atomic_extrema import tie_weights
from kernelcore.runtime.array.element_layout import as_numpy
from kernelcore.runtime.device import CPU, Device, cuda_device
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
    asked = tuple(cotangents)
    adjoint = kernel.launched_adjoints.get(asked)
    if adjoint is None:
        adjoint = kernel.launched_adjoints[asked] = _adjoint(kernel, asked)
    execute_adjoint(kernel, adjoint, dim, argument_leaves(kernel, args), cotangents)


def _adjoint(kernel: Kernel, asked: tuple[int, ...]) -> Adjoint:
    """The adjoint of ``kernel`` for cotangents of the parameters ``asked``.

    Raises:
        KernelArgumentError: One has no cotangent, or a value that is needed is overwritten.
        KernelGradError: The kernel has no exact derivative.
    """
    func = kernel.func
    for i in asked:
        if not is_float(func.params[i]):
            raise KernelArgumentError(
                f"{kernel.name}(): argument '{func.params[i].name}' of type {func.params[i].type} "
                "has no cotangent",
                func.param_loc(i),
                "pass None for it in adj_inputs or adj_outputs",
            )
    _refuse_in_place(kernel, [i for i, p in enumerate(func.params) if is_float(p)])
    written = [effect.writes for effect in kernel.effects]
    wrt = tuple(i for i in asked if not written[i])
    seeds = tuple(i for i in asked if written[i])
    adjoint = kernel.adjoint(wrt, seeds)
    _refuse_in_place(kernel, [i for i, _ in adjoint.primals])
    return adjoint


def execute_adjoint(
    kernel: Kernel,
    adjoint: Adjoint,
    dim: Dims,
    args: Sequence[Any],
    cotangents: Mapping[int, Any],
    saved: Mapping[int, Any] | None = None,
    remained: Mapping[int, Any] | None = None,
) -> None:
    """Run ``adjoint`` of ``kernel``.

    Args:
        kernel: The primal, which is not generic.
        adjoint: Its adjoint.
        dim: The grid of the primal.
        args: What the primal ran on, by parameter of the IR.
        cotangents: An array per cotangent parameter of ``adjoint``, by primal parameter.
        saved: What arrays held before the primal, where they are to be used instead.
        remained: What the arrays ``adjoint.extrema`` held after the primal.

    Raises:
        KernelArgumentError: Shapes do not fit, or arrays share memory.
    """
    primal = {**dict(enumerate(args)), **saved} if saved else dict(enumerate(args))
    known, own = _select(adjoint, dim, primal, remained or {}, cotangents)
    actual = tuple([known[part][i] for i, part in adjoint.order])
    ordinal = native.cuda_device_of(actual)
    device = CPU if ordinal < 0 else cuda_device(ordinal)
    fault = adjoint_memory(kernel, adjoint, device).fault(args, actual)
    if fault is not None:
        raise _fault_error(kernel, *fault)
    submit(adjoint.executable, dim, actual)
    for i, share in own.items():
        scale(cotangents[i], share)


def adjoint_memory(kernel: Kernel, adjoint: Adjoint, device: Device) -> native.AdjointMemory:
    """The rule for the arrays of ``adjoint`` of ``kernel`` on ``device``."""
    if device not in adjoint.memories:
        cotangents = [(n, i) for n, (i, part) in enumerate(adjoint.order) if part is Part.COTANGENT]
        adjoint.memories[device] = native.AdjointMemory(
            kernel.executable.interface(device),
            adjoint.executable.interface(device),
            [effect.writes for effect in kernel.effects],
            cotangents,
        )
    return adjoint.memories[device]


def _fault_error(
    kernel: Kernel, reason: str, array: tuple[int, bool], *details: Any
) -> KernelArgumentError:
    """The error for what ``AdjointMemory.fault`` found."""
    func = kernel.func

    def name(array: tuple[int, bool]) -> str:
        i, is_cotangent = array
        return (
            f"the cotangent of '{func.params[i].name}'"
            if is_cotangent
            else f"'{func.params[i].name}'"
        )

    if reason == "shape":
        expected, found = details
        return KernelArgumentError(
            f"{kernel.name}(): {name(array)[4:]}: expected shape {expected}, found {found}",
            func.param_loc(array[0]),
            "give an array of the shape of the argument",
        )
    if reason == "shared":
        return KernelArgumentError(
            f"{kernel.name}(): {name(details[0])} and {name(array)} share memory",
            func.loc,
            "give each its own array",
        )
    return KernelArgumentError(
        f"{kernel.name}(): elements of {name(array)} share memory with each other",
        func.loc,
        "give an array with an element per index, not an expanded view",
    )


def _select(
    adjoint: Adjoint,
    dim: Dims,
    primal: Mapping[int, Any],
    remained: Mapping[int, Any],
    cotangents: Mapping[int, Any],
) -> tuple[Mapping[Part, Mapping[int, Any]], Mapping[int, Any]]:
    """What the parts of ``adjoint`` are, by primal parameter.

    Of minima and maxima that is also who attained what remained. Returns as well, by cotangent, the
    share that what an array held before the launch has of it.
    """
    shared: dict[int, Any] = {}
    known = {
        Part.PRIMAL: primal,
        Part.COTANGENT: cotangents,
        Part.REMAINED: remained,
        Part.SHARE: shared,
    }
    if not adjoint.extrema:
        return known, {}
    if capture_sink() is not None:
        raise KernelArgumentError(
            "gradients of atomic minima and maxima are not captured",
            adjoint.primal.loc,
            "run the backward pass outside of the capture",
        )
    executable, kept = adjoint.count
    count = len(adjoint.primal.params)
    # Not of a replay: those are refused above.
    counts = {
        i: new_zeros(layout(remained[i])[0], int32, device_holding(remained[i]))
        for i in adjoint.extrema
    }
    row = [*(remained[i] for i in adjoint.extrema), *counts.values()]
    written = adjoint.count_writes
    before = {i: copy_of(primal[i]) if i in written else primal[i] for i in primal}
    submit(executable, dim, [before[i] if i < count else row[i - count] for i in kept])
    own: dict[int, Any] = {}
    for i, found in counts.items():
        start, last = as_numpy(primal[i]), as_numpy(remained[i])
        share, own_share = tie_weights(start, last, as_numpy(found), lambda x, y: x.astype(y.dtype))
        shared[i] = copied_to(device_holding(remained[i]), share)
        if i in cotangents:
            own[i] = own_share
    return known, own


def _cotangents(
    kernel: Kernel,
    given: tuple[Sequence[Any] | None, Sequence[Any] | None],
    num_inputs: int,
    num_args: int,
) -> dict[int, Any]:
    """The cotangent arrays by parameter of the IR."""
    check_count(kernel, num_args)
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
    parts = rows if kernel.is_plain else _leaves(kernel, rows)
    return {i: a for i, a in enumerate(parts) if a is not None}


def _leaves(kernel: Kernel, rows: Sequence[Any]) -> list[Any]:
    """The cotangents in ``rows``, one per parameter, by parameter of the IR."""
    parts: list[Any] = []
    for parameter, row in zip(kernel.parameters, rows, strict=True):
        assert parameter.type is not None
        parts.extend(cotangent_leaves(parameter.type, row, f"cotangent of '{parameter.name}'"))
    return parts


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
