"""Lowerings of quotients rounded down and of remainders; nothing traps or yields poison."""

from __future__ import annotations

from functools import cache

from kernelcore.builtins.lowering import Emit, call_intrinsic, compare, instr, select
from kernelcore.builtins.maths.emission import Emission, Inlined, call_inlined, inlined
from kernelcore.language.types import Scalar, boolean, float64

# Of integers whose quotients follow from that of float64.
MOST_BITS_OF_RATIO = 32

_add = instr(float="fadd", int="add")
_sub = instr(float="fsub", int="sub")
_div = instr(float="fdiv")
_rem = instr(float="frem", int="srem", uint="urem")
_divide = instr(int="sdiv", uint="udiv")
_multiply = instr(int="mul")
_and = instr(int="and", bool="and")
_or = instr(bool="or")
_xor = instr(int="xor", bool="xor")
_less = compare(float="olt", int="slt", uint="ult")
_greater = compare(float="ogt", int="sgt", uint="ugt")
_equal = compare(float="oeq", int="eq")
_not_equal = compare(float="une", int="ne")


def floordiv(e: Emit, t: Scalar, x: str, y: str) -> str:
    """Quotient rounded down; integers: 0 where ``y == 0``; floats: as NumPy's floor_divide."""
    return _DIVMOD[t.kind](e, t, x, y)[0]


def mod(e: Emit, t: Scalar, x: str, y: str) -> str:
    """Remainder with the sign of ``y``; integers: 0 where ``y == 0``."""
    if e.lanes == 1 or t.is_float or t.bits > MOST_BITS_OF_RATIO or _is_literal(y):
        return _DIVMOD[t.kind](e, t, x, y)[1]
    return call_inlined(e, t, _wrapping(t, e.lanes), (x, y))


@cache
def _wrapping(t: Scalar, lanes: int) -> Inlined:
    """``mod``, quick where all lanes wrap once: ``0 <= x < 2 * y``."""
    on = Emission(lanes, fused=True)
    ty, marks = on.type(t), on.type(boolean)
    twice = _add(on, t, "%x1", "%x1")
    fits = on.op(f"icmp ult {ty} %x1, {on.const(t, 1 << (t.bits - 2))}")
    near = _and(on, boolean, fits, on.op(f"icmp ult {ty} %x0, {twice}"))
    reduce = f"i1 @llvm.vector.reduce.and.v{lanes}i1({marks}"
    on.declare(f"declare {reduce})")
    all_near = on.op(f"call {reduce} {near})")
    on.lines += [f"  br i1 {all_near}, label %near, label %far", "near:"]
    wraps = on.op(f"icmp uge {ty} %x0, %x1")
    once = select(on, t, wraps, _sub(on, t, "%x0", "%x1"), "%x0")
    on.lines += [f"  ret {ty} {once}", "far:"]
    rest = _DIVMOD[t.kind](on, t, "%x0", "%x1")[1]
    return inlined(f"kc.mod.{t.name}.v{lanes}", on, t, 2, rest)


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
