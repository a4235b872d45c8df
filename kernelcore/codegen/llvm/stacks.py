"""Private stacks: memory that a kernel allocates, grows and frees.

A ``for`` loop that all lanes run together makes room for all of its iterations before it starts;
other pushes ask for room.
The stack of a gang has one record per iteration of the innermost loop around a push, with one
element per lane. A loop that pops runs the iterations of the loop that pushes backwards
(``ENDS_TOGETHER``); a lane is active in an iteration of one exactly if it is in that of the other.

Where only the first lanes of a gang are recorded (``Lanes.recorded``), records are as narrow as
these. A push still stores all lanes: beyond its field it writes over fields that are pushed later,
which is why they are in this order then, and a pop loads what is there in lanes that no one uses.
"""

from __future__ import annotations

from kernelcore.codegen.llvm.blocks import resized
from kernelcore.codegen.llvm.emitter import Emitter, StackValue
from kernelcore.codegen.llvm.memory import load, store
from kernelcore.codegen.llvm.stack_records import Member, RecordField
from kernelcore.ir.core import Eqn, Region
from kernelcore.ir.op import OpKind
from kernelcore.language.types import Scalar, StackType

FIRST_CAPACITY_BYTES = 4096
# No loop pushes more within a day. The size of as many records in bytes fits in an int64.
MOST_RECORDS = 1 << 44
# Vectors that lie across two cache lines take twice as long.
ALIGNMENT = 64

# The block of every function with stacks that reports the failure and returns.
OUT_OF_MEMORY_BLOCK = "out_of_memory"


def emit_stack(e: Emitter, eqn: Eqn) -> list[StackValue]:
    """An empty stack. Its memory is kept from one grid point to the next."""
    member = e.facts.members[eqn.out]
    if member.leads[OpKind.STACK]:
        stack = StackValue(e.slot("ptr"), e.slot("i64"), e.slot("i64"))
        e.stacks.append(stack)
        e.records[member.record] = stack
        e.effect(f"store i64 0, ptr {stack.size}")
    return [e.records[member.record]]


def make_room_for(e: Emitter, body: Region, count: str, ty: str) -> frozenset[Eqn]:
    """The pushes of a loop for whose ``count`` iterations, of type ``ty``, this makes room."""
    pushes = [eqn for eqn in body.eqns if _leads(e, eqn)]
    for eqn in pushes:
        stack, member = e.stack(eqn.inputs[0]), e.facts.members[eqn.inputs[0]]
        e.declare("declare i64 @llvm.umin.i64(i64, i64)")
        wide = resized(e, count, ty, "i64")
        most = e.op(f"call i64 @llvm.umin.i64(i64 {wide}, i64 {MOST_RECORDS})")
        size = e.op(f"load i64, ptr {stack.size}")
        added = e.op(f"mul i64 {most}, {_record_bytes(e, member)}")
        _make_room(e, stack, member, e.op(f"add i64 {size}, {added}"))
    return frozenset(pushes)


def _leads(e: Emitter, eqn: Eqn) -> bool:
    """Whether ``eqn`` is the one push that makes the records of its stack."""
    if eqn.op.kind is not OpKind.PUSH:
        return False
    member = e.facts.members[eqn.inputs[0]]
    return member.has_one_push and member.leads[OpKind.PUSH]


def emit_push(e: Emitter, eqn: Eqn) -> list[str]:
    """Append to a stack, which grows when it is full."""
    stack, dtype = e.stack(eqn.inputs[0]), _stack_dtype(eqn)
    member = e.facts.members[eqn.inputs[0]]
    value = e.value_at(eqn.inputs[1], e.gang)
    if member.leads[OpKind.PUSH]:
        size = e.op(f"load i64, ptr {stack.size}")
        following = e.op(f"add i64 {size}, {_record_bytes(e, member)}")
        if eqn not in e.with_room:
            _make_room(e, stack, member, following)
        e.effect(f"store i64 {following}, ptr {stack.size}")
        e.top_records[member.record, OpKind.PUSH] = _record(e, stack, size)
    with e.at(e.gang):
        store(e, dtype, value, _field(e, OpKind.PUSH, member))
    return []


def emit_pop(e: Emitter, eqn: Eqn) -> list[str]:
    """Take the last element off a stack."""
    stack, dtype = e.stack(eqn.inputs[0]), _stack_dtype(eqn)
    member = e.facts.members[eqn.inputs[0]]
    if member.leads[OpKind.POP]:
        had = e.op(f"load i64, ptr {stack.size}")
        size = e.op(f"sub i64 {had}, {_record_bytes(e, member)}")
        e.effect(f"store i64 {size}, ptr {stack.size}")
        e.top_records[member.record, OpKind.POP] = _record(e, stack, size)
    with e.at(e.gang):
        return [load(e, dtype, _field(e, OpKind.POP, member))]


