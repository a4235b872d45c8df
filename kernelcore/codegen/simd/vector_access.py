"""Accesses of array elements by all active threads of a gang at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.codegen.analysis.component_groups import MAX_INTERLEAVED, component_of
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter
from kernelcore.codegen.llvm.memory import (
    CACHE_LINE_BYTES,
    address,
    address_at,
    decoded,
    encoded,
    stored_type,
    wide_index,
)
from kernelcore.codegen.simd import gather_scatter, interleaved
from kernelcore.codegen.simd.interleaved import resized, shuffled
from kernelcore.codegen.simd.masked_control import is_all
from kernelcore.codegen.simd.transpose import concatenated
from kernelcore.ir.core import Atom, Eqn
from kernelcore.ir.walk import array_type, element_indices
from kernelcore.language.types import Scalar

SMALLEST_REGISTER_BYTES = 16
# No instruction gathers smaller elements.
LEAST_GATHERED_BYTES = 4
# Hardware prefetchers stop at the end of a page, so prefetches are one page ahead.
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Site:
    """Where the elements of a gang lie.

    ``period`` 0 is anywhere: ``address`` are addresses. Else lane k has element
    ``k * period + phase`` from the one ``address`` on. ``is_whole`` says that all the elements in
    between belong to the lanes too, so that they may be loaded. ``is_first`` says that the
    memory of later gangs is to be prefetched (``codegen/analysis/prefetch.py``).
    """

    dtype: Scalar
    address: str
    period: int = 0
    phase: int = 0
    is_whole: bool = False
    is_first: bool = False


def site(e: Emitter, eqn: Eqn) -> Site:
    """Where the elements lie that an access names."""
    type_, array, indices = array_type(eqn), e.array(eqn.inputs[0]), element_indices(eqn)
    dtype, phase, count = type_.dtype, component_of(eqn), prod(type_.components)
    if eqn in e.lane_facts.row_major and phase is not None and count <= MAX_INTERLEAVED:
        start = _first_address(e, array, indices[: type_.outer_ndim])
        return Site(dtype, start, count, phase, True)
    moving = [axis for axis, i in enumerate(indices) if e.stride(i) != 0]
    stride = e.stride(indices[moving[0]]) if len(moving) == 1 else None
    step = array.strides[moving[0]] if stride is not None else ""
    if stride is None or not step.isdigit():
        return Site(dtype, addresses(e, eqn, moving))
    period = stride * int(step) // dtype.size_bytes
    with e.at(1):
        if phase is None or period != count or count > MAX_INTERLEAVED:
            return Site(dtype, address(e, array, indices), period, 0, period == 1)
        start = address(e, array, indices[: type_.outer_ndim])
    return Site(dtype, start, period, phase, True, eqn in e.facts.first_accesses)


def load(e: Emitter, where: Site) -> str:
    """The elements of the active lanes, ``e.gang`` wide."""
    with e.at(e.gang):
        return decoded(e, where.dtype, _load(e, where))


def store(e: Emitter, where: Site, value: str) -> None:
    """Write the elements of the active lanes, in the order of lanes where they are the same."""
    with e.at(e.gang):
        bits = encoded(e, where.dtype, value)
    if where.period == 1 and _fits_masks(e, where.dtype, e.gang):
        _prefetch_first(e, where, e.gang, writes=True)
        _store_active(e, where.dtype, e.gang, bits, where.address, e.mask)
        return
    element, size_bytes = stored_type(where.dtype), where.dtype.size_bytes
    gather_scatter.store(e, element, size_bytes, lane_addresses(e, where), bits)


def store_elements(e: Emitter, where: Site, values: Sequence[str]) -> None:
    """Write all components of the elements of the active lanes, one value per component."""
    if not _fits_masks(e, where.dtype, len(values) * e.gang):
        for phase, value in enumerate(values):
            store(e, replace(where, phase=phase), value)
        return
    with e.at(e.gang):
        parts = [encoded(e, where.dtype, value) for value in values]
    element, total, count = stored_type(where.dtype), e.gang, len(parts)
    lanes = interleaved.sorted_lanes(total, count, where.dtype)
    if lanes is not None and e.mask is None:
        _store_by_registers(e, where, parts, lanes)
        return
    joined = parts[0]
    for at, part in enumerate(parts[1:], 1):
        joined = _joined(e, element, joined, total * at, part)
    order = [(k % count) * total + k // count for k in range(count * total)]
    joined = shuffled(e, element, joined, count * total, order)
    mask = _repeated(e, e.mask, count)
    _store_active(e, where.dtype, count * total, joined, where.address, mask)


def _load(e: Emitter, where: Site) -> str:
    element, count = stored_type(where.dtype), where.period * e.gang
    if not (where.is_whole and _fits_masks(e, where.dtype, count)):
        return _load_anywhere(e, where)
    _prefetch_first(e, where, count, writes=False)
    lanes = interleaved.sorted_lanes(e.gang, where.period, where.dtype)
    if lanes is not None and e.mask is None:
        return _load_by_registers(e, where, lanes)
    found = load_adjacent(e, where.dtype, count, where.address, _repeated(e, e.mask, where.period))
    if where.period == 1:
        return found
    order = [k * where.period + where.phase for k in range(e.gang)]
    return shuffled(e, element, found, count, order)


def _load_by_registers(e: Emitter, where: Site, lanes: int) -> str:
    """One component of the elements, of ``lanes`` elements at a time."""
    element, parts = stored_type(where.dtype), list[str]()
    for place in _places(e, where, lanes):
        registers = [load_adjacent(e, where.dtype, lanes, start, None) for start in place]
        with e.at(lanes):
            parts.append(interleaved.component(e, element, registers, where.phase))
    return concatenated(e, element, parts, lanes)


def _store_by_registers(e: Emitter, where: Site, values: Sequence[str], lanes: int) -> None:
    """Write all components of the elements, of ``lanes`` elements at a time."""
    element = stored_type(where.dtype)
    for number, place in enumerate(_places(e, where, lanes)):
        order = range(number * lanes, (number + 1) * lanes)
        parts = [shuffled(e, element, value, e.gang, order) for value in values]
        with e.at(lanes):
            registers = interleaved.elements(e, element, parts)
        for register, start in zip(registers, place, strict=True):
            store_adjacent(e, where.dtype, lanes, register, start, None)


def _places(e: Emitter, where: Site, lanes: int) -> Iterator[list[str]]:
    """Where ``lanes`` elements after the other lie: the address of each of their registers."""
    size_bytes = lanes * where.dtype.size_bytes
    for first in range(0, e.gang // lanes * where.period, where.period):
        numbers = range(first, first + where.period)
        yield [address_at(e, where.address, number * size_bytes) for number in numbers]


def _fits_masks(e: Emitter, dtype: Scalar, count: int) -> bool:
    """Whether ``count`` adjacent elements may be accessed at once under the mask.

    LLVM writes a branch per element where the processor has no masked instructions. LLVM 22 loses
    lanes of masked accesses to less than a register of 16-bit elements.
    """
    has_masks = dtype.size_bytes >= e.facts.least_masked_bytes
    return e.mask is None or (has_masks and count * dtype.size_bytes >= SMALLEST_REGISTER_BYTES)


def _load_anywhere(e: Emitter, where: Site) -> str:
    element, size_bytes = stored_type(where.dtype), where.dtype.size_bytes
    if e.facts.gathers and size_bytes >= LEAST_GATHERED_BYTES:
        return gather_scatter.gather(e, element, size_bytes, pointers(e, where))
    return gather_scatter.load(e, element, size_bytes, lane_addresses(e, where))


def _prefetch_first(e: Emitter, where: Site, count: int, *, writes: bool) -> None:
    """Prefetch what is loaded, or written if it ``writes``, a page later, at first accesses.

    A prefetch of an invalid address does nothing. Iterations whose elements are part of a line, the
    few that are left of a row, prefetch nothing.
    """
    size_bytes = count * where.dtype.size_bytes
    if not where.is_first or e.mask is not None:
        return
    if e.lane_facts.are_iterations and size_bytes < CACHE_LINE_BYTES:
        return
    e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for line in range(0, size_bytes, CACHE_LINE_BYTES):
        ahead = address_at(e, where.address, PAGE_BYTES + line)
        e.effect(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 {int(writes)}, i32 3, i32 1)")


def load_adjacent(e: Emitter, dtype: Scalar, count: int, start: str, mask: str | None) -> str:
    """``count`` elements from ``start`` on, as stored; zero where ``mask`` is not set."""
    wide, size_bytes = f"<{count} x {stored_type(dtype)}>", dtype.size_bytes
    if mask is None:
        return e.op(f"load {wide}, ptr {start}, align {size_bytes}")
    name, masks = f"@llvm.masked.load.v{count}{_suffix(dtype)}.p0", f"<{count} x i1>"
    e.declare(f"declare {wide} {name}(ptr, i32 immarg, {masks}, {wide})")
    active = f"{masks} {mask}, {wide} zeroinitializer"
    found = e.op(f"call {wide} {name}(ptr {start}, i32 {size_bytes}, {active})")
    # LLVM 22 folds a select by the same mask into the load, which it moves down to the select, past
    # stores between them (llvm-project issue 215453, mended in 23); not through a freeze.
    return e.op(f"freeze {wide} {found}")


def _store_active(
    e: Emitter, dtype: Scalar, count: int, bits: str, start: str, mask: str | None
) -> None:
    """``store_adjacent`` for ``mask``, the active lanes, each as many times as it has elements.

    Processors without registers for masks store slowly under them: there, nothing is masked where
    all lanes are active (docs/decisions/303).
    """
    if e.mask is None or e.facts.least_masked_bytes == 1:
        store_adjacent(e, dtype, count, bits, start, mask)
        return
    whole, part, done = e.label("whole"), e.label("part"), e.label("stored")
    e.branch(is_all(e, e.mask), whole, part)
    e.start_block(whole)
    store_adjacent(e, dtype, count, bits, start, None)
    e.jump(done)
    e.start_block(part)
    store_adjacent(e, dtype, count, bits, start, mask)
    e.jump_into(done)


def store_adjacent(
    e: Emitter, dtype: Scalar, count: int, bits: str, start: str, mask: str | None
) -> None:
    """Write the ``count`` elements ``bits`` from ``start`` on, where ``mask`` is set."""
    wide, size_bytes = f"<{count} x {stored_type(dtype)}>", dtype.size_bytes
    if mask is None:
        e.effect(f"store {wide} {bits}, ptr {start}, align {size_bytes}")
        return
    name, masks = f"@llvm.masked.store.v{count}{_suffix(dtype)}.p0", f"<{count} x i1>"
    e.declare(f"declare void {name}({wide}, ptr, i32 immarg, {masks})")
    target = f"ptr {start}, i32 {size_bytes}, {masks} {mask}"
    e.effect(f"call void {name}({wide} {bits}, {target})")


def _suffix(dtype: Scalar) -> str:
    """The element type in the name of an intrinsic."""
    return gather_scatter.suffix_of(stored_type(dtype))


def _first_address(e: Emitter, array: ArrayValue, indices: Sequence[Atom]) -> str:
    """The address that ``indices`` name in lane 0."""
    found = array.data
    for index, stride in zip(indices, array.strides, strict=False):
        with e.at(e.lanes_of(index)):
            position = wide_index(e, index)
        if e.lanes_of(index) > 1:
            position = e.op(f"extractelement <{e.gang} x i64> {position}, i64 0")
        offset = e.op(f"mul i64 {position}, {stride}")
        found = e.op(f"getelementptr i8, ptr {found}, i64 {offset}")
    return found


def addresses(e: Emitter, eqn: Eqn, moving: Sequence[int]) -> str:
    """One address per lane; ``moving`` are the axes whose index differs among them."""
    array, indices = e.array(eqn.inputs[0]), eqn.inputs[1:]
    found = array.data
    with e.at(1):
        for axis, stride in enumerate(array.strides):
            if axis not in moving:
                offset = e.op(f"mul i64 {wide_index(e, indices[axis])}, {stride}")
                found = e.op(f"getelementptr i8, ptr {found}, i64 {offset}")
    if not moving:
        return e.splat("ptr", found)
    pointers, with_lanes = "ptr", f"<{e.gang} x i64>"
    for axis in moving:
        with e.at(e.gang):
            index = wide_index(e, indices[axis])
        stride = array.strides[axis]
        if not stride.isdigit():
            index = e.op(f"mul {with_lanes} {index}, {e.splat('i64', stride)}")
            stride = "1"
        unit = f"[{stride} x i8]"
        found = e.op(f"getelementptr {unit}, {pointers} {found}, {with_lanes} {index}")
        pointers = f"<{e.gang} x ptr>"
    return found


def lane_addresses(e: Emitter, where: Site) -> list[str]:
    """One address per lane: of its element, or of a place of no meaning if it is not active."""
    if where.period != 0 and e.mask is None:
        return [address_at(e, where.address, offset) for offset in _offsets(e, where)]
    found, wide = pointers(e, where), f"<{e.gang} x ptr>"
    if e.mask is not None:
        spare = e.splat("ptr", e.spare())
        found = e.op(f"select <{e.gang} x i1> {e.mask}, {wide} {found}, {wide} {spare}")
    return [e.op(f"extractelement {wide} {found}, i64 {k}") for k in range(e.gang)]


def pointers(e: Emitter, where: Site) -> str:
    """One address per lane, ``e.gang`` wide; of no meaning in lanes that are not active."""
    if where.period == 0:
        return where.address
    texts = ", ".join(f"i64 {offset}" for offset in _offsets(e, where))
    return e.op(f"getelementptr i8, ptr {where.address}, <{e.gang} x i64> <{texts}>")


def _offsets(e: Emitter, where: Site) -> list[int]:
    """How many bytes behind the address of a period the element of each lane is."""
    size_bytes = where.dtype.size_bytes
    return [(k * where.period + where.phase) * size_bytes for k in range(e.gang)]


def _joined(e: Emitter, element: str, x: str, count: int, y: str) -> str:
    """``count`` elements ``x`` and then ``e.gang`` elements ``y``."""
    if count == e.gang:
        return shuffled(e, element, x, count, range(2 * count), y)
    widened = resized(e, element, y, e.gang, count)
    return shuffled(e, element, x, count, range(count + e.gang), widened)


def _repeated(e: Emitter, mask: str | None, times: int) -> str | None:
    """``mask`` for elements of ``times`` components."""
    if mask is None or times == 1:
        return mask
    return shuffled(e, "i1", mask, e.gang, [k // times for k in range(times * e.gang)])
