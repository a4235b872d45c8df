"""Outputs of functions whose shape is a default: launches compute all of their elements."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from kernelcore._native import ArrayMemory, Span
from kernelcore.ir.core import Func
from kernelcore.launch.dispatch import Dims, argument_leaves, execute
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.array_text import beyond_launch
from kernelcore.operators.operation import Shape
from kernelcore.operators.shape_rules import require_launch_index
from kernelcore.operators.traced.interface import Interface
from kernelcore.operators.traced.tracers import Leaf
from kernelcore.passes.access.effects import AccessMap, GridIndexedAxis
from kernelcore.runtime.flatten_arguments import leaves
from kernelcore.runtime.hooks import LaunchChecks, observer


def assumed_name(given: Any) -> str | None:
    """The output that an argument of a recorded launch is, if its shape is a default."""
    return given.name if isinstance(given, Leaf) and given.is_assumed else None


def require_default_shapes(operator: str, kernel: Kernel, outputs: Iterable[str | None]) -> None:
    """Refuse a launch of ``kernel`` that writes an output elsewhere than at its launch index.

    Args:
        operator: The name of the function that launches.
        kernel: The kernel.
        outputs: Per parameter of the IR the output that is given for it, if its shape is a default.

    Raises:
        KernelArgumentError: Naming the output and the line of the write.
    """
    outputs = list(outputs)
    if not any(outputs):
        return
    accesses = AccessMap(kernel.func)
    for param, effect, name in zip(kernel.func.params, kernel.effects, outputs, strict=True):
        if name is not None and effect.writes:
            require_launch_index(accesses, param, operator, name)


def covered_axes(
    func: Func, given: Sequence[Any], grid: Shape, written: Sequence[str]
) -> tuple[GridIndexedAxis, ...]:
    """Axes of outputs with default shapes that a recorded launch may not write as a whole.

    Threads write them at their launch index (``require_default_shapes``).

    Args:
        func: The kernel.
        given: Its arguments.
        grid: The launch shape.
        written: The parameters that it writes.
    """
    return tuple(
        GridIndexedAxis(index, axis, axis)
        for index, (param, leaf) in enumerate(zip(func.params, given, strict=True))
        if isinstance(leaf, Leaf) and leaf.is_assumed and param.name in written
        for axis, extent in enumerate(leaf.shape[: leaf.type.outer_ndim])
        if extent != grid[axis]
    )


@contextmanager
def default_shapes_checked(interface: Interface, args: Sequence[Any]) -> Generator[None]:
    """Check the launches inside, which are those of a call of the function with ``args``.

    Raises:
        KernelArgumentError: A launch does not write all of an output whose shape is a default.
    """
    outputs = [
        (parameter.name, span)
        for (parameter, type_), arg in zip(interface.parameters, args, strict=True)
        if parameter.name in interface.assumed
        for span in map(_span, leaves(type_, arg, parameter.name))
    ]
    if not outputs:
        yield
        return

    def name_of(leaf: Any) -> str | None:
        found = _span(leaf)
        return next((n for n, s in outputs if found and s and found.overlaps(s)), None)

    def check(kernel: Kernel, dim: Dims, args: Sequence[Any]) -> None:
        kernel = kernel.for_arguments(args)
        given = argument_leaves(kernel, args)
        names = [name_of(leaf) for leaf in given]
        require_default_shapes(interface.name, kernel, names)
        # One number may be of NumPy.
        grid: Sequence[Any] = tuple(dim) if isinstance(dim, tuple | list) else (dim,)
        for i, (effect, leaf, name) in enumerate(zip(kernel.effects, given, names, strict=True)):
            if name is not None and effect.writes:
                _require_whole(kernel, i, leaf.shape, grid)

    token = observer.set(LaunchChecks(check, execute))
    try:
        yield
    finally:
        observer.reset(token)


def _require_whole(kernel: Kernel, param: int, shape: Sequence[int], grid: Sequence[Any]) -> None:
    """Refuse a launch over fewer points than an array has that it writes at its launch index."""
    for axis, (extent, points) in enumerate(zip(shape, grid, strict=False)):
        if extent > points:
            raise beyond_launch(kernel.func, GridIndexedAxis(param, axis, axis), extent, points)


def _span(value: Any) -> Span | None:
    """Where the elements of an array are; None of other values and of arrays without memory."""
    if isinstance(value, np.ndarray):
        value = ArrayMemory(cast("np.ndarray[Any, Any]", value))
    return value.span if isinstance(value, ArrayMemory) else None
