"""Batching, JVP and transposition of the primitive, by deriving Operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import ad, batching
from jax.sharding import AxisType

from jax_ffi.primitive import Launch, bind, launch_p
from kernelcore.base.errors import KernelGradError
from kernelcore.operators import (
    MAX_GRID_DIMS,
    CopiedResult,
    DerivedOperation,
    ExtremumOperations,
    Operation,
    TieWeights,
    copied_results,
    derive,
    extremum_operations,
    find_ties,
    warn_of_compiled,
    without_results,
)


def _batch(args: Sequence[Any], axes: Sequence[Any], *, launch: Launch) -> tuple[Any, list[int]]:
    operation = launch.operation
    if operation.kernel is not None:
        warn_of_compiled(operation.func.name, "jax.vmap", "call it on one instance")
    if len(operation.grid) == MAX_GRID_DIMS:
        return _batch_in_turn(args, axes, launch)
    size = next(a.shape[axis] for a, axis in zip(args, axes, strict=True) if axis is not None)
    owners = operation.owners()

    def place(index: int, arg: Any, axis: Any) -> Any:
        if axis is not None:
            return jnp.moveaxis(arg, axis, 0)
        return jnp.broadcast_to(arg, (size, *jnp.shape(arg))) if index in owners else arg

    placed = [place(i, a, axis) for i, (a, axis) in enumerate(zip(args, axes, strict=True))]
    mask = [axis is not None or i in owners for i, axis in enumerate(axes)]
    batched = replace(launch, operation=derive.batch(operation, mask))
    return bind(placed, batched), [0] * operation.visible


def _batch_in_turn(
    args: Sequence[Any], axes: Sequence[Any], launch: Launch
) -> tuple[Any, list[int]]:
    """A batch beyond the launch dimensions that a kernel can have."""
    mapped = {i: jnp.moveaxis(args[i], axis, 0) for i, axis in enumerate(axes) if axis is not None}

    def instance(own: dict[int, Any]) -> list[Any]:
        return bind([own.get(i, arg) for i, arg in enumerate(args)], launch)

    return jax.lax.map(instance, mapped), [0] * launch.operation.visible


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, launch: Launch) -> tuple[Any, Any]:
    results = bind(primals, launch)
    t_results: list[Any] = [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]
    active = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]
    if not active:
        return results, t_results
    if not launch.differentiable:
        raise _not_differentiable(launch.operation)
    given = {i: tangents[i] for i in active}
    operation, primals = launch.operation, list(primals)
    chosen = extremum_operations(operation, active)
    if chosen is not None:
        operation = chosen.weighted
        known = _selected(chosen, primals, results, launch)
        primals += known.operands
        for i in given.keys() & known.start.keys():
            given[i] = given[i] * known.start[i]
    derived = derive.jvp(operation, active)
    if derived.produced:
        count = len(primals)
        derived, kept = _without_unread(derived, [*primals, *given.values()])
        linear = tuple(n for n, (k, _) in enumerate(kept) if k >= count)
        made = bind([v for _, v in kept], _derived(launch, derived.operation, linear))
        for index, tangent in zip(derived.produced, made, strict=True):
            t_results[index] = tangent
    return results, t_results


def _without_unread(
    derived: DerivedOperation, operands: Sequence[Any]
) -> tuple[DerivedOperation, list[tuple[int, Any]]]:
    """``derived`` and those of its operands that it reads, with their positions.

    A linear program keeps its other operands until its transpose has run, and devices would gather
    an operand that no access shows how to cut.
    """
    shapes = [np.shape(x) for x in operands]
    # An extent that is a symbol is known from the array only.
    fixed = [k for k, shape in enumerate(shapes) if all(isinstance(n, int) for n in shape)]
    omit = derive.unread(derived.operation, fixed)
    sizes = _sizes(derived.operation, omit, shapes)
    kept = [(k, x) for k, x in enumerate(operands) if k not in omit]
    return derive.without(derived, omit, sizes) if omit else derived, kept


def _sizes(operation: Operation, omit: Sequence[int], shapes: Sequence[Any]) -> derive.Sizes:
    """The extents of the operands ``omit`` that those of the others do not tell."""
    return tuple(((k, axis), shapes[k][axis]) for k, axis in derive.untold(operation, omit))


def _shape(value: Any) -> tuple[Any, ...]:
    return value.aval.shape if ad.is_undefined_primal(value) else np.shape(value)


def _derived(
    launch: Launch, operation: Operation, linear: tuple[int, ...], is_transpose: bool = False
) -> Launch:
    # A derivative takes more registers, which may not leave blocks of that size.
    return replace(
        launch, operation=operation, linear=linear, is_transpose=is_transpose, block_dim=0
    )


def _selected(
    chosen: ExtremumOperations, primals: Sequence[Any], results: Sequence[Any], launch: Launch
) -> TieWeights:
    """The constants in the tangents of a kernel with atomic minima or maxima."""
    operands = [jax.lax.stop_gradient(p) for p in primals]
    found = [jax.lax.stop_gradient(r) for r in results]
    run = replace(launch, linear=(), is_transpose=False, has_side_effect=False, block_dim=0)

    def apply(operation: Operation, args: Sequence[Any]) -> list[Any]:
        return bind(args, replace(run, operation=operation))

    return find_ties(chosen, operands, found, apply, lambda x, like: x.astype(like.dtype))


def _transpose(cotangents: Sequence[Any], *args: Any, launch: Launch) -> list[Any]:
    operation = launch.operation
    wrt = [i for i, a in enumerate(args) if ad.is_undefined_primal(a)]
    ct_args: list[Any] = [None] * len(args)
    for index in wrt:
        ct_args[index] = ad.Zero(args[index].aval.to_tangent_aval())
        _check_linear(launch, index)
    given = [j for j, ct in enumerate(cotangents) if type(ct) is not ad.Zero]
    if not given:
        return ct_args
    derived = derive.vjp(operation, wrt, given)
    if derived.produced:
        sizes = _sizes(derived.operation, wrt, [_shape(a) for a in args])
        derived = derive.without(derived, wrt, sizes)
        known = [a for a in args if not ad.is_undefined_primal(a)]
        operands = [*known, *(cotangents[j] for j in given)]
        made = _cotangents(launch, derived, operands, len(known))
        for index, ct in zip(derived.produced, made, strict=True):
            ct_args[index] = _with_sharding_of(ct, args[index].aval)
    return ct_args


def _cotangents(
    launch: Launch, derived: DerivedOperation, operands: Sequence[Any], known: int
) -> list[Any]:
    """The results of ``derived``, which is linear in its operands from ``known`` on.

    A cotangent that is passed on, or repeated along some axes, needs no launch: XLA repeats it
    where it is used.
    """
    copies = copied_results(derived.operation, derived.operation.shapes(operands))
    copied = {r: _copied(operands[copy.operand], copy) for r, copy in copies.items()}
    if len(copies) == len(derived.produced):
        return [copied[r] for r in sorted(copied)]
    if copies:
        left = replace(derived, operation=without_results(derived.operation, copies))
        derived, kept = _without_unread(left, operands)
    else:
        kept = list(enumerate(operands))
    linear = tuple(n for n, (k, _) in enumerate(kept) if k >= known)
    transpose = _derived(launch, derived.operation, linear, is_transpose=True)
    made = iter(bind([x for _, x in kept], transpose))
    count = derived.operation.visible + len(copies)
    return [copied[r] if r in copied else next(made) for r in range(count)]


def _copied(operand: Any, copy: CopiedResult) -> Any:
    return operand if copy.is_whole else lax.broadcast_in_dim(operand, copy.shape, copy.axes)


def _check_linear(launch: Launch, index: int) -> None:
    operation = launch.operation
    if index in launch.linear or operation.param_of_operand(index) is None:
        return
    raise KernelGradError(
        f"{operation.func.name}: transposed with respect to '{operation.operands[index].name}', "
        "in which the kernel is not known to be linear",
        operation.func.loc,
        "transpose its JVP: jax.linear_transpose(lambda t: jax.jvp(f, (x,), (t,))[1], x)",
    )


def _not_differentiable(operation: Operation) -> KernelGradError:
    return KernelGradError(
        f"{operation.func.name}: differentiated, but made with enable_backward=False",
        operation.func.loc,
        "use jax_kernel(..., enable_backward=True), or jax.lax.stop_gradient on its arguments",
    )


def _with_sharding_of(ct: Any, aval: Any) -> Any:
    """``ct`` with the sharding of ``aval``, where shardings are part of the type."""
    wanted = aval.sharding
    if AxisType.Explicit not in wanted.mesh.axis_types or jax.typeof(ct).sharding == wanted:
        return ct
    return jax.sharding.reshard(ct, wanted)


batching.primitive_batchers[launch_p] = _batch
ad.primitive_jvps[launch_p] = _jvp
ad.primitive_transposes[launch_p] = _transpose
