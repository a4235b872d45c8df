"""Arithmetic, rounding and bit operations."""

# Declarations without bodies.
# pyright: reportReturnType=false

from __future__ import annotations

import numpy as np

from kernelcore.builtins import composed, division, reference, spelling
from kernelcore.builtins.declare import Float, Int, Number, builtin
from kernelcore.builtins.lowering import identity, instr, intrinsic
from kernelcore.builtins.spelling import spelled
from kernelcore.ir.op import Division

INTEGER = "result is an integer"


@builtin(
    lower=instr(float="fadd", int="add"),
    ref=np.add,
    grad={"x": "ct", "y": "ct"},
    injective=True,
    stride=lambda strides, _: sum(strides),
    rmw={"int": "add", "uint": "add"},
    neutral=reference.nothing_added,
    array=spelled(float="add", int="add"),
)
def add(x: Number, y: Number) -> Number:
    """Sum of ``x`` and ``y``; integers wrap."""


@builtin(
    lower=instr(float="fsub", int="sub"),
    ref=np.subtract,
    grad={"x": "ct", "y": "-ct"},
    injective=True,
    stride=lambda strides, _: strides[0] - strides[1],
    rmw={"int": "sub", "uint": "sub"},
    array=spelled(float="subtract", int="subtract"),
)
def sub(x: Number, y: Number) -> Number:
    """Difference ``x - y``; integers wrap."""


@builtin(
    lower=instr(float="fmul", int="mul"),
    ref=np.multiply,
    grad={"x": "ct * y", "y": "ct * x"},
    stride=reference.stride_of_product,
    array=spelled(float="multiply", int="multiply"),
)
def mul(x: Number, y: Number) -> Number:
    """Product of ``x`` and ``y``; integers wrap."""


@builtin(
    lower=instr(float="fdiv"),
    ref=np.divide,
    grad={"x": "ct / y", "y": "-(ct / y) * out"},
    array=spelled(float="divide"),
)
def div(x: Float, y: Float) -> Float:
    """Quotient ``x / y``; infinite or NaN for ``y == 0``."""


@builtin(
    lower=division.floordiv,
    ref=np.floor_divide,
    grad={},
    division=Division.QUOTIENT,
    array=spelled(int=spelling.floordiv),
)
def floordiv(x: Number, y: Number) -> Number:
    """Quotient ``x // y`` rounded down; of integers, 0 for ``y == 0``."""


@builtin(
    lower=division.mod,
    ref=np.remainder,
    grad={"x": "ct", "y": "-ct * (x // y)"},
    division=Division.REMAINDER,
    array=spelled(int=spelling.mod),
)
def mod(x: Number, y: Number) -> Number:
    """Remainder ``x % y``, with the sign of ``y``; of integers, 0 for ``y == 0``."""


@builtin(
    lower=composed.neg,
    ref=np.negative,
    grad={"x": "-ct"},
    stride=lambda strides, _: -strides[0],
    array=spelled(float="negative", int="negative", is_exact_anywhere=True),
)
def neg(x: Number) -> Number:
    """Negation of ``x``; the smallest integer stays itself, and an unsigned one wraps."""


@builtin(
    lower=identity,
    ref=np.positive,
    grad={"x": "ct"},
    stride=lambda strides, _: strides[0],
    array=spelled(float=spelling.identity, int=spelling.identity, is_exact_anywhere=True),
)
def pos(x: Number) -> Number:
    """``x`` itself."""


@builtin(
    lower=composed.abs,
    ref=np.abs,
    grad={"x": "ct * sign(x)"},
    array=spelled(float="abs", int="abs", uint=spelling.identity, is_exact_anywhere=True),
)
def abs(x: Number) -> Number:
    """Magnitude of ``x``; the derivative at 0 is 0, and the smallest integer stays itself."""


@builtin(
    lower=composed.sign,
    ref=reference.sign,
    grad={},
    array=spelled(float=spelling.sign, int=spelling.sign),
)
def sign(x: Number) -> Number:
    """-1, 0 or 1 as ``x`` is negative, zero or positive; NaN for NaN."""


@builtin(
    lower=composed.min,
    ref=reference.minimum,
    grad={
        "x": "where(x < y, ct, where(x == y, 0.5 * ct, 0.0))",
        "y": "where(y < x, ct, where(x == y, 0.5 * ct, 0.0))",
    },
    rmw={"int": "min", "uint": "umin"},
    neutral=reference.highest,
    array=spelled(float=spelling.minimum, int=spelling.minimum),
)
def min(x: Number, y: Number) -> Number:
    """The smaller of ``x`` and ``y``; NaN if either is. Equal arguments share the derivative."""


@builtin(
    lower=composed.max,
    ref=reference.maximum,
    grad={
        "x": "where(x > y, ct, where(x == y, 0.5 * ct, 0.0))",
        "y": "where(y > x, ct, where(x == y, 0.5 * ct, 0.0))",
    },
    rmw={"int": "max", "uint": "umax"},
    neutral=reference.lowest,
    array=spelled(float=spelling.maximum, int=spelling.maximum),
)
def max(x: Number, y: Number) -> Number:
    """The larger of ``x`` and ``y``; NaN if either is. Equal arguments share the derivative."""


@builtin(
    lower=composed.clamp,
    ref=reference.clamp,
    grad={
        "x": "where(lo <= x, where(x <= hi, ct, 0.0), 0.0)",
        "lo": "where(x < lo, where(lo <= hi, ct, 0.0), 0.0)",
        "hi": "where(x > hi, ct, where(lo > hi, ct, 0.0))",
    },
    array=spelled(float=spelling.clamp, int=spelling.clamp),
)
def clamp(x: Number, lo: Number, hi: Number) -> Number:
    """``min(max(x, lo), hi)``; on the bounds the derivative is that of the inside."""


