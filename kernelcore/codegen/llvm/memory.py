"""Array elements: their form in memory, and where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelcore.builtins import float16
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.builtins.reference import is_narrow
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter, scalar_type
from kernelcore.ir.core import Atom, Const, Eqn
from kernelcore.ir.walk import array_type, element_indices
from kernelcore.language.types import ArrayType, Scalar, boolean

CACHE_LINE_BYTES = 64


def load(e: Emitter, dtype: Scalar, address: str) -> str:
    """The ``e.lanes`` elements at ``address``."""
    stored = e.wide(stored_type(dtype))
    return decoded(e, dtype, e.op(f"load {stored}, ptr {address}, align {dtype.size_bytes}"))


def store(e: Emitter, dtype: Scalar, value: str, address: str) -> None:
    """Write ``e.lanes`` elements at ``address``."""
    stored, bits = e.wide(stored_type(dtype)), encoded(e, dtype, value)
    e.effect(f"store {stored} {bits}, ptr {address}, align {dtype.size_bytes}")


def stored_type(dtype: Scalar) -> str:
    """The LLVM type of an element in memory: a bool is a byte, a float of 16 bits an integer."""
    return f"i{8 * dtype.size_bytes}" if dtype.bits < 32 else LLVM_TYPES[dtype.name]


def decoded(e: Emitter, dtype: Scalar, stored: str) -> str:
    """The value of an element as it is in memory."""
    if dtype == boolean:
        return e.op(f"icmp ne {e.wide('i8')} {stored}, zeroinitializer")
    return float16.decode(e, dtype, stored) if is_narrow(dtype) else stored


def encoded(e: Emitter, dtype: Scalar, value: str) -> str:
    """``value`` as it is in memory."""
    if dtype == boolean:
        return e.op(f"zext {e.type(dtype)} {value} to {e.wide('i8')}")
    return float16.encode(e, dtype, value) if is_narrow(dtype) else value


def element(e: Emitter, eqn: Eqn) -> tuple[Scalar, str]:
    """The type and the address of the element that an access by one thread names."""
    return array_type(eqn).dtype, address(e, e.array(eqn.inputs[0]), element_indices(eqn))


def address(e: Emitter, array: ArrayValue, indices: Sequence[Atom]) -> str:
    """Where the element, or the view, at the leading ``indices`` starts."""
    if e.address is not None:
        return e.address(e, array, indices)
    return moved(e, array.data, zip(indices, array.strides, strict=False))


def moved(e: Emitter, found: str, steps: Iterable[tuple[Atom, str]]) -> str:
    """The address ``found``, moved by every index times its stride."""
    for index, stride in steps:
        if isinstance(index, Const) and index.value == 0:
            continue
        offset = e.op(f"mul i64 {wide_index(e, index)}, {stride}")
        found = e.op(f"getelementptr i8, ptr {found}, i64 {offset}")
    return found


def wide_index(e: Emitter, index: Atom) -> str:
    """An index as int64."""
    value = e.value(index)
    dtype = scalar_type(index)
    if dtype.bits == 64 or (isinstance(index, Const) and e.lanes == 1):
        return value
    extend = "zext" if dtype.kind == "uint" else "sext"
    return e.wide_indices.get(value) or e.op(f"{extend} {e.type(dtype)} {value} to {e.wide('i64')}")


def are_apart(e: Emitter, x: Atom, y: Atom) -> str:
    """Whether two arrays share no memory, as i1."""
    (x_low, x_high), (y_low, y_high) = (_extent(e, a) for a in (x, y))
    is_before, is_behind = f"icmp ule ptr {x_high}, {y_low}", f"icmp ule ptr {y_high}, {x_low}"
    return e.op(f"or i1 {e.op(is_before)}, {e.op(is_behind)}")


def rows_interleave(e: Emitter, x: Atom, y: Atom) -> str:
    """Whether each row of an array lies between two of the other one, as i1.

    ``v[:, :3]`` and ``v[:, 3:]`` share no memory, though one begins before the other ends. So it
    is if a row of ``y`` begins behind one of ``x`` and ends before the next, all modulo the stride.
    """
    steps = [e.array(a).strides[:1] for a in (x, y)]
    if () in steps:
        return "false"
    (step,), (other,) = steps
    ends = [[e.op(f"ptrtoint ptr {p} to i64") for p in _extent(e, a, 1)] for a in (x, y)]
    sizes = [e.op(f"sub i64 {high}, {low}") for low, high in ends]
    is_up = e.op(f"icmp sgt i64 {step}, 0")
    period = e.op(f"select i1 {is_up}, i64 {step}, i64 1")
    left = e.op(f"srem i64 {e.op(f'sub i64 {ends[1][0]}, {ends[0][0]}')}, {period}")
    more = e.op(f"select i1 {e.op(f'icmp slt i64 {left}, 0')}, i64 {period}, i64 0")
    left = e.op(f"add i64 {left}, {more}")
    result = e.op(f"and i1 {is_up}, {e.op(f'icmp eq i64 {step}, {other}')}")
    result = e.op(f"and i1 {result}, {e.op(f'icmp uge i64 {left}, {sizes[0]}')}")
    behind = e.op(f"add i64 {left}, {sizes[1]}")
    return e.op(f"and i1 {result}, {e.op(f'icmp ule i64 {behind}, {period}')}")


def _extent(e: Emitter, atom: Atom, first_axis: int = 0) -> tuple[str, str]:
    """Where the memory of an array that has elements begins and ends.

    Axes before ``first_axis`` are left out: with 1 it is the first row.
    """
    array, type_ = e.array(atom), atom.type
    assert isinstance(type_, ArrayType)
    low, high = "0", str(type_.dtype.size_bytes)
    for extent, stride in zip(array.shape[first_axis:], array.strides[first_axis:], strict=True):
        reach = e.op(f"mul i64 {e.op(f'sub i64 {extent}, 1')}, {stride}")
        is_down = e.op(f"icmp slt i64 {reach}, 0")
        low = e.op(f"add i64 {low}, {e.op(f'select i1 {is_down}, i64 {reach}, i64 0')}")
        high = e.op(f"add i64 {high}, {e.op(f'select i1 {is_down}, i64 0, i64 {reach}')}")
    low, high = (e.op(f"getelementptr i8, ptr {array.data}, i64 {x}") for x in (low, high))
    return low, high


def address_at(e: Emitter, base: str, offset_bytes: int) -> str:
    """The address ``offset_bytes`` behind ``base``."""
    return e.op(f"getelementptr i8, ptr {base}, i64 {offset_bytes}") if offset_bytes else base
