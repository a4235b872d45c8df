"""Accumulations that threads share, in forms whose sums do not depend on the threads.

A SHARED addition asks at run time whether the launch lets other threads add to the array. A PARTIAL
one, whose element is the same for the whole launch, adds to one of 64 partial sums in the frame;
when the call ends they are added up as a tree, and the total is added as SHARED.
"""

from __future__ import annotations

from kernelcore.builtins.arithmetic import add
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.builtins.reference import is_narrow, nothing_added
from kernelcore.codegen import abi, memory, narrow, neighbours, wide
from kernelcore.codegen.emitter import Emitter
from kernelcore.codegen.lanes import by_lane
from kernelcore.codegen.masks import or_nothing
from kernelcore.codegen.sums import Accumulation, Neighbours, PartialSums
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.accumulation import (
    MAX_SHARED_ARRAYS,
    defining_eqns,
    form_of,
    shared_arrays,
)
from kernelcore.types import ArrayType, Scalar, float64


def begin(e: Emitter, func: Func) -> Accumulation:
    """Read from the grid which arrays are shared, and clear the partial sums."""
    forms = {form_of(eqn) for eqn in walk_eqns(func.body)}
    if not forms & {AddForm.SHARED, AddForm.PARTIAL}:
        return Accumulation(func)
    arrays = shared_arrays(func)
    bits = e.op(f"load i64, ptr {memory.address_at(e, '%grid', abi.GRID_SHARED_OFFSET)}")
    shared: dict[Var, str] = {}
    for at, array in enumerate(arrays[:MAX_SHARED_ARRAYS]):
        bit = e.op(f"and i64 {bits}, {_signed(1 << at)}")
        shared[array] = e.op(f"icmp ne i64 {bit}, 0")
    log = e.op(f"load ptr, ptr {memory.address_at(e, '%grid', abi.GRID_LOG_OFFSET)}")
    partial: dict[Eqn, PartialSums] = {}
    for eqn in walk_eqns(func.body):
        if eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) is AddForm.PARTIAL:
            partial[eqn] = _clear_sums(e, _dtype(eqn))
    joined = neighbours.neighbours(func, e.strides) if e.gang > 1 else dict[Eqn, Neighbours]()
    return Accumulation(func, shared, log, partial, joined, _beside_loops(func))


