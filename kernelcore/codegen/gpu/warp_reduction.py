"""Additions to shared elements on devices: threads first add up what they add to one element.

A PARTIAL addition goes to a sum of the thread; when its block is done, the sums of its threads are
added up as a tree, and one atomic instruction adds the total. A SHARED one is atomic; where the
threads of a warp are expected to meet at one element, they look whether they do, and then one of
them adds the total of all.
"""

from __future__ import annotations

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.builtins.reference import is_narrow, nothing_added
from kernelcore.codegen.analysis.uniformity import lane_strides, stride_of
from kernelcore.codegen.llvm import atomic, memory
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.reduction.accumulation import Accumulation, PartialSums
from kernelcore.codegen.reduction.element_add import summed
from kernelcore.ir.core import Eqn, Func, Region
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import array_type, walk_eqns
from kernelcore.language.types import Scalar
from kernelcore.passes.access.accumulation_plan import defining_eqns, form_of

WARP = 32
MAX_WARPS = 32
WORD_BITS = 32


def begin(e: Emitter, func: Func) -> Accumulation:
    """Clear the sums of the thread, and find the additions at which warps may meet."""
    strides = lane_strides(func)
    partial: dict[Eqn, PartialSums] = {}
    meeting: set[Eqn] = set()
    for eqn in walk_eqns(func.body):
        form = form_of(eqn) if eqn.op.kind is OpKind.ATOMIC_ADD else None
        is_shared = form is AddForm.SHARED and not is_narrow(array_type(eqn).dtype)
        if form is AddForm.PARTIAL:
            partial[eqn] = _clear_sum(e, array_type(eqn).dtype)
        elif is_shared and all(stride_of(strides, i) == 0 for i in eqn.inputs[1:-1]):
            meeting.add(eqn)
    return Accumulation(func, partial=partial, meeting=frozenset(meeting))


def emit_atomic_add(e: Emitter, eqn: Eqn) -> list[str]:
    """Add to one element and give its old value, where anybody uses that."""
    assert e.accumulation is not None
    atomic.refuse_bool(eqn)
    match form_of(eqn):
        case AddForm.OWNED:
            return atomic.emit_atomic_add(e, eqn)
        case AddForm.PARTIAL:
            return _add_to_own_sum(e, eqn, e.accumulation.partial[eqn])
        case AddForm.SHARED if eqn in e.accumulation.meeting:
            return _add_as_warp(e, eqn)
        case _:
            return atomic.add_by_instruction(e, eqn)


def finish(e: Emitter) -> None:
    """Add the sums of the threads of the block to their elements; every thread must come here."""
    plan = e.accumulation
    assert plan is not None
    if not plan.partial:
        return
    thread, here = special_register(e, "tid.x"), _place(e)
    for at, (eqn, partial) in enumerate(plan.partial.items()):
        some, first, done = e.label("some"), e.label("first"), e.label("added")
        used = e.op(f"trunc i8 {e.op(f'load i8, ptr {partial.is_used}')} to i1")
        vote = "i1 @llvm.nvvm.barrier.cta.red.or.aligned.all(i32"
        e.declare(f"declare {vote}, i1)")
        e.branch(e.op(f"call {vote} 0, i1 {used})"), some, done)
        e.start_block(some)
        dtype = array_type(eqn).dtype
        own = memory.load(e, dtype, partial.sums)
        total = _total_of_block(e, dtype, own, f"@kc.block{at}", here)
        e.branch(e.op(f"icmp eq i32 {thread}, 0"), first, done)
        e.start_block(first)
        e.region(Region((), defining_eqns(plan.func, eqn.inputs[1:-1])))
        _, address = memory.element(e, eqn)
        atomic.add_at(e, dtype, address, total)
        e.jump_into(done)


@dataclass(frozen=True, slots=True)
class _Place:
    """Of a thread, as i32: its lane, its warp, how many lanes that has, and warps in the block."""

    lane: str
    warp: str
    lanes: str
    warps: str


def _place(e: Emitter) -> _Place:
    thread, threads = special_register(e, "tid.x"), special_register(e, "ntid.x")
    warp = e.op(f"lshr i32 {thread}, 5")
    left = e.op(f"sub i32 {threads}, {e.op(f'shl i32 {warp}, 5')}")
    lanes = _min(e, left, str(WARP))
    warps = e.op(f"lshr i32 {e.op(f'add i32 {threads}, {WARP - 1}')}, 5")
    return _Place(_lane(e), warp, lanes, warps)


def _lane(e: Emitter) -> str:
    return e.op(f"and i32 {special_register(e, 'tid.x')}, {WARP - 1}")


def _min(e: Emitter, x: str, y: str) -> str:
    return e.op(f"select i1 {e.op(f'icmp ult i32 {x}, {y}')}, i32 {x}, i32 {y}")


def special_register(e: Emitter, name: str) -> str:
    """A special register of the thread, as i32."""
    function = f"i32 @llvm.nvvm.read.ptx.sreg.{name}()"
    e.declare(f"declare {function}")
    return e.op(f"call {function}")


def wide_register(e: Emitter, name: str) -> str:
    """As ``special_register``, as i64."""
    return e.op(f"zext i32 {special_register(e, name)} to i64")


def _clear_sum(e: Emitter, dtype: Scalar) -> PartialSums:
    ty = LLVM_TYPES[dtype.name]
    partial = PartialSums(e.slot(ty), e.slot("i8"))
    e.text.slots.append(f"  store {ty} {_identity(dtype)}, ptr {partial.sums}")
    e.text.slots.append(f"  store i8 0, ptr {partial.is_used}")
    return partial


