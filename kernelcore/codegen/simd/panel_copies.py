"""Copies of panels (``analysis/panels.py``) in the frame, for the tiles below each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.panels import LEAST_ROWS, Panel
from kernelcore.codegen.analysis.row_blocks import RowStream
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import resized
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.simd.row_blocks import read_block
from kernelcore.codegen.simd.row_transfer import BLOCK
from kernelcore.ir.core import Const, Eqn, Func, Region
from kernelcore.ir.walk import array_type, element_indices
from kernelcore.passes.access.accumulation_plan import defining_eqns

# Room in the frame for copies, which the second cache holds (docs/decisions/281).
PANEL_BYTES = 1 << 18


def make_panels(
    e: Emitter, func: Func, loads: Mapping[Eqn, Sequence[Eqn]], rows: str
) -> dict[Eqn, list[Panel]]:
    """Copy what ``loads`` need at ``e.point`` for ``rows`` rows, an i64, if that pays.

    The arguments of the kernel are bound. The result names the panels of each loop.
    """
    if not loads:
        return {}
    pays = e.op(f"icmp uge i64 {rows}, {LEAST_ROWS}")
    room = PANEL_BYTES // sum(map(len, loads.values()))
    return {
        loop: [_panel(e, func, loop, load, (pays, room)) for load in found]
        for loop, found in loads.items()
    }


def transposed_panels(
    e: Emitter, func: Func, loops: Mapping[Eqn, Sequence[RowStream]], most: int
) -> dict[Eqn, list[Panel]]:
    """Copy what ``loops`` read along rows at ``e.point``, in at most ``most`` iterations.

    The arguments of the kernel are bound. The result names the panels of each loop.
    """
    return {loop: _transposed(e, func, loop, streams, most) for loop, streams in loops.items()}


def _transposed(
    e: Emitter, func: Func, loop: Eqn, streams: Sequence[RowStream], most: int
) -> list[Panel]:
    index = loop.regions[0].params[0]
    used = [i for s in streams for i in element_indices(s.eqns[0]) if i is not index]
    e.region(Region((), defining_eqns(func, (*loop.inputs[:3], *used))))
    integer = scalar_type(index)
    ty = LLVM_TYPES[integer.name]
    with e.at(1):
        first, limit, by = (e.value(a) for a in loop.inputs[:3])
        count = trip_count(e, integer, first, limit, by)
    panels: list[Panel] = []
    for stream in streams:
        row_bytes = e.gang * array_type(stream.eqns[0]).dtype.size_bytes
        # A block is stored whole, also the last one.
        room = -(-most // BLOCK) * BLOCK * row_bytes
        slot = e.slot(f"[{room} x i8], align {memory.CACHE_LINE_BYTES}")
        panels.append(Panel(stream.eqns, slot, str(row_bytes)))
    before, head, block, done = e.block, e.label("panel"), e.label("transpose"), e.label("copied")
    e.jump_into(head)
    at, position = e.phi(ty, ("0", before)), e.phi(ty, (first, before))
    e.branch(e.op(f"icmp ult {ty} {at}, {count}"), block, done)
    e.start_block(block)
    e.bind(index, position)
    left = e.op(f"sub nuw {ty} {count}, {at}")
    is_last = e.op(f"icmp ult {ty} {left}, {BLOCK}")
    size = e.op(f"select i1 {is_last}, {ty} {left}, {ty} {BLOCK}")
    made = resized(e, at, ty, "i64")
    for stream, panel in zip(streams, panels, strict=True):
        target = addresses(e, [panel], made)[stream.eqns[0]]
        read_block(e, stream, target, resized(e, size, ty, "i32"), made)
    e.add_edge(at, e.op(f"add nuw {ty} {at}, {size}"), e.block)
    moved = e.op(f"mul {ty} {size}, {by}")
    e.add_edge(position, e.op(f"add {ty} {position}, {moved}"), e.block)
    e.jump(head)
    e.start_block(done)
    return panels


def addresses(e: Emitter, panels: Sequence[Panel], iteration: str) -> dict[Eqn, str]:
    """Where the loads of ``panels`` find their elements in ``iteration``, an i64."""
    return {
        load: e.op(f"getelementptr i8, ptr {p.first}, i64 {e.op(f'mul i64 {iteration}, {p.step}')}")
        for p in panels
        for load in p.loads
    }


def _panel(e: Emitter, func: Func, loop: Eqn, load: Eqn, limits: tuple[str, int]) -> Panel:
    """A copy of what ``load`` loads in ``loop``, or the array itself where a copy does not pay.

    ``limits`` are whether there are rows enough, as i1, and the room for the copy in bytes.
    """
    (pays, room), index = limits, loop.regions[0].params[0]
    dtype = array_type(load).dtype
    others = tuple(i for i in element_indices(load) if i is not index)
    e.region(Region((), defining_eqns(func, (*loop.inputs[:3], *others))))
    integer = scalar_type(index)
    with e.at(1):
        first, limit, by = (e.value(a) for a in loop.inputs[:3])
        count = resized(
            e, trip_count(e, integer, first, limit, by), LLVM_TYPES[integer.name], "i64"
        )
        e.bind(index, first)
        direct = memory.element(e, load)[1]
        apart = e.array(load.inputs[0]).strides[element_indices(load).index(index)]
    step = loop.inputs[2]
    assert isinstance(step, Const)
    direct_step = e.op(f"mul i64 {apart}, {int(step.value)}")
    row_bytes = e.gang * dtype.size_bytes
    slot = e.slot(f"[{room} x i8], align {memory.CACHE_LINE_BYTES}")
    fits = e.op(f"icmp ule i64 {count}, {room // row_bytes}")
    copies = e.op(f"and i1 {pays}, {fits}")
    before, head, copy, done = e.block, e.label("panel"), e.label("copy"), e.label("copied")
    e.jump_into(head)
    at = e.phi("i64", ("0", before))
    end = e.op(f"select i1 {copies}, i64 {count}, i64 0")
    e.branch(e.op(f"icmp ult i64 {at}, {end}"), copy, done)
    e.start_block(copy)
    source = Panel((load,), direct, direct_step)
    target = Panel((load,), slot, str(row_bytes))
    with e.at(e.gang):
        value = memory.load(e, dtype, addresses(e, [source], at)[load])
        memory.store(e, dtype, value, addresses(e, [target], at)[load])
    e.add_edge(at, e.op(f"add nuw nsw i64 {at}, 1"), e.block)
    e.jump(head)
    e.start_block(done)
    return Panel(
        (load,),
        e.op(f"select i1 {copies}, ptr {slot}, ptr {direct}"),
        e.op(f"select i1 {copies}, i64 {row_bytes}, i64 {direct_step}"),
    )
