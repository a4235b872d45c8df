"""Loops whose turns run in step: the lanes of registers are turns of one thread.

What turns add is added while the next ones are computed, which leaves the processor something to do
while it waits for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.emitter import Emitter, Step, scalar_type
from kernelcore.codegen.ordered import (
    Sums,
    add_columns,
    column_phis,
    columns,
    joined,
    parted,
    sums_of,
)
from kernelcore.codegen.sums import Addition
from kernelcore.codegen.units import add, waiting
from kernelcore.ir.core import Eqn, Var
from kernelcore.passes.turns import Turns

TURNS = 8
# Fewer are left to code for single turns.
FEWEST_TURNS = 6


@dataclass(frozen=True, slots=True)
class _Late:
    """What the turns before add, as phis.

    Attributes:
        is_none: Whether there are none, as i1.
        elements: What they add to elements.
        sums: The sums that the loop carries.
        columns: What they add to each.
    """

    is_none: str
    elements: dict[Eqn, Addition]
    sums: list[Sums]
    columns: list[list[str]]

    def texts(self) -> list[str]:
        """All phis but the first."""
        added = [t for what in self.elements.values() for t in (*what.values, *what.addresses)]
        return added + [text for given in self.columns for text in given]


def emit_turns(
    e: Emitter, loop: Eqn, bounds: tuple[str, str, str], entries: Sequence[str]
) -> tuple[str, list[str]]:
    """Take the turns that there are in step; leaves few or none.

    Args:
        e: Emitter, for single threads.
        loop: One of ``e.loops``.
        bounds: Start, stop and step.
        entries: What the loop carries at its start.

    Returns:
        Where the loop goes on, and what it carries there.
    """
    turns, (first, limit, by) = e.loops[loop], bounds
    index = turns.body.params[0]
    integer = scalar_type(index)
    ty = LLVM_TYPES[integer.name]
    with e.at(1):
        count = _resized(e, trip_count(e, integer, first, limit, by), ty, "i64")
    sums = sums_of(loop, turns)
    given = [joined(e, s, entries) for s in sums]
    # One is left to the code for single turns, as are all where other threads may add meanwhile.
    count = e.op(f"select i1 {_is_shared(e, turns)}, i64 1, i64 {count}")
    before, head, turn, done = e.block, e.label("turns"), e.label("several"), e.label("few")
    e.jump(head)
    e.place(head)
    left, position, totals = e.phi("i64"), e.phi(ty), [e.phi(s.type) for s in sums]
    with e.turns_of(TURNS):
        elements = {eqn: waiting(e, turns.additions[eqn]) for eqn in turns.late}
        late = _Late(e.phi("i1"), elements, sums, [column_phis(e, s) for s in sums])
    phis = (left, position, *totals, late.is_none, *late.texts())
    _enter(e, phis, (count, first, *given, "true", *["poison"] * len(late.texts())), before)
    e.branch(e.op(f"icmp uge i64 {left}, {FEWEST_TURNS}"), turn, done)
    e.place(turn)
    e.declare("declare i64 @llvm.umin.i64(i64, i64)")
    taken = e.op(f"call i64 @llvm.umin.i64(i64 {left}, i64 {TURNS})")
    e.bind(index, position)
    step = _step(e, turns, taken)
    with e.in_step(step):
        e.region(turns.body)
        this = _Late("false", step.late, sums, [columns(e, s) for s in sums])
    settled = _settle(e, turns, late, totals)
    moved = e.op(f"mul {ty} {by}, {_resized(e, taken, 'i64', ty)}")
    following = e.op(f"add {ty} {position}, {moved}")
    rest = e.op(f"sub i64 {left}, {taken}")
    _enter(e, phis, (rest, following, *settled, "false", *this.texts()), e.block)
    e.jump(head)
    e.place(done)
    found = list(entries)
    for s, total in zip(sums, _settle(e, turns, late, totals), strict=True):
        parted(e, s, total, found)
    # Beyond the last turn the index may have wrapped.
    is_over = e.op(f"icmp eq i64 {left}, 0")
    return e.op(f"select i1 {is_over}, {ty} {limit}, {ty} {position}"), found


def _is_shared(e: Emitter, turns: Turns) -> str:
    """Whether other threads may add to the elements that the turns add to, as i1."""
    assert e.accumulation is not None
    found = "false"
    for array in dict.fromkeys(eqn.inputs[0] for eqn in turns.additions):
        assert isinstance(array, Var)
        found = e.op(f"or i1 {found}, {e.accumulation.shared.get(array, 'false')}")
    return found


def _settle(e: Emitter, turns: Turns, late: _Late, totals: Sequence[str]) -> list[str]:
    """Add what the turns before add; the totals then."""
    before, some, none = e.block, e.label("settle"), e.label("settled")
    e.branch(late.is_none, none, some)
    e.place(some)
    with e.turns_of(TURNS):
        for eqn, what in late.elements.items():
            add(e, turns.additions[eqn], what)
        added = [
            add_columns(e, s, total, given)
            for s, total, given in zip(late.sums, totals, late.columns, strict=True)
        ]
    after = e.block
    e.jump(none)
    e.place(none)
    phis = [e.phi(s.type) for s in late.sums]
    _enter(e, phis, totals, before)
    _enter(e, phis, added, after)
    return phis


def _enter(e: Emitter, phis: Sequence[str], values: Sequence[str], block: str) -> None:
    for phi, value in zip(phis, values, strict=True):
        e.add_edge(phi, value, block)


def _step(e: Emitter, turns: Turns, taken: str) -> Step:
    """The next ``taken`` turns, which are ``FEWEST_TURNS`` or more, in lanes."""
    last = e.op(f"sub i64 {taken}, 1")
    numbers = [str(lane) for lane in range(FEWEST_TURNS)]
    for lane in range(FEWEST_TURNS, TURNS):
        numbers.append(e.op(f"call i64 @llvm.umin.i64(i64 {last}, i64 {lane})"))
    wide, lanes = f"<{TURNS} x i64>", ", ".join(f"i64 {lane}" for lane in range(TURNS))
    first = e.op(f"insertelement {wide} poison, i64 {taken}, i64 0")
    zeros = f"<{TURNS} x i32> zeroinitializer"
    ends = e.op(f"shufflevector {wide} {first}, {wide} poison, {zeros}")
    active = e.op(f"icmp ugt {wide} {ends}, <{lanes}>")
    lasts = e.op(f"sub {wide} {ends}, splat (i64 1)")
    all_numbers = e.op(f"select <{TURNS} x i1> {active}, {wide} <{lanes}>, {wide} {lasts}")
    return Step(turns, tuple(numbers), all_numbers, active, {})


def _resized(e: Emitter, value: str, source: str, target: str) -> str:
    """An unsigned number of LLVM type ``source`` as ``target``."""
    if source == target:
        return value
    widens = int(source[1:]) < int(target[1:])
    return e.op(f"{'zext' if widens else 'trunc'} {source} {value} to {target}")
