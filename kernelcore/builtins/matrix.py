"""Matrices: construction, products, determinants and inverses."""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false, reportCallIssue=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins.library import library
from kernelcore.builtins.vector import dot
from kernelcore.language.composite_types import matrix, vector
from kernelcore.language.types import AnyFloat as Float
from kernelcore.language.types import AnyNumber as Number

NumberVector = vector(length=Any, dtype=Number)
NumberMatrix = matrix(shape=(Any, Any), dtype=Number)
Matrix2 = matrix(shape=(2, 2), dtype=Float)
Matrix3 = matrix(shape=(3, 3), dtype=Float)
Matrix4 = matrix(shape=(4, 4), dtype=Float)

V = TypeVar("V", bound=NumberVector)
M = TypeVar("M", bound=NumberMatrix)


@library()
def identity(n: Any, dtype: Any) -> Any:
    """The identity matrix of ``n`` rows, a number in the source, and of ``dtype``."""
    result = matrix(0, shape=(n, n), dtype=dtype)
    for i in range(n):
        result[i, i] = dtype(1)
    return result


@library()
def transpose(a: NumberMatrix) -> Any:
    """The matrix whose rows are the columns of ``a``, of the same dtype."""
    result = matrix(0, shape=(a.shape[1], a.shape[0]), dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            result[j, i] = a[i, j]
    return result


@library()
def _stacked(rows: Any) -> Any:
    """The matrix with ``rows``, a tuple of vectors of one type."""
    result = matrix(0, shape=(len(rows), len(rows[0])), dtype=rows[0].dtype)
    for i in range(len(rows)):
        result[i] = rows[i]
    return result


@library()
def matrix_from_rows(a: NumberVector) -> Any:
    """The matrix with the row ``a``."""
    return _stacked((a,))


@library()
def matrix_from_rows(a: V, b: V) -> Any:
    """The matrix with the rows ``a`` and ``b``, vectors of one type."""
    return _stacked((a, b))


@library()
def matrix_from_rows(a: V, b: V, c: V) -> Any:
    """The matrix with the rows ``a``, ``b`` and ``c``, vectors of one type."""
    return _stacked((a, b, c))


@library()
def matrix_from_rows(a: V, b: V, c: V, d: V) -> Any:
    """The matrix with the rows ``a`` to ``d``, vectors of one type."""
    return _stacked((a, b, c, d))


@library()
def matrix_from_rows(a: V, b: V, c: V, d: V, e: V) -> Any:
    """The matrix with the rows ``a`` to ``e``, vectors of one type."""
    return _stacked((a, b, c, d, e))


@library()
def matrix_from_rows(a: V, b: V, c: V, d: V, e: V, f: V) -> Any:
    """The matrix with the rows ``a`` to ``f``, vectors of one type."""
    return _stacked((a, b, c, d, e, f))


@library()
def matrix_from_cols(a: NumberVector) -> Any:
    """The matrix with the column ``a``."""
    return transpose(matrix_from_rows(a))


@library()
def matrix_from_cols(a: V, b: V) -> Any:
    """The matrix with the columns ``a`` and ``b``, vectors of one type."""
    return transpose(matrix_from_rows(a, b))


@library()
def matrix_from_cols(a: V, b: V, c: V) -> Any:
    """The matrix with the columns ``a``, ``b`` and ``c``, vectors of one type."""
    return transpose(matrix_from_rows(a, b, c))


@library()
def matrix_from_cols(a: V, b: V, c: V, d: V) -> Any:
    """The matrix with the columns ``a`` to ``d``, vectors of one type."""
    return transpose(matrix_from_rows(a, b, c, d))


@library()
def matrix_from_cols(a: V, b: V, c: V, d: V, e: V) -> Any:
    """The matrix with the columns ``a`` to ``e``, vectors of one type."""
    return transpose(matrix_from_rows(a, b, c, d, e))


@library()
def matrix_from_cols(a: V, b: V, c: V, d: V, e: V, f: V) -> Any:
    """The matrix with the columns ``a`` to ``f``, vectors of one type."""
    return transpose(matrix_from_rows(a, b, c, d, e, f))


@library()
def diag(vec: NumberVector) -> Any:
    """The square matrix with the components of ``vec`` on its diagonal, else zero."""
    result = matrix(0, shape=(len(vec), len(vec)), dtype=vec.dtype)
    for i in range(len(vec)):
        result[i, i] = vec[i]
    return result


@library()
def get_diag(mat: NumberMatrix) -> Any:
    """The diagonal of a matrix with no more rows than columns; a vector, one component a row."""
    result = vector(0, length=mat.shape[0], dtype=mat.dtype)
    for i in range(mat.shape[0]):
        result[i] = mat[i, i]
    return result


@library()
def trace(a: NumberMatrix) -> Any:
    """The sum of the diagonal of a matrix with no more rows than columns; a scalar."""
    total = a[0, 0]
    for i in range(1, a.shape[0]):
        total += a[i, i]
    return total


@library()
def outer(a: NumberVector, b: NumberVector) -> Any:
    """The matrix ``a[i] * b[j]`` of two vectors of one dtype, as many rows as ``a`` is long."""
    result = matrix(0, shape=(len(a), len(b)), dtype=a.dtype)
    for i in range(len(a)):
        for j in range(len(b)):
            result[i, j] = a[i] * b[j]
    return result


@library()
def skew(vec: vector(length=3, dtype=Number)) -> Any:
    """The 3x3 matrix whose product with a vector ``b`` is ``cross(vec, b)``."""
    zero = vec.dtype(0)
    return matrix(
        zero, -vec[2], vec[1], vec[2], zero, -vec[0], -vec[1], vec[0], zero,
        shape=(3, 3), dtype=vec.dtype,
    )  # fmt: skip


@library()
def ddot(a: M, b: M) -> Any:
    """The sum of the products of the components of two matrices of one type; a scalar."""
    total = dot(a[0], b[0])
    for i in range(1, a.shape[0]):
        total += dot(a[i], b[i])
    return total


@library()
def mul(a: NumberMatrix, b: NumberMatrix) -> Any:
    """Matrix product; ``a`` has as many columns as ``b`` has rows, and both have one dtype."""
    result = matrix(0, shape=(a.shape[0], b.shape[1]), dtype=a.dtype)
    columns = transpose(b)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            result[i, j] = dot(a[i], columns[j])
    return result


@library()
def mul(a: NumberMatrix, b: NumberVector) -> Any:
    """Matrix times column: a vector with one component per row of ``a``."""
    result = vector(0, length=a.shape[0], dtype=a.dtype)
    for i in range(a.shape[0]):
        result[i] = dot(a[i], b)
    return result


@library()
def mul(a: NumberVector, b: NumberMatrix) -> Any:
    """Row times matrix: a vector with one component per column of ``b``."""
    return mul(transpose(b), a)


@library()
def determinant(a: Matrix2) -> Any:
    """Determinant of a 2x2 matrix of floats; a scalar of its dtype."""
    return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]


