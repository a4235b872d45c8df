"""Sums and extrema in parts: what a loop along a row collects where its iterations are lanes.

    iterations 0 .. 31   32 .. 63   64 .. 71   72 73 74
               |          |          |         |
    parts      a[0:32]    a[0:32]    b[0:8]    b[0:3]

The parts are joined as a tree when the loop ends: ``a`` by halves to 8 parts, then ``b``, then by
halves again. Lanes have the order of indices: where these go down, the first iteration has the last
part. Code whose lanes are no iterations keeps the parts in the frame, so that all sums are alike.
There, lanes add to one element one after the other, as they do where each has its own iterations.

A loop of a kernel, rather than of a derivative, has parts from ``INDEPENDENT_LANES`` iterations on.
Shorter ones collect in the order of iterations, as gangs do for short rows, which they transpose.
So do loops whose rows are in panels (``analysis/panels.py``), where a launch has rows enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.independent_loops import INDEPENDENT_LANES, IndependentLoop
from kernelcore.codegen.analysis.panels import LEAST_ROWS_TRANSPOSED
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import phis_of, repeat, resized, type_of
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.reduction.accumulate import folded, total_of_lanes
from kernelcore.codegen.simd.loop_vectorize import (
    LOOP_LANES,
    joined_values,
    neutral_values,
)
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import Op
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.access.accumulation_plan import defining_eqns

_PARTS = INDEPENDENT_LANES + LOOP_LANES
# How parts are joined: these numbers, the part of the first one, and that of the first other one.
_TREE = (
    *((size, 0, size) for size in (INDEPENDENT_LANES // 2, INDEPENDENT_LANES // 4)),
    (LOOP_LANES, 0, INDEPENDENT_LANES),
    *((size, 0, size) for size in (LOOP_LANES // 2, LOOP_LANES // 4, LOOP_LANES // 8)),
)


# Emits a loop; the values that it carries at its end.
Emit = Callable[[], list[str]]


def by_length(
    e: Emitter, eqn: Eqn, loop: IndependentLoop, *, in_parts: Emit, in_order: Emit
) -> list[str]:
    """What the loop ``eqn``, which all lanes run together, carries at its end.

    Args:
        e: Emitter.
        eqn: The loop.
        loop: Its iterations.
        in_parts: Emits the loop that collects in parts.
        in_order: Emits the one that collects in the order of iterations.
    """
    if not loop.is_ordered_if_short:
        return in_parts()
    carried = loop.body.params[1:]
    many, few, done = e.label("many"), e.label("few"), e.label("collected")
    e.branch(_has_parts(e, eqn, loop), many, few)
    ends: list[tuple[list[str], str]] = []
    for label, emit in ((many, in_parts), (few, in_order)):
        e.start_block(label)
        ends.append((emit(), e.block))
        e.jump(done)
    e.start_block(done)
    return phis_of(e, [type_of(e, v) for v in carried], *ends)


def any_long(e: Emitter, func: Func, loops: Mapping[Eqn, IndependentLoop]) -> str:
    """Whether one of ``loops``, whose trips the launch decides, has parts, as i1.

    The arguments of the kernel are bound.
    """
    result = "false"
    for eqn, loop in loops.items():
        e.region(Region((), defining_eqns(func, eqn.inputs[:3])))
        result = e.op(f"or i1 {result}, {_has_parts(e, eqn, loop)}")
    return result


def _has_parts(e: Emitter, eqn: Eqn, loop: IndependentLoop) -> str:
    """Whether ``loop``, which is ordered if short, collects in parts in this launch, as i1."""
    integer = scalar_type(loop.body.params[0])
    ty = LLVM_TYPES[integer.name]
    with e.at(1):
        count = trip_count(e, integer, *(e.value(a) for a in eqn.inputs[:3]))
    is_long = e.op(f"icmp uge {ty} {count}, {INDEPENDENT_LANES}")
    if not loop.most_in_panels:
        return is_long
    few_rows = e.op(f"icmp ult i64 {e.grid_rows}, {LEAST_ROWS_TRANSPOSED}")
    no_room = e.op(f"icmp ugt {ty} {count}, {loop.most_in_panels}")
    return e.op(f"and i1 {is_long}, {e.op(f'or i1 {few_rows}, {no_room}')}")


def total_of_parts(e: Emitter, op: Op, var: Var, many: str, few: str) -> str:
    """What ``op`` makes of ``INDEPENDENT_LANES`` parts of ``var`` and of ``LOOP_LANES`` parts."""
    dtype = scalar_type(var)
    first = folded(e, dtype, many, INDEPENDENT_LANES, LOOP_LANES, op)
    with e.at(LOOP_LANES):
        both = joined_values(e, op, var, first, few)
    return total_of_lanes(e, dtype, both, LOOP_LANES, op)


def emit_for(e: Emitter, eqn: Eqn, loop: IndependentLoop) -> list[str]:
    """The loop ``eqn``, which all lanes run together, with the parts in the frame."""
    (body,), (index, *carried) = eqn.regions, eqn.regions[0].params
    integer = scalar_type(index)
    first, limit, by = (e.value_at(a, 1) for a in eqn.inputs[:3])
    ty = LLVM_TYPES[integer.name]
    entries = e.values(eqn.inputs[3:], carried)
    with e.at(1):
        count = trip_count(e, integer, first, limit, by)
    slots = _cleared(e, loop)
    before, head, inside, done = e.block, e.label("for"), e.label("body"), e.label("done")
    e.jump_into(head)
    position, counter = e.phi(ty, (first, before)), e.phi(ty, ("0", before))
    e.branch(e.op(f"icmp ult {ty} {counter}, {count}"), inside, done)
    e.start_block(inside)
    e.bind(index, position)
    part = resized(e, _part(e, ty, counter, count, loop.step), ty, "i64")
    places = [_place(e, v, slot, part) for v, slot in zip(carried, slots, strict=True)]
    for v, place in zip(carried, places, strict=True):
        with e.at(e.lanes_of(v)):
            e.bind(v, memory.load(e, scalar_type(v), place))
    e.in_lane_order = frozenset(walk_eqns(body))
    e.region(body)
    e.in_lane_order = frozenset()
    for v, place, value in zip(carried, places, e.values(body.yields, carried), strict=True):
        with e.at(e.lanes_of(v)):
            memory.store(e, scalar_type(v), value, place)
    e.add_edge(position, e.op(f"add {ty} {position}, {by}"), e.block)
    e.add_edge(counter, e.op(f"add nuw {ty} {counter}, 1"), e.block)
    e.jump(head)
    e.start_block(done)
    return _with_totals(e, loop, slots, entries)


def _part(e: Emitter, ty: str, counter: str, count: str, step: int) -> str:
    """The number of the part to which iteration ``counter`` of ``count`` adds."""
    main = e.op(f"and {ty} {count}, {-INDEPENDENT_LANES}")
    is_main = e.op(f"icmp ult {ty} {counter}, {main}")
    many, few = (e.op(f"and {ty} {counter}, {n - 1}") for n in (INDEPENDENT_LANES, LOOP_LANES))
    if step < 0:
        many = e.op(f"sub {ty} {INDEPENDENT_LANES - 1}, {many}")
        rest = e.op(f"and {ty} {count}, {LOOP_LANES - 1}")
        is_whole = e.op(f"icmp ult {ty} {counter}, {e.op(f'sub {ty} {count}, {rest}')}")
        size = e.op(f"select i1 {is_whole}, {ty} {LOOP_LANES}, {ty} {rest}")
        few = e.op(f"sub {ty} {e.op(f'sub {ty} {size}, 1')}, {few}")
    few = e.op(f"add {ty} {few}, {INDEPENDENT_LANES}")
    return e.op(f"select i1 {is_main}, {ty} {many}, {ty} {few}")


def _place(e: Emitter, var: Var, slot: str, part: str) -> str:
    return e.op(f"getelementptr {type_of(e, var)}, ptr {slot}, i64 {part}")


def _cleared(e: Emitter, loop: IndependentLoop) -> list[str]:
    """Memory for the parts of what ``loop`` carries, in which nothing is collected yet."""
    carried = loop.body.params[1:]
    slots = [
        e.slot(f"[{_PARTS} x {type_of(e, v)}], align {memory.CACHE_LINE_BYTES}") for v in carried
    ]

    def clear(part: str) -> None:
        for at, (var, slot) in enumerate(zip(carried, slots, strict=True)):
            with e.at(e.lanes_of(var)):
                nothing = neutral_values(e, loop)[at]
                memory.store(e, scalar_type(var), nothing, _place(e, var, slot, part))

    repeat(e, str(_PARTS), clear)
    return slots


def _with_totals(
    e: Emitter, loop: IndependentLoop, slots: Sequence[str], entries: Sequence[str]
) -> list[str]:
    """``entries`` with the parts in ``slots``."""
    found: list[str] = []
    for var, op, slot, entry in zip(
        loop.body.params[1:], loop.collects, slots, entries, strict=True
    ):
        for step in _TREE:
            _join_parts(e, op, var, slot, step)
        with e.at(e.lanes_of(var)):
            total = memory.load(e, scalar_type(var), slot)
            found.append(joined_values(e, op, var, entry, total))
    return found


def _join_parts(e: Emitter, op: Op, var: Var, slot: str, step: tuple[int, int, int]) -> None:
    size, target, source = step
    dtype = scalar_type(var)

    def join(part: str) -> None:
        places = [
            _place(e, var, slot, e.op(f"add i64 {part}, {at}") if at else part)
            for at in (target, source)
        ]
        with e.at(e.lanes_of(var)):
            old, value = (memory.load(e, dtype, place) for place in places)
            memory.store(e, dtype, joined_values(e, op, var, old, value), places[0])

    repeat(e, str(size), join)
