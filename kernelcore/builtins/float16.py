"""float16 and bfloat16: 16 bits in memory, held as a float32 that one of them represents exactly.

Plain float32 and integer instructions only, so every processor gives the same bits.
"""

from __future__ import annotations

import math

from kernelcore.builtins.lowering import Emit, Lower, call_intrinsic, compare, instr, select
from kernelcore.builtins.reference import is_narrow
from kernelcore.language.types import Scalar, bfloat16, float16, float32, float64, uint16, uint32

# As float32: the distance of the exponents' biases, and the smallest normal float16.
_REBIAS = 112 << 23
_SMALLEST_NORMAL = 0x38800000
_EXPONENT = 0x7F800000
_MAGNITUDE = 0x7FFFFFFF
_QUIET = 0x00400000
# Half way from the largest float16 to the next power of two: from here on rounding gives infinity.
_FLOAT16_OVERFLOW = 65520.0

_add = instr(int="add", float="fadd")
_sub = instr(int="sub", float="fsub")
_and = instr(int="and")
_or = instr(int="or")
_shl = instr(int="shl")
_lshr = instr(int="lshr")
_at_least = compare(float="oge", int="sge", uint="uge")
_greater = compare(float="ogt", int="sgt", uint="ugt")
_equal = compare(float="oeq", int="eq")
_not_equal = compare(float="one", int="ne")
_unordered = compare(float="uno", int="ne")


def held_as(scalar: Scalar) -> Scalar:
    """The type that values of ``scalar`` have between memory accesses."""
    return float32 if is_narrow(scalar) else scalar


def rounded(e: Emit, dtype: Scalar, value: str) -> str:
    """float32 ``value`` rounded to nearest even in ``dtype``; of a wide ``dtype``, itself."""
    if dtype == bfloat16:
        return _rounded_bfloat16(e, value)
    return _rounded_float16(e, value) if dtype == float16 else value


def decode(e: Emit, dtype: Scalar, bits: str) -> str:
    """The value that the 16 ``bits`` stand for in ``dtype``."""
    wide = e.op(f"zext {e.type(uint16)} {bits} to {e.type(uint32)}")
    if dtype == bfloat16:
        return _to_float(e, _with(e, _shl, wide, 16))
    sign = _with(e, _shl, _with(e, _and, wide, 0x8000), 16)
    shifted = _with(e, _shl, _with(e, _and, wide, 0x7FFF), 13)
    exponent = _with(e, _and, shifted, 0x7C00 << 13)
    normal = _with(e, _add, shifted, _REBIAS)
    special = _with(e, _add, normal, _REBIAS)
    # A subnormal becomes 2**-14 plus itself, from which 2**-14 is subtracted exactly.
    raised = _to_float(e, _with(e, _or, shifted, _SMALLEST_NORMAL))
    small = _to_bits(e, _sub(e, float32, raised, e.const(float32, 2.0**-14)))
    is_special = _equal(e, uint32, exponent, e.const(uint32, 0x7C00 << 13))
    is_small = _equal(e, uint32, exponent, e.const(uint32, 0))
    magnitude = select(e, uint32, is_small, small, normal)
    magnitude = select(e, uint32, is_special, special, magnitude)
    return _to_float(e, _or(e, uint32, magnitude, sign))


def encode(e: Emit, dtype: Scalar, value: str) -> str:
    """The 16 bits of float32 ``value``, which ``dtype`` represents exactly."""
    bits = _to_bits(e, value)
    upper = _with(e, _lshr, bits, 16)
    if dtype == bfloat16:
        return _short(e, upper)
    magnitude = _with(e, _and, bits, _MAGNITUDE)
    normal = _with(e, _lshr, _with(e, _sub, magnitude, _REBIAS), 13)
    special = _with(e, _or, _with(e, _lshr, magnitude, 13), 0x7C00)
    special = _with(e, _and, special, 0x7FFF)
    # The last place of 0.5 is 2**-24, that of the subnormals.
    raised = _add(e, float32, _to_float(e, magnitude), e.const(float32, 0.5))
    small = _with(e, _sub, _to_bits(e, raised), 0x3F000000)
    is_special = _at_least(e, uint32, magnitude, e.const(uint32, _EXPONENT))
    is_normal = _at_least(e, uint32, magnitude, e.const(uint32, _SMALLEST_NORMAL))
    found = select(e, uint32, is_normal, normal, small)
    found = select(e, uint32, is_special, special, found)
    return _short(e, _or(e, uint32, found, _with(e, _and, upper, 0x8000)))


def odd_float32(e: Emit, value: str) -> str:
    """float64 ``value`` rounded to odd: rounding the result again is rounding ``value`` once."""
    near = e.op(f"fptrunc {e.type(float64)} {value} to {e.type(float32)}")
    back = e.op(f"fpext {e.type(float32)} {near} to {e.type(float64)}")
    sizes = [call_intrinsic(e, "fabs", float64, (x,)) for x in (back, value)]
    bits = _to_bits(e, near)
    # The neighbour towards zero is one less, whatever the sign; infinity has one too.
    away = _greater(e, float64, *sizes)
    bits = select(e, uint32, away, _with(e, _sub, bits, 1), bits)
    odd = _to_float(e, _with(e, _or, bits, 1))
    return select(e, float32, _not_equal(e, float64, back, value), odd, near)


def _rounded_bfloat16(e: Emit, value: str) -> str:
    bits = _to_bits(e, value)
    last = _with(e, _and, _with(e, _lshr, bits, 16), 1)
    up = _add(e, uint32, _with(e, _add, bits, 0x7FFF), last)
    quiet = _with(e, _or, bits, _QUIET)
    found = select(e, uint32, _unordered(e, float32, value, value), quiet, up)
    return _to_float(e, _with(e, _and, found, 0xFFFF0000))


def _rounded_float16(e: Emit, value: str) -> str:
    size = call_intrinsic(e, "fabs", float32, (value,))
    exponent = _with(e, _and, _to_bits(e, size), _EXPONENT)
    least = e.const(uint32, _SMALLEST_NORMAL)
    normal = _at_least(e, uint32, exponent, least)
    exponent = select(e, uint32, normal, exponent, least)
    # A sum with 2**13 times the power of two has the last place of the float16.
    coarse = _to_float(e, _with(e, _add, exponent, 13 << 23))
    near = _sub(e, float32, _add(e, float32, size, coarse), coarse)
    over = _at_least(e, float32, size, e.const(float32, _FLOAT16_OVERFLOW))
    near = select(e, float32, over, e.const(float32, math.inf), near)
    return call_intrinsic(e, "copysign", float32, (near, value))


def _with(e: Emit, combine: Lower, x: str, number: int) -> str:
    """uint32 ``x`` combined with a literal."""
    return combine(e, uint32, x, e.const(uint32, number))


def _to_bits(e: Emit, value: str) -> str:
    return e.op(f"bitcast {e.type(float32)} {value} to {e.type(uint32)}")


def _to_float(e: Emit, bits: str) -> str:
    return e.op(f"bitcast {e.type(uint32)} {bits} to {e.type(float32)}")


def _short(e: Emit, bits: str) -> str:
    return e.op(f"trunc {e.type(uint32)} {bits} to {e.type(uint16)}")
