"""Sums in parts: what a loop that runs backwards adds up where its iterations are lanes.

    iterations 0 .. 31   32 .. 63   64 .. 71   72 73 74
               |          |          |         |
    parts      a[0:32]    a[0:32]    b[0:8]    b[0:3]

The parts are added up as a tree when the loop ends: ``a`` by halves to 8 parts, then ``b``, then by
halves again. Lanes have the order of indices: where these go down, the first iteration has the last
part. Code whose lanes are no iterations keeps the parts in the frame, so that all sums are alike.
There, lanes add to one element one after the other, as they do where each has its own iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.builtins.reference import nothing_added
from kernelcore.codegen.analysis.independent_loops import IndependentLoop
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import resized, type_of
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.reduction.accumulate import folded, total_of_lanes
from kernelcore.codegen.reduction.element_add import summed
from kernelcore.codegen.simd.loop_vectorize import INDEPENDENT_LANES, LOOP_LANES
from kernelcore.ir.core import Eqn, Var
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import Scalar

_PARTS = INDEPENDENT_LANES + LOOP_LANES
# How parts are added up: these numbers, the part of the first one, and that of the first added.
_TREE = (
    *((size, 0, size) for size in (INDEPENDENT_LANES // 2, INDEPENDENT_LANES // 4)),
    (LOOP_LANES, 0, INDEPENDENT_LANES),
    *((size, 0, size) for size in (LOOP_LANES // 2, LOOP_LANES // 4, LOOP_LANES // 8)),
)


def total_of_parts(e: Emitter, dtype: Scalar, many: str, few: str) -> str:
    """The sum of ``INDEPENDENT_LANES`` parts and of ``LOOP_LANES`` parts."""
    first = folded(e, dtype, many, INDEPENDENT_LANES, LOOP_LANES)
    with e.at(LOOP_LANES):
        both = summed(e, dtype, first, few)
    return total_of_lanes(e, dtype, both, LOOP_LANES)


def emit_for(e: Emitter, eqn: Eqn, loop: IndependentLoop) -> list[str]:
    """The loop ``eqn``, which all lanes run together, with the parts of its sums in the frame."""
    (body,), (index, *carried) = eqn.regions, eqn.regions[0].params
    integer = scalar_type(index)
    first, limit, by = (e.value_at(a, 1) for a in eqn.inputs[:3])
    ty = LLVM_TYPES[integer.name]
    entries = e.values(eqn.inputs[3:], carried)
    with e.at(1):
        count = trip_count(e, integer, first, limit, by)
    slots = [_cleared(e, v) for v in carried]
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
    return _with_totals(e, carried, slots, entries)


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


def _cleared(e: Emitter, var: Var) -> str:
    """Memory for the parts of ``var``, to which nothing is added yet."""
    slot = e.slot(f"[{_PARTS} x {type_of(e, var)}], align {memory.CACHE_LINE_BYTES}")
    dtype = scalar_type(var)

    def clear(part: str) -> None:
        with e.at(e.lanes_of(var)):
            memory.store(e, dtype, e.const(dtype, nothing_added(dtype)), _place(e, var, slot, part))

    _repeat(e, _PARTS, clear)
    return slot


def _with_totals(
    e: Emitter, carried: Sequence[Var], slots: Sequence[str], entries: Sequence[str]
) -> list[str]:
    """``entries`` with the parts in ``slots`` added."""
    found: list[str] = []
    for var, slot, entry in zip(carried, slots, entries, strict=True):
        for size, target, source in _TREE:
            _add_parts(e, var, slot, (size, target, source))
        with e.at(e.lanes_of(var)):
            total = memory.load(e, scalar_type(var), slot)
            found.append(summed(e, scalar_type(var), entry, total))
    return found


def _add_parts(e: Emitter, var: Var, slot: str, step: tuple[int, int, int]) -> None:
    size, target, source = step
    dtype = scalar_type(var)

    def add(part: str) -> None:
        places = [
            _place(e, var, slot, e.op(f"add i64 {part}, {at}") if at else part)
            for at in (target, source)
        ]
        with e.at(e.lanes_of(var)):
            old, value = (memory.load(e, dtype, place) for place in places)
            memory.store(e, dtype, summed(e, dtype, old, value), places[0])

    _repeat(e, size, add)


def _repeat(e: Emitter, times: int, emit: Callable[[str], None]) -> None:
    """``emit`` in a loop, for the numbers below ``times`` as i64."""
    before, head, done = e.block, e.label("part"), e.label("parts_done")
    e.jump_into(head)
    number = e.phi("i64", ("0", before))
    emit(number)
    following = e.op(f"add nuw i64 {number}, 1")
    e.add_edge(number, following, e.block)
    e.branch(e.op(f"icmp ult i64 {following}, {times}"), head, done)
    e.start_block(done)
