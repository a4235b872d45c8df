"""Lowerings of several instructions: nothing here traps or yields poison, whatever the operands."""

from __future__ import annotations

import math

from kernelcore.builtins.lowering import Emit, call_intrinsic, compare, instr, select
from kernelcore.language.types import Scalar, boolean, float64

# Of integers whose quotients follow from that of float64.
MOST_BITS_OF_RATIO = 32

_add = instr(float="fadd", int="add")
_sub = instr(float="fsub", int="sub")
_div = instr(float="fdiv")
_rem = instr(float="frem", int="srem", uint="urem")
_divide = instr(int="sdiv", uint="udiv")
_multiply = instr(int="mul")
_udiv = instr(int="udiv")
_and = instr(int="and", bool="and")
_or = instr(bool="or")
_xor = instr(int="xor", bool="xor")
_less = compare(float="olt", int="slt", uint="ult")
_greater = compare(float="ogt", int="sgt", uint="ugt")
_equal = compare(float="oeq", int="eq")
_not_equal = compare(float="une", int="ne")
_unordered = compare(float="uno", int="ne")


def floordiv(e: Emit, t: Scalar, x: str, y: str) -> str:
    """Quotient rounded down; integers: 0 where ``y == 0``; floats: as NumPy's floor_divide."""
    return _DIVMOD[t.kind](e, t, x, y)[0]


def mod(e: Emit, t: Scalar, x: str, y: str) -> str:
    """Remainder with the sign of ``y``; integers: 0 where ``y == 0``."""
    return _DIVMOD[t.kind](e, t, x, y)[1]


def _truncated(e: Emit, t: Scalar, x: str, y: str, *, is_known: bool) -> tuple[str, str]:
    """The quotient rounded to zero, and the remainder; ``y`` is not 0, nor -1 of signed integers.

    Processors divide integers one by one, lanes of float64 together. The ratio of integers of 32
    bits is an integer or at least ``1 / y`` away from one, far more than float64 rounds off.
    """
    if e.gang == 1 or t.bits > MOST_BITS_OF_RATIO or is_known:
        return _divide(e, t, x, y), _rem(e, t, x, y)
    ints, floats = e.type(t), e.type(float64)
    mark = "s" if t.kind == "int" else "u"
    dividend, divisor = (e.op(f"{mark}itofp {ints} {v} to {floats}") for v in (x, y))
    ratio = _div(e, float64, dividend, divisor)
    quotient = e.op(f"fpto{mark}i {floats} {ratio} to {ints}")
    return quotient, _sub(e, t, x, _multiply(e, t, quotient, y))


def _is_literal(value: str) -> bool:
    return not value.startswith("%")


def _uint_divmod(e: Emit, t: Scalar, x: str, y: str) -> tuple[str, str]:
    zero, one = e.const(t, 0), e.const(t, 1)
    by_zero = _equal(e, t, y, zero)
    safe = select(e, t, by_zero, one, y)
    # The remainder of the division by 1 is 0.
    quotient, rest = _truncated(e, t, x, safe, is_known=_is_literal(y))
    return select(e, t, by_zero, zero, quotient), rest


def _int_divmod(e: Emit, t: Scalar, x: str, y: str) -> tuple[str, str]:
    zero, one, minus = (e.const(t, v) for v in (0, 1, -1))
    by_zero, by_minus = _equal(e, t, y, zero), _equal(e, t, y, minus)
    # sdiv traps on 0 and on INT_MIN / -1; both divisors are replaced by 1.
    safe = select(e, t, _or(e, boolean, by_zero, by_minus), one, y)
    quotient, rest = _truncated(e, t, x, safe, is_known=_is_literal(y))
    uneven = _not_equal(e, t, rest, zero)
    opposed = _less(e, t, _xor(e, t, rest, y), zero)
    down = _and(e, boolean, uneven, opposed)
    floored = select(e, t, down, _sub(e, t, quotient, one), quotient)
    wrapped = select(e, t, by_minus, _sub(e, t, zero, x), floored)
    result = select(e, t, down, _add(e, t, rest, y), rest)
    return select(e, t, by_zero, zero, wrapped), result


def _float_divmod(e: Emit, t: Scalar, x: str, y: str) -> tuple[str, str]:
    zero, one, half = (e.const(t, v) for v in (0.0, 1.0, 0.5))
    rest = _rem(e, t, x, y)
    by_zero = _equal(e, t, y, zero)
    uneven = _not_equal(e, t, rest, zero)
    opposed = _xor(e, boolean, _less(e, t, y, zero), _less(e, t, rest, zero))
    down = _and(e, boolean, uneven, opposed)
    raw = _div(e, t, _sub(e, t, x, rest), y)
    raw = select(e, t, down, _sub(e, t, raw, one), raw)
    ratio = _div(e, t, x, y)
    floor = call_intrinsic(e, "floor", t, (raw,))
    short = _greater(e, t, _sub(e, t, raw, floor), half)
    snapped = select(e, t, short, _add(e, t, floor, one), floor)
    signed_zero = call_intrinsic(e, "copysign", t, (zero, ratio))
    quotient = select(e, t, _not_equal(e, t, raw, zero), snapped, signed_zero)
    shifted = select(e, t, down, _add(e, t, rest, y), rest)
    even = call_intrinsic(e, "copysign", t, (zero, y))
    result = select(e, t, uneven, shifted, even)
    return select(e, t, by_zero, ratio, quotient), select(e, t, by_zero, rest, result)


_DIVMOD = {"int": _int_divmod, "uint": _uint_divmod, "float": _float_divmod}


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
