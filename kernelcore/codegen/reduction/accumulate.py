"""Accumulations that threads share, in forms whose sums do not depend on the threads.

A SHARED addition asks at run time whether the launch lets other threads add to the array. A PARTIAL
one, whose element is the same for the whole launch, adds to one of 64 partial sums in the frame;
when the call ends they are added up as a tree, and the total is added as SHARED.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.builtins.reference import is_narrow, nothing_added
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.uniformity import Strides
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.reduction import stencil
from kernelcore.codegen.reduction.accumulation import Accumulation, JoinedAdditions, PartialSums
from kernelcore.codegen.reduction.element_add import (
    MOST_INTEGERS_UNROLLED,
    add_alone,
    add_lanes_alone,
    add_lanes_in_loop,
    add_lanes_together,
    add_together,
    summed,
)
from kernelcore.codegen.simd import vector_access
from kernelcore.codegen.simd.masked_control import or_nothing
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import LOOPS, AddForm, Op, OpKind
from kernelcore.ir.walk import array_type, walk_eqns
from kernelcore.language.types import Scalar
from kernelcore.passes.access.accumulation_plan import (
    MAX_SHARED_ARRAYS,
    adds_apart,
    defining_eqns,
    form_of,
    shared_arrays,
)


def begin(e: Emitter, func: Func, arrays: Sequence[Var] | None = None) -> Accumulation:
    """Read from the grid which arrays are shared, and clear the partial sums.

    ``arrays`` are the accumulated arrays of the launch, by default those of ``func``.
    """
    if not any(map(adds_apart, walk_eqns(func.body))):
        return Accumulation(func)
    own = shared_arrays(func)
    bits = e.op(f"load i64, ptr {memory.address_at(e, '%grid', abi.GRID_SHARED_OFFSET)}")
    shared: dict[Var, str] = {}
    for at, array in enumerate((own if arrays is None else arrays)[:MAX_SHARED_ARRAYS]):
        if array not in own:
            continue
        bit = e.op(f"and i64 {bits}, {_signed(1 << at)}")
        shared[array] = e.op(f"icmp ne i64 {bit}, 0")
    log = e.op(f"load ptr, ptr {memory.address_at(e, '%grid', abi.GRID_LOG_OFFSET)}")
    partial: dict[Eqn, PartialSums] = {}
    for eqn in walk_eqns(func.body):
        if eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) is AddForm.PARTIAL:
            partial[eqn] = _clear_sums(e, array_type(eqn).dtype)
    joined = stencil.joined_additions(func, e.lane_facts.strides, e.gang)
    brief, in_place = _brief(func), e.gang == 1
    return Accumulation(func, shared, log, partial, joined, brief=brief, in_place=in_place)


def plan_of_form(e: Emitter, func: Func, strides: Strides) -> Accumulation:
    """The plan for ``func``, which makes the same additions in the same order."""
    plan = e.accumulation
    assert plan is not None
    sites = (eqn for eqn in walk_eqns(func.body) if eqn.op.kind is OpKind.ATOMIC_ADD)
    partial = (eqn for eqn in sites if form_of(eqn) is AddForm.PARTIAL)
    return replace(
        plan,
        func=func,
        partial=dict(zip(partial, plan.partial.values(), strict=True)),
        neighbours=stencil.joined_additions(func, strides, e.gang),
        brief=_brief(func),
    )


def _brief(func: Func) -> frozenset[Eqn]:
    """The additions of which short code matters more than what they cost."""
    has_loops = any(eqn.op.kind in LOOPS for eqn in walk_eqns(func.body))
    return frozenset(func.body.eqns) if has_loops else frozenset()


def emit_shared(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to elements in place or by the log, as the launch says; the old elements are not used.

    A gang adds the values of its lanes to one element as a tree, and then their total.
    """
    add_shared(e, [eqn], _ways(e, eqn))
    return ["poison"]


