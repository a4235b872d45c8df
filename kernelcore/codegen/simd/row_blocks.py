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

from collections.abc import Sequence
from dataclasses import dataclass

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, RowStream
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import add_edges, bind_phis
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.simd import vector_access
from kernelcore.codegen.simd.masked_control import both
from kernelcore.codegen.simd.transpose import transposed
from kernelcore.ir.core import Eqn
from kernelcore.ir.walk import array_type, element_indices
from kernelcore.language.types import Scalar

# Iterations of a block: as many elements as a cache line has of four bytes.
BLOCK = 16
# The registers in which elements are transposed, where elements of any size can be masked, and
# elsewhere.
WIDE_BYTES, NARROW_BYTES = 64, 32
# Addresses grow by the strides of indices only if these are too small to wrap.
MAX_STRIDE = 1 << 20


@dataclass(frozen=True, slots=True)
class _Buffer:
    """The elements of one stream in a block: in the frame, ``e.gang`` of each iteration.

    Attributes:
        stream: The accesses.
        slot: The address of the frame's part.
        rows: The address of the first element of each lane.
    """

    stream: RowStream
    slot: str
    rows: list[str]

    @property
    def dtype(self) -> Scalar:
        return array_type(self.stream.eqns[0]).dtype


def has_blocks(e: Emitter, eqn: Eqn) -> bool:
    """Whether the loop ``eqn`` is to run in blocks, and the processor can mask its elements."""
    found = e.blocked_loops.get(eqn)
    if found is None:
        return False
    sizes = [array_type(stream.eqns[0]).dtype.size_bytes for stream in found.streams]
    return min(sizes) >= e.facts.least_masked_bytes


def emit_for(e: Emitter, eqn: Eqn) -> list[str]:
    """A loop over ``range(start, stop, step)`` that all lanes run together, in blocks."""
    loop, (body,) = e.blocked_loops[eqn], eqn.regions
    index, *carried = body.params
    first, limit, by = (e.value_at(a, 1) for a in eqn.inputs[:3])
    ty = LLVM_TYPES[scalar_type(index).name]
    entries = e.values(eqn.inputs[3:], carried)
    with e.at(1):
        count = trip_count(e, scalar_type(index), first, limit, by)
    buffers = [_slot(e, stream) for stream in loop.streams]
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
    opened = _open(e, loop, buffers, _resized(e, size, ty, "i32"))
    entry, iteration, end = e.block, e.label("iteration"), e.label("block_end")
    e.jump_into(iteration)
    place, at = e.phi(ty, (position, entry)), e.phi(ty, ("0", entry))
    inner = bind_phis(e, carried, outer, entry)
    e.bind(index, place)
    _bind(e, opened, _resized(e, at, ty, "i64"))
    e.region(body)
    values = e.values(body.yields, carried)
    place_next, at_next = e.op(f"add {ty} {place}, {by}"), e.op(f"add nuw {ty} {at}, 1")
    add_edges(e, (place, at, *inner), (place_next, at_next, *values), e.block)
    e.branch(e.op(f"icmp ult {ty} {at_next}, {size}"), iteration, end)
    e.start_block(end)
    for buffer in opened:
        if buffer.stream.writes:
            _write(e, buffer, _resized(e, size, ty, "i32"))
    counter_next = e.op(f"add nuw {ty} {counter}, {size}")
    add_edges(e, (position, counter, *outer), (place_next, counter_next, *values), e.block)
    e.jump(head)
    e.start_block(done)
    return outer


def _slot(e: Emitter, stream: RowStream) -> str:
    element = memory.stored_type(array_type(stream.eqns[0]).dtype)
    return e.slot(f"[{BLOCK * e.gang} x {element}], align {memory.CACHE_LINE_BYTES}")


def _open(e: Emitter, loop: BlockedLoop, slots: Sequence[str], size: str) -> list[_Buffer]:
    """The buffers of the block of ``size`` iterations that starts here, with what they load."""
    for eqn in loop.indices:
        e.eqn(eqn)
    found = [
        _Buffer(stream, slot, _rows(e, stream.eqns[0]))
        for stream, slot in zip(loop.streams, slots, strict=True)
    ]
    for buffer in found:
        if buffer.stream.loads:
            _read(e, buffer, size)
    return found


def _bind(e: Emitter, buffers: Sequence[_Buffer], iteration: str) -> None:
    """Let the accesses of the streams be those of ``iteration``, an i64, of the block."""
    for buffer in buffers:
        ty = f"[{e.gang} x {memory.stored_type(buffer.dtype)}]"
        address = e.op(f"getelementptr {ty}, ptr {buffer.slot}, i64 {iteration}")
        e.row_buffers.update(dict.fromkeys(buffer.stream.eqns, address))


