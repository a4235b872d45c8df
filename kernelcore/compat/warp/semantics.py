"""Operators and functions with the results of NVIDIA Warp, written in the kernel language.

They differ from kernelcore's, which are those of NumPy and Python: quotients and remainders of
integers are rounded towards zero, the sign of zero is one, halves are rounded away from zero, NaN
loses against numbers in minima and maxima, ``acos`` and ``asin`` take what lies outside of [-1, 1]
for its ends, and searches end at the last element.
"""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false, reportCallIssue=false
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from types import MappingProxyType
from typing import Any, TypeVar

import kernelcore as kc
from kernelcore.compat.warp.runtime import get_module
from kernelcore.language.dialect import Dialect
from kernelcore.language.types import INTEGERS, AnyFloat, AnyNumber, TypeClass

FloatVector = kc.types.vector(length=Any, dtype=AnyFloat)
FloatMatrix = kc.types.matrix(shape=(Any, Any), dtype=AnyFloat)
FloatQuaternion = kc.types.quaternion(dtype=AnyFloat)
NumberVector = kc.types.vector(length=Any, dtype=AnyNumber)

AnyInt = TypeClass("Int", INTEGERS)
I = TypeVar("I", bound=AnyInt)  # noqa: E741
F = TypeVar("F", bound=AnyFloat)
N = TypeVar("N", bound=AnyNumber)
V = TypeVar("V", bound=NumberVector)
IV = TypeVar("IV", bound=kc.types.vector(length=Any, dtype=AnyInt))
L = TypeVar("L", FloatVector, FloatQuaternion)
M = TypeVar("M", bound=FloatMatrix)


@kc.func
def div(x: I, y: I) -> Any:
    """Quotient of integers, rounded towards zero; 0 for ``y == 0``."""
    quotient = x // y
    if x - quotient * y != 0 and quotient < 0:
        quotient += 1
    return quotient


@kc.func
def mod(x: I, y: I) -> Any:
    """Remainder of integers with the sign of ``x``; 0 for ``y == 0``."""
    found = x % y
    if found != 0 and (found < 0) != (x < 0):
        found -= y
    return found


@kc.func
def mod(x: F, y: F) -> Any:
    """Remainder of floats with the sign of ``x``; NaN for ``y == 0``."""
    return kc.fmod(x, y)


@kc.func
def div(x: IV, y: IV) -> Any:
    """Quotients of the components, rounded towards zero."""
    found = x
    for k in range(len(x)):
        found[k] = div(x[k], y[k])
    return found


@kc.func
def div(x: IV, y: Any) -> Any:
    """Quotients of the components and a number, rounded towards zero."""
    found = x
    for k in range(len(x)):
        found[k] = div(x[k], x.dtype(y))
    return found


@kc.func
def mod(x: V, y: V) -> Any:
    """Remainders of the components."""
    found = x
    for k in range(len(x)):
        found[k] = mod(x[k], y[k])
    return found


@kc.func
def cw_div(x: IV, y: IV) -> Any:
    """Quotients of the components of vectors of integers, rounded towards zero."""
    return div(x, y)


@kc.func
def cw_div(x: L, y: L) -> Any:
    """Quotients of the components."""
    return kc.cw_div(x, y)


@kc.func
def cw_div(x: M, y: M) -> Any:
    """Quotients of the components."""
    return kc.cw_div(x, y)


@kc.func
def sign(x: N) -> Any:
    """-1 for ``x < 0``, else 1."""
    return kc.where(x < type(x)(0), -type(x)(1), type(x)(1))


@kc.func
def round(x: F) -> Any:
    """Nearest integer; halves away from zero."""
    whole = kc.trunc(x)
    if kc.abs(x - whole) >= type(x)(0.5):
        whole += kc.copysign(type(x)(1.0), x)
    return whole


@kc.func
def min(x: N, y: N) -> Any:
    """The smaller number; the other one if one is NaN."""
    return kc.where(x < y or y != y, x, y)


@kc.func
def min(x: V, y: V) -> Any:
    """The smaller components."""
    found = x
    for k in range(len(x)):
        found[k] = min(x[k], y[k])
    return found


@kc.func
def min(x: V) -> Any:
    """The smallest component."""
    found = x[0]
    for k in range(1, len(x)):
        found = min(found, x[k])
    return found


@kc.func
def max(x: N, y: N) -> Any:
    """The larger number; the other one if one is NaN."""
    return kc.where(x > y or y != y, x, y)


