"""Accesses of a vectorised loop: small scattered elements as a whole, others lane by lane.

Addresses are computed in scalar registers: moving them out of vectors is slow, and masked loads
wait for all earlier stores (docs/decisions/087).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.builtins.reference import nothing_added
from kernelcore.codegen.analysis.component_groups import component_of
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.reduction.element_add import add_alone
from kernelcore.codegen.simd import gather_scatter
from kernelcore.codegen.simd.interleaved import resized
from kernelcore.codegen.simd.masked_control import or_nothing
from kernelcore.codegen.simd.transpose import ROW, columns_of, columns_of_pairs, rows_of
from kernelcore.ir.core import Atom, Const, Eqn
from kernelcore.ir.walk import array_type
from kernelcore.language.types import Scalar

# Of elements that are loaded as a whole: a row fills the smallest register.
COMPONENT_BYTES = 4


def load(e: Emitter, eqn: Eqn) -> str:
    """The elements that the iterations load; the first load of a group loads all of it."""
    assert e.lane_facts.vector_loop is not None
    unit = e.lane_facts.vector_loop.loads[eqn]
    if eqn is not unit[0] and eqn in e.component_groups:
        return e.component_groups[eqn]
    if is_row(eqn):
        e.component_groups.update(_load_small(e, unit))
        return e.component_groups[eqn]
    dtype = array_type(eqn).dtype
    element, addresses = memory.stored_type(dtype), _addresses(e, eqn, array_type(eqn).ndim)
    found = gather_scatter.load(e, element, dtype.size_bytes, addresses)
    with e.at(e.gang):
        return memory.decoded(e, dtype, found)


def emit_addition(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to elements that no other thread adds to; the last addition of a group makes all of it.

    The old elements are not used.
    """
    assert e.lane_facts.vector_loop is not None
    unit = e.lane_facts.vector_loop.additions[eqn]
    if eqn is unit[-1]:
        (_add_rows if is_row(eqn) else _add_components)(e, unit)
    return ["poison"]


def _add_rows(e: Emitter, unit: Sequence[Eqn]) -> None:
    """Add to small vectors, lane after lane; components that ``unit`` does not name get a zero."""
    type_ = array_type(unit[0])
    dtype, count = type_.dtype, prod(type_.components)
    nothing = e.value_at(Const(dtype, nothing_added(dtype)), e.gang)
    named = dict(zip(_places(unit), (or_nothing(e, eqn.inputs[-1]) for eqn in unit), strict=True))
    addresses = _addresses(e, unit[0], type_.outer_ndim)
    ty = LLVM_TYPES[dtype.name]
    rows = rows_of(e, ty, [named.get(at, nothing) for at in range(count)])
    for address, row in zip(addresses, rows, strict=True):
        with e.at(count):
            add_alone(e, dtype, address, resized(e, ty, row, ROW, count))


def _add_components(e: Emitter, unit: Sequence[Eqn]) -> None:
    """Add to elements, or to components of larger ones, lane after lane."""
    values = [or_nothing(e, eqn.inputs[-1]) for eqn in unit]
    type_, is_group = array_type(unit[0]), len(unit) > 1
    dtype, ty = type_.dtype, LLVM_TYPES[type_.dtype.name]
    addresses = _addresses(e, unit[0], type_.outer_ndim if is_group else type_.ndim)
    for lane, address in enumerate(addresses):
        for place, value in zip(_places(unit) if is_group else [0], values, strict=True):
            one = e.op(f"extractelement <{e.gang} x {ty}> {value}, i64 {lane}")
            with e.at(1):
                target = memory.address_at(e, address, place * dtype.size_bytes)
                add_alone(e, dtype, target, one)


def _places(unit: Sequence[Eqn]) -> list[int]:
    """The numbers of the components that ``unit`` names; components are adjacent."""
    return [component_of(eqn) or 0 for eqn in unit]


def is_row(eqn: Eqn) -> bool:
    """Whether the element that ``eqn`` accesses is a small vector, and loaded as one."""
    type_ = array_type(eqn)
    is_small = type_.dtype.size_bytes == COMPONENT_BYTES and 1 < prod(type_.components) <= ROW
    return is_small and component_of(eqn) is not None


def _load_small(e: Emitter, unit: Sequence[Eqn]) -> dict[Eqn, str]:
    """The values of ``unit``: four components are one load, three a pair and a single."""
    type_ = array_type(unit[0])
    ty, count = memory.stored_type(type_.dtype), prod(type_.components)
    addresses = _addresses(e, unit[0], type_.outer_ndim)
    size = ROW if count == ROW else 2
    parts = [e.op(f"load <{size} x {ty}>, ptr {a}, align {COMPONENT_BYTES}") for a in addresses]
    columns = (columns_of if size == ROW else columns_of_pairs)(e, ty, parts)
    if count > size:
        last = [memory.address_at(e, a, size * COMPONENT_BYTES) for a in addresses]
        columns.append(gather_scatter.load(e, ty, COMPONENT_BYTES, last))
    return {eqn: columns[place] for eqn, place in zip(unit, _places(unit), strict=True)}


def _addresses(e: Emitter, eqn: Eqn, axes: int) -> list[str]:
    """One address per lane, by the indices of so many axes; of no meaning in inactive lanes."""
    array, indices = e.array(eqn.inputs[0]), eqn.inputs[1 : 1 + axes]
    found: list[str] = []
    for lane in range(e.gang):
        address = array.data
        for index, stride in zip(indices, array.strides, strict=False):
            offset = e.op(f"mul i64 {_in_lane(e, index, lane)}, {stride}")
            address = e.op(f"getelementptr i8, ptr {address}, i64 {offset}")
        if e.mask is not None:
            is_active = e.op(f"extractelement <{e.gang} x i1> {e.mask}, i64 {lane}")
            address = e.op(f"select i1 {is_active}, ptr {address}, ptr {e.spare()}")
        found.append(address)
    return found


def _in_lane(e: Emitter, index: Atom, lane: int) -> str:
    """An index in ``lane`` as int64."""
    dtype, stride = scalar_type(index), e.stride(index)
    if stride is None:
        ty, value = f"<{e.gang} x {LLVM_TYPES[dtype.name]}>", e.value_at(index, e.gang)
        return _extended(e, dtype, e.op(f"extractelement {ty} {value}, i64 {lane}"))
    first = e.value_at(index, 1)
    if stride == 0:
        return _extended(e, dtype, first)
    return e.op(f"add i64 {_extended(e, dtype, first)}, {lane * stride}")


def _extended(e: Emitter, dtype: Scalar, value: str) -> str:
    return value if dtype.bits == 64 else e.op(f"sext {LLVM_TYPES[dtype.name]} {value} to i64")
