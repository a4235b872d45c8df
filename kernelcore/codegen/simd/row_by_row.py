"""Loops of a gang whose iterations are independent: along one row after the other.

    lanes of the gang:  total  a b c d                  for each lane, here b:
                                                             lanes = iterations
    for k in range(n):                                       y[i, 0:8]  = x[i, 0:8] / b
        y[i, k] = x[i, k] / total      becomes               y[i, 8:16] = x[i, 8:16] / b
                                                             ...

Each thread accesses adjacent elements then, and nothing is transposed (``row_blocks.py``).
"""

from __future__ import annotations

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.independent_loops import INDEPENDENT_LANES, IndependentLoop
from kernelcore.codegen.llvm.blocks import add_edges, phis_of, type_of
from kernelcore.codegen.llvm.emitter import Emitter, Value, scalar_type
from kernelcore.codegen.simd.loop_vectorize import (
    LOOP_LANES,
    emit_iterations,
    emit_rest,
    joined_values,
    neutral_values,
)
from kernelcore.codegen.simd.masked_control import both
from kernelcore.codegen.simd.partial_sums import total_of_parts
from kernelcore.ir.core import Eqn, Var
from kernelcore.ir.op import Op
from kernelcore.ir.walk import captured_vars
from kernelcore.language.types import Scalar


def emit_by_rows(e: Emitter, eqn: Eqn, loop: IndependentLoop) -> list[str]:
    """The loop ``eqn``, which all active lanes run, for each of them in turn."""
    carried = loop.body.params[1:]
    entries = e.values(eqn.inputs[3:], carried)
    with e.at(1):
        bounds = [e.value(a) for a in eqn.inputs[:3]]
        count = trip_count(e, scalar_type(loop.body.params[0]), *bounds)
    if e.gang == 1:
        totals = _emit_row(e, loop, count, bounds[0])
        with e.at(1):
            return [
                joined_values(e, op, v, entry, total)
                for op, v, entry, total in zip(loop.collects, carried, entries, totals, strict=True)
            ]
    own = {v: e.bound(v) for v in captured_vars(eqn) if e.stride(v) != 0}
    active = e.mask
    if e.lane_facts.store_mask is not None:
        active = both(e, e.mask, e.lane_facts.store_mask)
    before, row, run = e.block, e.label("row"), e.label("along")
    next_row, done = e.label("next_row"), e.label("rows_done")
    types = [type_of(e, v) for v in carried]
    e.jump_into(row)
    lane = e.phi("i32", ("0", before))
    found = [e.phi(ty, (entry, before)) for ty, entry in zip(types, entries, strict=True)]
    if active is not None:
        e.branch(e.op(f"extractelement <{e.gang} x i1> {active}, i32 {lane}"), run, next_row)
        e.start_block(run)
    e.bind_all({v: _of_lane(e, v, lane) for v in own})
    totals = _emit_row(e, loop, count, bounds[0])
    e.bind_all(own)
    joined = [
        _with_total(e, op, v, (entry, old), total, lane)
        for op, v, entry, old, total in zip(
            loop.collects, carried, entries, found, totals, strict=True
        )
    ]
    after = e.block
    e.jump_into(next_row)
    if active is not None:
        joined = phis_of(e, types, (found, row), (joined, after))
    following = e.op(f"add nuw nsw i32 {lane}, 1")
    add_edges(e, (lane, *found), (following, *joined), e.block)
    e.branch(e.op(f"icmp ult i32 {following}, {e.gang}"), row, done)
    e.start_block(done)
    return joined


def _emit_row(e: Emitter, loop: IndependentLoop, count: str, first: str) -> list[str]:
    """The iterations of one thread, and what they collect."""
    left, position, many = emit_iterations(e, loop, count, first, INDEPENDENT_LANES)
    if loop.is_ordered_if_short:
        # Rows are long, and only kept values are stored under the mask that takes the rest.
        with e.at(LOOP_LANES):
            few = neutral_values(e, loop)
    else:
        left, position, few = emit_iterations(e, loop, left, position, LOOP_LANES)
    few = emit_rest(e, loop, left, position, few)
    return [
        total_of_parts(e, op, v, *parts)
        for op, v, *parts in zip(loop.collects, loop.body.params[1:], many, few, strict=True)
    ]


def _with_total(
    e: Emitter, op: Op, var: Var, values: tuple[str, str], total: str, lane: str
) -> str:
    """What the gang has for ``var``, with the ``total`` of a ``lane``.

    ``values`` are those before the loop, and those with the totals of other lanes.
    """
    entry, found = values
    if e.lanes_of(var) == 1:
        with e.at(1):
            return joined_values(e, op, var, entry, total)
    ty = LLVM_TYPES[scalar_type(var).name]
    wide = f"<{e.gang} x {ty}>"
    with e.at(1):
        own = e.op(f"extractelement {wide} {entry}, i32 {lane}")
        one = joined_values(e, op, var, own, total)
    return e.op(f"insertelement {wide} {found}, {ty} {one}, i32 {lane}")


def _of_lane(e: Emitter, var: Var, lane: str) -> Value:
    """What ``var`` is in ``lane``, an i32."""
    found, dtype = e.bound(var), scalar_type(var)
    ty, stride = LLVM_TYPES[dtype.name], e.stride(var)
    if stride is None:
        return e.op(f"extractelement <{e.gang} x {ty}> {found}, i32 {lane}")
    moved = e.op(f"mul {ty} {_as_index(e, dtype, lane)}, {stride}")
    return e.op(f"add {ty} {found}, {moved}")


def _as_index(e: Emitter, dtype: Scalar, lane: str) -> str:
    if dtype.bits == 32:
        return lane
    how = "zext" if dtype.bits > 32 else "trunc"
    return e.op(f"{how} i32 {lane} to {LLVM_TYPES[dtype.name]}")
