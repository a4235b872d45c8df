"""Quaternions: rotations, their conversions and interpolation.

A quaternion is (x, y, z, w) with the real part last. Rotations are unit quaternions; ``a * b``
turns by ``b`` first.
"""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins import arithmetic
from kernelcore.builtins.elementary import atan2, cos, sin, sqrt
from kernelcore.builtins.library import library
from kernelcore.builtins.vector import cross, dot, length, normalize
from kernelcore.language.composite_types import matrix, quaternion, vector
from kernelcore.language.types import AnyFloat as Float
from kernelcore.language.types import float32

Quaternion = quaternion(dtype=Float)
Vector3 = vector(length=3, dtype=Float)
Matrix3 = matrix(shape=(3, 3), dtype=Float)
Matrix4 = matrix(shape=(4, 4), dtype=Float)

Q = TypeVar("Q", bound=Quaternion)
F = TypeVar("F", bound=Float)


@library()
def quat_identity(dtype: Any = float32) -> Any:
    """The rotation by no angle, (0, 0, 0, 1), of floats of ``dtype``."""
    return quaternion(0.0, 0.0, 0.0, 1.0, dtype=dtype)


@library()
def mul(a: Q, b: Q) -> Any:
    """Hamilton's product of two quaternions of one dtype: the rotation ``b``, then ``a``."""
    return type(a)(
        a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1],
        a[3] * b[1] + a[1] * b[3] + a[2] * b[0] - a[0] * b[2],
        a[3] * b[2] + a[2] * b[3] + a[0] * b[1] - a[1] * b[0],
        a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2],
    )


@library()
def quat_inverse(quat: Quaternion) -> Any:
    """The conjugate (-x, -y, -z, w), which is the inverse of a unit quaternion."""
    return type(quat)(-quat[0], -quat[1], -quat[2], quat[3])


@library()
def quat_rotate(quat: Quaternion, vec: Vector3) -> Any:
    """``vec`` turned by the unit quaternion ``quat``; a vector of the type of ``vec``.

    Source: Rodrigues' formula: ``(2 w^2 - 1) v + 2 w (u x v) + 2 u (u . v)``, ``quat = (u, w)``.
    """
    u = quat[:3]
    w = quat[3]
    return (2.0 * w * w - 1.0) * vec + (2.0 * w) * cross(u, vec) + (2.0 * dot(u, vec)) * u


@library()
def quat_rotate_inv(quat: Quaternion, vec: Vector3) -> Any:
    """``vec`` turned by the inverse of the unit quaternion ``quat``."""
    return quat_rotate(quat_inverse(quat), vec)


@library()
def quat_from_axis_angle(axis: Vector3, angle: Float) -> Any:
    """The rotation by ``angle`` radians, right-handed about the unit vector ``axis``."""
    s = sin(0.5 * angle)
    return quaternion(axis[0] * s, axis[1] * s, axis[2] * s, cos(0.5 * angle), dtype=axis.dtype)


@library()
def quat_to_axis_angle(quat: Quaternion) -> Any:
    """The axis and the angle of a rotation.

    Args:
        quat: A quaternion of any length but 0.

    Returns:
        The axis, a unit vector of length 3, zero where the angle is; the angle in radians, in
        [0, pi].
    """
    u = quat[:3]
    w = quat[3]
    if w < 0.0:
        u = -u
        w = -w
    sine = length(u)
    if sine == 0.0:
        return u, sine
    return u / sine, 2.0 * atan2(sine, w)


@library(updates=("axis", "angle"))
def quat_to_axis_angle(quat: Quaternion, axis: Vector3, angle: Float) -> Any:
    """Assign the axis and the angle of a rotation to the variables ``axis`` and ``angle``.

    Args:
        quat: A quaternion of any length but 0.
        axis: A variable that gets the axis, a unit vector of length 3.
        angle: A variable that gets the angle in radians, in [0, pi].
    """
    u, theta = quat_to_axis_angle(quat)
    return (), u, theta


@library()
def quat_to_matrix(quat: Quaternion) -> Any:
    """The 3x3 matrix, of the dtype of ``quat``, that turns columns as the unit quaternion does.

    Source: Rodrigues' formula, as in ``quat_rotate``; column j is the turned axis j.
    """
    x, y, z, w = quat
    real = 2.0 * w * w - 1.0
    return matrix(
        real + 2.0 * x * x, 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
        2.0 * (x * y + w * z), real + 2.0 * y * y, 2.0 * (y * z - w * x),
        2.0 * (x * z - w * y), 2.0 * (y * z + w * x), real + 2.0 * z * z,
        shape=(3, 3), dtype=quat.dtype,
    )  # fmt: skip


