"""jvp: runs a kernel and, in forward mode, the kernel of its tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelcore.base import native
from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.keywords import checked_keywords
from kernelcore.language.flatten import leaf_names
from kernelcore.language.types import ArrayType, scalar_of_numpy
from kernelcore.launch.adjoint_launch import fault_error, memory_rule
from kernelcore.launch.array_ops import copy_of, layout, new_zeros
from kernelcore.launch.declare import OfKernel, as_kernel
from kernelcore.launch.dispatch import Dims, argument_leaves, execute, single_axes, submit
from kernelcore.launch.executable import Executable
from kernelcore.launch.infer_types import Parameter
from kernelcore.launch.kernel import Kernel
from kernelcore.passes.access.effects import effects
from kernelcore.passes.autodiff.activity import is_float
from kernelcore.passes.autodiff.atomic_extrema import extremum_arrays
from kernelcore.passes.autodiff.jvp import jvp as derive_jvp
from kernelcore.passes.pipeline import optimize, tidy
from kernelcore.passes.simplify.dead_code import drop_unused_params
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.like import zeros_like
from kernelcore.runtime.device import CPU, Device, device_of_arrays
from kernelcore.runtime.device_memory import device_holding
from kernelcore.runtime.flatten_arguments import leaves
from kernelcore.runtime.launch_options import options_of, use_options


class TangentKernel:
    """The kernel of the tangents of a kernel, over arrays that the caller provides.

    Attributes:
        results: The float arrays that the primal writes, as parameters of its IR.
        order: Per parameter: the parameter of the primal, and whether its tangent is meant.
        writes: Parameters of the primal whose elements it writes, as the primal does.
        executable: Its code, compiled when it is first used.
    """

    def __init__(
        self, kernel: Kernel, results: list[int], active: tuple[int, ...], single: frozenset[int]
    ) -> None:
        func = kernel.func
        self.results = results
        chosen = extremum_arrays(func, active)
        if chosen:
            raise KernelArgumentError(
                f"jvp: '{func.params[min(chosen)].name}' holds atomic minima or maxima, whose "
                "tangents need what all threads made of them",
                func.param_loc(min(chosen)),
                "use torch_op or jax_kernel in forward mode, or the adjoint",
            )
        derived = derive_jvp(func, active, single)
        # Errors call it by the name of the kernel.
        made = replace(tidy(derived.func), name=func.name)
        self.func, kept = drop_unused_params(made)
        known = {place: i for i, place in derived.derivative_of.items()}
        self.order = [(known.get(k, k), k in known) for k in kept]
        does = list(zip(self.order, effects(self.func), strict=True))
        self.writes = {i for (i, is_tangent), e in does if e.writes and not is_tangent}
        self._written = {i for (i, is_tangent), e in does if e.writes and is_tangent}
        self.executable = Executable(lambda: optimize(self.func))
        self._memories: dict[Device, native.AdjointMemory] = {}

    def memory(self, kernel: Kernel, device: Device) -> native.AdjointMemory:
        """The rule for the arrays of a launch on ``device``."""
        if device not in self._memories:
            params = kernel.func.params
            rows = [
                (n, i, i in self._written)
                for n, (i, is_tangent) in enumerate(self.order)
                if is_tangent and isinstance(params[i].type, ArrayType)
            ]
            self._memories[device] = memory_rule(kernel, self.executable, rows, device)
        return self._memories[device]


@checked_keywords
def jvp(
    kernel: Kernel | OfKernel,
    dim: Dims,
    inputs: Sequence[Any],
    tangents: Sequence[Any],
    outputs: Sequence[Any] = (),
    out_tangents: Sequence[Any] | None = None,
    device: object = None,
) -> Any:
    """Run ``kernel``, and compute the tangents of what it writes: forward mode.

    The tangent of a written array ``y`` is the derivative of ``y`` along the direction
    ``tangents``: the Jacobian of the kernel times the tangents of what it reads. A Tape that is
    active records the launch of ``kernel``; tangents are constants to it.

    Args:
        kernel: The kernel, or an operator of one.
        dim: The grid, as for ``launch``.
        inputs: Arguments for the first parameters, as for ``launch``.
        tangents: One per argument in ``inputs``: None for a direction that is zero, else what the
            argument could be, of the same type and shape. Integers have none. That of an array
            which the kernel writes is overwritten with the tangent of the new elements.
        outputs: Arguments for the parameters that follow; their tangents start as zeros.
        out_tangents: Arrays for the tangents of ``outputs``, or None for new ones; they are added
            to where the kernel adds.
        device: Where to run, by default where the arrays are.

    Returns:
        The tangents of the float arrays that the kernel writes, in the order of its parameters: one
        array, or a tuple of arrays. Where none was given the array is a new one, on the device of
        what it is the tangent of; without a direction that matters it is zero. A struct has one
        array for each of its float fields.

    Raises:
        KernelArgumentError: An argument or a tangent does not fit; nothing was run.
        KernelGradError: The kernel has no exact derivative.

    Example::

        @kc.kernel
        def square(x: kc.array[float], y: kc.array[float]):
            i = kc.tid()
            y[i] = x[i] * x[i]

        x, t_x, y = kc.full(3, 2.0), kc.ones(3), kc.zeros(3)
        t_y = kc.jvp(square, 3, [x], [t_x], [y])
        print(y.numpy(), t_y.numpy())  # [4. 4. 4.] [4. 4. 4.]
    """
    args = (*inputs, *outputs)
    kernel = as_kernel(kernel).for_arguments(args)
    with use_options(options_of("jvp", device, None, None, 0, None)):
        primals = argument_leaves(kernel, args)
        given = _tangents(kernel, (inputs, tangents), (outputs, out_tangents))
        return _run(kernel, dim, args, primals, given)


def _run(
    kernel: Kernel,
    dim: Dims,
    args: tuple[Any, ...],
    primals: Sequence[Any],
    given: dict[int, Any],
) -> Any:
    found = push_tangents(kernel, dim, primals, given)
    execute(kernel, dim, args)
    return found[0] if len(found) == 1 else found


def push_tangents(
    kernel: Kernel, dim: Dims, primals: Sequence[Any], given: dict[int, Any]
) -> tuple[Any, ...]:
    """Compute the tangents of the float arrays that ``kernel`` writes; nothing else is written.

    Args:
        kernel: The kernel.
        dim: The grid.
        primals: The arguments, one per parameter of the IR.
        given: Tangents by parameter of the IR; of arrays that are written, they are overwritten,
            and zeros are added where there are none.

    Returns:
        Those of ``given`` for the arrays that are written, in the order of the parameters.

    Raises:
        KernelArgumentError: The kernel writes no floats, or arrays share memory; nothing was run.
        KernelGradError: The kernel has no exact derivative.
    """
    key = tuple(given), single_axes(kernel, dim)
    tangent = kernel.launched_jvps.get(key)
    if tangent is None:
        tangent = kernel.launched_jvps[key] = _tangent_kernel(kernel, *key)
    for i in tangent.results:
        if i not in given:
            given[i] = _zeros_like(primals[i])
    # It runs first, on copies of what it would update as the kernel does.
    actual = tuple(
        [
            given[i] if is_tangent else copy_of(primals[i]) if i in tangent.writes else primals[i]
            for i, is_tangent in tangent.order
        ]
    )
    place = device_of_arrays(actual) or device_of_arrays(primals) or CPU
    fault = tangent.memory(kernel, place).fault(primals, actual)
    if fault is not None:
        raise fault_error(kernel, "tangent", *fault)
    submit(tangent.executable, dim, actual)
    return tuple([given[i] for i in tangent.results])


def _tangent_kernel(
    kernel: Kernel, given: tuple[int, ...], single: frozenset[int]
) -> TangentKernel:
    """The kernel for the tangents ``given`` and those of what ``kernel`` writes."""
    func = kernel.func
    results = [i for i, e in enumerate(kernel.effects) if e.writes and is_float(func.params[i])]
    if not results:
        raise KernelArgumentError(
            f"jvp: {kernel.name} writes no array of floats, so there is no tangent",
            func.loc,
            "launch it",
        )
    key = tuple(sorted({*given, *results})), single
    if key not in kernel.launched_jvps:
        kernel.launched_jvps[key] = TangentKernel(kernel, results, *key)
    return kernel.launched_jvps[key]


def _zeros_like(leaf: Any) -> Any:
    """Zeros of the shape and type of ``leaf``, on its device."""
    if isinstance(leaf, Array):
        return zeros_like(leaf, requires_grad=False)
    shape, dtype = layout(leaf)
    if isinstance(leaf, np.ndarray):
        return np.zeros(shape, dtype)
    scalar = scalar_of_numpy(dtype)
    assert scalar is not None
    return Array.sharing(new_zeros(shape, scalar, device_holding(leaf)))


def _tangents(kernel: Kernel, *rows: tuple[Sequence[Any], Sequence[Any] | None]) -> dict[int, Any]:
    """The tangents that are given, by parameter of the IR."""
    found: dict[int, Any] = {}
    given: list[Any] = []
    for name, (args, tangents) in zip(("tangents", "out_tangents"), rows, strict=True):
        row = [None] * len(args) if tangents is None else list(tangents)
        if len(row) != len(args):
            raise KernelArgumentError(
                f"jvp: {kernel.name}(): {name}: expected {len(args)} entries, found {len(row)}",
                kernel.loc,
                "give a tangent or None per argument",
            )
        given += row
    params = kernel.func.params
    if kernel.is_plain:
        for i, tangent in enumerate(given):
            if tangent is not None:
                if not is_float(params[i]):
                    raise _no_tangent(kernel, kernel.parameters[i])
                found[i] = tangent
        return found
    at = 0
    for parameter, tangent in zip(kernel.parameters, given, strict=True):
        assert parameter.type is not None
        count = len(leaf_names(parameter.name, parameter.type))
        if tangent is not None:
            parts = leaves(parameter.type, tangent, f"tangent of '{parameter.name}'")
            floats = {i: p for i, p in enumerate(parts, at) if is_float(params[i])}
            if not floats:
                raise _no_tangent(kernel, parameter)
            found |= floats
        at += count
    return found


def _no_tangent(kernel: Kernel, parameter: Parameter) -> KernelArgumentError:
    return KernelArgumentError(
        f"jvp: {kernel.name}(): argument '{parameter.name}' of type {parameter.type} "
        "has no tangent",
        parameter.loc,
        "pass None for it in tangents",
    )
