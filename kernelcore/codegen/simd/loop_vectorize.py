"""Loop vectorisation: lanes are consecutive iterations of one thread's loop.

The loop is an inner one that makes sums, or one of independent iterations, with any loops inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins import float16
from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.independent_loops import INDEPENDENT_LANES, IndependentLoop
from kernelcore.codegen.analysis.loop_dependence import VectorLoop
from kernelcore.codegen.llvm.blocks import add_edges, bind_phis, phis_of, resized, type_of
from kernelcore.codegen.llvm.emitter import Emitter, Lanes, scalar_type
from kernelcore.codegen.llvm.packed import all_apart
from kernelcore.codegen.reduction.accumulate import total_of_lanes
from kernelcore.codegen.simd.ordered_sums import Sums, add_terms, joined, parted, sums_of
from kernelcore.ir.core import Eqn, Var
from kernelcore.ir.op import Op

# The main loop runs LOOP_LANES iterations at a time. Of the rest, SHORT_LOOP_LANES run once if as
# many are left, the others one by one (docs/decisions/087, 005).
LOOP_LANES = 8
SHORT_LOOP_LANES = 4
# What is left of independent iterations runs LOOP_LANES at a time, under a mask; fewer than
# LEAST_INDEPENDENT one by one (docs/decisions/240).
LEAST_INDEPENDENT = 3


@dataclass(frozen=True, slots=True)
class _State:
    """How far a loop is.

    Attributes:
        left: The number of iterations that are left, as i64.
        position: The index of the next one.
        totals: The sums that the loop carries.
    """

    left: str
    position: str
    totals: list[str]

    def texts(self) -> list[str]:
        return [self.left, self.position, *self.totals]


@dataclass(frozen=True, slots=True)
class _Loop:
    """A vectorised loop: its sums, and the step of its index."""

    body: VectorLoop
    sums: list[Sums]
    by: str

    @property
    def index(self) -> Var:
        return self.body.region.params[0]


def emit_vector_iterations(
    e: Emitter, eqn: Eqn, bounds: tuple[str, str, str], entries: Sequence[str]
) -> tuple[str, list[str]]:
    """Run most iterations of a loop as vectors; the scalar loop runs the few that are left.

    Args:
        e: Emitter, for single threads.
        eqn: One of ``e.vector_loops``.
        bounds: Start, stop and step.
        entries: The values that the loop carries at its start.

    Returns:
        The index at which the scalar loop goes on, and the carried values there.
    """
    body, (first, limit, by) = e.vector_loops[eqn], bounds
    loop = _Loop(body, sums_of(eqn, body), by)
    integer = scalar_type(loop.index)
    ty = LLVM_TYPES[integer.name]
    with e.at(1):
        count = resized(e, trip_count(e, integer, first, limit, by), ty, "i64")
    # All iterations are left to the scalar loop where other threads may add meanwhile.
    count = e.op(f"select i1 {_is_shared(e, body)}, i64 1, i64 {count}")
    state = _State(count, first, [joined(e, s, entries) for s in loop.sums])
    state = _emit_main_loop(e, loop, state)
    state = _emit_short_vector(e, loop, state)
    found = list(entries)
    for s, total in zip(loop.sums, state.totals, strict=True):
        parted(e, s, total, found)
    # Beyond the last iteration the index may have wrapped.
    is_over = e.op(f"icmp eq i64 {state.left}, 0")
    return e.op(f"select i1 {is_over}, {ty} {limit}, {ty} {state.position}"), found


def emit_independent_iterations(
    e: Emitter, eqn: Eqn, bounds: tuple[str, str, str], entries: Sequence[str]
) -> tuple[str, list[str]]:
    """Run the iterations of a loop as vectors; all or none, which are left to the scalar loop.

    Args:
        e: Emitter, for single threads.
        eqn: One of ``e.independent_loops``.
        bounds: Start, stop and step, which is 1 or -1.
        entries: What the loop carries at its start.

    Returns:
        The index at which the scalar loop goes on, and what it carries there.
    """
    loop, (first, limit, _) = e.independent_loops[eqn], bounds
    integer = scalar_type(loop.body.params[0])
    ty = LLVM_TYPES[integer.name]
    with e.at(1):
        count = trip_count(e, integer, *bounds)
    gains = e.op(f"icmp uge {ty} {count}, {LEAST_INDEPENDENT}")
    if loop.adds:
        # Arrays of any strides run it, too, which may overlap.
        gains = all_apart(e, gains, [loop])
    count = e.op(f"select i1 {gains}, {ty} {count}, {ty} 0")
    end = e.op(f"select i1 {gains}, {ty} {limit}, {ty} {first}")
    left, position, parts = emit_iterations(e, loop, count, first, INDEPENDENT_LANES)
    totals = _with_lanes(e, loop, entries, parts, INDEPENDENT_LANES)
    with e.at(LOOP_LANES):
        nothing = neutral_values(e, loop)
    parts = emit_rest(e, loop, left, position, nothing)
    return end, _with_lanes(e, loop, totals, parts, LOOP_LANES)


def emit_iterations(
    e: Emitter,
    loop: IndependentLoop,
    count: str,
    first: str,
    lanes: int,
    run: Callable[[], None] | None = None,
) -> tuple[str, str, list[str]]:
    """Run ``lanes`` iterations at a time while as many of ``count`` are left, from ``first`` on.

    ``run`` emits the body of ``loop``, once if it is None.

    Returns:
        The number of iterations that are left, the index of the next one, and what each lane has
        collected.
    """
    index, *carried = loop.body.params
    ty = LLVM_TYPES[scalar_type(index).name]
    before, head, body, done = e.block, e.label("vectors"), e.label("vector"), e.label("few")
    e.jump_into(head)
    left, position = e.phi(ty, (count, before)), e.phi(ty, (first, before))
    found = Lanes(lanes, loop.strides, are_iterations=True)
    with e.as_lanes(found), e.at(lanes):
        nothing = neutral_values(e, loop)
        sums = bind_phis(e, carried, nothing, before)
    e.branch(e.op(f"icmp uge {ty} {left}, {lanes}"), body, done)
    e.start_block(body)
    # Lane 0 has the lowest index.
    lowest = position if loop.step > 0 else e.op(f"sub {ty} {position}, {lanes - 1}")
    e.bind(index, lowest)
    with e.special_loops({}, {}), e.as_lanes(found):
        (run or partial(e.region, loop.body))()
        values = e.values(loop.body.yields, carried)
    further = e.op(f"add {ty} {position}, {loop.step * lanes}")
    following = e.op(f"sub {ty} {left}, {lanes}"), further, *values
    add_edges(e, (left, position, *sums), following, e.block)
    e.jump(head)
    e.start_block(done)
    return left, position, sums


def emit_rest(
    e: Emitter,
    loop: IndependentLoop,
    count: str,
    first: str,
    parts: Sequence[str],
    run: Callable[[], None] | None = None,
) -> list[str]:
    """The last ``count`` iterations, from ``first`` on, under a mask of ``LOOP_LANES`` lanes.

    ``parts`` is what each lane has collected before, and is returned with theirs. ``run`` emits the
    body of ``loop``, once if it is None.
    """
    index, *carried = loop.body.params
    ty = LLVM_TYPES[scalar_type(index).name]
    before, head, some, done = e.block, e.label("rest"), e.label("masked"), e.label("row_done")
    e.jump_into(head)
    left, position = e.phi(ty, (count, before)), e.phi(ty, (first, before))
    with e.as_lanes(Lanes(LOOP_LANES, loop.strides, are_iterations=True)), e.at(LOOP_LANES):
        collected = bind_phis(e, carried, parts, before)
    e.branch(e.op(f"icmp ne {ty} {left}, 0"), some, done)
    e.start_block(some)
    wide, lanes = f"<{LOOP_LANES} x {ty}>", ", ".join(f"{ty} {k}" for k in range(LOOP_LANES))
    with e.as_lanes(Lanes(LOOP_LANES)):
        mask = e.op(f"icmp ult {wide} <{lanes}>, {e.splat(ty, left)}")
    is_last = e.op(f"icmp ult {ty} {left}, {LOOP_LANES}")
    size = e.op(f"select i1 {is_last}, {ty} {left}, {ty} {LOOP_LANES}")
    further = e.op(f"{'add' if loop.step > 0 else 'sub'} {ty} {position}, {size}")
    # Lane 0 has the lowest index.
    e.bind(index, position if loop.step > 0 else e.op(f"add {ty} {further}, 1"))
    inside = Lanes(LOOP_LANES, loop.strides, mask=mask, are_iterations=True)
    with e.special_loops({}, {}), e.as_lanes(inside):
        (run or partial(e.region, loop.body))()
        values = [
            e.op(f"select <{LOOP_LANES} x i1> {mask}, {type_of(e, v)} {new}, {type_of(e, v)} {old}")
            for v, new, old in zip(
                carried, e.values(loop.body.yields, carried), collected, strict=True
            )
        ]
    following = e.op(f"sub {ty} {left}, {size}"), further, *values
    add_edges(e, (left, position, *collected), following, e.block)
    e.jump(head)
    e.start_block(done)
    return collected


def neutral_values(e: Emitter, loop: IndependentLoop) -> list[str]:
    """Of what ``loop`` carries, the values before anything is collected, at ``e.lanes`` lanes."""
    found: list[str] = []
    for var, op in zip(loop.body.params[1:], loop.collects, strict=True):
        assert op.neutral is not None
        dtype = scalar_type(var)
        found.append(e.const(dtype, op.neutral(dtype)))
    return found


def joined_values(e: Emitter, op: Op, var: Var, first: str, second: str) -> str:
    """What ``op`` makes of two values of ``var``, at ``e.lanes`` lanes."""
    assert op.lower is not None
    dtype = scalar_type(var)
    return float16.rounded(e, dtype, op.lower(e, float16.held_as(dtype), first, second))


def _with_lanes(
    e: Emitter, loop: IndependentLoop, totals: Sequence[str], parts: Sequence[str], lanes: int
) -> list[str]:
    """``totals`` with the ``parts`` of all lanes."""
    found: list[str] = []
    carried = zip(loop.body.params[1:], loop.collects, totals, parts, strict=True)
    for var, op, total, one in carried:
        with e.at(1):
            both = total_of_lanes(e, scalar_type(var), one, lanes, op)
            found.append(joined_values(e, op, var, total, both))
    return found


def _emit_main_loop(e: Emitter, loop: _Loop, start: _State) -> _State:
    before, head, body, done = e.block, e.label("vectors"), e.label("vector"), e.label("few")
    e.jump_into(head)
    state = _state_phis(e, loop, (start, before))
    e.branch(e.op(f"icmp uge i64 {state.left}, {LOOP_LANES}"), body, done)
    e.start_block(body)
    following = _emit_vector(e, loop, state, LOOP_LANES)
    add_edges(e, state.texts(), following.texts(), e.block)
    e.jump(head)
    e.start_block(done)
    return state


def _emit_short_vector(e: Emitter, loop: _Loop, state: _State) -> _State:
    before, some, rest = e.block, e.label("some"), e.label("rest")
    e.branch(e.op(f"icmp uge i64 {state.left}, {SHORT_LOOP_LANES}"), some, rest)
    e.start_block(some)
    following = _emit_vector(e, loop, state, SHORT_LOOP_LANES)
    after = e.block
    e.jump_into(rest)
    return _state_phis(e, loop, (state, before), (following, after))


def _state_phis(e: Emitter, loop: _Loop, *ends: tuple[_State, str]) -> _State:
    """The state of a block that is entered from the blocks in ``ends``."""
    types = ["i64", LLVM_TYPES[scalar_type(loop.index).name], *(s.type for s in loop.sums)]
    pairs = [(state.texts(), block) for state, block in ends]
    left, position, *totals = phis_of(e, types, *pairs)
    return _State(left, position, totals)


def _emit_vector(e: Emitter, loop: _Loop, state: _State, lanes: int) -> _State:
    """Run the next ``lanes`` iterations; the state after them."""
    e.bind(loop.index, state.position)
    with e.as_lanes(Lanes(lanes, loop.body.strides, vector_loop=loop.body)):
        e.region(loop.body.region)
        totals = [add_terms(e, s, t) for s, t in zip(loop.sums, state.totals, strict=True)]
    ty = LLVM_TYPES[scalar_type(loop.index).name]
    position = e.op(f"add {ty} {state.position}, {e.op(f'mul {ty} {loop.by}, {lanes}')}")
    return _State(e.op(f"sub i64 {state.left}, {lanes}"), position, totals)


def _is_shared(e: Emitter, body: VectorLoop) -> str:
    """Whether other threads may add to the elements that the loop adds to, as i1."""
    assert e.accumulation is not None
    found = "false"
    for array in dict.fromkeys(eqn.inputs[0] for eqn in body.additions):
        assert isinstance(array, Var)
        found = e.op(f"or i1 {found}, {e.accumulation.shared.get(array, 'false')}")
    return found
