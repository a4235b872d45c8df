"""Decompositions of small matrices: singular values, QR, symmetric eigenvalues.

Each is a fixed number of exact rotations, so that the derivative of the code is the derivative of
the result wherever that has one: eigenvalues or singular values that differ.
"""

# Types of the kernel language are values to a type checker.
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins import arithmetic
from kernelcore.builtins.elementary import sqrt
from kernelcore.builtins.library import library
from kernelcore.builtins.matrix import matrix_from_cols
from kernelcore.builtins.vector import cross, dot, length
from kernelcore.language.composite_types import matrix, vector
from kernelcore.language.types import AnyFloat as Float

Vector2 = vector(length=2, dtype=Float)
Vector3 = vector(length=3, dtype=Float)
Matrix2 = matrix(shape=(2, 2), dtype=Float)
Matrix3 = matrix(shape=(3, 3), dtype=Float)
Matrix = matrix(shape=(Any, Any), dtype=Float)

F = TypeVar("F", bound=Float)
V = TypeVar("V", bound=vector(length=Any, dtype=Float))
V3 = TypeVar("V3", bound=Vector3)

# Convergence is quadratic: four or five reach the precision of float64, and derivatives one later.
_SWEEPS = 6


@library()
def _jacobi_tangent(p: F, r: F, q: F) -> Any:
    """The tangent of the smaller angle that makes the symmetric ``[[p, r], [r, q]]`` diagonal.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 8.5.2.
    """
    d = q - p
    if r == 0.0 and d == 0.0:
        return d - d
    # Divide by the larger one, so that no square overflows or vanishes.
    if arithmetic.abs(d) > arithmetic.abs(2.0 * r):
        k = 2.0 * r / d
        return k / (1.0 + sqrt(1.0 + k * k))
    k = 0.5 * d / r
    if k < 0.0:
        return 1.0 / (k - sqrt(1.0 + k * k))
    return 1.0 / (k + sqrt(1.0 + k * k))


@library()
def _largest(a: Matrix) -> Any:
    """The largest magnitude of a component; 1 for a matrix of zeros."""
    size = arithmetic.abs(a[0, 0])
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            size = arithmetic.max(size, arithmetic.abs(a[i, j]))
    if size == 0.0:
        return size + 1.0
    return size


@library()
def _perpendicular(u: Vector3) -> Any:
    """A unit vector perpendicular to the unit vector ``u``."""
    x = arithmetic.abs(u[0])
    y = arithmetic.abs(u[1])
    z = arithmetic.abs(u[2])
    v = type(u)(-u[1], u[0], 0.0)
    if x <= y and x <= z:
        v = type(u)(0.0, -u[2], u[1])
    elif y <= z:
        v = type(u)(u[2], 0.0, -u[0])
    return v / length(v)


@library()
def _first_direction(a: Vector3) -> Any:
    """The direction of ``a``; that of x for a vector of zeros."""
    size = length(a)
    if size == 0.0:
        return type(a)(1.0, 0.0, 0.0)
    return a / size


@library()
def _next_direction(u: V3, a: V3) -> Any:
    """The direction of the part of ``a`` that is perpendicular to the unit vector ``u``.

    Any perpendicular direction where that part is zero. Projecting again removes what rounding
    left of ``u``.

    Source: Giraud et al., "Rounding error analysis of the classical Gram-Schmidt
    orthogonalization process", Numer. Math. 101 (2005).
    """
    rest = a - dot(u, a) * u
    size = length(rest)
    if size == 0.0:
        return _perpendicular(u)
    rest = rest / size
    rest = rest - dot(u, rest) * u
    size = length(rest)
    found = _perpendicular(u)
    if size > 0.5:
        found = rest / size
    if dot(found, a) < 0.0:
        found = -found
    return found


@library()
def qr3(A: Matrix3) -> Any:
    """``Q, R`` of the QR decomposition ``A = Q * R``.

    Args:
        A: A 3x3 matrix of floats.

    Returns:
        Q, a rotation; R, upper triangular: its first two diagonal entries are not negative, the
        last one has the sign of the determinant of ``A``. Where a column of ``A`` depends on those
        before it, more than one Q is possible and there is no derivative.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 5.2.7.
    """
    size = _largest(A)
    scale = 1.0 / size
    a = scale * A[:, 0]
    b = scale * A[:, 1]
    c = scale * A[:, 2]
    x = _first_direction(a)
    y = _next_direction(x, b)
    z = cross(x, y)
    zero = A.dtype(0)
    triangle = matrix(
        dot(x, a), dot(x, b), dot(x, c), zero, dot(y, b), dot(y, c), zero, zero, dot(z, c),
        shape=(3, 3), dtype=A.dtype,
    )  # fmt: skip
    return matrix_from_cols(x, y, z), size * triangle


