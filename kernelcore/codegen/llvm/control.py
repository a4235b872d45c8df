"""Structured control flow that all threads of a gang follow together, as branches."""

from __future__ import annotations

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm import stacks
from kernelcore.codegen.llvm.blocks import add_edges, bind_phis, phis_of, resized, type_of
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.llvm.exits import leave_if_stopped
from kernelcore.codegen.simd import (
    masked_control,
    pack_code,
    panel_copies,
    partial_sums,
    row_blocks,
)
from kernelcore.codegen.simd.loop_vectorize import (
    emit_independent_iterations,
    emit_vector_iterations,
)
from kernelcore.ir.core import Eqn


def emit_if(e: Emitter, eqn: Eqn) -> list[str]:
    """Two arms that meet in a block with a phi per output."""
    if not e.is_uniform(eqn.inputs[0]):
        return masked_control.emit_if(e, eqn)
    then, orelse, join = e.label("then"), e.label("else"), e.label("join")
    e.branch(e.value_at(eqn.inputs[0], 1), then, orelse)
    arms: list[tuple[list[str], str]] = []
    for label, region in zip((then, orelse), eqn.regions, strict=True):
        e.start_block(label)
        e.region(region)
        arms.append((e.values(region.yields, eqn.outputs), e.block))
        e.jump(join)
    e.start_block(join)
    return phis_of(e, [type_of(e, out) for out in eqn.outputs], *arms)


def emit_for(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop over ``range(start, stop, step)``, whose trip count is known at its start."""
    if not e.is_uniform(*eqn.inputs[:3]):
        return masked_control.emit_for(e, eqn)
    if row_blocks.goes_along_rows(e, eqn):
        return row_blocks.emit_for(e, eqn, lambda: _emit_in_order(e, eqn))
    loop = e.loops_in_parts.get(eqn)
    if loop is None:
        return _emit_in_order(e, eqn)
    return partial_sums.by_length(
        *(e, eqn, loop),
        in_parts=lambda: partial_sums.emit_for(e, eqn, loop),
        in_order=lambda: _emit_in_order(e, eqn),
    )


def _emit_in_order(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop that all lanes run together, iteration by iteration where no vectors take several."""
    (body,), (start, stop, step) = eqn.regions, eqn.inputs[:3]
    index, *carried = body.params
    integer = scalar_type(index)
    first, limit, by = (e.value_at(a, 1) for a in (start, stop, step))
    ty = LLVM_TYPES[integer.name]
    entries = e.values(eqn.inputs[3:], carried)
    if eqn in e.vector_loops:
        first, entries = emit_vector_iterations(e, eqn, (first, limit, by), entries)
    if eqn in e.independent_loops:
        first, entries = emit_independent_iterations(e, eqn, (first, limit, by), entries)
    with e.at(1):
        count = trip_count(e, integer, first, limit, by)
    vectors = e.packing.carried.get(eqn, ())
    apart = [k for k in range(len(carried)) if not any(k in places for places in vectors)]
    init = [[eqn.inputs[3 + k] for k in places] for places in vectors]
    wide_entries = [pack_code.vector(e, given) for given in init]
    with_room = stacks.make_room_for(e, body, count, ty)
    before, head, body_label, done = e.block, e.label("for"), e.label("body"), e.label("done")
    e.jump_into(head)
    position, counter = e.phi(ty, (first, before)), e.phi(ty, ("0", before))
    phis = bind_phis(e, [carried[k] for k in apart], [entries[k] for k in apart], before)
    wide = phis_of(e, [pack_code.type_of(given) for given in init], (wide_entries, before))
    e.branch(e.op(f"icmp ult {ty} {counter}, {count}"), body_label, done)
    e.start_block(body_label)
    e.bind(index, position)
    around = e.row_buffers, e.rows_in_place, e.with_room
    e.with_room |= with_room
    panels = e.panels.get(eqn, ())
    if panels:
        addresses = panel_copies.addresses(e, panels, resized(e, counter, ty, "i64"))
        e.row_buffers = e.row_buffers | addresses
        e.rows_in_place |= {load for p in panels if p.may_be_in_place for load in p.loads}
    with e.inside():
        for phi, places in zip(wide, vectors, strict=True):
            pack_code.spread(e, phi, [carried[k] for k in places])
        e.lines(body)
        like = [carried[k] for k in apart]
        add_edges(e, phis, e.values([body.yields[k] for k in apart], like), e.block)
        following = [pack_code.vector(e, [body.yields[k] for k in places]) for places in vectors]
        add_edges(e, wide, following, e.block)
    e.row_buffers, e.rows_in_place, e.with_room = around
    # No element of a range leaves the range of its type; what follows the last one is not used.
    exact = "nsw " if integer.kind == "int" else ""
    e.add_edge(position, e.op(f"add {exact}{ty} {position}, {by}"), e.block)
    e.add_edge(counter, e.op(f"add nuw {ty} {counter}, 1"), e.block)
    e.jump(head)
    e.start_block(done)
    found = dict(zip(apart, phis, strict=True))
    for phi, places in zip(wide, vectors, strict=True):
        outputs = [eqn.outputs[k] for k in places]
        found.update(zip(places, pack_code.spread(e, phi, outputs), strict=True))
    return [found[k] for k in range(len(carried))]


def emit_while(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop that tests before each iteration."""
    cond, body = eqn.regions
    if not e.is_uniform(*cond.yields):
        return masked_control.emit_while(e, eqn)
    entries = e.values(eqn.inputs, cond.params)
    before, head, body_label, done = e.block, e.label("while"), e.label("body"), e.label("done")
    e.jump_into(head)
    phis = bind_phis(e, cond.params, entries, before)
    e.region(cond)
    e.branch(e.value_at(cond.yields[0], 1), body_label, done)
    e.start_block(body_label)
    e.bind_all(dict(zip(body.params, e.values(cond.params, body.params), strict=True)))
    e.region(body)
    leave_if_stopped(e)
    add_edges(e, phis, e.values(body.yields, cond.params), e.block)
    e.jump(head)
    e.start_block(done)
    return phis