@library()
def quat_from_matrix(mat: Matrix3) -> Any:
    """The unit quaternion of a rotation matrix that turns columns; its dtype is that of ``mat``.

    Source: Shepperd, "Quaternion from Rotation Matrix", J. Guidance and Control 1 (1978): each
    branch divides by the largest of the four components.
    """
    x = mat[2, 1] - mat[1, 2]
    y = mat[0, 2] - mat[2, 0]
    z = mat[1, 0] - mat[0, 1]
    w = 1.0 + mat[0, 0] + mat[1, 1] + mat[2, 2]
    if mat[0, 0] + mat[1, 1] + mat[2, 2] < 0.0:
        if mat[0, 0] >= mat[1, 1] and mat[0, 0] >= mat[2, 2]:
            w = x
            x = 1.0 + mat[0, 0] - mat[1, 1] - mat[2, 2]
            y = mat[0, 1] + mat[1, 0]
            z = mat[0, 2] + mat[2, 0]
        elif mat[1, 1] >= mat[2, 2]:
            w = y
            x = mat[0, 1] + mat[1, 0]
            y = 1.0 + mat[1, 1] - mat[0, 0] - mat[2, 2]
            z = mat[1, 2] + mat[2, 1]
        else:
            w = z
            x = mat[0, 2] + mat[2, 0]
            y = mat[1, 2] + mat[2, 1]
            z = 1.0 + mat[2, 2] - mat[0, 0] - mat[1, 1]
    return normalize(quaternion(x, y, z, w, dtype=mat.dtype))


@library()
def quat_from_matrix(mat: Matrix4) -> Any:
    """The unit quaternion of the rotation in the upper left 3x3 block of a 4x4 matrix."""
    return quat_from_matrix(mat[:3, :3])


@library()
def quat_rpy(roll: F, pitch: F, yaw: F) -> Any:
    """The rotation by ``roll`` about x, then ``pitch`` about y, then ``yaw`` about z.

    Args:
        roll: Angle about the fixed x axis, in radians; a float of any dtype.
        pitch: Angle about the fixed y axis.
        yaw: Angle about the fixed z axis.

    Returns:
        The unit quaternion ``q_z * q_y * q_x``, of the dtype of the angles.
    """
    sx = sin(0.5 * roll)
    cx = cos(0.5 * roll)
    sy = sin(0.5 * pitch)
    cy = cos(0.5 * pitch)
    sz = sin(0.5 * yaw)
    cz = cos(0.5 * yaw)
    return quaternion(
        sx * cy * cz - cx * sy * sz,
        cx * sy * cz + sx * cy * sz,
        cx * cy * sz - sx * sy * cz,
        cx * cy * cz + sx * sy * sz,
    )


@library()
def quat_to_rpy(q: Quaternion) -> Any:
    """Roll, pitch and yaw of a rotation, as ``quat_rpy`` takes them.

    Args:
        q: A quaternion of any length but 0.

    Returns:
        A vector of length 3: roll in [-pi, pi], pitch in [-pi/2, pi/2], yaw in [-pi, pi]. At a
        pitch of pi/2 roll and yaw are not unique, and those found here may be inaccurate;
        those of ``quat_to_euler(q, 0, 1, 2)`` are not.
    """
    x, y, z, w = q
    # The entries (2, 0), (2, 1), (2, 2), (1, 0), (0, 0) of the matrix, times length_sq(q).
    down = 2.0 * (x * z - w * y)
    across = 2.0 * (y * z + w * x)
    up = w * w - x * x - y * y + z * z
    level = length(vector(across, up, length=2, dtype=q.dtype))
    side = 2.0 * (x * y + w * z)
    ahead = w * w + x * x - y * y - z * z
    return vector(
        atan2(across, up), atan2(-down, level), atan2(side, ahead), length=3, dtype=q.dtype
    )


@library()
def _axis_rotation(angle: Float, axis: Any, dtype: Any) -> Any:
    turn = quaternion(0.0, 0.0, 0.0, cos(0.5 * angle), dtype=dtype)
    turn[axis] = sin(0.5 * angle)
    return turn


@library()
def quat_from_euler(e: Vector3, i: int, j: int, k: int) -> Any:
    """The rotation about the axis ``i``, then ``j``, then ``k``, all fixed.

    Args:
        e: Angles in radians by axis, not by turn: ``e[0]`` about x, ``e[1]`` about y, ``e[2]``
            about z.
        i: First axis: 0, 1 or 2.
        j: Second axis, not ``i``.
        k: Third axis, not ``j``; ``i`` again turns by ``e[i]`` twice.

    Returns:
        The unit quaternion ``q_k * q_j * q_i``, of the dtype of ``e``.
    """
    first = _axis_rotation(e[i], i, e.dtype)
    second = _axis_rotation(e[j], j, e.dtype)
    third = _axis_rotation(e[k], k, e.dtype)
    return mul(third, mul(second, first))


