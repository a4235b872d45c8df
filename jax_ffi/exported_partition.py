"""Exported launches that XLA may cut over devices on its own: those of elementwise kernels.

An exported program cannot ask Python for the code of one device, as ``jax_ffi/partition.py`` lets
XLA do. XLA's partitioner cuts the first ``num_batch_dims`` axes of all operands alike, where an
axis is left over: arrays without components get one of extent 1.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax.ffi
from jax.core import ShapedArray
from jax.interpreters import mlir
from jaxlib.mlir import ir

from jax_ffi import compat
from jax_ffi.attributes import launch_attributes
from jax_ffi.platforms import CODE
from jax_ffi.primitive import Launch, result_avals
from jax_ffi.registration import TARGET
from kernelcore.operators import Operation, Role, as_array, evaluate

jax.ffi.register_ffi_target_as_batch_partitionable(TARGET)

# The same launch, of arrays with an axis behind those of the grid.
_partitioned_p = compat.Primitive("kernelcore_partitioned_launch")
_partitioned_p.multiple_results = True


def is_exported_in_parts(ctx: mlir.LoweringRuleContext, launch: Launch) -> bool:
    """Whether ``launch``, in a program to be exported, may be cut over several devices."""
    if not ctx.module_context.lowering_parameters.for_export:
        return False
    devices = getattr(ctx.module_context.axis_context, "num_devices", None)
    if devices is None or devices == 1 or not launch.operation.is_elementwise:
        return False
    operation = launch.operation
    is_plain = len(operation.results) == operation.visible and not launch.has_side_effect
    if not is_plain or any(e.operand < 0 for e in operation.grid):
        return False
    avals: Sequence[Any] = [*ctx.avals_in, *ctx.avals_out]
    grid = evaluate(operation.grid, [a.shape for a in avals[: len(ctx.avals_in)]])
    types = [as_array(x.type) for x in (*operation.operands, *operation.outputs)]
    if any(t.outer_ndim == 0 and t.components for t in types):
        return False  # XLA would cut the components.
    outer = [a.shape[: t.outer_ndim] for a, t in zip(avals, types, strict=True) if t.outer_ndim]
    is_static = all(isinstance(n, int) for a in avals for n in a.shape)
    return is_static and set(outer) == {grid}


def lower_exported(ctx: mlir.LoweringRuleContext, operands: Sequence[Any], launch: Launch) -> Any:
    """The lowering of ``launch`` as a call that XLA cuts along the grid."""

    def whole(*values: Any) -> list[Any]:
        made = _partitioned_p.bind(*map(_with_axis, values, _has_axis(launch)), launch=launch)
        shapes = [a.shape for a in ctx.avals_out]
        return [m.reshape(shape) for m, shape in zip(made, shapes, strict=True)]

    return mlir.lower_fun(whole, multiple_results=True)(ctx, *operands)


def _has_axis(launch: Launch) -> list[bool]:
    """Per operand whether it gets another axis."""
    types = [as_array(o.type) for o in launch.operation.operands]
    return [t.outer_ndim > 0 and not t.components for t in types]


def _with_axis(value: Any, is_wanted: bool) -> Any:
    return value.reshape(*value.shape, 1) if is_wanted else value


@_partitioned_p.def_abstract_eval
def _abstract_eval(*avals: Any, launch: Launch) -> list[Any]:
    pairs = zip(avals, _has_axis(launch), strict=True)
    given = [ShapedArray(a.shape[:-1], a.dtype) if wanted else a for a, wanted in pairs]
    made = result_avals(launch.operation.outputs, given)
    return [
        ShapedArray((*m.shape, *((1,) if not r.type.components else ())), m.dtype)
        for m, r in zip(made, launch.operation.outputs, strict=True)
    ]


def _lower(platform: str, ctx: mlir.LoweringRuleContext, *operands: Any, launch: Launch) -> Any:
    operation = launch.operation
    attributes = {
        "mhlo.frontend_attributes": mlir.ir_attribute({"num_batch_dims": str(len(operation.grid))}),
        "sdy.sharding_rule": ir.Attribute.parse(
            _rule(operation, ctx.avals_in, ctx.avals_out), context=ctx.module_context.context
        ),
    }
    updated = {b.operand: b.result for b in operation.bindings if b.role is Role.INOUT}
    lowering = jax.ffi.ffi_lowering(
        TARGET, operand_output_aliases=updated, extra_attributes=attributes
    )
    count = len(operands)
    places = range(count, count + len(operation.results))
    described = launch_attributes(
        operation, range(count), places, platform=platform, block_dim=launch.block_dim
    )
    return lowering(ctx, *operands, **described)


def _rule(operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> str:
    """Shardy's rule: the axes of the grid are cut alike, and what is behind them is not cut."""
    unused = _factors()
    shared = [next(unused) for _ in operation.grid]
    sizes: dict[str, int] = {}

    def axes(aval: Any, is_cut: bool) -> str:
        grid = shared if is_cut else []
        names = [*grid, *(next(unused) for _ in aval.shape[len(grid) :])]
        sizes.update(zip(names, aval.shape, strict=True))
        return f"[{', '.join(names)}]"

    cut = [as_array(o.type).ndim > 0 for o in operation.operands]
    left = ", ".join(map(axes, operands, cut))
    right = ", ".join(axes(aval, True) for aval in results)
    known = ", ".join(f"{name}={sizes[name]}" for name in sizes)
    return f"#sdy.op_sharding_rule<({left})->({right}) {{{known}}}, custom>"


def _factors() -> Iterator[str]:
    """Names of factors as Shardy numbers them: i to z, then z_1, z_2 and so on."""
    yield from string.ascii_lowercase[8:]
    yield from (f"z_{n}" for n in itertools.count(1))


for name in CODE:
    mlir.register_lowering(_partitioned_p, partial(_lower, name), platform=name)
