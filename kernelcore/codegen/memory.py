"""Array elements and stacks."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.builtins.reference import is_narrow
from kernelcore.codegen import narrow
from kernelcore.codegen.emitter import ArrayValue, Emitter, StackValue, scalar_type
from kernelcore.codegen.records import Member
from kernelcore.ir.core import Atom, Eqn
from kernelcore.ir.op import OpKind
from kernelcore.types import ArrayType, Scalar, StackType, boolean

FIRST_CAPACITY = 32

# The block of every function with stacks that reports the failure and returns.
OUT_OF_MEMORY_BLOCK = "out_of_memory"


def load(e: Emitter, dtype: Scalar, address: str, suffix: str = "") -> str:
    """The ``e.lanes`` elements at ``address``."""
    stored = e.wide(stored_type(dtype))
    value = e.op(f"load {stored}, ptr {address}, align {dtype.size_bytes}{suffix}")
    return decoded(e, dtype, value)


def store(e: Emitter, dtype: Scalar, value: str, address: str, suffix: str = "") -> None:
    """Write ``e.lanes`` elements at ``address``."""
    stored, bits = e.wide(stored_type(dtype)), encoded(e, dtype, value)
    e.effect(f"store {stored} {bits}, ptr {address}, align {dtype.size_bytes}{suffix}")


def stored_type(dtype: Scalar) -> str:
    """The LLVM type of an element in memory: a bool is a byte, a float of 16 bits an integer."""
    return f"i{8 * dtype.size_bytes}" if dtype.bits < 32 else LLVM_TYPES[dtype.name]


def decoded(e: Emitter, dtype: Scalar, stored: str) -> str:
    """The value of an element as it is in memory."""
    if dtype == boolean:
        return e.op(f"icmp ne {e.wide('i8')} {stored}, zeroinitializer")
    return narrow.decode(e, dtype, stored) if is_narrow(dtype) else stored


def encoded(e: Emitter, dtype: Scalar, value: str) -> str:
    """``value`` as it is in memory."""
    if dtype == boolean:
        return e.op(f"zext {e.type(dtype)} {value} to {e.wide('i8')}")
    return narrow.encode(e, dtype, value) if is_narrow(dtype) else value


def emit_load(e: Emitter, eqn: Eqn) -> list[str]:
    """One element of an array."""
    dtype, address = element(e, eqn)
    return [load(e, dtype, address, e.access_suffix)]


def emit_store(e: Emitter, eqn: Eqn) -> list[str]:
    """Write one element of an array."""
    dtype, address = element(e, eqn)
    store(e, dtype, e.value(eqn.inputs[-1]), address, e.access_suffix)
    return []


def emit_dim(e: Emitter, eqn: Eqn) -> list[str]:
    """One extent of an array as int32."""
    e.require_one_lane(eqn)
    axis: int = eqn.attrs["axis"]
    extent = e.array(eqn.inputs[0]).shape[axis]
    return [e.op(f"trunc i64 {extent} to i32")]


def element(e: Emitter, eqn: Eqn) -> tuple[Scalar, str]:
    """The type and the address of the element that an access names."""
    e.require_one_lane(eqn)
    source = eqn.inputs[0]
    assert isinstance(source.type, ArrayType)
    indices = eqn.inputs[1 : 1 + source.type.ndim]
    return source.type.dtype, address(e, e.array(source), indices)


def address(e: Emitter, array: ArrayValue, indices: Sequence[Atom]) -> str:
    """Where the element, or the view, at the leading ``indices`` starts."""
    found = array.data
    for index, stride in zip(indices, array.strides, strict=False):
        offset = e.op(f"mul i64 {_wide_index(e, index)}, {stride}")
        found = e.op(f"getelementptr i8, ptr {found}, i64 {offset}")
    return found


def _wide_index(e: Emitter, index: Atom) -> str:
    value = e.value(index)
    dtype = scalar_type(index)
    if dtype.bits == 64:
        return value
    extend = "zext" if dtype.kind == "uint" else "sext"
    return e.wide_indices.get(value) or e.op(f"{extend} {e.type(dtype)} {value} to i64")


def emit_stack(e: Emitter, eqn: Eqn) -> list[StackValue]:
    """An empty stack. Its memory is kept from one grid point to the next."""
    e.require_one_lane(eqn)
    member = e.members[eqn.out]
    if member.leads[OpKind.STACK]:
        stack = StackValue(e.slot("ptr"), e.slot("i64"), e.slot("i64"))
        e.stacks.append(stack)
        e.records[member.record] = stack
        e.effect(f"store i64 0, ptr {stack.size}")
    return [e.records[member.record]]


def emit_push(e: Emitter, eqn: Eqn) -> list[str]:
    """Append to a stack, which doubles when it is full."""
    stack, dtype = e.stack(eqn.inputs[0]), _stack_dtype(eqn)
    member = e.members[eqn.inputs[0]]
    size = e.op(f"load i64, ptr {stack.size}")
    if member.leads[OpKind.PUSH]:
        capacity = e.op(f"load i64, ptr {stack.capacity}")
        grow, room = e.label("grow"), e.label("room")
        e.branch(e.op(f"icmp eq i64 {size}, {capacity}"), grow, room)
        e.place(grow)
        _grow(e, stack, capacity, member.record_bytes)
        e.jump(room)
        e.place(room)
        e.effect(f"store i64 {e.op(f'add i64 {size}, 1')}, ptr {stack.size}")
    else:
        # The record is there already: the first of its members has made it.
        size = e.op(f"sub i64 {size}, 1")
    store(e, dtype, e.value(eqn.inputs[1]), _top(e, stack, size, member))
    return []


def emit_pop(e: Emitter, eqn: Eqn) -> list[str]:
    """Take the last element off a stack."""
    stack, dtype = e.stack(eqn.inputs[0]), _stack_dtype(eqn)
    member = e.members[eqn.inputs[0]]
    size = e.op(f"load i64, ptr {stack.size}")
    if member.leads[OpKind.POP]:
        size = e.op(f"sub i64 {size}, 1")
        e.effect(f"store i64 {size}, ptr {stack.size}")
    return [load(e, dtype, _top(e, stack, size, member))]


def clear_stacks(e: Emitter) -> list[str]:
    """Instructions that make every stack hold no memory; they belong at the function's start."""
    return [
        line
        for stack in e.stacks
        for line in (
            f"  store ptr null, ptr {stack.data}",
            f"  store i64 0, ptr {stack.size}",
            f"  store i64 0, ptr {stack.capacity}",
        )
    ]


def free_stacks(e: Emitter) -> None:
    """Give the memory of every stack back."""
    for stack in e.stacks:
        e.declare("declare void @free(ptr)")
        e.effect(f"call void @free(ptr {e.op(f'load ptr, ptr {stack.data}')})")


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
    offset = e.op(f"mul i64 {position}, {member.record_bytes}")
    record = e.op(f"getelementptr i8, ptr {data}, i64 {offset}")
    return e.op(f"getelementptr i8, ptr {record}, i64 {member.offset_bytes}")


def _stack_dtype(eqn: Eqn) -> Scalar:
    stack = eqn.inputs[0].type
    assert isinstance(stack, StackType)
    return stack.dtype
