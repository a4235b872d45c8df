"""Private stacks: memory that a kernel asks for, grows and gives back.

The stack of a gang has one record per push, of one element per lane. Where its threads push and pop
together it has one size, else a size per lane.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelcore.codegen import masks, wide
from kernelcore.codegen.emitter import Emitter, StackValue
from kernelcore.codegen.memory import load, store
from kernelcore.codegen.records import Member
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.types import Scalar, StackType

FIRST_CAPACITY = 32

# The block of every function with stacks that reports the failure and returns.
OUT_OF_MEMORY_BLOCK = "out_of_memory"


def emit_stack(e: Emitter, eqn: Eqn) -> list[StackValue]:
    """An empty stack. Its memory is kept from one grid point to the next."""
    member = e.members[eqn.out]
    if member.leads[OpKind.STACK]:
        together = e.gang == 1 or member.record not in e.apart
        size_type = "i64" if together else f"<{e.gang} x i32>"
        stack = StackValue(e.slot("ptr"), e.slot(size_type), e.slot("i64"), together)
        e.stacks.append(stack)
        e.records[member.record] = stack
        e.effect(f"store {size_type} zeroinitializer, ptr {stack.size}")
    return [e.records[member.record]]


def emit_push(e: Emitter, eqn: Eqn) -> list[str]:
    """Append to a stack, which doubles when it is full."""
    stack, dtype = e.stack(eqn.inputs[0]), _stack_dtype(eqn)
    member = e.members[eqn.inputs[0]]
    value = e.value_at(eqn.inputs[1], e.gang)
    if not stack.together:
        _push_apart(e, stack, member, dtype, value)
        return []
    size = e.op(f"load i64, ptr {stack.size}")
    if member.leads[OpKind.PUSH]:
        capacity = e.op(f"load i64, ptr {stack.capacity}")
        _make_room(e, stack, member, capacity, e.op(f"icmp eq i64 {size}, {capacity}"))
        e.effect(f"store i64 {e.op(f'add i64 {size}, 1')}, ptr {stack.size}")
    else:
        # The record is there already: the first of its members has made it.
        size = e.op(f"sub i64 {size}, 1")
    with e.at(e.gang):
        store(e, dtype, value, _top(e, stack, size, member))
    return []


def emit_pop(e: Emitter, eqn: Eqn) -> list[str]:
    """Take the last element off a stack."""
    stack, dtype = e.stack(eqn.inputs[0]), _stack_dtype(eqn)
    member = e.members[eqn.inputs[0]]
    if not stack.together:
        return [_pop_apart(e, stack, member, dtype)]
    size = e.op(f"load i64, ptr {stack.size}")
    if member.leads[OpKind.POP]:
        size = e.op(f"sub i64 {size}, 1")
        e.effect(f"store i64 {size}, ptr {stack.size}")
    with e.at(e.gang):
        return [load(e, dtype, _top(e, stack, size, member))]


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
        e.declare("declare void @free(ptr)")
        e.effect(f"call void @free(ptr {e.op(f'load ptr, ptr {stack.data}')})")


def records_apart(
    func: Func, members: Mapping[Atom, Member], strides: Mapping[Var, int | None]
) -> frozenset[int]:
    """The shared stacks that threads of a gang may not push and pop together."""

    def visit(region: Region, together: bool) -> None:
        for eqn in region.eqns:
            if eqn.op.kind in (OpKind.PUSH, OpKind.POP) and not together:
                found.add(members[eqn.inputs[0]].record)
            decided: tuple[Atom, ...] = ()
            match eqn.op.kind:
                case OpKind.IF:
                    decided = eqn.inputs
                case OpKind.FOR:
                    decided = eqn.inputs[:3]
                case OpKind.WHILE:
                    decided = eqn.regions[0].yields
                case _:
                    pass
            is_uniform = all(not isinstance(a, Var) or strides[a] == 0 for a in decided)
            for inner in eqn.regions:
                visit(inner, together and is_uniform)

    found: set[int] = set()
    visit(func.body, True)
    return frozenset(found)


def _push_apart(e: Emitter, stack: StackValue, member: Member, dtype: Scalar, value: str) -> None:
    sizes_type = f"<{e.gang} x i32>"
    sizes = e.op(f"load {sizes_type}, ptr {stack.size}")
    if member.leads[OpKind.PUSH]:
        capacity = e.op(f"load i64, ptr {stack.capacity}")
        limit = e.splat("i32", e.op(f"trunc i64 {capacity} to i32"))
        full = masks.both(e, e.mask, e.op(f"icmp eq {sizes_type} {sizes}, {limit}"))
        _make_room(e, stack, member, capacity, masks.is_any(e, full))
        # A mask is -1 where it is set.
        more = e.op(f"sub {sizes_type} {sizes}, {_active(e)}")
        e.effect(f"store {sizes_type} {more}, ptr {stack.size}")
    else:
        sizes = _one_less(e, sizes)
    wide.store(e, wide.Site(dtype, _tops(e, stack, sizes, member, dtype)), value)


def _pop_apart(e: Emitter, stack: StackValue, member: Member, dtype: Scalar) -> str:
    sizes_type = f"<{e.gang} x i32>"
    sizes = e.op(f"load {sizes_type}, ptr {stack.size}")
    if member.leads[OpKind.POP]:
        sizes = e.op(f"add {sizes_type} {sizes}, {_active(e)}")
        e.effect(f"store {sizes_type} {sizes}, ptr {stack.size}")
    return wide.load(e, wide.Site(dtype, _tops(e, stack, sizes, member, dtype)))


def _active(e: Emitter) -> str:
    """-1 in the active lanes, else 0."""
    mask = e.mask or masks.ALL_LANES
    return e.op(f"sext <{e.gang} x i1> {mask} to <{e.gang} x i32>")


def _one_less(e: Emitter, sizes: str) -> str:
    return e.op(f"sub <{e.gang} x i32> {sizes}, splat (i32 1)")


def _make_room(e: Emitter, stack: StackValue, member: Member, capacity: str, is_full: str) -> None:
    grow, room = e.label("grow"), e.label("room")
    e.branch(is_full, grow, room)
    e.place(grow)
    _grow(e, stack, capacity, member.record_bytes * e.gang)
    e.jump(room)
    e.place(room)


def _grow(e: Emitter, stack: StackValue, capacity: str, record_bytes: int) -> None:
    doubled = e.op(f"shl i64 {capacity}, 1")
    fresh = e.op(f"icmp eq i64 {capacity}, 0")
    wanted = e.op(f"select i1 {fresh}, i64 {FIRST_CAPACITY}, i64 {doubled}")
    old = e.op(f"load ptr, ptr {stack.data}")
    size_bytes = e.op(f"mul i64 {wanted}, {record_bytes}")
    e.declare("declare ptr @realloc(ptr, i64)")
    data = e.op(f"call ptr @realloc(ptr {old}, i64 {size_bytes})")
    grown = e.label("grown")
    e.branch(e.op(f"icmp ne ptr {data}, null"), grown, OUT_OF_MEMORY_BLOCK)
    e.place(grown)
    e.effect(f"store ptr {data}, ptr {stack.data}")
    e.effect(f"store i64 {wanted}, ptr {stack.capacity}")


def _top(e: Emitter, stack: StackValue, position: str, member: Member) -> str:
    data = e.op(f"load ptr, ptr {stack.data}")
    offset = e.op(f"mul i64 {position}, {member.record_bytes * e.gang}")
    record = e.op(f"getelementptr i8, ptr {data}, i64 {offset}")
    return e.op(f"getelementptr i8, ptr {record}, i64 {member.offset_bytes * e.gang}")


def _tops(e: Emitter, stack: StackValue, positions: str, member: Member, dtype: Scalar) -> str:
    """An address per lane: each has its own position in the stack."""
    data = e.op(f"load ptr, ptr {stack.data}")
    pointers, start = f"<{e.gang} x ptr>", member.offset_bytes * e.gang
    unit = f"[{member.record_bytes * e.gang} x i8]"
    records = e.op(f"getelementptr {unit}, ptr {data}, <{e.gang} x i32> {positions}")
    offsets = ", ".join(f"i64 {start + k * dtype.size_bytes}" for k in range(e.gang))
    return e.op(f"getelementptr i8, {pointers} {records}, <{e.gang} x i64> <{offsets}>")


def _stack_dtype(eqn: Eqn) -> Scalar:
    stack = eqn.inputs[0].type
    assert isinstance(stack, StackType)
    return stack.dtype
