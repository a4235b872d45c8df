"""Vectors: products, norms and reductions."""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins import arithmetic
from kernelcore.builtins.elementary import sqrt
from kernelcore.builtins.library import library
from kernelcore.language.composite_types import matrix, quaternion, vector
from kernelcore.language.types import AnyFloat as Float
from kernelcore.language.types import AnyNumber as Number

FloatVector = vector(length=Any, dtype=Float)
NumberVector = vector(length=Any, dtype=Number)
NumberMatrix = matrix(shape=(Any, Any), dtype=Number)
FloatMatrix = matrix(shape=(Any, Any), dtype=Float)
Quaternion = quaternion(dtype=Float)

V = TypeVar("V", bound=NumberVector)
S = TypeVar("S", NumberVector, Quaternion)
L = TypeVar("L", FloatVector, Quaternion)
W = TypeVar("W", bound=FloatVector)
Q = TypeVar("Q", bound=Quaternion)
V3 = TypeVar("V3", bound=vector(length=3, dtype=Number))
M = TypeVar("M", bound=NumberMatrix)
N = TypeVar("N", bound=FloatMatrix)

# Blocks of a long sum do not wait for each other.
BLOCK = 8


@library()
def dot(a: V, b: V) -> Any:
    """Inner product of two vectors of one type, numbers of any dtype; a scalar of that dtype.

    Eight products are added at a time, and then these sums.
    """
    total = a[0] * b[0]
    for i in range(1, len(a)):
        if i < BLOCK:
            total += a[i] * b[i]
    for first in range(BLOCK, len(a), BLOCK):
        part = a[first] * b[first]
        for i in range(first + 1, first + BLOCK):
            if i < len(a):
                part += a[i] * b[i]
        total += part
    return total


@library()
def dot(a: Q, b: Q) -> Any:
    """Inner product of two quaternions as vectors of four floats; a scalar of their dtype."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@library()
def cross(a: V3, b: V3) -> Any:
    """Cross product of two vectors of length 3 and one dtype; a vector of that type."""
    return type(a)(
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


@library()
def length_sq(a: S) -> Any:
    """Squared Euclidean length of a vector or a quaternion; a scalar of its dtype."""
    return dot(a, a)


@library()
def length(a: L) -> Any:
    """Euclidean length of a vector of floats or a quaternion; the derivatives at 0 are 0."""
    square = dot(a, a)
    if square == 0.0:
        return type(square)(0.0)
    return sqrt(square)


@library()
def normalize(a: FloatVector) -> Any:
    """``a`` divided by its length, of its type; zero, with derivative zero, for length 0."""
    size = length(a)
    if size == 0.0:
        return type(a)()
    return a / size


@library()
def normalize(a: Quaternion) -> Any:
    """``a`` divided by its length; the identity, with derivative zero, for length 0."""
    size = length(a)
    if size == 0.0:
        return type(a)(0.0, 0.0, 0.0, 1.0)
    return a / size


@library()
def norm_l1(v: FloatVector) -> Any:
    """Sum of the magnitudes of a vector of floats; a scalar of its dtype."""
    total = arithmetic.abs(v[0])
    for i in range(1, len(v)):
        total += arithmetic.abs(v[i])
    return total


@library()
def norm_l2(v: FloatVector) -> Any:
    """Euclidean length of a vector of floats, as ``length``."""
    return length(v)


@library()
def norm_huber(v: FloatVector, delta: Float = 1.0) -> Any:
    """Huber's loss of the length of a vector of floats; a scalar of its dtype.

    ``length(v)**2 / 2`` up to ``delta``, and ``delta * (length(v) - delta / 2)`` above.

    Source: Huber, "Robust Estimation of a Location Parameter", Ann. Math. Stat. 35 (1964).
    """
    square = dot(v, v)
    if square <= delta * delta:
        return 0.5 * square
    return delta * (sqrt(square) - 0.5 * delta)


@library()
def norm_pseudo_huber(v: FloatVector, delta: Float = 1.0) -> Any:
    """``delta * sqrt(1 + length(v)**2 / delta**2)`` of a vector of floats, smooth everywhere.

    Source: Charbonnier et al., "Deterministic Edge-Preserving Regularization in Computed
    Imaging", IEEE TIP 6 (1997), without the constant that makes it 0 at 0.
    """
    return delta * sqrt(1.0 + dot(v, v) / (delta * delta))


@library()
def smooth_normalize(v: FloatVector, delta: Float = 1.0) -> Any:
    """``v / norm_pseudo_huber(v, delta)``: a direction, of the type of ``v``, smooth at 0."""
    return v / norm_pseudo_huber(v, delta)


@library()
def cw_mul(a: V, b: V) -> Any:
    """Products of the components of two vectors of one type; a vector of that type."""
    result = type(a)()
    for i in range(len(a)):
        result[i] = a[i] * b[i]
    return result


@library()
def cw_mul(a: M, b: M) -> Any:
    """Products of the components of two matrices of one type; a matrix of that type."""
    result = type(a)()
    for i in range(a.shape[0]):
        result[i] = cw_mul(a[i], b[i])
    return result


@library()
def cw_div(a: W, b: W) -> Any:
    """Quotients of the components of two vectors of floats; a vector of their type."""
    result = type(a)()
    for i in range(len(a)):
        result[i] = a[i] / b[i]
    return result


@library()
def cw_div(a: N, b: N) -> Any:
    """Quotients of the components of two matrices of floats; a matrix of their type."""
    result = type(a)()
    for i in range(a.shape[0]):
        result[i] = cw_div(a[i], b[i])
    return result


@library()
def min(a: NumberVector) -> Any:
    """The smallest component of a vector, a scalar of its dtype; NaN if one is."""
    best = a[0]
    for i in range(1, len(a)):
        best = arithmetic.min(best, a[i])
    return best


@library()
def max(a: NumberVector) -> Any:
    """The largest component of a vector, a scalar of its dtype; NaN if one is."""
    best = a[0]
    for i in range(1, len(a)):
        best = arithmetic.max(best, a[i])
    return best


@library()
def _position(a: NumberVector, value: Any) -> Any:
    """The first position of ``value``, or of a NaN."""
    place = 0
    for i in range(len(a) - 1, -1, -1):
        # Only a NaN differs from itself.
        if a[i] == value or a[i] != a[i]:
            place = i
    return place


@library()
def argmin(a: NumberVector) -> Any:
    """The position of ``min(a)``, an int32: the first one of several, the first NaN if any."""
    return _position(a, min(a))


@library()
def argmax(a: NumberVector) -> Any:
    """The position of ``max(a)``, an int32: the first one of several, the first NaN if any."""
    return _position(a, max(a))