@builtin(lower=intrinsic("fma"), ref=reference.fma, grad={"x": "ct * y", "y": "ct * x", "z": "ct"})
def fma(x: Float, y: Float, z: Float) -> Float:
    """``x * y + z``, rounded once; in float32 for floats of 16 bits, and then to their type."""


@builtin(lower=instr(float="frem"), ref=np.fmod, grad={"x": "ct", "y": "-ct * trunc(x / y)"})
def fmod(x: Float, y: Float) -> Float:
    """Remainder of ``x / y`` rounded towards zero, with the sign of ``x``; NaN for ``y == 0``."""


@builtin(
    lower=intrinsic("copysign"),
    ref=np.copysign,
    grad={"x": "ct * sign(x) * copysign(1.0, y)"},
    array=spelled(float="copysign", is_exact_anywhere=True),
)
def copysign(x: Float, y: Float) -> Float:
    """The magnitude of ``x`` with the sign of ``y``, that of a zero too."""


@builtin(
    lower=intrinsic("floor"),
    ref=np.floor,
    grad={},
    array=spelled(float="floor"),
)
def floor(x: Float) -> Float:
    """Largest integer not above ``x``."""


@builtin(
    lower=intrinsic("ceil"),
    ref=np.ceil,
    grad={},
    array=spelled(float="ceil"),
)
def ceil(x: Float) -> Float:
    """Smallest integer not below ``x``."""


@builtin(
    lower=intrinsic("rint"),
    ref=np.rint,
    grad={},
    array=spelled(float="round"),
)
def round(x: Float) -> Float:
    """Nearest integer; halves go to the even one."""


# NumPy's name for round.
rint = round


@builtin(
    lower=intrinsic("trunc"),
    ref=np.trunc,
    grad={},
    array=spelled(float="trunc"),
)
def trunc(x: Float) -> Float:
    """``x`` without its fraction."""


@builtin(
    lower=composed.frac,
    ref=reference.frac,
    grad={"x": "ct"},
    array=spelled(float=spelling.frac),
)
def frac(x: Float) -> Float:
    """Fraction ``x - trunc(x)``, with the sign of ``x``."""


@builtin(
    lower=instr(int="and"),
    ref=np.bitwise_and,
    no_grad=INTEGER,
    rmw={"int": "and", "uint": "and"},
    array=spelled(int="bitwise_and"),
)
def bitand(x: Int, y: Int) -> Int:
    """Bits set in both."""


@builtin(
    lower=instr(int="or"),
    ref=np.bitwise_or,
    no_grad=INTEGER,
    rmw={"int": "or", "uint": "or"},
    array=spelled(int="bitwise_or"),
)
def bitor(x: Int, y: Int) -> Int:
    """Bits set in either."""


@builtin(
    lower=instr(int="xor"),
    ref=np.bitwise_xor,
    no_grad=INTEGER,
    rmw={"int": "xor", "uint": "xor"},
    array=spelled(int="bitwise_xor"),
)
def bitxor(x: Int, y: Int) -> Int:
    """Bits set in exactly one."""


@builtin(
    lower=composed.invert,
    ref=np.invert,
    no_grad=INTEGER,
    array=spelled(int="bitwise_invert"),
)
def invert(x: Int) -> Int:
    """All bits of ``x`` flipped."""


@builtin(
    lower=composed.shl,
    ref=reference.shl,
    no_grad=INTEGER,
    array=spelled(int=spelling.shifted("bitwise_left_shift")),
)
def shl(x: Int, y: Int) -> Int:
    """``x`` shifted left by ``y`` modulo the width of ``x``."""


@builtin(
    lower=composed.shr,
    ref=reference.shr,
    no_grad=INTEGER,
    array=spelled(int=spelling.shifted("bitwise_right_shift")),
)
def shr(x: Int, y: Int) -> Int:
    """``x`` shifted right by ``y`` modulo its width; the sign of a signed one is kept."""


@builtin(lower=composed.rotl, ref=reference.rotl, no_grad=INTEGER)
def rotl(x: Int, y: Int) -> Int:
    """Bits of ``x`` rotated left by ``y`` modulo its width."""


@builtin(lower=composed.rotr, ref=reference.rotr, no_grad=INTEGER)
def rotr(x: Int, y: Int) -> Int:
    """Bits of ``x`` rotated right by ``y`` modulo its width."""


@builtin(lower=intrinsic("ctpop"), ref=reference.bit_count, no_grad=INTEGER)
def bit_count(x: Int) -> Int:
    """Number of bits set in ``x``."""


@builtin(lower=intrinsic("ctlz", tail="i1 false"), ref=reference.clz, no_grad=INTEGER)
def clz(x: Int) -> Int:
    """Number of zero bits above the highest one of ``x``; the width for 0."""


@builtin(lower=intrinsic("cttz", tail="i1 false"), ref=reference.ctz, no_grad=INTEGER)
def ctz(x: Int) -> Int:
    """Number of zero bits below the lowest one of ``x``; the width for 0."""


@builtin(lower=composed.range_len, ref=reference.range_len, no_grad=INTEGER)
def range_len(start: Int, stop: Int, step: Int) -> Int:
    """Length of ``range(start, stop, step)``; 0 for step 0, at most the largest integer."""
