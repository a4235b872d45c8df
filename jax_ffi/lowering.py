"""Lowering of the primitive to one custom call, whose attributes do not depend on sizes."""

from __future__ import annotations

from typing import Any

import jax.ffi
import numpy as np
from jax.interpreters import mlir

from jax_ffi.primitive import Launch, launch_p, result_avals
from jax_ffi.registration import TARGET
from kernelcore.opspec import Operation
from kernelcore.runtime import native
from kernelcore.signature import Role, messages


def attributes(operation: Operation) -> dict[str, Any]:
    """What the native handler builds its launch plan from.

    Returns:
        ``key``: the content hash of the kernel. ``name``: of the kernel, for errors. ``template``:
        uint8, the argument block. ``relocs``: int64, 9 per kernel parameter, which name results
        behind the operands. ``grid``: int64, per launch dimension the operand and axis it is the
        extent of, and its value if it is none.
        ``messages``: uint8, what failed assertions report, each with a zero byte behind it.
    """
    count = len(operation.operands)
    rows = [(*r[:6], r[6] + count if r[6] >= 0 else -1, *r[7:]) for r in operation.relocations()]
    texts = [m.replace("\0", "").encode() + b"\0" for m in messages(operation.func)]
    return {
        "key": operation.compiled.key,
        "name": operation.func.name,
        "template": np.zeros(operation.compiled.block_size, np.uint8),
        "relocs": np.array(rows, np.int64).reshape(-1),
        "grid": np.array(operation.grid, np.int64).reshape(-1),
        "messages": np.frombuffer(b"".join(texts), np.uint8),
    }


def aliases(operation: Operation) -> dict[int, int]:
    """Operand to result, for results that start as copies of operands."""
    return {
        b.operand: b.result
        for b in operation.bindings
        if b.role in (Role.INOUT, Role.SCRATCH) and b.operand >= 0
    }


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, launch: Launch) -> Any:
    operation = launch.operation
    native.register_kernel(operation.compiled.key, operation.compiled.address)
    lowering = jax.ffi.ffi_lowering(
        TARGET,
        operand_output_aliases=aliases(operation),
        has_side_effect=launch.has_side_effect,
    )
    hidden = operation.results[operation.visible :]
    ctx = ctx.replace(avals_out=[*ctx.avals_out, *result_avals(hidden, ctx.avals_in)])
    return lowering(ctx, *operands, **attributes(operation))[: operation.visible]


mlir.register_lowering(launch_p, _lower, platform="cpu")