@kc.func
def max(x: V, y: V) -> Any:
    """The larger components."""
    found = x
    for k in range(len(x)):
        found[k] = max(x[k], y[k])
    return found


@kc.func
def max(x: V) -> Any:
    """The largest component."""
    found = x[0]
    for k in range(1, len(x)):
        found = max(found, x[k])
    return found


@kc.func
def clamp(x: N, low: N, high: N) -> Any:
    """``min(max(low, x), high)``; ``low`` for NaN."""
    return min(max(low, x), high)


@kc.func
def acos(x: F) -> Any:
    """Arc cosine of ``x``, or of the end of [-1, 1] that is closer; pi for NaN."""
    return kc.acos(clamp(x, type(x)(-1.0), type(x)(1.0)))


@kc.func
def asin(x: F) -> Any:
    """Arc sine of ``x``, or of the end of [-1, 1] that is closer; -pi/2 for NaN."""
    return kc.asin(clamp(x, type(x)(-1.0), type(x)(1.0)))


@kc.func
def lower_bound(arr: kc.array(dtype=Any), value: Any) -> Any:
    """Index of the first element that is not below ``value``; of the last one if none is."""
    return lower_bound(arr, 0, arr.shape[0], value)


@kc.func
def lower_bound(arr: kc.array(dtype=Any), arr_begin: int, arr_end: int, value: Any) -> Any:
    """Index in ``[arr_begin, arr_end)`` of the first element that is not below ``value``.

    It is that of the last one if none is.
    """
    return kc.min(kc.lower_bound(arr, arr_begin, arr_end, value), kc.max(arr_end - 1, arr_begin))


@kc.func
def isnan(x: F) -> Any:
    """Whether ``x`` is NaN."""
    return kc.isnan(x)


@kc.func
def isnan(x: L) -> Any:
    """Whether a component is NaN."""
    found = False
    for k in range(len(x)):
        found = found or kc.isnan(x[k])
    return found


@kc.func
def isnan(x: M) -> Any:
    """Whether a component is NaN."""
    found = False
    for k in range(len(x)):
        found = found or isnan(x[k])
    return found


@kc.func
def isinf(x: F) -> Any:
    """Whether ``x`` is infinite."""
    return kc.isinf(x)


@kc.func
def isinf(x: L) -> Any:
    """Whether a component is infinite."""
    found = False
    for k in range(len(x)):
        found = found or kc.isinf(x[k])
    return found


@kc.func
def isinf(x: M) -> Any:
    """Whether a component is infinite."""
    found = False
    for k in range(len(x)):
        found = found or isinf(x[k])
    return found


@kc.func
def isfinite(x: F) -> Any:
    """Whether ``x`` is neither NaN nor infinite."""
    return kc.isfinite(x)


@kc.func
def isfinite(x: L) -> Any:
    """Whether no component is NaN or infinite."""
    return not (isnan(x) or isinf(x))


@kc.func
def isfinite(x: M) -> Any:
    """Whether no component is NaN or infinite."""
    return not (isnan(x) or isinf(x))


@kc.func
def expect_eq(a: Any, b: Any):
    """Print both values unless they are equal."""
    if not a == b:  # noqa: SIM201
        print("Error, expect_eq() failed:", a, b)


@kc.func
def expect_neq(a: Any, b: Any):
    """Print both values if they are equal."""
    if a == b:
        print("Error, expect_neq() failed:", a, b)


@kc.func
def expect_near(a: N, b: N, tolerance: N):
    """Print both numbers unless they are closer than ``tolerance``, or as close."""
    if not kc.abs(a - b) <= tolerance:
        print("Error, expect_near() failed with tolerance", tolerance, ":", a, b)


@kc.func
def expect_near(a: FloatVector, b: FloatVector, tolerance: Any):
    """Print both vectors unless all components are as close as ``tolerance``."""
    for k in range(len(a)):
        expect_near(a[k], b[k], tolerance)


@kc.func
def div_approx(a: Any, b: Any) -> Any:
    """``a / b``, exactly rounded."""
    return a / b


@kc.func
def inverse_approx(a: M) -> Any:
    """The inverse of a matrix, as ``inverse``."""
    return kc.inverse(a)


DIALECT = Dialect(
    "Warp",
    __name__,
    operators=MappingProxyType({"Div": div, "Mod": mod}),
    functions=MappingProxyType({"max": max, "min": min, "round": round}),
    module=get_module,
    counts_back=True,
)
