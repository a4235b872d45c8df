"""Structured control flow to basic blocks: ``if``, ``for``, ``while``."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.builtins.composed import trip_count
from kernelcore.codegen.emitter import Emitter, scalar_type
from kernelcore.ir.core import Atom, Const, Eqn, Var


def emit_if(e: Emitter, eqn: Eqn) -> list[str]:
    """Two arms that meet in a block with a phi per output."""
    e.require_one_lane(eqn)
    then, orelse, join = e.label("then"), e.label("else"), e.label("join")
    e.branch(e.value(eqn.inputs[0]), then, orelse)
    arms: list[tuple[list[str], str]] = []
    for label, region in zip((then, orelse), eqn.regions, strict=True):
        e.place(label)
        values = e.region(region)
        arms.append((values, e.block))
        e.jump(join)
    e.place(join)
    phis = [e.phi(e.type(scalar_type(out))) for out in eqn.outputs]
    for values, block in arms:
        _add_edges(e, phis, values, block)
    return phis


def emit_for(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop over ``range(start, stop, step)``, whose length is known before the first turn."""
    e.require_one_lane(eqn)
    (body,), (start, stop, step) = eqn.regions, eqn.inputs[:3]
    index, *carried = body.params
    integer = scalar_type(index)
    ty, unit = e.type(integer), _unit_step(step)
    # With a step of one the index cannot pass stop, and the loop needs no counter beside it.
    count = "" if unit else trip_count(e, integer, *(e.value(a) for a in eqn.inputs[:3]))
    before, head, turn, done = e.block, e.label("for"), e.label("turn"), e.label("done")
    e.jump(head)
    e.place(head)
    position = e.phi(ty)
    counter = "" if unit else e.phi(ty)
    phis = _bind_phis(e, carried)
    _add_edges(e, phis, [e.value(a) for a in eqn.inputs[3:]], before)
    e.add_edge(position, e.value(start), before)
    if unit:
        order = ("u" if integer.kind == "uint" else "s") + ("lt" if unit > 0 else "gt")
        test = f"icmp {order} {ty} {position}, {e.value(stop)}"
    else:
        e.add_edge(counter, "0", before)
        test = f"icmp ult {ty} {counter}, {count}"
    e.branch(e.op(test), turn, done)
    e.place(turn)
    e.bind(index, position)
    _add_edges(e, phis, e.region(body), e.block)
    flags = ("nuw " if integer.kind == "uint" else "nsw ") if unit else ""
    e.add_edge(position, e.op(f"add {flags}{ty} {position}, {e.value(step)}"), e.block)
    if not unit:
        e.add_edge(counter, e.op(f"add nuw {ty} {counter}, 1"), e.block)
    e.jump(head)
    e.place(done)
    return phis


def emit_while(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop that tests before each turn."""
    e.require_one_lane(eqn)
    cond, body = eqn.regions
    before, head, turn, done = e.block, e.label("while"), e.label("turn"), e.label("done")
    e.jump(head)
    e.place(head)
    phis = _bind_phis(e, cond.params)
    _add_edges(e, phis, [e.value(a) for a in eqn.inputs], before)
    (test,) = e.region(cond)
    e.branch(test, turn, done)
    e.place(turn)
    for param, phi in zip(body.params, phis, strict=True):
        e.bind(param, phi)
    _add_edges(e, phis, e.region(body), e.block)
    e.jump(head)
    e.place(done)
    return phis


def _unit_step(step: Atom) -> int:
    return int(step.value) if isinstance(step, Const) and step.value in (1, -1) else 0


def _bind_phis(e: Emitter, params: Sequence[Var]) -> list[str]:
    phis = [e.phi(e.type(scalar_type(param))) for param in params]
    for param, phi in zip(params, phis, strict=True):
        e.bind(param, phi)
    return phis


def _add_edges(e: Emitter, phis: Sequence[str], values: Sequence[str], block: str) -> None:
    for phi, value in zip(phis, values, strict=True):
        e.add_edge(phi, value, block)