def emit_shared(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to an element as the launch wants it; nobody uses the old one.

    A gang adds the values of its lanes to one element as a tree, and then their total.
    """
    dtype, indices = _dtype(eqn), eqn.inputs[1:-1]
    if e.gang > 1 and not is_narrow(dtype):
        if e.is_uniform(*indices):
            total = _total_of_lanes(e, dtype, eqn.inputs[-1])
            with e.at(1):
                _, address = memory.element(e, eqn)
                _add_shared(e, eqn, address, total)
            return ["poison"]
        where = wide.site(e, eqn)
        joined = _joined(e, eqn) if where.period == 1 and e.mask is None else None
        if joined is not None:
            if eqn is joined.eqns[-1]:
                _emit_neighbours(e, joined)
            return ["poison"]
        is_brief = e.accumulation is not None and eqn in e.accumulation.brief
        if where.period == 1 or (e.mask is None and not is_brief):
            _emit_wide(e, eqn, where)
            return ["poison"]
    return _emit_each_lane(e, eqn)


def _beside_loops(func: Func) -> frozenset[Eqn]:
    """The Eqns at the top level of ``func``, if it has loops."""
    has_loops = any(e.op.kind in (OpKind.FOR, OpKind.WHILE) for e in walk_eqns(func.body))
    return frozenset(func.body.eqns) if has_loops else frozenset()


@by_lane
def _emit_each_lane(e: Emitter, eqn: Eqn) -> list[str]:
    _, address = memory.element(e, eqn)
    value = e.value(eqn.inputs[-1])
    _add_shared(e, eqn, address, value)
    return [value]


def _emit_wide(e: Emitter, eqn: Eqn, where: wide.Site) -> None:
    """Add one value per lane, in the order of lanes, by plain code if no other thread does."""
    assert e.accumulation is not None
    assert isinstance(eqn.inputs[0], Var)
    is_shared = e.accumulation.shared.get(eqn.inputs[0])
    if is_shared is None:
        _emit_wide_alone(e, eqn, where)
        return
    together, alone, done = e.label("together"), e.label("alone"), e.label("added")
    e.branch_rarely(is_shared, together, alone)
    e.place(together)
    _emit_each_lane(e, eqn)
    e.jump(done)
    e.place(alone)
    _emit_wide_alone(e, eqn, where)
    e.jump(done)
    e.place(done)


def _emit_wide_alone(e: Emitter, eqn: Eqn, where: wide.Site) -> None:
    value = e.value_at(eqn.inputs[-1], e.gang)
    if where.period == 1:
        old = wide.load(e, where)
        with e.at(e.gang):
            total = _sum(e, where.dtype, old, value)
        wide.store(e, where, total)
    else:
        for lane, address in enumerate(wide.lane_addresses(e, where)):
            ty = f"<{e.gang} x {LLVM_TYPES[where.dtype.name]}>"
            one = e.op(f"extractelement {ty} {value}, i64 {lane}")
            with e.at(1):
                _add_plainly(e, where.dtype, address, one)


def _joined(e: Emitter, eqn: Eqn) -> Neighbours | None:
    assert e.accumulation is not None
    return e.accumulation.neighbours.get(eqn)


def _emit_neighbours(e: Emitter, joined: Neighbours) -> None:
    """As ``_emit_wide`` for several additions at once."""
    assert e.accumulation is not None
    array = joined.eqns[0].inputs[0]
    assert isinstance(array, Var)
    together, alone, done = e.label("together"), e.label("alone"), e.label("added")
    e.branch_rarely(e.accumulation.shared.get(array, "false"), together, alone)
    e.place(together)
    for eqn in joined.eqns:
        _emit_each_lane(e, eqn)
    e.jump(done)
    e.place(alone)
    neighbours.add_to_neighbours(e, joined, _sum)
    e.jump(done)
    e.place(done)


def _total_of_lanes(e: Emitter, dtype: Scalar, atom: Atom) -> str:
    """The sum of ``atom`` over the active lanes."""
    return _tree(e, dtype, or_nothing(e, atom), e.gang)


def emit_partial(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to the partial sums of the current points; nobody uses the old element."""
    assert e.accumulation is not None
    dtype, partial = _dtype(eqn), e.accumulation.partial[eqn]
    # A gang starts at a multiple of its size, so that its sums are adjacent.
    slot = e.op(f"and i64 {e.wide_indices[e.point[-1]]}, {abi.PARTIAL_SUMS - 1}")
    address = e.op(f"getelementptr {LLVM_TYPES[dtype.name]}, ptr {partial.sums}, i64 {slot}")
    with e.at(e.gang):
        value, old = e.value(eqn.inputs[-1]), memory.load(e, dtype, address)
        total = _sum(e, dtype, old, value)
        if e.mask is not None:
            choice = f"<{e.gang} x i1> {e.mask}, {e.type(dtype)} {total}, {e.type(dtype)} {old}"
            total = e.op(f"select {choice}")
        memory.store(e, dtype, total, address)
    e.effect(f"store i8 1, ptr {partial.is_used}")
    return [value]


def finish(e: Emitter, plan: Accumulation) -> None:
    """Add the partial sums to their elements."""
    with e.gangs_of(1):
        for eqn, partial in plan.partial.items():
            some, done = e.label("total"), e.label("added")
            used = e.op(f"load i8, ptr {partial.is_used}")
            e.branch(e.op(f"icmp ne i8 {used}, 0"), some, done)
            e.place(some)
            dtype = _dtype(eqn)
            e.region(Region((), defining_eqns(plan.func, eqn.inputs[1:-1])))
            _, address = memory.element(e, eqn)
            _add_shared(e, eqn, address, _total(e, dtype, partial.sums))
            e.jump(done)
            e.place(done)


def _add_shared(e: Emitter, eqn: Eqn, address: str, value: str) -> None:
    assert e.accumulation is not None
    dtype, array = _dtype(eqn), eqn.inputs[0]
    assert isinstance(array, Var)
    is_shared = e.accumulation.shared.get(array)
    if is_shared is None or is_narrow(dtype):
        _add_plainly(e, dtype, address, value)
        return
    together, alone, done = e.label("together"), e.label("alone"), e.label("added")
    e.branch_rarely(is_shared, together, alone)
    e.place(together)
    if dtype.is_integer:
        e.op(f"atomicrmw add ptr {address}, {LLVM_TYPES[dtype.name]} {value} monotonic")
    else:
        _append(e, e.accumulation.log, dtype, address, value)
    e.jump(done)
    e.place(alone)
    _add_plainly(e, dtype, address, value)
    e.jump(done)
    e.place(done)


def _clear_sums(e: Emitter, dtype: Scalar) -> PartialSums:
    sums = e.slot(f"[{abi.PARTIAL_SUMS} x {LLVM_TYPES[dtype.name]}], align 64")
    zero = literal(dtype, nothing_added(dtype))
    wide = f"<{abi.PARTIAL_SUMS} x {LLVM_TYPES[dtype.name]}>"
    e.effect(f"store {wide} splat ({LLVM_TYPES[dtype.name]} {zero}), ptr {sums}, align 64")
    is_used = e.slot("i8")
    e.effect(f"store i8 0, ptr {is_used}")
    return PartialSums(sums, is_used)


def _total(e: Emitter, dtype: Scalar, sums: str) -> str:
    width = abi.PARTIAL_SUMS
    value = e.op(f"load <{width} x {LLVM_TYPES[dtype.name]}>, ptr {sums}, align 64")
    return _tree(e, dtype, value, width)


def _tree(e: Emitter, dtype: Scalar, value: str, width: int) -> str:
    """The sum of ``width`` values as a balanced tree: halves are added element by element."""
    element = LLVM_TYPES[dtype.name]
    mnemonic = "fadd" if dtype.is_float else "add"
    while width > 1:
        half = width // 2
        parts = [
            e.op(
                f"shufflevector <{width} x {element}> {value}, <{width} x {element}> poison, "
                f"<{half} x i32> <{', '.join(f'i32 {i}' for i in range(start, start + half))}>"
            )
            for start in (0, half)
        ]
        value = e.op(f"{mnemonic} <{half} x {element}> {parts[0]}, {parts[1]}")
        width = half
    return e.op(f"extractelement <1 x {element}> {value}, i64 0")


def _append(e: Emitter, log: str, dtype: Scalar, address: str, value: str) -> None:
    """Write an addition down in the log, which is drained when it is full."""
    full, room = e.label("full"), e.label("room")
    first = e.op(f"load ptr, ptr {log}")
    end = e.op(f"load ptr, ptr {memory.address_at(e, log, abi.LOG_END_OFFSET)}")
    before = e.block
    e.branch_rarely(e.op(f"icmp eq ptr {first}, {end}"), full, room)
    e.place(full)
    drain = e.op(f"load ptr, ptr {memory.address_at(e, log, abi.LOG_DRAIN_OFFSET)}")
    e.effect(f"call void {drain}(ptr {log})")
    emptied = e.op(f"load ptr, ptr {log}")
    e.jump(room)
    e.place(room)
    record = e.phi("ptr")
    e.add_edge(record, first, before)
    e.add_edge(record, emptied, full)
    target = memory.address_at(e, address, 1) if dtype == float64 else address
    e.effect(f"store ptr {target}, ptr {record}")
    ty = LLVM_TYPES[dtype.name]
    e.effect(f"store {ty} {value}, ptr {memory.address_at(e, record, abi.RECORD_VALUE_OFFSET)}")
    e.effect(f"store ptr {memory.address_at(e, record, abi.RECORD_BYTES)}, ptr {log}")


def _add_plainly(e: Emitter, dtype: Scalar, address: str, value: str) -> None:
    memory.store(e, dtype, _sum(e, dtype, memory.load(e, dtype, address), value), address)


def _sum(e: Emitter, dtype: Scalar, old: str, value: str) -> str:
    assert add.op.lower is not None
    return narrow.rounded(e, dtype, add.op.lower(e, narrow.held_as(dtype), old, value))


def _dtype(eqn: Eqn) -> Scalar:
    array = eqn.inputs[0].type
    assert isinstance(array, ArrayType)
    return array.dtype


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
