"""Divergent control flow of a gang: code under masks of active lanes.

Both arms of an ``if`` run, each for its lanes; a loop runs until no lane is active. Inactive lanes
compute garbage: they touch no memory, and no operation of the language traps.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.builtins.reference import nothing_added
from kernelcore.codegen.analysis.uniformity import ends_together
from kernelcore.codegen.llvm.blocks import bind_phis, phis_of, type_of
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.llvm.exits import leave_if_stopped
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.ir.op import ACCESSES, REPEATABLE
from kernelcore.ir.walk import eqns_inside

# An arm of at most this many operations costs less than a mispredicted branch.
MAX_EQNS_WITHOUT_BRANCH = 8
# Arms of at most this many operations get a second copy without masks (docs/decisions/004).
MAX_EQNS_OF_TWO_COPIES = 100

ALL_LANES = "splat (i1 true)"


def emit_if(e: Emitter, eqn: Eqn) -> list[str]:
    """Both arms under their masks, and a choice per output; one arm alone if all lanes take it."""
    chosen = e.value_at(eqn.inputs[0], e.gang)
    if e.mask is not None or not _gains_by_agreement(eqn):
        return _emit_both_arms(e, eqn, chosen)
    bits, ty = e.op(f"bitcast <{e.gang} x i1> {chosen} to i{e.gang}"), f"i{e.gang}"
    join = e.label("join")
    ends: list[tuple[list[str], str]] = []
    for wanted, region in zip((-1, 0), eqn.regions, strict=True):
        agreed, other = e.label("agreed"), e.label("other")
        e.branch(e.op(f"icmp eq {ty} {bits}, {wanted}"), agreed, other)
        e.start_block(agreed)
        e.region(region)
        ends.append(([e.value_at(a, e.gang) for a in region.yields], e.block))
        e.jump(join)
        e.start_block(other)
    ends.append((_emit_both_arms(e, eqn, chosen), e.block))
    e.jump_into(join)
    return phis_of(e, [_wide(e, out) for out in eqn.outputs], *ends)


def _gains_by_agreement(eqn: Eqn) -> bool:
    """Whether the arms access memory, which masks slow down, and are short enough to copy."""
    eqns = list(eqns_inside(eqn))
    accesses = any(inner.op.kind in ACCESSES for inner in eqns)
    return accesses and len(eqns) <= MAX_EQNS_OF_TWO_COPIES


def _emit_both_arms(e: Emitter, eqn: Eqn, chosen: str) -> list[str]:
    then, orelse = eqn.regions
    first = _emit_arm(e, then, eqn.outputs, both(e, e.mask, chosen))
    second = _emit_arm(e, orelse, eqn.outputs, both(e, e.mask, _negated(e, chosen)))
    return [
        blend(e, out, chosen, x, y) for out, x, y in zip(eqn.outputs, first, second, strict=True)
    ]


def emit_for(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop whose trip count differs among lanes."""
    if ends_together(eqn, e.stride):
        return _emit_for_to_one_end(e, eqn)
    (body,), (start, stop, step) = eqn.regions, eqn.inputs[:3]
    index, *carried = body.params
    integer = scalar_type(index)
    ty, element = f"<{e.gang} x {LLVM_TYPES[integer.name]}>", LLVM_TYPES[integer.name]
    with e.at(e.gang):
        counts = trip_count(e, integer, e.value(start), e.value(stop), e.value(step))
    entries = e.values((start, *eqn.inputs[3:]), body.params)
    loop = _Loop(e, carried, entries[1:], eqn.inputs[3:])
    position = e.phi(type_of(e, index), (entries[0], loop.before))
    counter = e.phi(element, ("0", loop.before))
    test = e.op(f"icmp ult {ty} {e.splat(element, counter)}, {counts}")
    active = loop.go_on(e, both(e, e.mask, test))
    e.bind(index, position)
    with e.under(active):
        e.region(body)
    by = e.values((step,), (index,))[0]
    e.add_edge(position, e.op(f"add {type_of(e, index)} {position}, {by}"), e.block)
    e.add_edge(counter, e.op(f"add {element} {counter}, 1"), e.block)
    return loop.close(e, active, body.yields)


