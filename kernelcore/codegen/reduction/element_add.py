"""Additions to elements that threads may share, of one thread or a gang: in place or by calls.

Additions that only concurrent chunks make, or that run rarely, call functions of the module: LLVM
takes much longer where their code is inlined at every addition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins import float16
from kernelcore.builtins.arithmetic import add
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen import abi
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, Lanes
from kernelcore.codegen.llvm.module_function import ModuleFunction, call, finished
from kernelcore.codegen.simd.masked_control import ALL_LANES
from kernelcore.language.types import Scalar, float64

# Adds a value to the element at an address.
_AddOne = Callable[[Emitter, Scalar, str, str], None]
# No gang has more lanes.
MAX_LANES = 64
# Processors that predict which store a load of an integer reads from (Zen) are mostly wrong
# where many additions follow each other in code; they are made in a loop, some at a time
# (docs/decisions/285).
MOST_INTEGERS_UNROLLED, INTEGERS_AT_ONCE = 8, 4
# The log of functions that append to one.
_LOG = "%log"


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Additions of a gang of any size: where an address and a value per lane lie in memory.

    ``active`` has a bit per lane.
    """

    addresses: str
    values: str
    active: str

    def passed(self) -> str:
        """As parameters, or as what is passed for them."""
        return f"ptr {self.addresses}, ptr {self.values}, i{MAX_LANES} {self.active}"


# The parameters of functions that add for lanes.
_LANES = _Lanes("%addresses", "%values", "%active")


def summed(e: Emitter, dtype: Scalar, old: str, value: str) -> str:
    """What an element holds when ``value`` has been added."""
    assert add.op.lower is not None
    return float16.rounded(e, dtype, add.op.lower(e, float16.held_as(dtype), old, value))


def add_alone(e: Emitter, dtype: Scalar, address: str, value: str) -> None:
    """Add to an element to which no other thread adds."""
    memory.store(e, dtype, summed(e, dtype, memory.load(e, dtype, address), value), address)


def add_together(
    e: Emitter, log: str, dtype: Scalar, address: str, value: str, *, in_place: bool
) -> None:
    """Add to an element to which other threads may add: integers now, floats by a log.

    Unless ``in_place``, a call writes to the log.
    """
    ty = LLVM_TYPES[dtype.name]
    if dtype.is_integer:
        e.op(f"atomicrmw add ptr {address}, {ty} {value} monotonic")
    elif in_place:
        _append(e, log, dtype, address, value)
    else:
        call(e, _append_one(dtype), f"ptr {log}, ptr {address}, {ty} {value}")


def add_lanes_alone(e: Emitter, dtype: Scalar, addresses: str, values: str) -> None:
    """``add_alone`` for every active lane, in the order of lanes, by a call."""
    call(e, _add_lanes(dtype), _in_memory(e, dtype, addresses, values).passed())


def add_lanes_in_loop(e: Emitter, dtype: Scalar, addresses: str, values: str) -> None:
    """``add_alone`` for every lane, in the order of lanes, in a loop."""
    ty = LLVM_TYPES[dtype.name]
    pointers, numbers = in_frame(e, "ptr", addresses), in_frame(e, ty, values)
    before, head, done = e.block, e.label("lanes"), e.label("lanes_done")
    e.jump_into(head)
    first = e.phi("i64", ("0", before))
    for k in range(INTEGERS_AT_ONCE):
        lane = e.op(f"add nuw nsw i64 {first}, {k}")
        address = e.op(f"load ptr, ptr {e.op(f'getelementptr ptr, ptr {pointers}, i64 {lane}')}")
        value = e.op(f"load {ty}, ptr {e.op(f'getelementptr {ty}, ptr {numbers}, i64 {lane}')}")
        with e.at(1):
            add_alone(e, dtype, address, value)
    following = e.op(f"add nuw nsw i64 {first}, {INTEGERS_AT_ONCE}")
    e.add_edge(first, following, e.block)
    e.branch(e.op(f"icmp ult i64 {following}, {e.gang}"), head, done)
    e.start_block(done)


def add_lanes_together(e: Emitter, log: str, dtype: Scalar, addresses: str, values: str) -> None:
    """``add_together`` for every active lane, in the order of lanes, by a call."""
    lanes = _in_memory(e, dtype, addresses, values)
    call(e, _add_lanes_together(dtype), f"ptr {log}, {lanes.passed()}")