def private_memory(e: Emitter, size_bytes: str) -> str:
    """The address of at least ``size_bytes`` bytes, an i64, of memory, or null without memory.

    It is made once in a call of the kernel, and freed with the stacks.
    """
    found = StackValue(e.slot("ptr"), e.slot("i64"), e.slot("i64"))
    e.stacks.append(found)
    whole = e.op(f"and i64 {e.op(f'add i64 {size_bytes}, {2 * ALIGNMENT - 1}')}, {-ALIGNMENT}")
    data = _aligned_memory(e, whole)
    e.effect(f"store ptr {data}, ptr {found.data}")
    return data


def clear_stacks(e: Emitter) -> list[str]:
    """Instructions that make every stack hold no memory; they belong at the function's start."""
    return [
        line
        for stack in e.stacks
        for line in (f"  store ptr null, ptr {stack.data}", f"  store i64 0, ptr {stack.capacity}")
    ]


def free_stacks(e: Emitter) -> None:
    """Give the memory of every stack back."""
    for stack in e.stacks:
        _free(e, stack)


def _free(e: Emitter, stack: StackValue) -> None:
    e.declare("declare void @free(ptr)")
    e.effect(f"call void @free(ptr {e.op(f'load ptr, ptr {stack.data}')})")


def _make_room(e: Emitter, stack: StackValue, member: Member, needed: str) -> None:
    """Let ``stack`` have room for records of ``needed`` bytes."""
    if e.lane_facts.recorded is not None:
        needed = e.op(f"add i64 {needed}, {member.in_order.record_bytes * e.gang}")
    capacity = e.op(f"load i64, ptr {stack.capacity}")
    grow, room = e.label("grow"), e.label("room")
    e.branch(e.op(f"icmp ugt i64 {needed}, {capacity}"), grow, room)
    e.start_block(grow)
    _grow(e, stack, capacity, needed)
    e.jump_into(room)


def _grow(e: Emitter, stack: StackValue, capacity: str, needed: str) -> None:
    e.declare("declare i64 @llvm.umax.i64(i64, i64)")
    doubled = e.op(f"shl i64 {capacity}, 1")
    wanted = e.op(f"call i64 @llvm.umax.i64(i64 {doubled}, i64 {needed})")
    wanted = e.op(f"call i64 @llvm.umax.i64(i64 {wanted}, i64 {FIRST_CAPACITY_BYTES})")
    # A multiple of the alignment, as aligned_alloc() asks for.
    wanted = e.op(f"and i64 {e.op(f'add i64 {wanted}, {ALIGNMENT - 1}')}, {-ALIGNMENT}")
    data = _aligned_memory(e, wanted)
    grown = e.label("grown")
    e.branch(e.op(f"icmp ne ptr {data}, null"), grown, OUT_OF_MEMORY_BLOCK)
    e.start_block(grown)
    old = e.op(f"load ptr, ptr {stack.data}")
    e.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    e.effect(f"call void @llvm.memcpy.p0.p0.i64(ptr {data}, ptr {old}, i64 {capacity}, i1 false)")
    _free(e, stack)
    e.effect(f"store ptr {data}, ptr {stack.data}")
    e.effect(f"store i64 {wanted}, ptr {stack.capacity}")


def _aligned_memory(e: Emitter, size_bytes: str) -> str:
    """The address of ``size_bytes`` bytes, a multiple of ``ALIGNMENT``; null without memory."""
    e.declare("declare ptr @aligned_alloc(i64, i64)")
    return e.op(f"call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {size_bytes})")


def _record(e: Emitter, stack: StackValue, offset: str) -> str:
    """The address of the record that lies ``offset`` bytes, an i64, behind the first one."""
    data = e.op(f"load ptr, ptr {stack.data}")
    return e.op(f"getelementptr i8, ptr {data}, i64 {offset}")


def _record_bytes(e: Emitter, member: Member) -> str:
    """The distance from one record of the gang to the next, an i64."""
    return _of_gang(e, _layout(e, member).record_bytes)


def _layout(e: Emitter, member: Member) -> RecordField:
    return member.widest_first if e.lane_facts.recorded is None else member.in_order


def _of_gang(e: Emitter, size_bytes: int) -> str:
    """The bytes of all recorded lanes, an i64, if one lane has ``size_bytes``."""
    recorded = e.lane_facts.recorded
    if recorded is None:
        return str(size_bytes * e.gang)
    return e.op(f"mul i64 {recorded}, {size_bytes}")


def _field(e: Emitter, kind: OpKind, member: Member) -> str:
    """The address of ``member`` in the record that the first of its members has made or taken."""
    record = e.top_records[member.record, kind]
    offset = _of_gang(e, _layout(e, member).offset_bytes)
    return e.op(f"getelementptr i8, ptr {record}, i64 {offset}")


def _stack_dtype(eqn: Eqn) -> Scalar:
    stack = eqn.inputs[0].type
    assert isinstance(stack, StackType)
    return stack.dtype
