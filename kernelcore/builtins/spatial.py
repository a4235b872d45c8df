"""Spatial algebra: twists, wrenches and velocities of rigid bodies.

A spatial vector has length 6: the angular part (angular velocity, torque) at the top, the linear
part (velocity, force) at the bottom.

Source of the formulas: Featherstone, "Rigid Body Dynamics Algorithms" (2008), chapter 2.
"""

# Types of the kernel language are values to a type checker.
# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins.library import library
from kernelcore.builtins.quaternion import quat_rotate
from kernelcore.builtins.transform import transform_get_rotation, transform_get_translation
from kernelcore.builtins.vector import cross, dot
from kernelcore.language.composite_types import matrix, transformation, vector
from kernelcore.language.types import AnyFloat as Float

Spatial = vector(length=6, dtype=Float)
Vector3 = vector(length=3, dtype=Float)
Matrix3 = matrix(shape=(3, 3), dtype=Float)
Transform = transformation(dtype=Float)

S = TypeVar("S", bound=Spatial)
M3 = TypeVar("M3", bound=Matrix3)


@library()
def spatial_top(svec: Spatial) -> Any:
    """The angular part of a spatial vector, a vector of length 3 of its dtype."""
    return vector(svec[0], svec[1], svec[2], length=3, dtype=svec.dtype)


@library()
def spatial_bottom(svec: Spatial) -> Any:
    """The linear part of a spatial vector, a vector of length 3 of its dtype."""
    return vector(svec[3], svec[4], svec[5], length=3, dtype=svec.dtype)


@library()
def spatial_dot(a: S, b: S) -> Any:
    """Inner product of two spatial vectors; the power of a wrench and a twist, a scalar."""
    return dot(a, b)


@library()
def spatial_cross(a: S, b: S) -> Any:
    """``(w_a x w_b, v_a x w_b + w_a x v_b)`` of two twists ``(w, v)`` of one dtype; a twist.

    Source: Featherstone, section 2.9.
    """
    w = cross(spatial_top(a), spatial_top(b))
    v = cross(spatial_bottom(a), spatial_top(b)) + cross(spatial_top(a), spatial_bottom(b))
    return type(a)(w[0], w[1], w[2], v[0], v[1], v[2])


@library()
def spatial_cross_dual(a: S, b: S) -> Any:
    """``(w x n + v x f, w x f)`` of a twist ``(w, v)`` and a wrench ``(n, f)``; a wrench.

    Source: Featherstone, section 2.9.
    """
    n = cross(spatial_top(a), spatial_top(b)) + cross(spatial_bottom(a), spatial_bottom(b))
    f = cross(spatial_top(a), spatial_bottom(b))
    return type(a)(n[0], n[1], n[2], f[0], f[1], f[2])


@library()
def spatial_adjoint(r: M3, s: M3) -> Any:
    """The 6x6 matrix ``[[r, 0], [s, r]]`` of two 3x3 matrices of floats of one dtype.

    With ``r`` a rotation and ``s = skew(p) * r`` it maps twists as ``transform_twist`` does.
    """
    result = matrix(0, shape=(6, 6), dtype=r.dtype)
    result[:3, :3] = r
    result[3:, :3] = s
    result[3:, 3:] = r
    return result


@library()
def velocity_at_point(qd: Spatial, r: Vector3) -> Any:
    """The velocity ``v + w x r`` at the offset ``r`` of a body with the twist ``(w, v)``."""
    return spatial_bottom(qd) + cross(spatial_top(qd), r)


@library()
def transform_twist(t: Transform, x: Spatial) -> Any:
    """A twist in the frame that ``t`` maps to: ``(R w, R v + p x R w)``.

    Args:
        t: The transform ``(p, R)`` from the frame of ``x``.
        x: The twist ``(w, v)``, a spatial vector of the same dtype.

    Source: Featherstone, section 2.8.
    """
    turn = transform_get_rotation(t)
    w = quat_rotate(turn, spatial_top(x))
    v = quat_rotate(turn, spatial_bottom(x)) + cross(transform_get_translation(t), w)
    return type(x)(w[0], w[1], w[2], v[0], v[1], v[2])


@library()
def transform_wrench(t: Transform, x: Spatial) -> Any:
    """A wrench in the frame that ``t`` maps to: ``(R n + p x R f, R f)``.

    Args:
        t: The transform ``(p, R)`` from the frame of ``x``.
        x: The wrench ``(n, f)``, a spatial vector of the same dtype.

    Source: Featherstone, section 2.8.
    """
    turn = transform_get_rotation(t)
    f = quat_rotate(turn, spatial_bottom(x))
    n = quat_rotate(turn, spatial_top(x)) + cross(transform_get_translation(t), f)
    return type(x)(n[0], n[1], n[2], f[0], f[1], f[2])