def _emit_for_to_one_end(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop that counts down to one end; lanes with lower starts begin later."""
    (body,), (start, stop, _) = eqn.regions, eqn.inputs[:3]
    index, *carried = body.params
    element = LLVM_TYPES[scalar_type(index).name]
    ty, order = f"<{e.gang} x {element}>", "u" if scalar_type(index).kind == "uint" else "s"
    end = e.value_at(stop, 1)
    starts = given = e.value_at(start, e.gang)
    if e.mask is not None:
        given = e.op(
            f"select <{e.gang} x i1> {e.mask}, {ty} {starts}, {ty} {e.splat(element, end)}"
        )
    name = f"@llvm.vector.reduce.{order}max.v{e.gang}{element}"
    e.declare(f"declare {element} {name}({ty})")
    first = e.op(f"call {element} {name}({ty} {given})")
    loop = _Loop(e, carried, e.values(eqn.inputs[3:], carried), eqn.inputs[3:])
    position = e.phi(element, (first, loop.before))
    body_label = e.label("body")
    e.branch(e.op(f"icmp {order}gt {element} {position}, {end}"), body_label, loop.done)
    e.start_block(body_label)
    begun = e.op(f"icmp {order}le {ty} {e.splat(element, position)}, {starts}")
    active = both(e, e.mask, begun)
    e.bind(index, position)
    with e.under(active):
        e.region(body)
    e.add_edge(position, e.op(f"add {element} {position}, -1"), e.block)
    return loop.close(e, active, body.yields)


def emit_while(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop that lanes may leave one by one."""
    cond, body = eqn.regions
    loop = _Loop(e, cond.params, e.values(eqn.inputs, cond.params), eqn.inputs)
    alive = e.phi(f"<{e.gang} x i1>", (e.mask or ALL_LANES, loop.before))
    with e.under(alive):
        e.region(cond)
        test = e.value_at(cond.yields[0], e.gang)
    active = loop.go_on(e, both(e, alive, test))
    e.bind_all(dict(zip(body.params, e.values(cond.params, body.params), strict=True)))
    with e.under(active):
        e.region(body)
    leave_if_stopped(e)
    e.add_edge(alive, active, e.block)
    return loop.close(e, active, body.yields)


def both(e: Emitter, mask: str | None, condition: str) -> str:
    """The lanes of ``mask`` where ``condition`` holds, whatever it is in the others."""
    if mask is None:
        return condition
    return e.op(f"and <{e.gang} x i1> {mask}, {condition}")


def is_any(e: Emitter, mask: str) -> str:
    """Whether some lane is active."""
    bits = e.op(f"bitcast <{e.gang} x i1> {mask} to i{e.gang}")
    return e.op(f"icmp ne i{e.gang} {bits}, 0")


def is_all(e: Emitter, mask: str) -> str:
    """Whether all lanes are active."""
    return e.op(f"icmp eq i{e.gang} {e.op(f'bitcast <{e.gang} x i1> {mask} to i{e.gang}')}, -1")


def failing(e: Emitter, condition: str) -> str:
    """The active lanes in which ``condition`` does not hold."""
    return both(e, e.mask, _negated(e, condition))


def first_lane(e: Emitter, bits: str) -> str:
    """The number of the lowest set bit of ``bits``, one per lane, as i64."""
    ty = f"i{e.gang}"
    e.declare(f"declare {ty} @llvm.cttz.{ty}({ty}, i1)")
    lane = e.op(f"call {ty} @llvm.cttz.{ty}({ty} {bits}, i1 true)")
    return lane if e.gang == 64 else e.op(f"zext {ty} {lane} to i64")


def in_first_lane(e: Emitter, atom: Atom, mask: str | None) -> str:
    """The value of ``atom`` in the first lane of ``mask``, which has some."""
    if e.is_uniform(atom):
        return e.value_at(atom, 1)
    bits = e.op(f"bitcast <{e.gang} x i1> {mask or ALL_LANES} to i{e.gang}")
    wide = _wide(e, atom)
    value = e.value_at(atom, e.gang)
    return e.op(f"extractelement {wide} {value}, i64 {first_lane(e, bits)}")


def blend(e: Emitter, var: Var, mask: str, x: str, y: str) -> str:
    """A value like ``var``: ``x`` in the lanes of ``mask``, else ``y``."""
    ty = _wide(e, var)
    return e.op(f"select <{e.gang} x i1> {mask}, {ty} {x}, {ty} {y}")


def or_nothing(e: Emitter, atom: Atom) -> str:
    """``atom`` in the lanes that are active, else what changes no sum."""
    dtype = scalar_type(atom)
    value, ty = e.value_at(atom, e.gang), f"<{e.gang} x {LLVM_TYPES[dtype.name]}>"
    if e.mask is None:
        return value
    other = e.value_at(Const(dtype, nothing_added(dtype)), e.gang)
    return e.op(f"select <{e.gang} x i1> {e.mask}, {ty} {value}, {ty} {other}")


class _Loop:
    """The frame of a loop that lanes leave one by one: it is in the block of the test."""

    def __init__(
        self, e: Emitter, params: Sequence[Var], entries: Sequence[str], given: Sequence[Atom]
    ) -> None:
        wide = [e.value_at(a, e.gang) for a in given]
        self.before, self.head, self.done = e.block, e.label("loop"), e.label("done")
        self.params = params
        e.jump_into(self.head)
        self.phis = bind_phis(e, params, entries, self.before)
        # A uniform value is carried a second time, per lane, for lanes that have left the loop.
        self.results: list[str] = []
        for param, phi, value in zip(params, self.phis, wide, strict=True):
            if e.lanes_of(param) == 1:
                phi = e.phi(_wide(e, param), (value, self.before))
            self.results.append(phi)

    def go_on(self, e: Emitter, active: str) -> str:
        """Leave the loop unless some lane is ``active``; those lanes."""
        body_label = e.label("body")
        e.branch(is_any(e, active), body_label, self.done)
        e.start_block(body_label)
        return active

    def close(self, e: Emitter, active: str, yields: Sequence[Atom]) -> list[str]:
        """Go back to the test; what the loop yields."""
        for param, value, phi, result in zip(
            self.params, yields, self.phis, self.results, strict=True
        ):
            kept = blend(e, param, active, e.value_at(value, e.gang), result)
            e.add_edge(result, kept, e.block)
            if phi != result:
                e.add_edge(phi, e.value_at(value, 1), e.block)
        e.jump(self.head)
        e.start_block(self.done)
        return self.results


def _emit_arm(e: Emitter, region: Region, outputs: Sequence[Var], mask: str) -> list[str]:
    """The yields of an arm, which is skipped where no lane takes it and the branch pays."""
    kinds = {eqn.op.kind for eqn in region.eqns}
    if kinds <= REPEATABLE and len(region.eqns) <= MAX_EQNS_WITHOUT_BRANCH:
        with e.under(mask):
            e.region(region)
        return [e.value_at(a, e.gang) for a in region.yields]
    before, arm, join = e.block, e.label("arm"), e.label("join")
    e.branch(is_any(e, mask), arm, join)
    e.start_block(arm)
    with e.under(mask):
        e.region(region)
    values = [e.value_at(a, e.gang) for a in region.yields]
    block = e.block
    e.jump_into(join)
    nothing = ["zeroinitializer"] * len(values)
    return phis_of(e, [_wide(e, out) for out in outputs], (values, block), (nothing, before))


def _wide(e: Emitter, atom: Atom) -> str:
    """The LLVM type of ``atom``, a value per lane."""
    return f"<{e.gang} x {LLVM_TYPES[scalar_type(atom).name]}>"


def _negated(e: Emitter, mask: str) -> str:
    return e.op(f"xor <{e.gang} x i1> {mask}, {ALL_LANES}")
