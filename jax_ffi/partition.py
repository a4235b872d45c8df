"""Launches that XLA cuts over devices: Shardy's rule for them, and what XLA calls to cut them.

A program of several devices holds a call of ``kernelcore_partition`` in the place of a launch.
Shardy finds shardings by its rule; XLA then asks for the code of one device, which
``jax_ffi/local_program.py`` writes.
"""

from __future__ import annotations

import itertools
import math
import string
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from jax.interpreters import mlir
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from jax_ffi.local_program import local_program
from jax_ffi.placement import Members, Placement
from jax_ffi.platforms import CODE
from jax_ffi.primitive import Launch, label
from kernelcore import config
from kernelcore.operators import (
    AxisSplit,
    Operation,
    evaluate,
    is_launch_of_parts,
    operand_lists,
    shaped_splits,
)

_TARGET = "kernelcore_partition"


class _Call:
    """A launch in a program that is being compiled; the program keeps it."""

    def __init__(
        self, launch: Launch, platform: str, splits: Mapping[int, AxisSplit], members: Members
    ) -> None:
        self.launch = launch
        self.platform = platform
        self.splits = splits
        self.members = members


_calls: WeakValueDictionary[bytes, _Call] = WeakValueDictionary()


def is_partitionable(ctx: mlir.LoweringRuleContext, has_side_effect: bool) -> bool:
    """Whether a call is lowered for several devices, which may each run a part of it."""
    context: Any = ctx.module_context.axis_context
    parameters = ctx.module_context.lowering_parameters
    if _free_devices(context) == 1 or has_side_effect or parameters.for_export:
        return False
    avals: Sequence[Any] = [*ctx.avals_in, *ctx.avals_out]
    return all(isinstance(n, int) for a in avals for n in a.shape)


def _free_axes(mesh: Any, manual: frozenset[Any]) -> list[int]:
    """The axes of ``mesh`` along which XLA distributes values."""
    names = mesh.axis_names
    return [k for k, n in enumerate(names) if n not in manual and mesh.shape[n] > 1]


def _free_devices(context: Any) -> int:
    """The number of devices over which XLA distributes values."""
    mesh = getattr(context, "mesh", None)
    if mesh is None:
        return getattr(context, "num_devices", 1)
    return math.prod(mesh.axis_sizes[k] for k in _free_axes(mesh, context.manual_axes))


def _members(context: Any) -> Members | None:
    """The devices of every group between which no axis is manual; None if XLA's order is unknown.

    XLA numbers the devices of a group in the order of its tiles. That is the order of the mesh
    where one axis of it is free.
    """
    mesh = getattr(context, "mesh", None)
    if mesh is None or not context.manual_axes:
        return (tuple(range(_free_devices(context))),)
    free = _free_axes(mesh, context.manual_axes)
    if len(free) > 1:
        return None
    devices = np.moveaxis(np.arange(mesh.size).reshape(mesh.axis_sizes), free, [-1])
    return tuple(map(tuple, devices.reshape(-1, mesh.axis_sizes[free[0]]).tolist()))


def _without_unread(
    launch: Launch, avals: Sequence[Any], operands: Sequence[Any]
) -> tuple[Launch, list[Any], list[Any], Mapping[int, int]]:
    """``launch`` without operands of which its kernel has no element, and which it keeps.

    XLA would give every device the whole of them. Extents of them are numbers.

    Returns:
        The launch, its operands and their shapes, and the values of those that are extents.
    """
    operation = operand_lists.without_unused(launch.operation)
    operation, extents = operand_lists.with_extents_as_numbers(operation)
    count = len(avals)
    omit = operand_lists.unread(operation, range(count))
    taken = [k for k in range(count) if k not in omit]
    values = [avals[k].shape[a] for k, a in extents]
    given = [operands[k] for k in taken] + [mlir.ir_constant(np.int32(n)) for n in values]
    shapes = [avals[k].shape for k in taken] + [()] * len(values)
    operation = operand_lists.without(operation, omit, [a.shape for a in avals])
    launch = replace(launch, operation=operation)
    return launch, given, shapes, {len(taken) + n: value for n, value in enumerate(values)}


def lower_partitioned(
    platform: str, ctx: mlir.LoweringRuleContext, operands: Sequence[Any], launch: Launch
) -> Any:
    """The lowering of ``launch`` as a call that XLA cuts along the launch."""
    launch, operands, shapes, extents = _without_unread(launch, ctx.avals_in, operands)
    operation = launch.operation
    splits = shaped_splits(operation, shapes, extents)
    members = _members(ctx.module_context.axis_context)
    if members is None:
        splits = {
            a: s
            for a, s in splits.items()
            if not s.sums and not s.extrema and is_launch_of_parts(operation, a, s)
        }
    call = _Call(launch, platform, splits, members or ())
    # Compiled here, where an error has its place in the program.
    CODE[platform](operation, range(len(operands)), launch.block_dim)
    facts = f"{launch.block_dim}:{shapes}:{members}:{extents}"
    name = f"{operation.key}:{platform}:{facts}".encode()
    call = _calls.setdefault(name, call)
    ctx.module_context.add_keepalive(call)
    made = stablehlo.CustomCallOp(
        [ir.RankedTensorType.get(a.shape, mlir.dtype_to_ir_type(a.dtype)) for a in ctx.avals_out],
        list(operands),
        call_target_name=ir.StringAttr.get(_TARGET),
        has_side_effect=ir.BoolAttr.get(False),
        api_version=mlir.ir_attribute(np.int32(2)),
        called_computations=ir.ArrayAttr.get([]),
        backend_config=ir.StringAttr.get(name.decode()),
        operand_layouts=None,
        result_layouts=None,
    )
    grid = evaluate(operation.grid, shapes)
    rule = sharding_rule(call.splits, grid, shapes, [a.shape for a in ctx.avals_out])
    made.attributes["sdy.sharding_rule"] = ir.Attribute.parse(
        rule, context=ctx.module_context.context
    )
    return made.results


