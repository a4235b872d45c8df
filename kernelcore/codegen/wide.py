"""Accesses of array elements by all active threads of a gang at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kernelcore.codegen.emitter import Emitter
from kernelcore.codegen.masks import ALL_LANES
from kernelcore.codegen.memory import address, decoded, encoded, stored_type, wide_index
from kernelcore.ir.core import Atom, Const, Eqn
from kernelcore.types import ArrayType, Scalar

# Elements of so many components are loaded as units and sorted by shuffles.
MAX_INTERLEAVED = 4

_SUFFIXES = {"float": "f32", "double": "f64"}


@dataclass(frozen=True, slots=True)
class Site:
    """Where the elements of a gang lie.

    ``period`` 0 is anywhere: ``address`` are addresses. Else lane k has element
    ``k * period + phase`` from the one ``address`` on.
    """

    dtype: Scalar
    address: str
    period: int = 0
    phase: int = 0


def site(e: Emitter, eqn: Eqn) -> Site:
    """Where the elements lie that an access names."""
    source = eqn.inputs[0]
    assert isinstance(source.type, ArrayType)
    array, dtype = e.array(source), source.type.dtype
    indices = eqn.inputs[1 : 1 + source.type.ndim]
    moving = [axis for axis, i in enumerate(indices) if e.stride(i) != 0]
    if len(moving) == 1 and e.stride(indices[moving[0]]) == 1:
        step = array.strides[moving[0]]
        if step == str(dtype.size_bytes):
            with e.at(1):
                return Site(dtype, address(e, array, indices), 1)
        phase = component(source.type, indices)
        count = prod(source.type.components)
        is_short = 1 < count <= MAX_INTERLEAVED
        if phase is not None and is_short and step == str(count * dtype.size_bytes):
            with e.at(1):
                start = address(e, array, indices[: source.type.outer_ndim])
            return Site(dtype, start, count, phase)
    return Site(dtype, _addresses(e, eqn, moving))


def component(type_: ArrayType, indices: Sequence[Atom]) -> int | None:
    """Which component of an element ``indices`` name, if that is known."""
    number = 0
    for extent, index in zip(type_.components, indices[type_.outer_ndim :], strict=True):
        if not (isinstance(index, Const) and 0 <= index.value < extent):
            return None
        number = number * extent + int(index.value)
    return number


def load(e: Emitter, where: Site) -> str:
    """The elements of the active lanes, ``e.gang`` wide."""
    with e.at(e.gang):
        return decoded(e, where.dtype, _load(e, where))


def store(e: Emitter, where: Site, value: str) -> None:
    """Write the elements of the active lanes."""
    with e.at(e.gang):
        bits = encoded(e, where.dtype, value)
    if where.period == 1:
        _store_adjacent(e, where.dtype, e.gang, bits, where.address, e.mask)
        return
    element = stored_type(where.dtype)
    targets = _pointers(e, where)
    lanes = f"v{e.gang}{_suffix(element)}"
    wide, pointers, mask = (f"<{e.gang} x {t}>" for t in (element, "ptr", "i1"))
    name = f"@llvm.masked.scatter.{lanes}.v{e.gang}p0"
    e.declare(f"declare void {name}({wide}, {pointers}, i32 immarg, {mask})")
    align = where.dtype.size_bytes
    active = e.mask or ALL_LANES
    e.effect(f"call void {name}({wide} {bits}, {pointers} {targets}, i32 {align}, {mask} {active})")


def store_elements(e: Emitter, where: Site, values: Sequence[str]) -> None:
    """Write all components of the elements of the active lanes, one value per component."""
    with e.at(e.gang):
        parts = [encoded(e, where.dtype, value) for value in values]
    element, total, count = stored_type(where.dtype), e.gang, len(parts)
    joined = parts[0]
    for at, part in enumerate(parts[1:], 1):
        joined = _joined(e, element, joined, total * at, part)
    order = [(k % count) * total + k // count for k in range(count * total)]
    joined = _shuffled(e, element, joined, count * total, order)
    mask = _repeated(e, e.mask, count)
    _store_adjacent(e, where.dtype, count * total, joined, where.address, mask)


def _load(e: Emitter, where: Site) -> str:
    element, count = stored_type(where.dtype), max(where.period, 1) * e.gang
    if where.period == 0:
        return _gather(e, where)
    found = _load_adjacent(e, where.dtype, count, where.address, _repeated(e, e.mask, where.period))
    if where.period == 1:
        return found
    order = [k * where.period + where.phase for k in range(e.gang)]
    return _shuffled(e, element, found, count, order)


def _gather(e: Emitter, where: Site) -> str:
    element = stored_type(where.dtype)
    wide, pointers, mask = (f"<{e.gang} x {t}>" for t in (element, "ptr", "i1"))
    name = f"@llvm.masked.gather.v{e.gang}{_suffix(element)}.v{e.gang}p0"
    e.declare(f"declare {wide} {name}({pointers}, i32 immarg, {mask}, {wide})")
    sources = f"{pointers} {where.address}, i32 {where.dtype.size_bytes}"
    active = f"{mask} {e.mask or ALL_LANES}, {wide} zeroinitializer"
    return e.op(f"call {wide} {name}({sources}, {active})")


def _load_adjacent(e: Emitter, dtype: Scalar, count: int, start: str, mask: str | None) -> str:
    element = stored_type(dtype)
    wide = f"<{count} x {element}>"
    if mask is None:
        return e.op(f"load {wide}, ptr {start}, align {dtype.size_bytes}")
    name = f"@llvm.masked.load.v{count}{_suffix(element)}.p0"
    e.declare(f"declare {wide} {name}(ptr, i32 immarg, <{count} x i1>, {wide})")
    active = f"<{count} x i1> {mask}, {wide} zeroinitializer"
    return e.op(f"call {wide} {name}(ptr {start}, i32 {dtype.size_bytes}, {active})")


def _store_adjacent(
    e: Emitter, dtype: Scalar, count: int, bits: str, start: str, mask: str | None
) -> None:
    element = stored_type(dtype)
    wide = f"<{count} x {element}>"
    if mask is None:
        e.effect(f"store {wide} {bits}, ptr {start}, align {dtype.size_bytes}")
        return
    name = f"@llvm.masked.store.v{count}{_suffix(element)}.p0"
    e.declare(f"declare void {name}({wide}, ptr, i32 immarg, <{count} x i1>)")
    target = f"ptr {start}, i32 {dtype.size_bytes}, <{count} x i1> {mask}"
    e.effect(f"call void {name}({wide} {bits}, {target})")


def _addresses(e: Emitter, eqn: Eqn, moving: Sequence[int]) -> str:
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


def _pointers(e: Emitter, where: Site) -> str:
    """One address per lane, of a site whose elements are not adjacent."""
    if where.period == 0:
        return where.address
    size = where.dtype.size_bytes
    offsets = ", ".join(f"i64 {(k * where.period + where.phase) * size}" for k in range(e.gang))
    return e.op(f"getelementptr i8, ptr {where.address}, <{e.gang} x i64> <{offsets}>")


def _joined(e: Emitter, element: str, x: str, count: int, y: str) -> str:
    """``count`` elements ``x`` and then ``e.gang`` elements ``y``."""
    if count == e.gang:
        return _shuffled(e, element, x, count, range(2 * count), y)
    widened = _shuffled(e, element, y, e.gang, [*range(e.gang), *[-1] * (count - e.gang)])
    return _shuffled(e, element, x, count, range(count + e.gang), widened)


def _repeated(e: Emitter, mask: str | None, times: int) -> str | None:
    """``mask`` for elements of ``times`` components."""
    if mask is None or times == 1:
        return mask
    return _shuffled(e, "i1", mask, e.gang, [k // times for k in range(times * e.gang)])


def _shuffled(
    e: Emitter, element: str, x: str, count: int, order: Sequence[int], y: str = "poison"
) -> str:
    """The elements ``order`` of ``x`` and ``y``, which have ``count`` each; -1 is any."""
    wide = f"<{count} x {element}>"
    texts = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in order)
    return e.op(f"shufflevector {wide} {x}, {wide} {y}, <{len(order)} x i32> <{texts}>")


def _suffix(element: str) -> str:
    return _SUFFIXES.get(element, element)
