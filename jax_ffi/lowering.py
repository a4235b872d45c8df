"""Lowering of the primitive: one custom call whose attributes depend on no sizes, or XLA's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax.ffi
from jax.interpreters import mlir
from jaxlib.mlir import ir

from jax_ffi import compat
from jax_ffi.attributes import launch_attributes
from jax_ffi.exported_partition import is_exported_in_parts, lower_exported
from jax_ffi.fusion import lower_fused
from jax_ffi.partition import is_partitionable, lower_partitioned
from jax_ffi.platforms import CODE
from jax_ffi.primitive import Launch, label, launch_p, result_avals
from jax_ffi.registration import TARGET
from kernelcore.operators import Operation, Role, in_place, warn_of_compiled


def aliases(operation: Operation) -> dict[int, int]:
    """Operand to result, for results that start as copies of operands."""
    return {
        b.operand: b.result
        for b in operation.bindings
        if b.role in (Role.INOUT, Role.SCRATCH) and b.operand >= 0
    }


def _is_in_loop() -> bool:
    """Whether the operations that are added now belong to the body of a loop.

    JAX lowers bodies in place, or as functions named ``closed_call``.
    """
    point: Any = ir.InsertionPoint.current
    owner = point.block.owner.operation
    if owner.name == "func.func":
        return ir.StringAttr(owner.attributes["sym_name"]).value.startswith("closed_call")
    return owner.name == "stablehlo.while"


def _in_memory_of_carried(
    launch: Launch, operands: Sequence[Any], avals: Sequence[Any], avals_out: Sequence[Any]
) -> Launch:
    """The launch in the body of a loop, with results in the memory of carried arrays.

    An adjoint overwrites its cotangents, since each belongs to one equation. A kernel that takes
    several arguments of the body and returns as many arrays of their types is the step of a system,
    and overwrites the state. A kernel with one result keeps memory of its own: it may be one part
    of a step, such as ``f(u)`` in ``u + f(u)``, and the operand is read again.
    """
    operation, shapes = launch.operation, [a.shape for a in avals]
    if launch.is_transpose:
        operation = in_place(operation, launch.linear, shapes)
    elif not launch.linear and (count := len(avals_out)) > 1:
        is_given = all(isinstance(value, ir.BlockArgument) for value in operands[:count])
        if is_given and list(avals[:count]) == list(avals_out):
            operation = in_place(operation, range(count), shapes, in_order=True)
    return replace(launch, operation=operation)


def _lower_named(
    platform: str, ctx: mlir.LoweringRuleContext, *operands: Any, launch: Launch
) -> Any:
    """The lowering, whose operations have the name of the kernel in HLO and in traces."""
    # XLA reads the innermost name.
    current: Any = ir.Location.current
    place = getattr(current, "child_loc", current)
    path = [part for part in str(ctx.name_stack).split("/") if part]
    with ir.Location.name("/".join((*path, label(launch.operation))), childLoc=place):
        return _lower(platform, ctx, *operands, launch=launch)


def _lower(platform: str, ctx: mlir.LoweringRuleContext, *operands: Any, launch: Launch) -> Any:
    operation = launch.operation
    if operation.kernel is not None:
        warn_of_compiled(operation.func.name, "jax.jit", "call it under jax.disable_jit()")
    fused = lower_fused(ctx, operands, launch)
    if fused is not None:
        return fused
    if _is_in_loop():
        launch = _in_memory_of_carried(launch, operands, ctx.avals_in, ctx.avals_out)
        operation = launch.operation
    if is_exported_in_parts(ctx, launch):
        return lower_exported(ctx, operands, launch)
    if is_partitionable(ctx, launch.has_side_effect):
        return lower_partitioned(platform, ctx, operands, launch)
    lowering = jax.ffi.ffi_lowering(
        TARGET,
        operand_output_aliases=aliases(operation),
        has_side_effect=launch.has_side_effect,
    )
    hidden = operation.results[operation.visible :]
    ctx = ctx.replace(avals_out=[*ctx.avals_out, *result_avals(hidden, ctx.avals_in)])
    count = len(operands)
    places = range(count, count + len(operation.results))
    attributes = launch_attributes(
        operation, range(count), places, platform=platform, block_dim=launch.block_dim
    )
    return lowering(ctx, *operands, **attributes)[: operation.visible]


for name in CODE:
    compat.register_lowering(launch_p, partial(_lower_named, name), name)
