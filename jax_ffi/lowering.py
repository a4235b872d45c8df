"""Lowering of the primitive: one custom call whose attributes depend on no sizes, or XLA's code."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.ffi
from jax.interpreters import mlir

from jax_ffi.attributes import launch_attributes
from jax_ffi.exported_partition import is_exported_in_parts, lower_exported
from jax_ffi.fusion import lower_fused
from jax_ffi.partition import is_partitionable, lower_partitioned
from jax_ffi.platforms import CODE
from jax_ffi.primitive import Launch, launch_p, result_avals
from jax_ffi.registration import TARGET
from kernelcore.operators import Operation, Role, warn_of_compiled


def aliases(operation: Operation) -> dict[int, int]:
    """Operand to result, for results that start as copies of operands."""
    return {
        b.operand: b.result
        for b in operation.bindings
        if b.role in (Role.INOUT, Role.SCRATCH) and b.operand >= 0
    }


def _lower(platform: str, ctx: mlir.LoweringRuleContext, *operands: Any, launch: Launch) -> Any:
    operation = launch.operation
    if operation.kernel is not None:
        warn_of_compiled(operation.func.name, "jax.jit", "call it under jax.disable_jit()")
    fused = lower_fused(ctx, operands, launch)
    if fused is not None:
        return fused
    if is_exported_in_parts(ctx, launch):
        return lower_exported(ctx, operands, launch)
    if is_partitionable(ctx, launch):
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
    mlir.register_lowering(launch_p, partial(_lower, name), platform=name)
