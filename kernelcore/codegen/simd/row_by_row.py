"""Loops of a gang whose iterations are independent: along one row after the other.

    lanes of the gang:  total  a b c d                  for each lane, here b:
                                                             lanes = iterations
    for k in range(n):                                       y[i, 0:8]  = x[i, 0:8] / b
        y[i, k] = x[i, k] / total      becomes               y[i, 8:16] = x[i, 8:16] / b
                                                             ...

Each thread accesses adjacent elements then, and nothing is transposed (``row_blocks.py``). Where
the threads add to elements that they share, as ``w[k] += x[i, k] * a``, some iterations run for
one lane after the other, so that ``w[0:8]`` is loaded and stored once (docs/decisions/304).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.builtins.reference import is_narrow
from kernelcore.codegen.analysis.independent_loops import INDEPENDENT_LANES, IndependentLoop
from kernelcore.codegen.llvm.blocks import add_edges, phis_of, type_of
from kernelcore.codegen.llvm.emitter import Emitter, Value, scalar_type
from kernelcore.codegen.reduction.accumulate import Ways, add_shared
from kernelcore.codegen.simd import vector_access
from kernelcore.codegen.simd.loop_vectorize import (
    LOOP_LANES,
    emit_iterations,
    emit_rest,
    joined_values,
    neutral_values,
)
from kernelcore.codegen.simd.masked_control import both
from kernelcore.codegen.simd.partial_sums import total_of_parts
from kernelcore.ir.core import Atom, Const, Eqn, Var
from kernelcore.ir.op import AddForm, Op, OpKind
from kernelcore.ir.walk import array_type, captured_vars, element_indices
from kernelcore.language.types import Scalar
from kernelcore.passes.access.accumulation_plan import form_of

# Iterations whose elements stay in registers while the lanes add to them. INDEPENDENT_LANES would
# take all sixteen registers of AVX2 for two arrays of float64.
LANES_IN_REGISTERS = 16


@dataclass(frozen=True, slots=True)
class _Rows:
    """The threads of a gang, of which each runs a loop in turn.

    Attributes:
        gang: How many there are.
        active: The mask of those that run it; None for all.
        own: What the loop uses that differs among them, and by how much it grows from one to the
            next; None where it does not grow evenly.
    """

    gang: int
    active: str | None
    own: Mapping[Var, tuple[Value, int | None]]


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
    active = e.mask
    if e.lane_facts.store_mask is not None:
        active = both(e, e.mask, e.lane_facts.store_mask)
    own = {v: (e.bound(v), e.stride(v)) for v in captured_vars(eqn) if e.stride(v) != 0}
    rows = _Rows(e.gang, active, own)

    def along(lane: str, found: Sequence[str]) -> list[str]:
        totals = _emit_row(e, loop, count, bounds[0])
        return [
            _with_total(e, op, v, (entry, old), total, lane)
            for op, v, entry, old, total in zip(
                loop.collects, carried, entries, found, totals, strict=True
            )
        ]

    def row_after_row() -> list[str]:
        return _emit_rows(e, rows, [type_of(e, v) for v in carried], entries, along)

    sums = _sums_over_rows(e, loop, set(captured_vars(eqn)))
    if not sums:
        return row_after_row()

    def in_registers() -> None:
        run, left, position = partial(_add_over_rows, e, loop, rows, sums), count, bounds[0]
        for lanes in (LANES_IN_REGISTERS, LOOP_LANES):
            left, position, _ = emit_iterations(e, loop, left, position, lanes, run)
        emit_rest(e, loop, left, position, [], run)

    add_shared(e, sums, Ways(row_after_row, in_registers))
    return []


def _sums_over_rows(e: Emitter, loop: IndependentLoop, captured: Collection[Var]) -> list[Eqn]:
    """The additions of ``loop``, which uses ``captured``, to elements that all threads share.

    The element of an iteration can stay in a register until the last thread has added to it. Which
    one it is must be known before the iteration.
    """
    if loop.collects:
        return []
    index = loop.body.params[0]

    def is_known(a: Atom) -> bool:
        return a is index or isinstance(a, Const) or (a in captured and e.is_uniform(a))

    def is_row(indices: Sequence[Atom]) -> bool:
        return any(a is index for a in indices) and all(map(is_known, indices))

    return [
        eqn
        for eqn in loop.body.eqns
        if eqn.op.kind is OpKind.ATOMIC_ADD
        and form_of(eqn) is AddForm.SHARED
        and not is_narrow(array_type(eqn).dtype)
        and is_row(element_indices(eqn))
    ]


def _add_over_rows(e: Emitter, loop: IndependentLoop, rows: _Rows, sums: Sequence[Eqn]) -> None:
    """Some iterations of ``loop``, for one thread after the other, with ``sums`` in registers."""
    sites = [vector_access.site(e, eqn) for eqn in sums]
    before = [vector_access.load(e, where) for where in sites]
    types = [f"<{e.gang} x {LLVM_TYPES[where.dtype.name]}>" for where in sites]

    def along(lane: str, found: Sequence[str]) -> list[str]:
        del lane
        e.lane_sums = dict(zip(sums, found, strict=True))
        e.region(loop.body)
        added = list(e.lane_sums.values())
        e.lane_sums = {}
        return added

    totals = _emit_rows(e, rows, types, before, along)
    for where, total in zip(sites, totals, strict=True):
        vector_access.store(e, where, total)


def _emit_rows(
    e: Emitter,
    rows: _Rows,
    types: Sequence[str],
    entries: Sequence[str],
    along: Callable[[str, Sequence[str]], list[str]],
) -> list[str]:
    """A loop over the active ones of ``rows``, which carries values of ``types``.

    ``along`` emits one row, given the lane and the values, and returns the next values.
    """
    before, row, run = e.block, e.label("row"), e.label("along")
    next_row, done = e.label("next_row"), e.label("rows_done")
    e.jump_into(row)
    lane = e.phi("i32", ("0", before))
    found = [e.phi(ty, (entry, before)) for ty, entry in zip(types, entries, strict=True)]
    if rows.active is not None:
        bit = f"extractelement <{rows.gang} x i1> {rows.active}, i32 {lane}"
        e.branch(e.op(bit), run, next_row)
        e.start_block(run)
    e.bind_all({v: _of_lane(e, rows.gang, v, lane, *value) for v, value in rows.own.items()})
    joined = along(lane, found)
    e.bind_all({v: value for v, (value, _) in rows.own.items()})
    after = e.block
    e.jump_into(next_row)
    if rows.active is not None:
        joined = phis_of(e, types, (found, row), (joined, after))
    following = e.op(f"add nuw nsw i32 {lane}, 1")
    add_edges(e, (lane, *found), (following, *joined), e.block)
    e.branch(e.op(f"icmp ult i32 {following}, {rows.gang}"), row, done)
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


def _of_lane(e: Emitter, gang: int, var: Var, lane: str, found: Value, stride: int | None) -> Value:
    """What ``var``, which is ``found`` in the gang, is in ``lane``, an i32."""
    dtype = scalar_type(var)
    ty = LLVM_TYPES[dtype.name]
    if stride is None:
        return e.op(f"extractelement <{gang} x {ty}> {found}, i32 {lane}")
    moved = e.op(f"mul {ty} {_as_index(e, dtype, lane)}, {stride}")
    return e.op(f"add {ty} {found}, {moved}")


def _as_index(e: Emitter, dtype: Scalar, lane: str) -> str:
    if dtype.bits == 32:
        return lane
    how = "zext" if dtype.bits > 32 else "trunc"
    return e.op(f"{how} i32 {lane} to {LLVM_TYPES[dtype.name]}")
