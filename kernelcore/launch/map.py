"""map: a function of the kernel language over every element of arrays."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from kernelcore.base.digest import sha256
from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.base.keywords import checked_keywords
from kernelcore.builtins import Builtin
from kernelcore.frontend.calls.intrinsics import tid
from kernelcore.frontend.calls.overloads import define
from kernelcore.frontend.specialize import result_types_of
from kernelcore.language.annotations import Open, Wanted
from kernelcore.language.conversion import describe
from kernelcore.language.function import Function, Overload
from kernelcore.language.types import (
    MAX_ARRAY_DIMS,
    ArrayOf,
    Dense,
    Element,
    Scalar,
    SourceType,
    StructType,
)
from kernelcore.launch.array_ops import layout
from kernelcore.launch.infer_types import Parameter, argument_types, is_array
from kernelcore.launch.kernel import Kernel
from kernelcore.launch.launch import launch
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.creation import zeros
from kernelcore.runtime.array.element_layout import as_numpy, has_gradient, numpy_layout
from kernelcore.runtime.device import CPU, Device
from kernelcore.runtime.device_memory import device_holding
from kernelcore.runtime.hooks import recording
from kernelcore.runtime.structs import struct_class

Callee = Function | Builtin[..., Any]


@checked_keywords
def map(
    function: Function | Builtin[..., Any] | Callable[..., Any],
    *inputs: Any,
    out: Any = None,
    return_kernel: bool = False,
) -> Any:
    """Apply ``function`` to the elements of arrays, under NumPy's rules of broadcasting.

    Args:
        function: A function of the kernel language, a built-in, or a Python function to be read as
            the former.
        inputs: Its arguments: arrays (NumPy, or anything that NumPy can view), whose elements are
            passed, and values, which are passed unchanged. At least one is an array.
        out: An array for the result, of the broadcast shape, or a tuple of arrays; new ones by
            default.
        return_kernel: Whether to return the kernel instead of running it.

    Returns:
        An array per result, of the result's dtype: a data array if one of ``inputs`` is one, which
        requires a gradient if one of them does; else a NumPy array, to which vectors and matrices
        add dimensions.

    Raises:
        KernelTypeError: The function does not take such elements, or gives no value.
        KernelArgumentError: No argument is an array, or shapes do not fit.
    """
    callee = _callee(function)
    depths = _component_dims(callee, len(inputs))
    shapes = {k: layout(a)[0] for k, a in enumerate(inputs) if is_array(a)}
    if not shapes:
        raise KernelArgumentError(
            "map: expected an array among the arguments, found none",
            remedy="call the function itself for values alone",
        )
    for k, whole in shapes.items():
        if isinstance(inputs[k], Array):
            depths[k] = len(whole) - inputs[k].ndim
    outer = {k: whole[: len(whole) - depths[k]] for k, whole in shapes.items()}
    try:
        shape = np.broadcast_shapes(*outer.values())
    except ValueError as error:
        raise KernelArgumentError(f"map: {error}", remedy="give arrays whose shapes fit") from None
    if len(shape) > MAX_ARRAY_DIMS:
        raise KernelArgumentError(
            f"map: expected at most {MAX_ARRAY_DIMS} dimensions, found {len(shape)}",
            remedy="reshape the arrays",
        )
    grid = shape or (1,)
    args: list[Any] = list(inputs)
    for k, whole in shapes.items():
        if not isinstance(inputs[k], Array) or outer[k] != grid:
            args[k] = _broadcast(inputs[k], grid, whole[len(outer[k]) :])
    params = [Parameter(f"x{k}", _wanted(args[k], depths[k]), None) for k in range(len(args))]
    types = tuple(argument_types("map", params, args))
    kernel, results = _kernel(callee, types, len(grid))
    if return_kernel:
        return kernel
    data = [a for a in args if isinstance(a, Array)]
    if out is not None or not data:
        outs = _outputs(results, shape, out)
    else:
        is_tracked = any(a.requires_grad for a in inputs if isinstance(a, Array))
        device = next((a.device for a in data if a.is_on_cuda), CPU)
        outs = [_new_array(type_, shape, is_tracked, device) for type_ in results]
    launch(kernel, grid, inputs=args, outputs=outs if shape else [_with_axis(o) for o in outs])
    return outs[0] if len(outs) == 1 else tuple(outs)


def _component_dims(callee: Callee, count: int) -> list[int]:
    """The number of component axes of each argument, as its annotation declares them."""
    if not isinstance(callee, Function) or len(callee.overloads) != 1:
        return [0] * count
    found = [
        len(w.shape) if isinstance(w, Dense) else 0 for w in define(callee.overloads[0]).wanted
    ]
    return (found + [0] * count)[:count]


def _wanted(arg: Any, depth: int) -> Wanted:
    if isinstance(arg, Array):
        return ArrayOf(None, arg.ndim)
    return ArrayOf(None, arg.ndim - depth) if is_array(arg) else Open.ANY


def _callee(function: Any) -> Callee:
    if isinstance(function, Function | Builtin):
        return cast("Callee", function)
    if not inspect.isfunction(function):
        raise KernelTypeError(
            f"map: expected a function of the kernel language, found {function!r}",
            remedy="give a built-in, a function decorated with @func, or one defined with def",
        )
    return Function(function.__name__, [Overload(function)])


def _outputs(results: Sequence[SourceType], shape: tuple[int, ...], out: Any) -> list[Any]:
    layouts = [numpy_layout(cast("Element", type_)) for type_ in results]
    if out is None:
        return [np.empty((*shape, *extents), dtype) for dtype, extents in layouts]
    given = list(cast("Sequence[Any]", out)) if isinstance(out, tuple | list) else [out]
    if len(given) != len(results):
        raise KernelArgumentError(
            f"map: expected {len(results)} arrays in out, found {len(given)}",
            remedy="give an array per result",
        )
    for array, (_, extents) in zip(given, layouts, strict=True):
        if not is_array(array):
            raise KernelArgumentError(
                f"map: out: expected an array, found {describe(array)}",
                remedy="give an array per result",
            )
        found = layout(array)[0]
        if found != (*shape, *extents):
            raise KernelArgumentError(
                f"map: out: expected shape {(*shape, *extents)}, found {found}",
                remedy="give arrays of the shape that the arguments are broadcast to",
            )
    return given


def _new_array(type_: SourceType, shape: tuple[int, ...], is_tracked: bool, device: Device) -> Any:
    assert isinstance(type_, Scalar | Dense | StructType)
    dtype = struct_class(type_) if isinstance(type_, StructType) else type_
    return zeros(shape, dtype, device, is_tracked and has_gradient(type_))


def _with_axis(array: Any) -> Any:
    return array.reshape(1) if isinstance(array, Array) else array[None]


def _broadcast(given: Any, shape: tuple[int, ...], components: tuple[int, ...]) -> Any:
    """``given``, an array, with its elements repeated to ``shape``."""
    if isinstance(given, Array):
        if given.requires_grad and recording() is not None:
            raise KernelArgumentError(
                f"map: an array of shape {given.shape} is broadcast, which has no gradient on a "
                "Tape",
                remedy="give arrays of one shape, or an array without requires_grad",
            )
        return given.broadcast(shape)
    if not device_holding(given).is_cpu:
        return Array.sharing(given).broadcast((*shape, *components))
    return np.broadcast_to(as_numpy(given), (*shape, *components))


@lru_cache(maxsize=256)
def _kernel(
    callee: Callee, types: tuple[SourceType, ...], ndim: int
) -> tuple[Kernel, tuple[SourceType, ...]]:
    """The kernel that applies ``callee``, and the types of its results."""
    elements = [t.element if isinstance(t, ArrayOf) else t for t in types]
    results = result_types_of(callee, [e for e in elements if e is not None])
    inputs = [f"x{k}" for k in range(len(types))]
    outputs = [f"y{k}" for k in range(len(results))]
    index = ", ".join("ijkl"[:ndim])
    pairs = zip(inputs, types, strict=True)
    passed = [f"{n}[{index}]" if isinstance(t, ArrayOf) else n for n, t in pairs]
    text = (
        f"def map({', '.join(f'{n}: Any' for n in inputs + outputs)}):\n"
        f"    {index} = tid()\n"
        f"    {', '.join(f'{n}[{index}]' for n in outputs)} = function({', '.join(passed)})\n"
    )
    # Kept for error messages; the same text has the same name.
    file = f"<kernelcore map {sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"Any": Any, "tid": tid, "function": callee}
    exec(compile(text, file, "exec"), names)
    arrays = [ArrayOf(r, ndim) for r in results if isinstance(r, Scalar | Dense | StructType)]
    return Kernel(names["map"], (*types, *arrays)), results
