"""Structured control flow that all threads of a gang follow together, as branches."""

from __future__ import annotations

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm.blocks import add_edges, bind_phis, type_of, unit_step
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.simd import masked_control
from kernelcore.codegen.simd.loop_vectorize import emit_vector_iterations
from kernelcore.ir.core import Eqn


def emit_if(e: Emitter, eqn: Eqn) -> list[str]:
    """Two arms that meet in a block with a phi per output."""
    if not e.is_uniform(eqn.inputs[0]):
        return masked_control.emit_if(e, eqn)
    then, orelse, join = e.label("then"), e.label("else"), e.label("join")
    e.branch(e.value_at(eqn.inputs[0], 1), then, orelse)
    arms: list[tuple[list[str], str]] = []
    for label, region in zip((then, orelse), eqn.regions, strict=True):
        e.place(label)
        e.region(region)
        arms.append((e.values(region.yields, eqn.outputs), e.block))
        e.jump(join)
    e.place(join)
    phis = [e.phi(type_of(e, out)) for out in eqn.outputs]
    for values, block in arms:
        add_edges(e, phis, values, block)
    return phis


def emit_for(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop over ``range(start, stop, step)``, whose length is known before the first turn."""
    if not e.is_uniform(*eqn.inputs[:3]):
        return masked_control.emit_for(e, eqn)
    (body,), (start, stop, step) = eqn.regions, eqn.inputs[:3]
    index, *carried = body.params
    integer = scalar_type(index)
    first, limit, by = (e.value_at(a, 1) for a in (start, stop, step))
    ty, unit = LLVM_TYPES[integer.name], unit_step(step)
    entries = e.values(eqn.inputs[3:], carried)
    if eqn in e.vector_loops:
        first, entries = emit_vector_iterations(e, eqn, (first, limit, by), entries)
    # With a step of one the index cannot pass stop, and the loop needs no counter beside it.
    count = ""
    if not unit:
        with e.at(1):
            count = trip_count(e, integer, first, limit, by)
    before, head, turn, done = e.block, e.label("for"), e.label("turn"), e.label("done")
    e.jump(head)
    e.place(head)
    position = e.phi(ty)
    counter = "" if unit else e.phi(ty)
    phis = bind_phis(e, carried)
    add_edges(e, phis, entries, before)
    e.add_edge(position, first, before)
    if unit:
        test = _goes_on(e, eqn, position, limit)
    else:
        e.add_edge(counter, "0", before)
        test = e.op(f"icmp ult {ty} {counter}, {count}")
    e.branch(test, turn, done)
    e.place(turn)
    e.bind(index, position)
    e.region(body)
    add_edges(e, phis, e.values(body.yields, carried), e.block)
    if unit:
        e.add_edge(position, _next_index(e, eqn, position), e.block)
    else:
        e.add_edge(position, e.op(f"add {ty} {position}, {by}"), e.block)
        e.add_edge(counter, e.op(f"add nuw {ty} {counter}, 1"), e.block)
    e.jump(head)
    e.place(done)
    return phis


def emit_while(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop that tests before each turn."""
    cond, body = eqn.regions
    if not e.is_uniform(*cond.yields):
        return masked_control.emit_while(e, eqn)
    entries = e.values(eqn.inputs, cond.params)
    before, head, turn, done = e.block, e.label("while"), e.label("turn"), e.label("done")
    e.jump(head)
    e.place(head)
    phis = bind_phis(e, cond.params)
    add_edges(e, phis, entries, before)
    e.region(cond)
    e.branch(e.value_at(cond.yields[0], 1), turn, done)
    e.place(turn)
    e.bind_all(dict(zip(body.params, e.values(cond.params, body.params), strict=True)))
    e.region(body)
    add_edges(e, phis, e.values(body.yields, cond.params), e.block)
    e.jump(head)
    e.place(done)
    return phis


def _goes_on(e: Emitter, loop: Eqn, position: str, limit: str) -> str:
    """Whether the FOR ``loop``, whose step is one, has a turn at ``position``."""
    integer = scalar_type(loop.inputs[0])
    sign, forwards = "u" if integer.kind == "uint" else "s", unit_step(loop.inputs[2]) > 0
    order = f"{sign}{'lt' if forwards else 'gt'}"
    return e.op(f"icmp {order} {LLVM_TYPES[integer.name]} {position}, {limit}")


def _next_index(e: Emitter, loop: Eqn, position: str) -> str:
    """The index after that of a turn of the FOR ``loop``, whose step is one."""
    integer = scalar_type(loop.inputs[0])
    flag = "nuw" if integer.kind == "uint" else "nsw"
    return e.op(f"add {flag} {LLVM_TYPES[integer.name]} {position}, {unit_step(loop.inputs[2])}")
