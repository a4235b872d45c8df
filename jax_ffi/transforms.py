"""Batching, JVP and transposition of the primitive, by deriving Operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import ad, batching
from jax.sharding import AxisType

from jax_ffi.adjoints import Primal, Transpose, adjoint_of, read_by_adjoint, saving_forward
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
    operand_lists,
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
    # Of an operand with a tangent, only one of the two may be batched.
    batched = replace(launch, operation=derive.batch(operation, mask), primal=None)
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
    operation = launch.operation
    active = tuple(i for i, t in enumerate(tangents) if type(t) is not ad.Zero)
    if not active:
        results = bind(primals, launch)
        return results, _zeros(results)
    if not launch.differentiable:
        raise _not_differentiable(operation)
    given = [tangents[i] for i in active]
    chosen = extremum_operations(operation, active)
    if chosen is not None:
        return _jvp_of_extrema(primals, active, given, chosen, launch)
    forward = operation
    # What a loop of a linear launch computes need not be linear.
    if not launch.linear and not launch.is_saving:
        forward = saving_forward(operation, active)
    is_saving = launch.is_saving or forward is not operation
    made = bind(primals, replace(launch, operation=forward, is_saving=is_saving))
    results, saved = made[: operation.visible], made[operation.visible :]
    derived = derive.jvp(operation, active)
    alone = operand_lists.with_operands(derived.operation, forward.outputs[operation.visible :])
    operands, first = [*primals, *given, *saved], len(primals)
    taken = ()
    if saved:
        taken = (*read_by_adjoint(operation, active), *range(first, len(operands)))
    alone, kept = _without_unread(alone, operands, taken)
    tangent = _derived(launch, alone, _places(kept, first, len(given)))
    if saved:
        known = tuple(k for k, _ in kept if k < first)
        shapes = tuple((k, np.shape(x)) for k, x in enumerate(primals) if k not in known)
        primal = Primal(operation, active, derived.produced, known, len(saved), shapes)
        tangent = replace(tangent, primal=primal)
    return results, _made(derived.produced, kept, tangent, results)


def _jvp_of_extrema(
    primals: Sequence[Any],
    active: tuple[int, ...],
    given: Sequence[Any],
    chosen: ExtremumOperations,
    launch: Launch,
) -> tuple[Any, Any]:
    """The same for a kernel with atomic minima or maxima."""
    results = bind(primals, launch)
    known = _selected(chosen, primals, results, launch)
    primals = [*primals, *known.operands]
    weighted = [
        t * known.start[i] if i in known.start else t for i, t in zip(active, given, strict=True)
    ]
    derived = derive.jvp(chosen.weighted, active)
    alone, kept = _without_unread(derived.operation, [*primals, *weighted])
    tangent = _derived(launch, alone, _places(kept, len(primals), len(given)))
    return results, _made(derived.produced, kept, tangent, results)


Kept = Sequence[tuple[int, Any]]


def _places(kept: Kept, first: int, count: int) -> tuple[int, ...]:
    """Where the operands from ``first`` on are among those that are kept."""
    return tuple(n for n, (k, _) in enumerate(kept) if first <= k < first + count)


def _zeros(results: Sequence[Any]) -> list[Any]:
    return [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]


def _made(
    produced: Sequence[int], kept: Kept, tangent: Launch, results: Sequence[Any]
) -> list[Any]:
    """The tangents of ``results``: ``tangent`` gives those ``produced``, the others are zero."""
    t_results = _zeros(results)
    if produced:
        made = bind([value for _, value in kept], tangent)
        for index, value in zip(produced, made, strict=True):
            t_results[index] = value
    return t_results


def _without_unread(
    operation: Operation, operands: Sequence[Any], taken: Collection[int] = ()
) -> tuple[Operation, list[tuple[int, Any]]]:
    """``operation`` and those of its operands that it reads or are ``taken``, with their positions.

    A linear program keeps its other operands until its transpose has run, and devices would gather
    an operand that no access shows how to cut.
    """
    shapes = [np.shape(x) for x in operands]
    # An extent that is a symbol is known from the array only.
    fixed = [
        k
        for k, shape in enumerate(shapes)
        if k not in taken and all(isinstance(n, int) for n in shape)
    ]
    omit = operand_lists.unread(operation, fixed)
    kept = [(k, x) for k, x in enumerate(operands) if k not in omit]
    return operand_lists.without(operation, omit, shapes), kept


def _shape(value: Any) -> tuple[Any, ...]:
    return value.aval.shape if ad.is_undefined_primal(value) else np.shape(value)


def _derived(
    launch: Launch, operation: Operation, linear: tuple[int, ...], is_transpose: bool = False
) -> Launch:
    # A derivative takes more registers, which may not leave blocks of that size.
    return replace(
        launch,
        operation=operation,
        linear=linear,
        is_transpose=is_transpose,
        is_saving=False,
        primal=None,
        block_dim=0,
    )


def _selected(
    chosen: ExtremumOperations, primals: Sequence[Any], results: Sequence[Any], launch: Launch
) -> TieWeights:
    """The constants in the tangents of a kernel with atomic minima or maxima."""
    operands = [jax.lax.stop_gradient(p) for p in primals]
    found = [jax.lax.stop_gradient(r) for r in results]
    run = replace(_derived(launch, launch.operation, ()), has_side_effect=False)

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
    transpose = None if launch.primal is None else adjoint_of(launch.primal, wrt, given)
    if transpose is None:
        transpose = _transposed(operation, wrt, given, [_shape(a) for a in args])
    produced = transpose.derived.produced
    if produced:
        known = [args[n] for n in transpose.known]
        operands = [*known, *(cotangents[j] for j in given)]
        made = _cotangents(launch, transpose.derived.operation, operands, len(known))
        for index, ct in zip(produced, made, strict=True):
            place = transpose.places[index]
            ct_args[place] = _with_sharding_of(ct, args[place].aval)
    return ct_args


def _transposed(
    operation: Operation, wrt: Sequence[int], given: Sequence[int], shapes: Sequence[Any]
) -> Transpose:
    """The transpose of ``operation``, which is linear in the operands ``wrt``."""
    derived = derive.vjp(operation, wrt, given)
    left = operand_lists.without(derived.operation, wrt, shapes)
    known = [n for n in range(len(shapes)) if n not in wrt]
    return Transpose(DerivedOperation(left, derived.produced), known, {n: n for n in wrt})


def _cotangents(
    launch: Launch, operation: Operation, operands: Sequence[Any], known: int
) -> list[Any]:
    """The results of ``operation``, which is linear in its operands from ``known`` on.

    A cotangent that is passed on, or repeated along some axes, needs no launch: XLA repeats it
    where it is used.
    """
    count, copies = operation.visible, copied_results(operation, operation.shapes(operands))
    copied = {r: _copied(operands[copy.operand], copy) for r, copy in copies.items()}
    if len(copies) == count:
        return [copied[r] for r in sorted(copied)]
    if copies:
        operation, kept = _without_unread(without_results(operation, copies), operands)
    else:
        kept = list(enumerate(operands))
    linear = tuple(n for n, (k, _) in enumerate(kept) if k >= known)
    transpose = _derived(launch, operation, linear, is_transpose=True)
    made = iter(bind([x for _, x in kept], transpose))
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