@library()
def eig3(A: Matrix3) -> Any:
    """``Q, d``, eigenvectors and eigenvalues: a symmetric ``A = Q * diag(d) * transpose(Q)``.

    Args:
        A: A 3x3 matrix of floats; its symmetric part is decomposed.

    Returns:
        Q, a rotation whose columns are eigenvectors; d, the eigenvalues, a vector of length 3 in
        increasing order. The signs of the columns are not specified, nor are the columns of equal
        eigenvalues, which have no derivative.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 8.5: cyclic Jacobi.
    """
    size = _largest(A)
    scale = 1.0 / size
    half = 0.5 * scale
    xx = scale * A[0, 0]
    yy = scale * A[1, 1]
    zz = scale * A[2, 2]
    xy = half * (A[0, 1] + A[1, 0])
    xz = half * (A[0, 2] + A[2, 0])
    yz = half * (A[1, 2] + A[2, 1])
    u = vector(1.0, 0.0, 0.0, length=3, dtype=A.dtype)
    v = vector(0.0, 1.0, 0.0, length=3, dtype=A.dtype)
    w = vector(0.0, 0.0, 1.0, length=3, dtype=A.dtype)
    zero = A.dtype(0)
    for _ in range(_SWEEPS):
        xx, yy, xz, yz, u, v = _eigen_rotation(xx, xy, yy, xz, yz, u, v)
        xx, zz, xy, yz, u, w = _eigen_rotation(xx, xz, zz, zero, yz, u, w)
        yy, zz, xy, xz, v, w = _eigen_rotation(yy, yz, zz, xy, zero, v, w)
        yz = zero
    if xx > yy:
        xx, yy, u, v = yy, xx, v, -u
    if yy > zz:
        yy, zz, v, w = zz, yy, w, -v
    if xx > yy:
        xx, yy, u, v = yy, xx, v, -u
    d = vector(size * xx, size * yy, size * zz, length=3, dtype=A.dtype)
    return matrix_from_cols(u, v, w), d


@library()
def _eigen_rotation(p: F, r: F, q: F, s: F, t: F, u: V3, v: V3) -> Any:
    """One rotation of ``[[p, r, s], [r, q, t], [s, t, .]]`` and the columns ``u`` and ``v``."""
    tangent = _jacobi_tangent(p, r, q)
    cosine = 1.0 / sqrt(1.0 + tangent * tangent)
    sine = tangent * cosine
    return (
        p - tangent * r,
        q + tangent * r,
        cosine * s - sine * t,
        sine * s + cosine * t,
        cosine * u - sine * v,
        sine * u + cosine * v,
    )


@library()
def _column_rotation(a: V, b: V, u: V, v: V) -> Any:
    """One rotation that makes ``a`` and ``b`` perpendicular, applied to ``u`` and ``v`` as well."""
    tangent = _jacobi_tangent(dot(a, a), dot(a, b), dot(b, b))
    cosine = 1.0 / sqrt(1.0 + tangent * tangent)
    sine = tangent * cosine
    return (
        cosine * a - sine * b,
        sine * a + cosine * b,
        cosine * u - sine * v,
        sine * u + cosine * v,
    )