def _rows(e: Emitter, eqn: Eqn) -> list[str]:
    """The address per lane of the element that ``eqn`` accesses, of no meaning in inactive ones."""
    array, indices = e.array(eqn.inputs[0]), element_indices(eqn)
    strides = [e.stride(i) for i in indices]
    if any(s is None or abs(s) > MAX_STRIDE for s in strides):
        moving = [axis for axis, s in enumerate(strides) if s != 0]
        pointers = vector_access.addresses(e, eqn, moving)
        wide = f"<{e.gang} x ptr>"
        return [e.op(f"extractelement {wide} {pointers}, i64 {k}") for k in range(e.gang)]
    with e.at(1):
        start, step = memory.address(e, array, indices), "0"
        for stride, size_bytes in zip(strides, array.strides, strict=True):
            step = e.op(f"add i64 {step}, {e.op(f'mul i64 {stride}, {size_bytes}')}")
    found = [start]
    for _ in range(1, e.gang):
        found.append(e.op(f"getelementptr i8, ptr {found[-1]}, i64 {step}"))
    return found


def _width(e: Emitter, dtype: Scalar) -> int:
    """How many elements of a row are transposed at once."""
    bytes_at_once = WIDE_BYTES if e.facts.least_masked_bytes == 1 else NARROW_BYTES
    return min(BLOCK, e.gang, bytes_at_once // dtype.size_bytes)


def _read(e: Emitter, buffer: _Buffer, size: str) -> None:
    """Load the elements of the block."""
    dtype, width = buffer.dtype, _width(e, buffer.dtype)
    element = memory.stored_type(dtype)
    for column in range(0, BLOCK, width):
        mask = _in_block(e, buffer.stream, column, width, size)
        for lane in range(0, e.gang, width):
            rows = [
                vector_access.load_adjacent(
                    e, dtype, width, _place(e, buffer, k, column), _of_lane(e, mask, width, k)
                )
                for k in range(lane, lane + width)
            ]
            columns = transposed(e, element, dtype.size_bytes, rows)
            for k, values in enumerate(columns, column):
                e.effect(f"store <{width} x {element}> {values}, {_at(e, buffer, k, lane)}")


def _write(e: Emitter, buffer: _Buffer, size: str) -> None:
    """Store the elements of the block."""
    dtype, width = buffer.dtype, _width(e, buffer.dtype)
    element = memory.stored_type(dtype)
    for column in range(0, BLOCK, width):
        mask = _in_block(e, buffer.stream, column, width, size)
        for lane in range(0, e.gang, width):
            columns = [
                e.op(f"load <{width} x {element}>, {_at(e, buffer, k, lane)}")
                for k in range(column, column + width)
            ]
            rows = transposed(e, element, dtype.size_bytes, columns)
            for k, values in enumerate(rows, lane):
                vector_access.store_adjacent(
                    e,
                    dtype,
                    width,
                    values,
                    _place(e, buffer, k, column),
                    _of_lane(e, mask, width, k, e.lane_facts.store_mask),
                )


def _at(e: Emitter, buffer: _Buffer, place: int, lane: int) -> str:
    """The operand that names the frame's elements from ``lane`` on, ``place`` along the rows."""
    iteration = place if buffer.stream.step > 0 else BLOCK - 1 - place
    size_bytes = buffer.dtype.size_bytes
    offset = (iteration * e.gang + lane) * size_bytes
    return f"ptr {memory.address_at(e, buffer.slot, offset)}, align {size_bytes}"


def _place(e: Emitter, buffer: _Buffer, lane: int, column: int) -> str:
    """The address in the row of ``lane`` of what is ``column`` elements behind the block's start.

    A block of a loop that counts down starts with its last iteration.
    """
    behind = column if buffer.stream.step > 0 else column - (BLOCK - 1)
    return memory.address_at(e, buffer.rows[lane], behind * buffer.dtype.size_bytes)


def _in_block(e: Emitter, stream: RowStream, column: int, width: int, size: str) -> str:
    """Which of the ``width`` elements from ``column`` on belong to the ``size`` iterations."""
    order = range(column, column + width)
    iterations = [k if stream.step > 0 else BLOCK - 1 - k for k in order]
    numbers = ", ".join(f"i32 {k}" for k in iterations)
    wide = f"<{width} x i32>"
    first = e.op(f"insertelement {wide} poison, i32 {size}, i64 0")
    sizes = e.op(f"shufflevector {wide} {first}, {wide} poison, {wide} zeroinitializer")
    return e.op(f"icmp ult {wide} <{numbers}>, {sizes}")


def _of_lane(e: Emitter, mask: str, width: int, lane: int, store_mask: str | None = None) -> str:
    """``mask`` for the row of ``lane``, of which nothing is accessed if it is not active."""
    active = e.mask if store_mask is None else both(e, e.mask, store_mask)
    if active is None:
        return mask
    is_active = e.op(f"extractelement <{e.gang} x i1> {active}, i64 {lane}")
    return e.op(f"select i1 {is_active}, <{width} x i1> {mask}, <{width} x i1> zeroinitializer")


def _resized(e: Emitter, value: str, source: str, target: str) -> str:
    """A number below 2**31 of LLVM type ``source`` as ``target``."""
    if source == target:
        return value
    widens = int(source[1:]) < int(target[1:])
    return e.op(f"{'zext' if widens else 'trunc'} {source} {value} to {target}")