def _add_to_own_sum(e: Emitter, eqn: Eqn, partial: PartialSums) -> list[str]:
    dtype, value = array_type(eqn).dtype, e.value(eqn.inputs[-1])
    total = summed(e, dtype, memory.load(e, dtype, partial.sums), value)
    memory.store(e, dtype, total, partial.sums)
    e.effect(f"store i8 1, ptr {partial.is_used}")
    return ["poison"]


def _add_as_warp(e: Emitter, eqn: Eqn) -> list[str]:
    """Add once for the warp if all of it is here and means one element."""
    dtype, address = memory.element(e, eqn)
    value = e.value(eqn.inputs[-1])
    meet, together, one, alone, done = (
        e.label(hint) for hint in ("meet", "together", "one", "alone", "added")
    )
    e.declare("declare i32 @llvm.nvvm.activemask()")
    mask = e.op("call i32 @llvm.nvvm.activemask()")
    e.branch(e.op(f"icmp eq i32 {mask}, -1"), meet, alone)
    e.start_block(meet)
    match = "{ i32, i1 } @llvm.nvvm.match.all.sync.i64p(i32"
    e.declare(f"declare {match}, i64)")
    bits = e.op(f"ptrtoint ptr {address} to i64")
    pair = e.op(f"call {match} -1, i64 {bits})")
    e.branch(e.op(f"extractvalue {{ i32, i1 }} {pair}, 1"), together, alone)
    e.start_block(together)
    total = _total_of_warp(e, dtype, value)
    e.branch(e.op(f"icmp eq i32 {_lane(e)}, 0"), one, done)
    e.start_block(one)
    atomic.add_at(e, dtype, address, total)
    e.jump(done)
    e.start_block(alone)
    atomic.add_at(e, dtype, address, value)
    e.jump_into(done)
    return ["poison"]


def _total_of_block(e: Emitter, dtype: Scalar, own: str, shared: str, here: _Place) -> str:
    """In thread 0 the sum of what all threads of the block have; ``shared`` names memory for it."""
    ty = LLVM_TYPES[dtype.name]
    e.declare(f"{shared} = internal addrspace(3) global [{MAX_WARPS} x {ty}] undef")
    of_warp = _total_of_warp(e, dtype, own, here.lanes)
    write, wait, read, done = (e.label(hint) for hint in ("write", "wait", "read", "total"))
    e.branch(e.op(f"icmp eq i32 {here.lane}, 0"), write, wait)
    e.start_block(write)
    slot = e.op(f"getelementptr {ty}, ptr addrspace(3) {shared}, i32 {here.warp}")
    e.effect(f"store {ty} {of_warp}, ptr addrspace(3) {slot}")
    e.jump_into(wait)
    e.declare("declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)")
    e.effect("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
    before = e.block
    e.branch(e.op(f"icmp eq i32 {here.warp}, 0"), read, done)
    e.start_block(read)
    slot = e.op(f"getelementptr {ty}, ptr addrspace(3) {shared}, i32 {here.lane}")
    # What lies behind the last warp is undefined, and not used.
    found = e.op(f"load {ty}, ptr addrspace(3) {slot}")
    exists = e.op(f"icmp ult i32 {here.lane}, {here.warps}")
    part = e.op(f"select i1 {exists}, {ty} {found}, {ty} {_identity(dtype)}")
    # The first warp may have fewer lanes than 32 only where it is the only one.
    total = _total_of_warp(e, dtype, part, here.lanes)
    after = e.block
    e.jump_into(done)
    result = e.phi(ty, (own, before), (total, after))
    return result


def _total_of_warp(e: Emitter, dtype: Scalar, value: str, lanes: str = str(WARP)) -> str:
    """In lane 0 the sum of ``value`` of all ``lanes``, as a tree."""
    mask = e.op(f"lshr i32 -1, {e.op(f'sub i32 {WARP}, {lanes}')}")
    lane = _lane(e)
    distance = WARP // 2
    while distance:
        other = _of_later_lane(e, dtype, value, distance, mask)
        exists = e.op(f"icmp ult i32 {e.op(f'add i32 {lane}, {distance}')}, {lanes}")
        ty = LLVM_TYPES[dtype.name]
        part = e.op(f"select i1 {exists}, {ty} {other}, {ty} {_identity(dtype)}")
        value = summed(e, dtype, value, part)
        distance //= 2
    return value


def _of_later_lane(e: Emitter, dtype: Scalar, value: str, distance: int, mask: str) -> str:
    """``value`` of the lane so many further on, by shuffles of 32 bits."""
    ty = LLVM_TYPES[dtype.name]
    if dtype.bits < WORD_BITS:
        moved = _shuffled(e, e.op(f"zext {ty} {value} to i32"), distance, mask)
        return e.op(f"trunc i32 {moved} to {ty}")
    words = f"<{dtype.bits // WORD_BITS} x i32>"
    here, there = e.op(f"bitcast {ty} {value} to {words}"), "poison"
    for at in range(dtype.bits // WORD_BITS):
        word = _shuffled(e, e.op(f"extractelement {words} {here}, i32 {at}"), distance, mask)
        there = e.op(f"insertelement {words} {there}, i32 {word}, i32 {at}")
    return e.op(f"bitcast {words} {there} to {ty}")


def _shuffled(e: Emitter, word: str, distance: int, mask: str) -> str:
    function = "i32 @llvm.nvvm.shfl.sync.down.i32(i32"
    e.declare(f"declare {function}, i32, i32, i32)")
    return e.op(f"call {function} {mask}, i32 {word}, i32 {distance}, i32 {WARP - 1})")


def _identity(dtype: Scalar) -> str:
    return literal(dtype, nothing_added(dtype))
