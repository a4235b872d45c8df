"""Rigid transforms and 4x4 matrices: points, vectors, inverses and conversions.

A transform is a position and a unit quaternion; it turns first and moves then. Matrices act on
columns.
"""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins.library import library
from kernelcore.builtins.matrix import determinant
from kernelcore.builtins.quaternion import (
    mul,
    quat_from_matrix,
    quat_inverse,
    quat_rotate,
    quat_to_matrix,
)
from kernelcore.builtins.vector import cw_mul, length
from kernelcore.language.composite_types import matrix, quaternion, transformation, vector
from kernelcore.language.types import AnyFloat as Float
from kernelcore.language.types import float32

Transform = transformation(dtype=Float)
Quaternion = quaternion(dtype=Float)
Vector3 = vector(length=3, dtype=Float)
Matrix3 = matrix(shape=(3, 3), dtype=Float)
Matrix4 = matrix(shape=(4, 4), dtype=Float)

T = TypeVar("T", bound=Transform)


@library()
def transform_identity(dtype: Any = float32) -> Any:
    """The transform of floats of ``dtype`` that moves nothing."""
    return transformation(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, dtype=dtype)


@library()
def transform_get_translation(xform: Transform) -> Any:
    """The position of a transform, a vector of length 3 of its dtype."""
    return vector(xform[0], xform[1], xform[2], length=3, dtype=xform.dtype)


@library()
def transform_get_rotation(xform: Transform) -> Any:
    """The rotation of a transform, a quaternion of its dtype."""
    return quaternion(xform[3], xform[4], xform[5], xform[6], dtype=xform.dtype)


@library()
def transform_set_translation_copy(xform: Transform, p: Vector3) -> Any:
    """``xform`` with the position ``p``, a vector of length 3."""
    return type(xform)(p[0], p[1], p[2], xform[3], xform[4], xform[5], xform[6])


@library()
def transform_set_rotation_copy(xform: Transform, q: Quaternion) -> Any:
    """``xform`` with the rotation ``q``, a quaternion."""
    return type(xform)(xform[0], xform[1], xform[2], q[0], q[1], q[2], q[3])


@library(updates=("xform",))
def transform_set_translation(xform: Transform, p: Vector3) -> Any:
    """Give ``xform``, a variable, the position ``p``, a vector of length 3; the new transform."""
    moved = transform_set_translation_copy(xform, p)
    return moved, moved


@library(updates=("xform",))
def transform_set_rotation(xform: Transform, q: Quaternion) -> Any:
    """Give ``xform``, a variable, the rotation ``q``, a quaternion; the new transform."""
    turned = transform_set_rotation_copy(xform, q)
    return turned, turned


@library()
def mul(a: T, b: T) -> Any:
    """The transform that applies ``b``, then ``a``, two transforms of one dtype."""
    turn = transform_get_rotation(a)
    position = quat_rotate(turn, transform_get_translation(b)) + transform_get_translation(a)
    return type(a)(position, mul(turn, transform_get_rotation(b)))


@library()
def transform_multiply(a: T, b: T) -> Any:
    """The transform that applies ``b``, then ``a``: ``a * b``."""
    return mul(a, b)


@library()
def transform_inverse(xform: Transform) -> Any:
    """The transform that undoes ``xform``, whose rotation is a unit quaternion."""
    back = quat_inverse(transform_get_rotation(xform))
    return type(xform)(-quat_rotate(back, transform_get_translation(xform)), back)


@library()
def transform_point(xform: Transform, point: Vector3) -> Any:
    """``point``, a vector of length 3, turned and moved."""
    turned = quat_rotate(transform_get_rotation(xform), point)
    return turned + transform_get_translation(xform)


@library()
def transform_point(mat: Matrix4, point: Vector3) -> Any:
    """The first three components of ``mat * (point, 1)``."""
    return mat[:3, :3] * point + mat[:3, 3]


@library()
def transform_vector(xform: Transform, vec: Vector3) -> Any:
    """``vec``, a vector of length 3, turned."""
    return quat_rotate(transform_get_rotation(xform), vec)


@library()
def transform_vector(mat: Matrix4, vec: Vector3) -> Any:
    """The first three components of ``mat * (vec, 0)``."""
    return mat[:3, :3] * vec


@library()
def _affine(block: Matrix3, position: Vector3) -> Any:
    """The 4x4 matrix with the upper rows ``[block, position]``."""
    result = matrix(0.0, shape=(4, 4), dtype=position.dtype)
    result[:3, :3] = block
    result[:3, 3] = position
    result[3, 3] = 1.0
    return result


@library()
def transform_compose(position: Vector3, rotation: Quaternion, scale: Vector3) -> Any:
    """The 4x4 matrix that scales, turns and moves.

    Args:
        position: Where the origin goes, a vector of length 3.
        rotation: A unit quaternion of the same dtype.
        scale: A factor per axis, a vector of length 3 of the same dtype.

    Returns:
        The matrix with the upper rows ``[R diag(scale), position]``, of the same dtype.
    """
    r = quat_to_matrix(rotation)
    for i in range(3):
        r[i] = cw_mul(r[i], scale)
    return _affine(r, position)


@library()
def transform_decompose(m: Matrix4) -> Any:
    """Position, rotation and scale, of which ``transform_compose`` makes the matrix.

    Args:
        m: A 4x4 matrix of floats.

    Returns:
        The position, a vector of length 3; the rotation, a unit quaternion; the scale, a vector of
        length 3: the lengths of the columns, the first one negative if the determinant of the upper
        left block is.
    """
    scale = vector(length(m[:3, 0]), length(m[:3, 1]), length(m[:3, 2]), length=3, dtype=m.dtype)
    turn = matrix(m[:3, :3], shape=(3, 3), dtype=m.dtype)
    if determinant(turn) < 0.0:
        scale[0] = -scale[0]
    for k in range(3):
        # A zero column stays zero.
        if scale[k] != 0.0:
            turn[:, k] = turn[:, k] / scale[k]
    position = vector(m[0, 3], m[1, 3], m[2, 3], length=3, dtype=m.dtype)
    return position, quat_from_matrix(turn), scale


@library()
def transform_from_matrix(mat: Matrix4) -> Any:
    """The transform of a 4x4 matrix whose upper left block is a rotation; of its dtype."""
    q = quat_from_matrix(mat)
    return transformation(mat[0, 3], mat[1, 3], mat[2, 3], q[0], q[1], q[2], q[3], dtype=mat.dtype)


@library()
def transform_to_matrix(xform: Transform) -> Any:
    """The 4x4 matrix, of the dtype of ``xform``, that maps columns ``(x, 1)`` as it maps ``x``."""
    r = quat_to_matrix(transform_get_rotation(xform))
    return _affine(r, transform_get_translation(xform))