def _in_memory(e: Emitter, dtype: Scalar, addresses: str, values: str) -> _Lanes:
    active = e.op(f"bitcast <{e.gang} x i1> {e.mask or ALL_LANES} to i{e.gang}")
    if e.gang < MAX_LANES:
        active = e.op(f"zext i{e.gang} {active} to i{MAX_LANES}")
    ty = LLVM_TYPES[dtype.name]
    return _Lanes(in_frame(e, "ptr", addresses), in_frame(e, ty, values), active)


def in_frame(e: Emitter, element: str, value: str) -> str:
    """Where the lanes of ``value`` lie until the next value of its type."""
    wide, align = f"<{e.gang} x {element}>", f"align {memory.CACHE_LINE_BYTES}"
    # Aligned for registers, the frame keeps those that LLVM spills within one line each.
    place = e.scratch(f"{wide}, {align}")
    e.effect(f"store {wide} {value}, ptr {place}, {align}")
    return place


def _emit_lanes(e: Emitter, dtype: Scalar, lanes: _Lanes, add_one: _AddOne) -> None:
    """A loop over the active lanes, of which there are some."""
    ty, bits = LLVM_TYPES[dtype.name], f"i{MAX_LANES}"
    before, head, done = e.block, e.label("lane"), e.label("lanes_done")
    e.jump_into(head)
    left = e.phi(bits, (lanes.active, before))
    e.declare(f"declare {bits} @llvm.cttz.{bits}({bits}, i1)")
    lane = e.op(f"call {bits} @llvm.cttz.{bits}({bits} {left}, i1 true)")
    slot = e.op(f"getelementptr ptr, ptr {lanes.addresses}, i64 {lane}")
    address = e.op(f"load ptr, ptr {slot}")
    slot = e.op(f"getelementptr {ty}, ptr {lanes.values}, i64 {lane}")
    value = e.op(f"load {ty}, ptr {slot}")
    with e.at(1):
        add_one(e, dtype, address, value)
    rest = e.op(f"and {bits} {left}, {e.op(f'sub {bits} {left}, 1')}")
    e.add_edge(left, rest, e.block)
    e.branch(e.op(f"icmp ne {bits} {rest}, 0"), head, done)
    e.start_block(done)


@cache
def _add_lanes(dtype: Scalar) -> ModuleFunction:
    e = Emitter(Lanes())
    _emit_lanes(e, dtype, _LANES, add_alone)
    return finished(e, f"kc.add.{dtype.name}", _LANES.passed())


@cache
def _add_lanes_together(dtype: Scalar) -> ModuleFunction:
    def add_one(e: Emitter, dtype: Scalar, address: str, value: str) -> None:
        add_together(e, _LOG, dtype, address, value, in_place=True)

    e = Emitter(Lanes())
    _emit_lanes(e, dtype, _LANES, add_one)
    return finished(e, f"kc.add_together.{dtype.name}", f"ptr {_LOG}, {_LANES.passed()}")


@cache
def _append_one(dtype: Scalar) -> ModuleFunction:
    e, ty = Emitter(Lanes()), LLVM_TYPES[dtype.name]
    _append(e, _LOG, dtype, "%address", "%value")
    return finished(e, f"kc.append.{dtype.name}", f"ptr {_LOG}, ptr %address, {ty} %value")


def _append(e: Emitter, log: str, dtype: Scalar, address: str, value: str) -> None:
    """Write an addition down in the log, which has room, and drain it if it is full then."""
    record = e.op(f"load ptr, ptr {log}")
    target = memory.address_at(e, address, 1) if dtype == float64 else address
    e.effect(f"store ptr {target}, ptr {record}")
    place = memory.address_at(e, record, abi.RECORD_VALUE_OFFSET)
    e.effect(f"store {LLVM_TYPES[dtype.name]} {value}, ptr {place}")
    following = memory.address_at(e, record, abi.RECORD_BYTES)
    e.effect(f"store ptr {following}, ptr {log}")
    end = e.op(f"load ptr, ptr {memory.address_at(e, log, abi.LOG_END_OFFSET)}")
    full, room = e.label("full"), e.label("room")
    e.branch_rarely(e.op(f"icmp eq ptr {following}, {end}"), full, room)
    e.start_block(full)
    call(e, _drain(), f"ptr {log}")
    e.jump_into(room)


@cache
def _drain() -> ModuleFunction:
    """The function that drains a log, so that code that appends saves no registers for it."""
    e = Emitter(Lanes())
    drain = e.op(f"load ptr, ptr {memory.address_at(e, _LOG, abi.LOG_DRAIN_OFFSET)}")
    e.effect(f"call void {drain}(ptr {_LOG})")
    return finished(e, "kc.drain", f"ptr {_LOG}")