@library()
def determinant(a: Matrix3) -> Any:
    """Determinant of a 3x3 matrix of floats; a scalar of its dtype."""
    return (
        a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1])
        - a[0, 1] * (a[1, 0] * a[2, 2] - a[1, 2] * a[2, 0])
        + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0])
    )


@library()
def determinant(a: Matrix4) -> Any:
    """Determinant of a 4x4 matrix of floats; a scalar of its dtype.

    Source: Laplace's expansion by the first two rows.
    """
    return (
        (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]) * (a[2, 2] * a[3, 3] - a[2, 3] * a[3, 2])
        - (a[0, 0] * a[1, 2] - a[0, 2] * a[1, 0]) * (a[2, 1] * a[3, 3] - a[2, 3] * a[3, 1])
        + (a[0, 0] * a[1, 3] - a[0, 3] * a[1, 0]) * (a[2, 1] * a[3, 2] - a[2, 2] * a[3, 1])
        + (a[0, 1] * a[1, 2] - a[0, 2] * a[1, 1]) * (a[2, 0] * a[3, 3] - a[2, 3] * a[3, 0])
        - (a[0, 1] * a[1, 3] - a[0, 3] * a[1, 1]) * (a[2, 0] * a[3, 2] - a[2, 2] * a[3, 0])
        + (a[0, 2] * a[1, 3] - a[0, 3] * a[1, 2]) * (a[2, 0] * a[3, 1] - a[2, 1] * a[3, 0])
    )


