"""Loops of a gang along rows, in blocks: elements are loaded by rows and transposed in registers.

    memory                    registers                    frame
    row of lane 0  a b c d     a e i m                      iteration 0:  a e i m
    row of lane 1  e f g h     b f j n                      iteration 1:  b f j n
    row of lane 2  i j k l     c g k o      transposed      iteration 2:  ...
    row of lane 3  m n o p     d h l p

The body of the loop finds the elements of all lanes side by side in the frame, and leaves those
that it writes there; they are transposed back when the block ends. Nothing is reordered within a
thread, so sums keep their bits.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, RowStream
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import add_edges, bind_phis, resized
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.llvm.module_function import call
from kernelcore.codegen.reduction.accumulate import Ways, add_shared
from kernelcore.codegen.reduction.block_sums import BlockSum, add_block
from kernelcore.codegen.reduction.element_add import add_lanes_together, in_frame
from kernelcore.codegen.reduction.lane_trees import register_bytes
from kernelcore.codegen.simd import vector_access
from kernelcore.codegen.simd.masked_control import both
from kernelcore.codegen.simd.partial_sums import Emit, by_length
from kernelcore.codegen.simd.row_by_row import emit_by_rows
from kernelcore.codegen.simd.row_transfer import BLOCK, Transfer, transfer_function
from kernelcore.ir.core import Eqn
from kernelcore.ir.walk import array_type, element_indices


@dataclass(frozen=True, slots=True)
class _Buffer:
    """The elements of one stream in a block: in the frame, ``e.gang`` of each iteration.

    Attributes:
        stream: The accesses.
        slot: The address of the frame's part.
        rows: The first element of each lane, of no meaning in inactive ones: the address of that of
            lane 0, and how far those of the other lanes are apart; or a vector of addresses alone.
    """

    stream: RowStream
    slot: str
    rows: tuple[str, ...]


def goes_along_rows(e: Emitter, eqn: Eqn) -> bool:
    """Whether the loop ``eqn`` is to run along rows, and the processor can mask its elements."""
    found = e.blocked_loops.get(eqn)
    if found is None:
        return False
    made = _made(found)
    return min(array_type(a).dtype.size_bytes for a in made) >= e.facts.least_masked_bytes


def emit_for(e: Emitter, eqn: Eqn, one_by_one: Emit) -> list[str]:
    """A loop over ``range(start, stop, step)`` that all lanes run together, along their rows.

    ``one_by_one`` emits it iteration by iteration.
    """
    loop = e.blocked_loops[eqn]
    if loop.by_rows is None:
        return _emit_blocks(e, eqn)
    rows = loop.by_rows
    return by_length(
        *(e, eqn, rows),
        in_parts=lambda: emit_by_rows(e, eqn, rows),
        in_order=(lambda: _emit_blocks(e, eqn)) if loop.has_blocks else one_by_one,
    )


def read_block(e: Emitter, stream: RowStream, target: str, size: str, done: str) -> None:
    """Load what ``stream`` reads in the next ``size`` iterations, an i32, transposed to ``target``.

    The loop has made ``done`` iterations before these; its index is bound to the next one.
    """
    rows = _rows(e, stream.eqns[0])
    _move(e, _Buffer(stream, target, rows), size, done, writes=False)


def _emit_blocks(e: Emitter, eqn: Eqn) -> list[str]:
    """The loop ``eqn``, which all lanes run together, in blocks."""
    loop, (body,) = e.blocked_loops[eqn], eqn.regions
    index, *carried = body.params
    first, limit, by = (e.value_at(a, 1) for a in eqn.inputs[:3])
    ty = LLVM_TYPES[scalar_type(index).name]
    entries = e.values(eqn.inputs[3:], carried)
    with e.at(1):
        count = trip_count(e, scalar_type(index), first, limit, by)
    slots = {a: _slot(e, a) for a in _made(loop)}
    before, head, block, done = e.block, e.label("blocks"), e.label("block"), e.label("done")
    e.jump_into(head)
    position, counter = e.phi(ty, (first, before)), e.phi(ty, ("0", before))
    outer = bind_phis(e, carried, entries, before)
    e.branch(e.op(f"icmp ult {ty} {counter}, {count}"), block, done)
    e.start_block(block)
    left = e.op(f"sub nuw {ty} {count}, {counter}")
    is_last = e.op(f"icmp ult {ty} {left}, {BLOCK}")
    size = e.op(f"select i1 {is_last}, {ty} {left}, {ty} {BLOCK}")
    e.bind(index, position)
    done_bytes = resized(e, counter, ty, "i64")
    buffers, sums, scatters = _open(e, loop, slots, resized(e, size, ty, "i32"), done_bytes)
    entry, iteration, end = e.block, e.label("iteration"), e.label("block_end")
    e.jump_into(iteration)
    place, at = e.phi(ty, (position, entry)), e.phi(ty, ("0", entry))
    inner = bind_phis(e, carried, outer, entry)
    e.bind(index, place)
    around = e.row_buffers
    e.row_buffers = around | _addresses(e, loop, slots, resized(e, at, ty, "i64"))
    e.region(body)
    e.row_buffers = around
    values = e.values(body.yields, carried)
    place_next, at_next = e.op(f"add {ty} {place}, {by}"), e.op(f"add nuw {ty} {at}, 1")
    add_edges(e, (place, at, *inner), (place_next, at_next, *values), e.block)
    e.branch(e.op(f"icmp ult {ty} {at_next}, {size}"), iteration, end)
    e.start_block(end)
    count_made = resized(e, size, ty, "i32")
    for buffer in buffers:
        if buffer.stream.writes:
            _move(e, buffer, count_made, done_bytes, writes=True)
    for one in sums:
        add_block(e, one, BLOCK, count_made)
    for eqn_added, pointers in scatters.items():
        _scatter(e, eqn_added, loop.scatters[eqn_added], (slots[eqn_added], pointers), count_made)
    counter_next = e.op(f"add nuw {ty} {counter}, {size}")
    add_edges(e, (position, counter, *outer), (place_next, counter_next, *values), e.block)
    e.jump(head)
    e.start_block(done)
    return outer


def _slot(e: Emitter, eqn: Eqn) -> str:
    """The part of the frame for what ``eqn`` accesses in a block."""
    element = memory.stored_type(array_type(eqn).dtype)
    return e.slot(f"[{BLOCK * e.gang} x {element}], align {memory.CACHE_LINE_BYTES}")


def _open(
    e: Emitter, loop: BlockedLoop, slots: Mapping[Eqn, str], size: str, done: str
) -> tuple[list[_Buffer], list[BlockSum], dict[Eqn, str]]:
    """The block of ``size`` iterations after ``done``: what it loads, and where it adds."""
    for eqn in loop.indices:
        e.eqn(eqn)
    found = [_Buffer(s, slots[s.eqns[0]], _rows(e, s.eqns[0])) for s in loop.streams]
    for buffer in found:
        if buffer.stream.loads:
            _move(e, buffer, size, done, writes=False)
    with e.at(1):
        sums = [
            BlockSum(eqn, step, slots[eqn], memory.element(e, eqn)[1])
            for eqn, step in loop.sums.items()
        ]
    scatters = {
        eqn: vector_access.addresses(
            e, eqn, [a for a, i in enumerate(element_indices(eqn)) if e.stride(i) != 0]
        )
        for eqn in loop.scatters
    }
    return found, sums, scatters


def _made(loop: BlockedLoop) -> list[Eqn]:
    """One access of everything for which a block of ``loop`` has a part of the frame."""
    return [*loop.sums, *loop.scatters, *(stream.eqns[0] for stream in loop.streams)]


def _addresses(
    e: Emitter, loop: BlockedLoop, slots: Mapping[Eqn, str], iteration: str
) -> dict[Eqn, str]:
    """Where the accesses of ``loop`` find what belongs to ``iteration``, an i64, of the block."""
    found: dict[Eqn, str] = {}
    for eqns in (
        *(stream.eqns for stream in loop.streams),
        *((eqn,) for eqn in (*loop.sums, *loop.scatters)),
    ):
        ty = f"[{e.gang} x {memory.stored_type(array_type(eqns[0]).dtype)}]"
        address = e.op(f"getelementptr {ty}, ptr {slots[eqns[0]]}, i64 {iteration}")
        found |= dict.fromkeys(eqns, address)
    return found


def _rows(e: Emitter, eqn: Eqn) -> tuple[str, ...]:
    """The ``rows`` of a buffer for the element that ``eqn`` accesses."""
    array, indices = e.array(eqn.inputs[0]), element_indices(eqn)
    strides = [e.stride(i) for i in indices]
    if any(s is None for s in strides):
        moving = [axis for axis, s in enumerate(strides) if s != 0]
        return (vector_access.addresses(e, eqn, moving),)
    with e.at(1):
        start, step = memory.address(e, array, indices), "0"
        for stride, size_bytes in zip(strides, array.strides, strict=True):
            step = e.op(f"add i64 {step}, {e.op(f'mul i64 {stride}, {size_bytes}')}")
    return start, step


def _move(e: Emitter, buffer: _Buffer, size: str, done: str, *, writes: bool) -> None:
    """Load the elements of ``size`` iterations into the frame, or write them to their rows.

    The loop has made ``done`` iterations before these.
    """
    dtype, active = array_type(buffer.stream.eqns[0]).dtype, e.mask
    if writes and e.lane_facts.store_mask is not None:
        active = both(e, e.mask, e.lane_facts.store_mask)
    is_regular = len(buffer.rows) == 2
    width = min(BLOCK, e.gang, register_bytes(e) // dtype.size_bytes)
    stream = buffer.stream
    prefetches = stream.is_outermost and is_regular and writes != stream.loads
    transfer = Transfer(
        *(dtype, e.gang, stream.step < 0, writes, False, is_regular, active is not None),
        *(prefetches, width),
    )
    if is_regular:
        passed = f"ptr {buffer.rows[0]}, i64 {buffer.rows[1]}"
        passed += f", i64 {done}" if prefetches else ""
    else:
        passed = f"ptr {in_frame(e, 'ptr', buffer.rows[0])}"
    passed += f", i32 {size}, ptr {buffer.slot}"
    if active is not None:
        bits = e.op(f"bitcast <{e.gang} x i1> {active} to i{e.gang}")
        passed += f", i{e.gang} {bits}"
    call(e, transfer_function(transfer, e.facts.attributes), passed)


def _scatter(e: Emitter, eqn: Eqn, step: int, places: tuple[str, str], size: str) -> None:
    """Make the addition ``eqn`` for ``size`` iterations.

    ``places`` are the frame's part with the values, and the addresses of the first elements.
    """
    assert e.accumulation is not None
    dtype, log = array_type(eqn).dtype, e.accumulation.log
    slot, pointers = places
    ty, wide = LLVM_TYPES[dtype.name], f"<{e.gang} x ptr>"

    def together() -> None:
        before, head, done = e.block, e.label("scatter"), e.label("scattered")
        e.jump_into(head)
        at, targets = e.phi("i32", ("0", before)), e.phi(wide, (pointers, before))
        source = e.op(f"getelementptr [{e.gang} x {ty}], ptr {slot}, i32 {at}")
        values = e.op(f"load <{e.gang} x {ty}>, ptr {source}, align {dtype.size_bytes}")
        add_lanes_together(e, log, dtype, targets, values)
        further = e.splat("i64", str(step * dtype.size_bytes))
        moved = e.op(f"getelementptr i8, {wide} {targets}, <{e.gang} x i64> {further}")
        following = e.op(f"add nuw i32 {at}, 1")
        e.add_edge(at, following, e.block)
        e.add_edge(targets, moved, e.block)
        e.branch(e.op(f"icmp ult i32 {following}, {size}"), head, done)
        e.start_block(done)

    def alone() -> None:
        width = min(BLOCK, e.gang, register_bytes(e) // dtype.size_bytes)
        has_mask = e.mask is not None
        what = Transfer(dtype, e.gang, step < 0, True, True, False, has_mask, False, width)
        passed = f"ptr {in_frame(e, 'ptr', pointers)}, i32 {size}, ptr {slot}"
        if has_mask:
            bits = e.op(f"bitcast <{e.gang} x i1> {e.mask} to i{e.gang}")
            passed += f", i{e.gang} {bits}"
        call(e, transfer_function(what, e.facts.attributes), passed)

    add_shared(e, [eqn], Ways(together, alone))