def sharding_rule(
    splits: Mapping[int, AxisSplit],
    grid: Sequence[int],
    operands: Sequence[Any],
    results: Sequence[Any],
) -> str:
    """Shardy's rule: a factor per axis of the launch that can be cut; others are not cut."""
    unused = _factors()
    factor = {axis: next(unused) for axis in splits}
    sizes: dict[str, int] = {}
    whole: list[str] = []

    def axes(shape: Sequence[int], index: int, is_result: bool) -> str:
        names: list[str] = []
        cut = {
            w.axis: factor[a]
            for a, s in splits.items()
            if (w := (s.results if is_result else s.operands).get(index)) is not None
        }
        for k in range(len(shape)):
            names.append(cut.get(k) or next(unused))
            if k not in cut:
                whole.append(names[-1])
                sizes[names[-1]] = shape[k]
        sizes.update({factor[a]: grid[a] for a in splits if factor[a] in names})
        return f"[{', '.join(names)}]"

    left = ", ".join(axes(s, k, False) for k, s in enumerate(operands))
    right = ", ".join(axes(s, k, True) for k, s in enumerate(results))
    shared = {a: f for a, f in factor.items() if f in sizes}
    made = {a: any(k < len(results) for k in splits[a].results) for a in shared}
    windows = {a: splits[a].parts.windows.values() for a in shared}
    bordered = {a for a, ws in windows.items() if any(w.more or not w.is_own for w in ws)}
    kinds = {
        "reduction": [f for a, f in shared.items() if not made[a]],
        "need_replication": whole,
        "permutation": [f for a, f in shared.items() if made[a] and a in bordered],
    }
    known = ", ".join(f"{n}={sizes[n]}" for n in _in_order(sizes))
    special = " ".join(
        f"{kind}={{{', '.join(_in_order(names))}}}" for kind, names in kinds.items() if names
    )
    return f"#sdy.op_sharding_rule<({left})->({right}) {{{known}}} {special}, custom>"


def _in_order(names: Any) -> list[str]:
    """``names`` of factors in the order of their numbers."""
    return sorted(names, key=lambda n: (len(n) > 1, int(n[2:] or 0), n))


def _factors() -> Iterator[str]:
    """Names of factors as Shardy numbers them: i to z, then z_1, z_2 and so on."""
    yield from string.ascii_lowercase[8:]
    yield from (f"z_{n}" for n in itertools.count(1))


def _partition(
    shapes: Sequence[Any], shardings: Sequence[Any], made: Any, result_sharding: Any, name: bytes
) -> tuple[bytes, list[Any], Any]:
    """XLA's question for the code of one device, and how it wants its operands and results."""
    call = _calls[name]
    operation = call.launch.operation
    placement = Placement.of(
        operation,
        call.splits,
        [s.dimensions() for s in shapes],
        [*shardings, *_elements(made, result_sharding)],
        call.members,
    )
    if config.report_gathers:
        _report_gathers(operation, placement, shardings)
    text = local_program(call.launch, call.platform, call.splits, placement)
    found = list(map(placement.sharding, placement.operands, placement.operand_cuts))
    count = operation.visible
    outs = list(map(placement.sharding, placement.results[:count], placement.result_cuts[:count]))
    wanted = xla_client.HloSharding.tuple_sharding(made, outs) if made.is_tuple() else outs[0]
    return text.encode(), found, wanted


def _report_gathers(operation: Operation, placement: Placement, shardings: Sequence[Any]) -> None:
    """Warn of operands that are cut along an axis along which the launch is not."""
    for k, (sharding, windows) in enumerate(zip(shardings, placement.operand_cuts, strict=True)):
        if not sharding.is_tiled():
            continue
        dims = sharding.tile_assignment_dimensions()[: len(placement.operands[k])]
        kept = {w.axis for w in windows.values()}
        lost = [str(axis) for axis, parts in enumerate(dims) if parts > 1 and axis not in kept]
        if lost:
            warnings.warn(
                f"{label(operation)}: operand '{operation.operands[k].name}' is cut along axis "
                f"{', '.join(lost)}, along which its launch is not cut: every device gathers it. "
                "A launch is cut along axes that every access indexes near a multiple of the "
                "launch index, into parts no thinner than their borders",
                stacklevel=1,
            )


def _infer(shapes: Sequence[Any], shardings: Sequence[Any], made: Any, name: bytes) -> Any:
    """XLA's question for the sharding of results, without Shardy."""
    count = len(made.tuple_shapes()) if made.is_tuple() else 1
    none = [xla_client.HloSharding.replicate()] * count
    none = xla_client.HloSharding.tuple_sharding(made, none) if made.is_tuple() else none[0]
    return _partition(shapes, shardings, made, none, name)[2]


def _elements(made: Any, sharding: Any) -> list[Any]:
    return list(sharding.tuple_elements()) if made.is_tuple() else [sharding]


xla_client.register_custom_call_partitioner(
    _TARGET, lambda sharding, shape, name: sharding, _partition, _infer, True
)