@library()
def quat_to_euler(q: Quaternion, i: int, j: int, k: int) -> Any:
    """The angles of a rotation about the axes ``i``, then ``j``, then ``k``, all fixed.

    Args:
        q: A quaternion of any length but 0.
        i: First axis: 0, 1 or 2.
        j: Second axis, not ``i``.
        k: Third axis, not ``j``.

    Returns:
        A vector of length 3, angles in radians. With three different axes they are by axis, as
        ``quat_from_euler`` takes them; with ``k == i`` the first angle is at ``i``, the second at
        ``j`` and the third at the axis that is neither. The second is in [-pi/2, pi/2], or
        [0, pi] for ``k == i``. At the ends of that range only the sum or the difference of the
        other two is unique, and there is no derivative.

    Source: Bernardes and Viollet, "Quaternion to Euler angles conversion", PLOS ONE 17 (2022).
    """
    other = 3 - i - j
    # +1 where i, j, other is an even permutation of 0, 1, 2, else -1.
    parity = q.dtype((i - j) * (j - other) * (other - i) // 2)
    a = q[3]
    b = q[i]
    c = q[j]
    d = q[other] * parity
    sine = 2.0 * (a * c - b * d)
    if k != i:
        a, b, c, d = a - c, b + d, c + a, d - b
    low = length(vector(a, b, length=2, dtype=q.dtype))
    high = length(vector(c, d, length=2, dtype=q.dtype))
    middle = 2.0 * atan2(high, low)
    first = atan2(b, a) - atan2(d, c)
    third = atan2(b, a) + atan2(d, c)
    if k != i:
        third = parity * third
        # 2 atan2(high, low) - pi / 2, without the difference.
        middle = atan2(sine, high * low)
    angles = vector(third, length=3, dtype=q.dtype)
    angles[j] = middle
    angles[i] = first
    return angles


@library()
def _sinc(square: Float) -> Any:
    """``sin(x) / x`` of the square of ``x``, with an exact derivative at 0."""
    if square < 0.01:
        tail = 1.0 - square / 72.0 * (1.0 - square / 110.0)
        return 1.0 - square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0 * tail))
    x = sqrt(square)
    return sin(x) / x


@library()
def quat_slerp(a: Q, b: Q, t: Float) -> Any:
    """The rotation at ``t`` on the shorter arc from ``a`` to ``b``, at constant speed.

    Args:
        a: The rotation at ``t == 0``, of any length but 0.
        b: The rotation at ``t == 1``, of any length but 0 and the dtype of ``a``.
        t: Where on the arc, in [0, 1]; a float of the dtype of ``a``.

    Returns:
        A unit quaternion; at ``t == 1`` it is ``-normalize(b)`` if ``dot(a, b) < 0``.

    Source: Shoemake, "Animating Rotation with Quaternion Curves", SIGGRAPH 1985; the angle by
    Kahan's arctangent, which is exact for close and for distant rotations.
    """
    start = normalize(a)
    end = normalize(b)
    if dot(start, end) < 0.0:
        end = -end
    angle = 2.0 * atan2(length(end - start), length(end + start))
    square = angle * angle
    whole = _sinc(square)
    rest = 1.0 - t
    p = rest * _sinc(rest * rest * square) / whole
    q = t * _sinc(t * t * square) / whole
    return p * start + q * end


@library()
def _twist_part(axis: Vector3, q: Quaternion) -> Any:
    return axis[0] * q[0] + axis[1] * q[1] + axis[2] * q[2]


@library()
def quat_twist(axis: Vector3, q: Quaternion) -> Any:
    """The rotation about ``axis`` in ``q``, which is it times one about a perpendicular axis.

    Args:
        axis: A unit vector of length 3.
        q: A rotation of the dtype of ``axis``.

    Returns:
        A unit quaternion; the identity where ``q`` is a half turn about a perpendicular axis.

    Source: Dobrowolski, "Swing-twist decomposition in Clifford algebra", arXiv 1506.05481 (2015).
    """
    part = _twist_part(axis, q)
    return normalize(type(q)(part * axis[0], part * axis[1], part * axis[2], q[3]))


@library()
def quat_twist_angle(axis: Vector3, q: Quaternion) -> Any:
    """The angle of ``quat_twist(axis, q)`` in radians: in [0, pi] if ``q.w >= 0``, else above."""
    return 2.0 * atan2(arithmetic.abs(_twist_part(axis, q)), q[3])


@library()
def quat_twist_angle_signed(axis: Vector3, q: Quaternion) -> Any:
    """The angle of ``quat_twist(axis, q)``, right-handed about ``axis``, in [-2 pi, 2 pi]."""
    return 2.0 * atan2(_twist_part(axis, q), q[3])