def keep_for_block(e: Emitter, eqn: Eqn) -> list[str]:
    """Leave what lanes add to one element to the end of the block (``block_sums.py``)."""
    value = or_nothing(e, eqn.inputs[-1])
    with e.at(e.gang):
        memory.store(e, array_type(eqn).dtype, value, e.row_buffers[eqn])
    return ["poison"]


def add_to_register(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to elements that a register holds (``simd/row_by_row.py``)."""
    dtype = array_type(eqn).dtype
    with e.at(e.gang):
        e.lane_sums[eqn] = summed(e, dtype, e.lane_sums[eqn], e.value(eqn.inputs[-1]))
    return ["poison"]


@dataclass(frozen=True, slots=True)
class Ways:
    """What makes an addition if other threads may add to the array, and what if none does."""

    together: Callable[[], object]
    alone: Callable[[], object]


def add_shared(e: Emitter, eqns: Sequence[Eqn], additions: Ways) -> None:
    """Make ``additions`` to the arrays of ``eqns`` in the way that the launch allows for all."""
    flags = [flag for flag in (shared_flag(e, eqn) for eqn in eqns) if flag is not None]
    if not flags:
        additions.alone()
    else:
        add_either_way(e, reduce(lambda x, y: e.op(f"or i1 {x}, {y}"), flags), additions)


def shared_flag(e: Emitter, eqn: Eqn) -> str | None:
    """Whether other threads may add to the array of ``eqn``, as i1; None where none ever do."""
    assert e.accumulation is not None
    assert isinstance(eqn.inputs[0], Var)
    is_log = not is_narrow(array_type(eqn).dtype)
    return e.accumulation.shared.get(eqn.inputs[0]) if is_log else None


def add_either_way(e: Emitter, is_shared: str, addition: Ways) -> None:
    """Make ``addition`` together with others if ``is_shared``, an i1, and else alone."""
    together, alone, done = e.label("together"), e.label("alone"), e.label("added")
    e.branch_rarely(is_shared, together, alone)
    e.start_block(together)
    addition.together()
    e.jump(done)
    e.start_block(alone)
    addition.alone()
    e.jump_into(done)


def _ways(e: Emitter, eqn: Eqn) -> Ways:
    """The code of an addition, of which what both ways need is emitted."""
    plan = e.accumulation
    assert plan is not None
    dtype, value = array_type(eqn).dtype, eqn.inputs[-1]
    if e.gang == 1:
        in_place = plan.in_place and eqn not in plan.brief
        return _ways_of_one(e, eqn, e.value_at(value, 1), in_place=in_place)
    is_one = e.is_uniform(*eqn.inputs[1:-1]) and eqn not in e.in_lane_order
    if is_one and not is_narrow(dtype):
        return _ways_of_one(e, eqn, _total_of_active(e, dtype, value))
    joined = stencil.joined(e, eqn)
    return _ways_of_lanes(e, eqn) if joined is None else _ways_of_neighbours(e, eqn, joined)


def _ways_of_one(e: Emitter, eqn: Eqn, value: str, *, in_place: bool = False) -> Ways:
    assert e.accumulation is not None
    log = e.accumulation.log
    with e.at(1):
        dtype, address = memory.element(e, eqn)

    def together() -> None:
        add_together(e, log, dtype, address, value, in_place=in_place)

    def alone() -> None:
        with e.at(1):
            add_alone(e, dtype, address, value)

    return Ways(together, alone)


def _ways_of_lanes(e: Emitter, eqn: Eqn) -> Ways:
    where, value = vector_access.site(e, eqn), e.value_at(eqn.inputs[-1], e.gang)
    return Ways(
        lambda: _add_lanes_together(e, where, value),
        lambda: _add_lanes_alone(e, eqn, where, value),
    )


def _ways_of_neighbours(e: Emitter, eqn: Eqn, joined: JoinedAdditions) -> Ways:
    def together() -> None:
        _add_lanes_together(e, vector_access.site(e, eqn), e.value_at(eqn.inputs[-1], e.gang))

    def alone() -> None:
        if eqn is joined.eqns[-1]:
            stencil.add_to_neighbours(e, joined)

    return Ways(together, alone)


def _add_lanes_together(e: Emitter, where: vector_access.Site, value: str) -> None:
    assert e.accumulation is not None
    log = e.accumulation.log
    add_lanes_together(e, log, where.dtype, vector_access.pointers(e, where), value)


def _add_lanes_alone(e: Emitter, eqn: Eqn, where: vector_access.Site, value: str) -> None:
    assert e.accumulation is not None
    if where.period == 1 and not is_narrow(where.dtype):
        with e.at(e.gang):
            total = summed(e, where.dtype, vector_access.load(e, where), value)
        vector_access.store(e, where, total)
    elif eqn in e.accumulation.brief or e.mask is not None or is_narrow(where.dtype):
        add_lanes_alone(e, where.dtype, vector_access.pointers(e, where), value)
    elif where.dtype.is_integer and e.gang > MOST_INTEGERS_UNROLLED:
        add_lanes_in_loop(e, where.dtype, vector_access.pointers(e, where), value)
    else:
        ty = f"<{e.gang} x {LLVM_TYPES[where.dtype.name]}>"
        for lane, address in enumerate(vector_access.lane_addresses(e, where)):
            one = e.op(f"extractelement {ty} {value}, i64 {lane}")
            with e.at(1):
                add_alone(e, where.dtype, address, one)


def _total_of_active(e: Emitter, dtype: Scalar, atom: Atom) -> str:
    """The sum of ``atom`` over the active lanes."""
    return total_of_lanes(e, dtype, or_nothing(e, atom), e.gang)


def emit_partial(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to the partial sums of the current points; nobody uses the old element."""
    assert e.accumulation is not None
    dtype, partial = array_type(eqn).dtype, e.accumulation.partial[eqn]
    # A gang starts at a multiple of its size, so that its sums are adjacent.
    slot = e.op(f"and i64 {e.wide_indices[e.point[-1]]}, {abi.PARTIAL_SUMS - 1}")
    address = e.op(f"getelementptr {LLVM_TYPES[dtype.name]}, ptr {partial.sums}, i64 {slot}")
    with e.at(e.gang):
        value, old = e.value(eqn.inputs[-1]), memory.load(e, dtype, address)
        total = summed(e, dtype, old, value)
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
            e.start_block(some)
            dtype = array_type(eqn).dtype
            e.region(Region((), defining_eqns(plan.func, eqn.inputs[1:-1])))
            total = _total(e, dtype, partial.sums)
            add_shared(e, [eqn], _ways_of_one(e, eqn, total))
            e.jump_into(done)


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
    return total_of_lanes(e, dtype, value, width)


def total_of_lanes(e: Emitter, dtype: Scalar, value: str, width: int, op: Op = add.op) -> str:
    """What ``op`` makes of ``width`` values, two or more, as a balanced tree of halves."""
    pair = folded(e, dtype, value, width, 2, op)
    ty = f"<2 x {LLVM_TYPES[dtype.name]}>"
    assert op.lower is not None
    with e.at(1):
        parts = [e.op(f"extractelement {ty} {pair}, i64 {at}") for at in (0, 1)]
        return op.lower(e, dtype, *parts)


def folded(e: Emitter, dtype: Scalar, value: str, width: int, least: int, op: Op = add.op) -> str:
    """``width`` values as ``least``, two or more: ``op`` joins halves element by element."""
    element = LLVM_TYPES[dtype.name]
    assert op.lower is not None
    while width > least:
        half = width // 2
        parts = [
            e.op(
                f"shufflevector <{width} x {element}> {value}, <{width} x {element}> poison, "
                f"<{half} x i32> <{', '.join(f'i32 {i}' for i in range(start, start + half))}>"
            )
            for start in (0, half)
        ]
        with e.at(half):
            value = op.lower(e, dtype, *parts)
        width = half
    return value


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
