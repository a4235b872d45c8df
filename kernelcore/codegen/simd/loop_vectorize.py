"""Loops whose turns run in step: the lanes of registers are turns of one thread.

What turns add is added while the next ones are computed, which leaves the processor something to do
while it waits for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.loop_dependence import Turns
from kernelcore.codegen.llvm.emitter import Emitter, Step, scalar_type
from kernelcore.codegen.reduction.sums import Addition
from kernelcore.codegen.simd.component_groups import add, waiting
from kernelcore.codegen.simd.ordered_sums import (
    Sums,
    add_columns,
    column_phis,
    columns,
    joined,
    parted,
    sums_of,
)
from kernelcore.ir.core import Eqn, Var

TURNS = 8
# So many of those that are left run in step once more, and the last ones one by one.
FEW_TURNS = 4


@dataclass(frozen=True, slots=True)
class _State:
    """How far a loop is.

    Attributes:
        left: The number of turns that are left, as i64.
        position: The index of the next one.
        totals: The sums that the loop carries.
    """

    left: str
    position: str
    totals: list[str]

    def texts(self) -> list[str]:
        return [self.left, self.position, *self.totals]


@dataclass(frozen=True, slots=True)
class _Added:
    """What turns in step add.

    Attributes:
        elements: To elements.
        columns: To each of the sums that the loop carries.
    """

    elements: dict[Eqn, Addition]
    columns: list[list[str]]

    def texts(self) -> list[str]:
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
    integer = scalar_type(turns.body.params[0])
    ty = LLVM_TYPES[integer.name]
    with e.at(1):
        count = _resized(e, trip_count(e, integer, first, limit, by), ty, "i64")
    sums = sums_of(loop, turns)
    # One is left to the code for single turns, as are all where other threads may add meanwhile.
    count = e.op(f"select i1 {_is_shared(e, turns)}, i64 1, i64 {count}")
    state = _State(count, first, [joined(e, s, entries) for s in sums])
    state = _take_many(e, turns, sums, state, by)
    state = _take_few(e, turns, sums, state, by)
    found = list(entries)
    for s, total in zip(sums, state.totals, strict=True):
        parted(e, s, total, found)
    # Beyond the last turn the index may have wrapped.
    is_over = e.op(f"icmp eq i64 {state.left}, 0")
    return e.op(f"select i1 {is_over}, {ty} {limit}, {ty} {state.position}"), found


def _take_many(e: Emitter, turns: Turns, sums: Sequence[Sums], start: _State, by: str) -> _State:
    """Take ``TURNS`` turns at a time, and add what they add while the next ones are computed."""
    before, head, turn, done = e.block, e.label("turns"), e.label("several"), e.label("few")
    e.jump(head)
    e.place(head)
    state, is_none = _state_phis(e, turns, sums), e.phi("i1")
    with e.turns_of(TURNS):
        elements = {eqn: waiting(e, turns.additions[eqn]) for eqn in turns.late}
        late = _Added(elements, [column_phis(e, s) for s in sums])
    phis = (*state.texts(), is_none, *late.texts())
    _enter(e, phis, (*start.texts(), "true", *["poison"] * len(late.texts())), before)
    e.branch(e.op(f"icmp uge i64 {state.left}, {TURNS}"), turn, done)
    e.place(turn)
    this = _compute(e, turns, sums, state.position, TURNS)
    totals = _settle(e, turns, sums, state.totals, late, is_none)
    following = _State(*_behind(e, turns, state, by, TURNS), totals)
    _enter(e, phis, (*following.texts(), "false", *this.texts()), e.block)
    e.jump(head)
    e.place(done)
    totals = _settle(e, turns, sums, state.totals, late, is_none)
    return _State(state.left, state.position, totals)


def _take_few(e: Emitter, turns: Turns, sums: Sequence[Sums], state: _State, by: str) -> _State:
    """Take ``FEW_TURNS`` turns if as many are left."""
    before, some, none = e.block, e.label("some"), e.label("rest")
    e.branch(e.op(f"icmp uge i64 {state.left}, {FEW_TURNS}"), some, none)
    e.place(some)
    this = _compute(e, turns, sums, state.position, FEW_TURNS)
    totals = _add(e, turns, sums, state.totals, this, FEW_TURNS)
    taken = _State(*_behind(e, turns, state, by, FEW_TURNS), totals)
    after = e.block
    e.jump(none)
    e.place(none)
    found = _state_phis(e, turns, sums)
    _enter(e, found.texts(), state.texts(), before)
    _enter(e, found.texts(), taken.texts(), after)
    return found


def _state_phis(e: Emitter, turns: Turns, sums: Sequence[Sums]) -> _State:
    ty = LLVM_TYPES[scalar_type(turns.body.params[0]).name]
    return _State(e.phi("i64"), e.phi(ty), [e.phi(s.type) for s in sums])


def _behind(e: Emitter, turns: Turns, state: _State, by: str, taken: int) -> tuple[str, str]:
    """How many turns are left behind the next ``taken``, and the index of the first of these."""
    ty = LLVM_TYPES[scalar_type(turns.body.params[0]).name]
    moved = e.op(f"mul {ty} {by}, {taken}")
    position = e.op(f"add {ty} {state.position}, {moved}")
    return e.op(f"sub i64 {state.left}, {taken}"), position


def _compute(e: Emitter, turns: Turns, sums: Sequence[Sums], position: str, count: int) -> _Added:
    """What ``count`` turns from ``position`` on add, but for what they add at once."""
    e.bind(turns.body.params[0], position)
    step = Step(turns, count, {})
    with e.in_step(step):
        e.region(turns.body)
        return _Added(step.late, [columns(e, s) for s in sums])


def _add(
    e: Emitter,
    turns: Turns,
    sums: Sequence[Sums],
    totals: Sequence[str],
    what: _Added,
    count: int,
) -> list[str]:
    """Add what ``count`` turns add; the totals then."""
    with e.turns_of(count):
        for eqn, addition in what.elements.items():
            add(e, turns.additions[eqn], addition)
        return [
            add_columns(e, s, total, given)
            for s, total, given in zip(sums, totals, what.columns, strict=True)
        ]


def _settle(
    e: Emitter,
    turns: Turns,
    sums: Sequence[Sums],
    totals: Sequence[str],
    late: _Added,
    is_none: str,
) -> list[str]:
    """Add what the turns before add, unless there are none; the totals then."""
    before, some, none = e.block, e.label("settle"), e.label("settled")
    e.branch(is_none, none, some)
    e.place(some)
    added = _add(e, turns, sums, totals, late, TURNS)
    after = e.block
    e.jump(none)
    e.place(none)
    phis = [e.phi(s.type) for s in sums]
    _enter(e, phis, totals, before)
    _enter(e, phis, added, after)
    return phis


def _is_shared(e: Emitter, turns: Turns) -> str:
    """Whether other threads may add to the elements that the turns add to, as i1."""
    assert e.accumulation is not None
    found = "false"
    for array in dict.fromkeys(eqn.inputs[0] for eqn in turns.additions):
        assert isinstance(array, Var)
        found = e.op(f"or i1 {found}, {e.accumulation.shared.get(array, 'false')}")
    return found


def _enter(e: Emitter, phis: Sequence[str], values: Sequence[str], block: str) -> None:
    for phi, value in zip(phis, values, strict=True):
        e.add_edge(phi, value, block)


def _resized(e: Emitter, value: str, source: str, target: str) -> str:
    """An unsigned number of LLVM type ``source`` as ``target``."""
    if source == target:
        return value
    widens = int(source[1:]) < int(target[1:])
    return e.op(f"{'zext' if widens else 'trunc'} {source} {value} to {target}")
