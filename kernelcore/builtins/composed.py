"""Lowerings of several instructions: nothing here traps or yields poison, whatever the operands."""

from __future__ import annotations

import math

from kernelcore.builtins.lowering import Emit, call_intrinsic, compare, instr, select
from kernelcore.language.types import Scalar, boolean

_add = instr(float="fadd", int="add")
_sub = instr(float="fsub", int="sub")
_udiv = instr(int="udiv")
_and = instr(int="and", bool="and")
_xor = instr(int="xor", bool="xor")
_less = compare(float="olt", int="slt", uint="ult")
_greater = compare(float="ogt", int="sgt", uint="ugt")
_equal = compare(float="oeq", int="eq")
_not_equal = compare(float="une", int="ne")
_unordered = compare(float="uno", int="ne")


def shl(e: Emit, t: Scalar, x: str, y: str) -> str:
    """Shift left by ``y`` modulo the width."""
    return e.op(f"shl {e.type(t)} {x}, {_and(e, t, y, e.const(t, t.bits - 1))}")


def shr(e: Emit, t: Scalar, x: str, y: str) -> str:
    """Shift right by ``y`` modulo the width; copies of the sign bit move in."""
    shift = "lshr" if t.kind == "uint" else "ashr"
    return e.op(f"{shift} {e.type(t)} {x}, {_and(e, t, y, e.const(t, t.bits - 1))}")


def rotl(e: Emit, t: Scalar, x: str, y: str) -> str:
    """Bits moved left by ``y`` modulo the width, those that leave come in on the right."""
    return call_intrinsic(e, "fshl", t, (x, x, y))


def rotr(e: Emit, t: Scalar, x: str, y: str) -> str:
    """Bits moved right by ``y`` modulo the width, those that leave come in on the left."""
    return call_intrinsic(e, "fshr", t, (x, x, y))


def neg(e: Emit, t: Scalar, x: str) -> str:
    """``-x``; the smallest integer stays."""
    return e.op(f"fneg {e.type(t)} {x}") if t.is_float else _sub(e, t, e.const(t, 0), x)


def invert(e: Emit, t: Scalar, x: str) -> str:
    """All bits flipped; also the logical not."""
    return _xor(e, t, x, e.const(t, True if t == boolean else -1))


def abs(e: Emit, t: Scalar, x: str) -> str:
    """Magnitude; the smallest integer stays."""
    if t.is_float:
        return call_intrinsic(e, "fabs", t, (x,))
    return x if t.kind == "uint" else call_intrinsic(e, "abs", t, (x,), tail="i1 false")


def sign(e: Emit, t: Scalar, x: str) -> str:
    """-1, 0 or 1; NaN stays."""
    zero, one = e.const(t, 0), e.const(t, 1)
    if t.kind == "uint":
        return select(e, t, _equal(e, t, x, zero), zero, one)
    minus = e.const(t, -1)
    still = select(e, t, _equal(e, t, x, zero), zero, x)
    up = select(e, t, _greater(e, t, x, zero), one, still)
    return select(e, t, _less(e, t, x, zero), minus, up)


def min(e: Emit, t: Scalar, x: str, y: str) -> str:
    """The smaller one; NaN if either is."""
    return _extremum(e, t, _less(e, t, x, y), x, y)


def max(e: Emit, t: Scalar, x: str, y: str) -> str:
    """The larger one; NaN if either is."""
    return _extremum(e, t, _greater(e, t, x, y), x, y)


def _extremum(e: Emit, t: Scalar, first: str, x: str, y: str) -> str:
    # A comparison with a NaN in y is false, which already picks y.
    found = select(e, t, first, x, y)
    if not t.is_float:
        return found
    # Processors have this choice as one instruction, which LLVM would make a part of the next one.
    found = call_intrinsic(e, "arithmetic.fence", t, (found,))
    return select(e, t, _unordered(e, t, x, x), x, found)


def clamp(e: Emit, t: Scalar, x: str, lo: str, hi: str) -> str:
    """``min(max(x, lo), hi)``."""
    return min(e, t, max(e, t, x, lo), hi)


def frac(e: Emit, t: Scalar, x: str) -> str:
    """``x - trunc(x)``."""
    return _sub(e, t, x, call_intrinsic(e, "trunc", t, (x,)))


def isnan(e: Emit, t: Scalar, x: str) -> str:
    """Whether ``x`` is NaN."""
    return _unordered(e, t, x, x)


def isinf(e: Emit, t: Scalar, x: str) -> str:
    """Whether ``x`` is infinite."""
    return _equal(e, t, abs(e, t, x), e.const(t, math.inf))


def isfinite(e: Emit, t: Scalar, x: str) -> str:
    """Whether ``x`` is finite."""
    return _less(e, t, abs(e, t, x), e.const(t, math.inf))


def trip_count(e: Emit, t: Scalar, start: str, stop: str, step: str) -> str:
    """Iterations of ``range(start, stop, step)`` as an unsigned number of ``t``'s width."""
    zero, one = e.const(t, 0), e.const(t, 1)
    rising = _greater(e, t, step, zero)
    low = select(e, t, rising, start, stop)
    high = select(e, t, rising, stop, start)
    size = select(e, t, rising, step, _sub(e, t, zero, step))
    stuck = _equal(e, t, step, zero)
    # high - low is below 2**bits where low < high, so it is exact as an unsigned number.
    last = _sub(e, t, _sub(e, t, high, low), one)
    count = _add(e, t, _udiv(e, t, last, select(e, t, stuck, one, size)), one)
    some = _and(e, boolean, _less(e, t, low, high), _not_equal(e, t, step, zero))
    return select(e, t, some, count, zero)


def range_len(e: Emit, t: Scalar, start: str, stop: str, step: str) -> str:
    """``trip_count``, at most the largest number of ``t``."""
    count = trip_count(e, t, start, stop, step)
    if t.kind == "uint":
        return count
    most = e.const(t, t.limits[1])
    return select(e, t, _less(e, t, count, e.const(t, 0)), most, count)