@library()
def inverse(a: Matrix2) -> Any:
    """Inverse of a 2x2 matrix of floats, of its type; zero where the determinant is 0."""
    det = determinant(a)
    if det == 0.0:
        return type(a)()
    return type(a)(a[1, 1], -a[0, 1], -a[1, 0], a[0, 0]) / det


@library()
def inverse(a: Matrix3) -> Any:
    """Inverse of a 3x3 matrix of floats, of its type; zero where the determinant is 0.

    Source: Cramer's rule: the adjugate divided by the determinant.
    """
    det = determinant(a)
    if det == 0.0:
        return type(a)()
    adjugate = type(a)(
        a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1],
        a[0, 2] * a[2, 1] - a[0, 1] * a[2, 2],
        a[0, 1] * a[1, 2] - a[0, 2] * a[1, 1],
        a[1, 2] * a[2, 0] - a[1, 0] * a[2, 2],
        a[0, 0] * a[2, 2] - a[0, 2] * a[2, 0],
        a[0, 2] * a[1, 0] - a[0, 0] * a[1, 2],
        a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0],
        a[0, 1] * a[2, 0] - a[0, 0] * a[2, 1],
        a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0],
    )
    return adjugate / det


@library()
def inverse(a: Matrix4) -> Any:
    """Inverse of a 4x4 matrix of floats, of its type; zero where the determinant is 0.

    Source: Eberly, "The Laplace Expansion Theorem" (Geometric Tools): the adjugate by the 2x2
    minors ``s`` of the upper and ``c`` of the lower two rows.
    """
    s0 = a[0, 0] * a[1, 1] - a[1, 0] * a[0, 1]
    s1 = a[0, 0] * a[1, 2] - a[1, 0] * a[0, 2]
    s2 = a[0, 0] * a[1, 3] - a[1, 0] * a[0, 3]
    s3 = a[0, 1] * a[1, 2] - a[1, 1] * a[0, 2]
    s4 = a[0, 1] * a[1, 3] - a[1, 1] * a[0, 3]
    s5 = a[0, 2] * a[1, 3] - a[1, 2] * a[0, 3]
    c5 = a[2, 2] * a[3, 3] - a[3, 2] * a[2, 3]
    c4 = a[2, 1] * a[3, 3] - a[3, 1] * a[2, 3]
    c3 = a[2, 1] * a[3, 2] - a[3, 1] * a[2, 2]
    c2 = a[2, 0] * a[3, 3] - a[3, 0] * a[2, 3]
    c1 = a[2, 0] * a[3, 2] - a[3, 0] * a[2, 2]
    c0 = a[2, 0] * a[3, 1] - a[3, 0] * a[2, 1]
    det = s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0
    if det == 0.0:
        return type(a)()
    adjugate = type(a)(
        a[1, 1] * c5 - a[1, 2] * c4 + a[1, 3] * c3,
        -a[0, 1] * c5 + a[0, 2] * c4 - a[0, 3] * c3,
        a[3, 1] * s5 - a[3, 2] * s4 + a[3, 3] * s3,
        -a[2, 1] * s5 + a[2, 2] * s4 - a[2, 3] * s3,
        -a[1, 0] * c5 + a[1, 2] * c2 - a[1, 3] * c1,
        a[0, 0] * c5 - a[0, 2] * c2 + a[0, 3] * c1,
        -a[3, 0] * s5 + a[3, 2] * s2 - a[3, 3] * s1,
        a[2, 0] * s5 - a[2, 2] * s2 + a[2, 3] * s1,
        a[1, 0] * c4 - a[1, 1] * c2 + a[1, 3] * c0,
        -a[0, 0] * c4 + a[0, 1] * c2 - a[0, 3] * c0,
        a[3, 0] * s4 - a[3, 1] * s2 + a[3, 3] * s0,
        -a[2, 0] * s4 + a[2, 1] * s2 - a[2, 3] * s0,
        -a[1, 0] * c3 + a[1, 1] * c1 - a[1, 2] * c0,
        a[0, 0] * c3 - a[0, 1] * c1 + a[0, 2] * c0,
        -a[3, 0] * s3 + a[3, 1] * s1 - a[3, 2] * s0,
        a[2, 0] * s3 - a[2, 1] * s1 + a[2, 2] * s0,
    )
    return adjugate / det