@library()
def svd3(A: Matrix3) -> Any:
    """``U, sigma, V`` of the decomposition ``A = U * diag(sigma) * transpose(V)``.

    Args:
        A: A 3x3 matrix of floats.

    Returns:
        U, a rotation; sigma, a vector of length 3 in decreasing order of magnitude, whose first
        two components are not negative and whose last one has the sign of the determinant of
        ``A``; V, a rotation. The signs of two pairs of columns are not specified, nor are the
        columns of singular values of equal magnitude, which have no derivative.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 8.6.3: one-sided
    Jacobi.
    """
    size = _largest(A)
    scale = 1.0 / size
    a = scale * A[:, 0]
    b = scale * A[:, 1]
    c = scale * A[:, 2]
    u = vector(1.0, 0.0, 0.0, length=3, dtype=A.dtype)
    v = vector(0.0, 1.0, 0.0, length=3, dtype=A.dtype)
    w = vector(0.0, 0.0, 1.0, length=3, dtype=A.dtype)
    for _ in range(_SWEEPS):
        a, b, u, v = _column_rotation(a, b, u, v)
        a, c, u, w = _column_rotation(a, c, u, w)
        b, c, v, w = _column_rotation(b, c, v, w)
    if dot(a, a) < dot(b, b):
        a, b, u, v = b, -a, v, -u
    if dot(b, b) < dot(c, c):
        b, c, v, w = c, -b, w, -v
    if dot(a, a) < dot(b, b):
        a, b, u, v = b, -a, v, -u
    x = _first_direction(a)
    y = _next_direction(x, b)
    z = cross(x, y)
    sigma = vector(size * dot(x, a), size * dot(y, b), size * dot(z, c), length=3, dtype=A.dtype)
    return matrix_from_cols(x, y, z), sigma, matrix_from_cols(u, v, w)


@library()
def svd2(A: Matrix2) -> Any:
    """``U, sigma, V`` of the decomposition ``A = U * diag(sigma) * transpose(V)``.

    Args:
        A: A 2x2 matrix of floats.

    Returns:
        U, orthogonal, a reflection if the determinant of ``A`` is negative; sigma, a vector of
        length 2, not negative, in decreasing order; V, a rotation. The signs of the pairs of
        columns are not specified, nor are the columns of equal singular values, which have no
        derivative.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 8.6.3: one-sided
    Jacobi.
    """
    size = _largest(A)
    a = A[:, 0] / size
    b = A[:, 1] / size
    u = vector(1.0, 0.0, length=2, dtype=A.dtype)
    v = vector(0.0, 1.0, length=2, dtype=A.dtype)
    # Exact arithmetic would need one; the second removes what rounding left.
    a, b, u, v = _column_rotation(a, b, u, v)
    a, b, u, v = _column_rotation(a, b, u, v)
    if dot(a, a) < dot(b, b):
        a, b, u, v = b, -a, v, -u
    x = vector(1.0, 0.0, length=2, dtype=A.dtype)
    if dot(a, a) > 0.0:
        x = a / length(a)
    y = vector(-x[1], x[0], length=2, dtype=A.dtype)
    if dot(y, b) < 0.0:
        y = -y
    sigma = vector(size * dot(x, a), size * dot(y, b), length=2, dtype=A.dtype)
    return matrix_from_cols(x, y), sigma, matrix_from_cols(u, v)


@library(updates=("U", "sigma", "V"))
def svd3(A: Matrix3, U: Matrix3, sigma: Vector3, V: Matrix3) -> Any:  # noqa: F811
    """Assign the singular value decomposition of ``A`` to ``U``, ``sigma`` and ``V``.

    Args:
        A: A 3x3 matrix of floats.
        U: A variable that gets the rotation U.
        sigma: A variable that gets the singular values.
        V: A variable that gets the rotation V.
    """
    u, s, v = svd3(A)
    return (), u, s, v


@library(updates=("U", "sigma", "V"))
def svd2(A: Matrix2, U: Matrix2, sigma: Vector2, V: Matrix2) -> Any:  # noqa: F811
    """Assign the singular value decomposition of ``A`` to ``U``, ``sigma`` and ``V``.

    Args:
        A: A 2x2 matrix of floats.
        U: A variable that gets the orthogonal matrix U.
        sigma: A variable that gets the singular values.
        V: A variable that gets the rotation V.
    """
    u, s, v = svd2(A)
    return (), u, s, v


@library(updates=("Q", "d"))
def eig3(A: Matrix3, Q: Matrix3, d: Vector3) -> Any:  # noqa: F811
    """Assign the eigenvectors and eigenvalues of ``A`` to ``Q`` and ``d``.

    Args:
        A: A symmetric 3x3 matrix of floats.
        Q: A variable that gets the matrix of eigenvectors.
        d: A variable that gets the eigenvalues.
    """
    vectors, values = eig3(A)
    return (), vectors, values


@library(updates=("Q", "R"))
def qr3(A: Matrix3, Q: Matrix3, R: Matrix3) -> Any:  # noqa: F811
    """Assign the QR decomposition of ``A`` to ``Q`` and ``R``.

    Args:
        A: A 3x3 matrix of floats.
        Q: A variable that gets the orthogonal matrix.
        R: A variable that gets the upper triangular matrix.
    """
    q, r = qr3(A)
    return (), q, r
