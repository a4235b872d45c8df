"""Operators of NumPy arrays and of kernelcore arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.scalars import scalar_of_numpy
from kernelcore.language.types import (
    ArrayOf,
    ArrayType,
    Dense,
    Scalar,
    SourceType,
    StructType,
    element_type,
)
from kernelcore.launch.launch import launch
from kernelcore.operators.arguments import ArgumentTree
from kernelcore.operators.array_text import array_text, dimensions_text, rank_remedy
from kernelcore.operators.bound_kernel import BoundKernel
from kernelcore.operators.forms.frameworks import parts_of
from kernelcore.operators.operation import Operand, Operation, evaluate
from kernelcore.operators.python_run import run_in_python, runs_in_python
from kernelcore.operators.traced.default_shapes import default_shapes_checked
from kernelcore.operators.traced.interface import Interface
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.creation import zeros
from kernelcore.runtime.device import CPU
from kernelcore.runtime.flatten_arguments import leaves
from kernelcore.runtime.hooks import temporaries


def run_on_numpy(bound: BoundKernel, given: Sequence[Any]) -> tuple[Any, ...]:
    """The results for one value per operand, as new NumPy arrays.

    Raises:
        KernelArgumentError: A value does not fit the kernel; nothing was run.
    """
    operation = bound.operation
    operands = [_numpy_operand(operation, k, value) for k, value in enumerate(given)]
    if runs_in_python(operation):
        return bound.unflatten(run_in_python(operation, operands), operands)
    shapes = operation.shapes(operands)
    operation.check_extents(shapes)
    results = [np.empty(evaluate(r.shape, shapes), r.type.dtype.numpy) for r in operation.outputs]
    operation.native.run(operands, results)
    return bound.unflatten(results, operands)


def _numpy_operand(operation: Operation, index: int, given: Any) -> Any:
    value: Any = given
    type_ = operation.operands[index].type
    if not isinstance(type_, ArrayType):
        return value
    if operation.is_composite(index):
        return operation.composite(index, value)
    if not isinstance(given, np.ndarray):
        raise operation.argument_error(
            index,
            f"expected {array_text(type_)}, found an object of type {type(value).__name__}",
            "pass a NumPy array, for example np.asarray(...)",
        )
    if value.ndim != type_.ndim and value.dtype == type_.dtype.numpy:
        raise operation.argument_error(
            index,
            f"expected {array_text(type_)}, found shape {value.shape}",
            rank_remedy(type_),
        )
    return value


def run_on_arrays(
    bound: BoundKernel,
    given: Mapping[str, Any],
    sizes: Sequence[int],
    mutates: Sequence[str] = (),
    block_dim: int = 0,
) -> tuple[Any, ...]:
    """The results for one value per parameter, by name, as new kernelcore arrays.

    The launch is one that an active Tape records. Results are where the first array is, and
    require a gradient where an argument does. Parameters ``mutates`` are updated in place.

    Raises:
        KernelArgumentError: A value does not fit the kernel; nothing was run.
    """
    operation, kernel = bound.operation, bound.kernel
    operands = _leaf_shapes(operation.operands, bound.arguments.trees, given)
    shapes = [*operands, *((size,) for size in sizes)]
    operation.check_sizes(shapes)
    operation.check_extents(shapes)
    grid = evaluate(operation.grid, shapes)
    made = _made_shapes(operation, bound.leaves.outputs, shapes)
    arrays = [v for value in given.values() for v in _arrays_of(value)]
    device = arrays[0].device if arrays else CPU
    wants_gradient = any(a.requires_grad for a in arrays)
    results = {tree.name for tree in bound.results}
    values: dict[str, Any] = {}
    for parameter in kernel.parameters:
        name, type_ = parameter.name, parameter.type
        if name not in given:
            assert isinstance(type_, ArrayOf)
            values[name] = _new(type_, made[name], device, wants_gradient)
        elif name in results and name not in mutates:
            values[name] = _copied(operation, name, given[name])
        else:
            values[name] = given[name]
    launch(kernel, grid, list(values.values()), block_dim=block_dim or None)
    return tuple(values[tree.name] for tree in bound.results if tree.name not in mutates)


def call_on_arrays(
    interface: Interface, given: Mapping[str, Any], is_numpy: bool
) -> tuple[Any, ...]:
    """As ``run_on_arrays``, of a function of several kernels, which is called.

    Args:
        interface: The parameters of the function.
        given: The arguments by name.
        is_numpy: Whether arrays are those of NumPy, and results too.

    Raises:
        KernelArgumentError: A value does not fit the function; nothing was run.
    """
    _require_arrays_of_function(interface, given)
    values = {
        p.name: _shared(given[p.name], type_) if is_numpy else given[p.name]
        for p, type_ in interface.given
    }
    flat = _leaf_shapes(interface.operands, interface.arguments.trees, values)
    arrays = [v for value in values.values() for v in _arrays_of(value)]
    device = arrays[0].device if arrays else CPU
    wants_gradient = any(a.requires_grad for a in arrays)
    results: list[Any] = []
    args: list[Any] = []
    for parameter, type_ in interface.parameters:
        name = parameter.name
        if name in interface.outputs:
            assert isinstance(type_, ArrayOf)
            shape = evaluate(interface.shapes[name][: type_.ndim], flat)
            args.append(_new(type_, shape, device, wants_gradient))
        elif name in interface.in_out:
            args.append(values[name].clone())
        else:
            args.append(values[name])
        if name in interface.outputs or name in interface.in_out:
            results.append(args[-1])
    with temporaries(wants_gradient), default_shapes_checked(interface, args):
        interface.function(*args)
    return tuple(a.numpy() for a in results) if is_numpy else tuple(results)


def _require_arrays_of_function(interface: Interface, given: Mapping[str, Any]) -> None:
    """Refuse arrays of other types before a launch inside the function meets them.

    Raises:
        KernelArgumentError: An array is not of the type of its parameter.
    """
    flat = [leaf for p, type_ in interface.given for leaf in leaves(type_, given[p.name], p.name)]
    rows = zip(interface.operands, interface.operand_locs, flat, strict=True)
    for operand, loc, value in rows:
        type_ = operand.type
        if not isinstance(type_, ArrayType):
            continue
        if isinstance(value, Array):
            element = value.element
            dtype = None if isinstance(element, StructType) else element_type(element)
            ndim = value.ndim + (len(element.extents) if isinstance(element, Dense) else 0)
        elif isinstance(value, np.ndarray):
            given_dtype = cast("Any", value).dtype
            dtype, ndim = scalar_of_numpy(given_dtype) or given_dtype, value.ndim
        else:
            continue
        if (dtype, ndim) != (type_.dtype, type_.ndim):
            raise KernelArgumentError(
                f"{interface.name}(): argument '{operand.name}': expected {array_text(type_)}, "
                f"found {dimensions_text(dtype, ndim)}",
                loc,
                "convert or reshape it, or annotate the parameter as the array is",
            )


def _shared(given: Any, type_: SourceType) -> Any:
    """A NumPy array as an Array on its memory; other values as they are."""
    if isinstance(type_, ArrayOf):
        return Array.sharing(given, type_.element)
    return given


def _copied(operation: Operation, name: str, value: Any) -> Any:
    if isinstance(value, Array):
        return value.clone()
    raise KernelArgumentError(
        f"{operation.func.name}(): argument '{name}': expected a kernelcore array, found "
        f"{type(value).__name__}",
        operation.func.loc,
        "convert it with kc.array(...)",
    )


def _new(type_: ArrayOf, shape: Any, device: Any, wants_gradient: bool) -> Array:
    element = type_.element
    is_float = not isinstance(element, Scalar | Dense) or element_type(element).is_float
    wanted = wants_gradient and is_float
    return zeros(tuple(shape), dtype=element, device=device, requires_grad=wanted)


def _arrays_of(value: Any) -> list[Array]:
    """The arrays in an argument, which may be a struct of arrays."""
    if isinstance(value, Array):
        return [value]
    return [a for part in parts_of(value) for a in _arrays_of(part)]


def _leaf_shapes(
    operands: Sequence[Operand], trees: Sequence[ArgumentTree], given: Mapping[str, Any]
) -> list[Any]:
    """Per operand of a parameter its shape; of an integer that is an extent its value."""
    found: list[Any] = []
    for tree in trees:
        if tree.name in given:
            found += _tree_shapes(tree, given[tree.name])
    for k, (operand, shape) in enumerate(zip(operands, found, strict=False)):
        type_ = operand.type
        if isinstance(type_, ArrayType):
            found[k] = (*shape[: type_.outer_ndim], *type_.components)
        else:
            found[k] = (given[operand.name],) if operand.is_size else ()
    return found


def _tree_shapes(tree: ArgumentTree, value: Any) -> list[Any]:
    """The shape of ``value``, without components, for each leaf of ``tree``."""
    if isinstance(value, Array):
        return [value.shape] * len(tree.leaves)
    if not tree.parts:
        return [getattr(value, "shape", ())]
    if isinstance(value, Mapping):
        return [s for part in tree.parts for s in _tree_shapes(part, value[part.key])]
    if isinstance(value, tuple | list):
        return [s for part in tree.parts for s in _tree_shapes(part, value[part.position])]
    return [s for part in tree.parts for s in _tree_shapes(part, getattr(value, part.key))]


def _made_shapes(
    operation: Operation, outputs: Sequence[str], shapes: Sequence[Any]
) -> dict[str, tuple[int, ...]]:
    """The shape of each output, without components."""
    return {
        result.name.split(".")[0]: evaluate(result.shape[: result.type.outer_ndim], shapes)
        for result in operation.outputs
        if result.name in outputs
    }
