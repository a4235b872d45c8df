"""Accesses by turns in step: small scattered elements as a whole, all else lane by lane.

Addresses are made of scalars: processors are slow to take them out of vectors, and at masked loads
where stores are under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from kernelcore.builtins.arithmetic import add as plus
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.builtins.reference import nothing_added
from kernelcore.codegen.analysis.component_groups import component_of
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.reduction.sums import Addition
from kernelcore.codegen.simd.interleaved import shuffled
from kernelcore.codegen.simd.masked_control import or_nothing
from kernelcore.codegen.simd.transpose import ROW, columns_of, columns_of_pairs, rows_of
from kernelcore.ir.core import Atom, Const, Eqn
from kernelcore.language.types import ArrayType, Scalar

# Of elements that are loaded as a whole: a row fills the smallest register.
COMPONENT_BYTES = 4
# Signed indices of so many bits leave every array before they wrap, by steps that are small.
INDEX_BITS = 32
MAX_STRIDE = 1 << 20


def load(e: Emitter, eqn: Eqn) -> str:
    """The elements that turns in step load, all components with the first."""
    assert e.step is not None
    unit = e.step.turns.loads[eqn]
    if eqn is not unit[0] and eqn in e.units:
        return e.units[eqn]
    if is_row(eqn):
        e.units.update(_load_small(e, unit))
        return e.units[eqn]
    dtype = _array(eqn).dtype
    found = _load_column(e, dtype, _addresses(e, eqn, _array(eqn).ndim))
    with e.at(e.gang):
        return memory.decoded(e, dtype, found)


def emit_addition(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to elements that no other thread adds to, all components with the last, now or later.

    Nobody uses the old elements.
    """
    assert e.step is not None
    unit = e.step.turns.additions[eqn]
    if eqn in e.step.turns.late:
        e.step.late[eqn] = _addition(e, unit)
    elif eqn is unit[-1]:
        add(e, unit, _addition(e, unit))
    return ["poison"]


def _addition(e: Emitter, unit: Sequence[Eqn]) -> Addition:
    """What turns in step add to elements, of which ``unit`` are the components."""
    values = [or_nothing(e, eqn.inputs[-1]) for eqn in unit]
    type_, kept = _array(unit[0]), _places(unit)
    if is_row(unit[0]):
        # To components that are not named nothing is added.
        nothing = e.value_at(Const(type_.dtype, nothing_added(type_.dtype)), e.gang)
        added = dict(zip(kept, values, strict=True))
        values = [added.get(at, nothing) for at in range(prod(type_.components))]
    axes = type_.outer_ndim if len(unit) > 1 or is_row(unit[0]) else type_.ndim
    return Addition(tuple(values), tuple(_addresses(e, unit[0], axes)))


def waiting(e: Emitter, unit: Sequence[Eqn]) -> Addition:
    """Phis for what turns in step add by ``unit``."""
    type_ = _array(unit[0])
    count = prod(type_.components) if is_row(unit[0]) else len(unit)
    wide = f"<{e.gang} x {LLVM_TYPES[type_.dtype.name]}>"
    values = tuple(e.phi(wide) for _ in range(count))
    return Addition(values, tuple(e.phi("ptr") for _ in range(e.gang)))


def add(e: Emitter, unit: Sequence[Eqn], what: Addition) -> None:
    """Add to the elements of the lanes, lane after lane."""
    dtype = _array(unit[0]).dtype
    ty, count = LLVM_TYPES[dtype.name], len(what.values)
    if is_row(unit[0]):
        rows = rows_of(e, ty, what.values)
        for address, row in zip(what.addresses, rows, strict=True):
            with e.at(count):
                _add(e, dtype, address, _resized(e, ty, row, ROW, count))
        return
    places = _places(unit) if count > 1 else [0]
    for lane, address in enumerate(what.addresses):
        for place, value in zip(places, what.values, strict=True):
            one = e.op(f"extractelement <{e.gang} x {ty}> {value}, i64 {lane}")
            with e.at(1):
                target = memory.address_at(e, address, place * dtype.size_bytes)
                _add(e, dtype, target, one)


def _add(e: Emitter, dtype: Scalar, address: str, value: str) -> None:
    assert plus.op.lower is not None
    old = memory.load(e, dtype, address)
    memory.store(e, dtype, plus.op.lower(e, dtype, old, value), address)


def _places(unit: Sequence[Eqn]) -> list[int]:
    """The numbers of the components that ``unit`` names; components are adjacent."""
    return [component_of(eqn) or 0 for eqn in unit]


def is_row(eqn: Eqn) -> bool:
    """Whether the element that ``eqn`` accesses is a small vector, and loaded as one."""
    type_ = _array(eqn)
    is_small = type_.dtype.size_bytes == COMPONENT_BYTES and 1 < prod(type_.components) <= ROW
    return is_small and component_of(eqn) is not None


def _load_small(e: Emitter, unit: Sequence[Eqn]) -> dict[Eqn, str]:
    """What every Eqn of ``unit`` loads: rows at once, less as pairs and what is left."""
    type_ = _array(unit[0])
    ty, count = memory.stored_type(type_.dtype), prod(type_.components)
    addresses = _addresses(e, unit[0], type_.outer_ndim)
    size = ROW if count == ROW else 2
    parts = [e.op(f"load <{size} x {ty}>, ptr {a}, align {COMPONENT_BYTES}") for a in addresses]
    columns = (columns_of if size == ROW else columns_of_pairs)(e, ty, parts)
    if count > size:
        last = [memory.address_at(e, a, size * COMPONENT_BYTES) for a in addresses]
        columns.append(_load_column(e, type_.dtype, last))
    return {eqn: columns[place] for eqn, place in zip(unit, _places(unit), strict=True)}


def _load_column(e: Emitter, dtype: Scalar, addresses: Sequence[str]) -> str:
    """One element per lane, as memory has it."""
    ty, found = memory.stored_type(dtype), "poison"
    for lane, address in enumerate(addresses):
        one = e.op(f"load {ty}, ptr {address}, align {dtype.size_bytes}")
        found = e.op(f"insertelement <{e.gang} x {ty}> {found}, {ty} {one}, i64 {lane}")
    return found


def _addresses(e: Emitter, eqn: Eqn, axes: int) -> list[str]:
    """One address per lane, by the indices of so many axes; of no meaning in inactive lanes."""
    assert e.step is not None
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
    first, element = e.value_at(index, 1), LLVM_TYPES[dtype.name]
    if stride == 0:
        return _extended(e, dtype, first)
    if dtype.kind == "int" and dtype.bits >= INDEX_BITS and abs(stride) <= MAX_STRIDE:
        return e.op(f"add i64 {_extended(e, dtype, first)}, {lane * stride}")
    # What wraps may be an index again.
    far = literal(dtype, lane * stride % (1 << dtype.bits))
    return _extended(e, dtype, e.op(f"add {element} {first}, {far}"))


def _extended(e: Emitter, dtype: Scalar, value: str) -> str:
    extend = "zext" if dtype.kind == "uint" else "sext"
    return value if dtype.bits == 64 else e.op(f"{extend} {LLVM_TYPES[dtype.name]} {value} to i64")


def _resized(e: Emitter, element: str, value: str, count: int, wanted: int) -> str:
    """The first ``wanted`` of ``count`` elements, or these and others that mean nothing."""
    order = [k if k < count else -1 for k in range(wanted)]
    return value if count == wanted else shuffled(e, element, value, count, order)


def _array(eqn: Eqn) -> ArrayType:
    array = eqn.inputs[0].type
    assert isinstance(array, ArrayType)
    return array
