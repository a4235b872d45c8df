"""The table of the vector and matrix library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.builtins.decomposition import eig3, qr3, svd2, svd3
from kernelcore.builtins.matrix import diag, transpose
from kernelcore.builtins.quaternion import (
    mul,
    quat_from_axis_angle,
    quat_from_euler,
    quat_from_matrix,
    quat_rpy,
    quat_to_axis_angle,
    quat_to_euler,
    quat_to_matrix,
    quat_to_rpy,
)
from kernelcore.builtins.transform import (
    transform_compose,
    transform_decompose,
    transform_from_matrix,
    transform_set_rotation,
    transform_set_translation,
    transform_to_matrix,
)
from tests.helpers.algebra import (
    CASES,
    about,
    affine,
    any_values,
    case,
    conjugate,
    crossing,
    fractions,
    hamilton,
    hat,
    huber,
    lift,
    regular,
    rotations,
    slerp,
    turn,
    twist,
    unit_axis,
)

__all__ = ["CASES"]

norm = np.linalg.norm

for n in ("v2", "v3", "v4", "v6"):
    case("dot", f"{n} {n}", "s", np.dot)
    case("length", n, "s", norm)
    case("length_sq", n, "s", lambda v: v @ v)
    case("normalize", n, n, lambda v: v / norm(v))
    case("norm_l1", n, "s", lambda v: np.abs(v).sum())
    case("norm_l2", n, "s", norm)
    case("cw_mul", f"{n} {n}", n, np.multiply)
    case("cw_div", f"{n} {n}", n, np.divide)
    case("min", n, "s", np.min)
    case("max", n, "s", np.max)
    case("diag", n, f"m{n[1]}{n[1]}", np.diag)
case("dot", "q q", "s", np.dot)
case("length", "q", "s", norm)
case("length_sq", "q", "s", lambda v: v @ v)
case("normalize", "q", "q", lambda v: v / norm(v))
case("norm_huber", "v3 s", "s", huber, lambda r, c: [r.uniform(-1, 1, 3), np.asarray(0.8)])
case("norm_pseudo_huber", "v3 s", "s", lambda v, d: d * np.sqrt(1.0 + v @ v / d**2))
case("smooth_normalize", "v3 s", "v3", lambda v, d: v / (d * np.sqrt(1.0 + v @ v / d**2)))
case("cross", "v3 v3", "v3", np.cross)
case("skew", "v3", "m33", hat)
for a, b, c in (("v2", "v3", "m23"), ("v3", "v3", "m33"), ("v6", "v6", "m66")):
    case("outer", f"{a} {b}", c, np.outer)
for n in ("m22", "m33", "m44", "m23", "m32"):
    case("transpose", n, f"m{n[2]}{n[1]}", np.transpose)
    case("ddot", f"{n} {n}", "s", lambda a, b: np.sum(a * b))
    case("cw_mul", f"{n} {n}", n, np.multiply)
    case("cw_div", f"{n} {n}", n, np.divide)
    case("mul", f"{n} v{n[2]}", f"v{n[1]}", np.matmul)
    case("mul", f"v{n[1]} {n}", f"v{n[2]}", np.matmul)
for n in ("m22", "m33", "m44"):
    case("trace", n, "s", np.trace)
    case("get_diag", n, f"v{n[1]}", np.diag)
    case("determinant", n, "s", np.linalg.det, regular)
    case("inverse", n, n, np.linalg.inv, regular)
    case("mul", f"{n} {n}", n, np.matmul)
case("mul", "m23 m34", "m24", np.matmul)
case("mul", "m66 v6", "v6", np.matmul)
for n in range(1, 7):
    rows = " ".join(["v3"] * n)
    case("matrix_from_rows", rows, f"m{n}3", lambda *v: np.stack(v))
    case("matrix_from_cols", rows, f"m3{n}", lambda *v: np.stack(v, axis=1))


case("mul", "q q", "q", hamilton)
case("quat_inverse", "q", "q", conjugate)
case("quat_rotate", "q v3", "v3", lambda q, v: turn(q) @ v)
case("quat_rotate_inv", "q v3", "v3", lambda q, v: turn(q).T @ v)
case(
    "quat_from_axis_angle",
    "v3 s",
    "q",
    lambda u, a: np.append(u * np.sin(a / 2), np.cos(a / 2)),
    unit_axis,
)
case("quat_to_matrix", "q", "m33", turn)
case(
    "quat_rpy",
    "s s s",
    "q",
    lambda r, p, y: hamilton(about(2, y), hamilton(about(1, p), about(0, r))),
)
case("quat_slerp", "q q s", "q", slerp, fractions)
case("quat_twist", "v3 q", "q", twist, unit_axis)
case("quat_twist_angle", "v3 q", "s", lambda u, q: 2.0 * np.arccos(twist(u, q)[3]), unit_axis)
case(
    "quat_twist_angle_signed",
    "v3 q",
    "s",
    lambda u, q: 2.0 * np.arccos(twist(u, q)[3]) * np.sign(u @ q[:3]),
    unit_axis,
)


def axis_angle(q: Any):
    axis, angle = quat_to_axis_angle(q)
    return angle * axis


def rotation_vector(q: np.ndarray) -> np.ndarray:
    q = q if q[3] >= 0 else -q
    return 2.0 * np.arccos(q[3]) * q[:3] / norm(q[:3])


case("quat_to_axis_angle", "q", "v3", rotation_vector, function=axis_angle)


def matrix_there_and_back(m: Any):
    return quat_to_matrix(quat_from_matrix(m))


def corner(m: np.ndarray) -> np.ndarray:
    return m[:3, :3]


case("quat_from_matrix", "m33", "m33", corner, rotations, matrix_there_and_back)
case("quat_from_matrix", "m44", "m33", corner, rotations, matrix_there_and_back)


def rpy_matrix(q: Any):
    e = quat_to_rpy(q)
    return quat_to_matrix(quat_rpy(e[0], e[1], e[2]))


case("quat_to_rpy", "q", "m33", turn, function=rpy_matrix)


def euler_xyz(e: Any):
    return quat_from_euler(e, 0, 1, 2)


def euler_zyx(e: Any):
    return quat_from_euler(e, 2, 1, 0)


def euler_zxz(e: Any):
    return quat_from_euler(e, 2, 0, 2)


def turns(*axes: int):
    def reference(e: np.ndarray) -> np.ndarray:
        q = np.array([0.0, 0.0, 0.0, 1.0])
        for axis in axes:
            q = hamilton(about(axis, e[axis]), q)
        return q

    return reference


case("quat_from_euler:xyz", "v3", "q", turns(0, 1, 2), function=euler_xyz)
case("quat_from_euler:zyx", "v3", "q", turns(2, 1, 0), function=euler_zyx)
case("quat_from_euler:zxz", "v3", "q", turns(2, 0, 2), function=euler_zxz)


def euler_xyz_back(q: Any):
    return quat_to_matrix(quat_from_euler(quat_to_euler(q, 0, 1, 2), 0, 1, 2))


def euler_yxz_back(q: Any):
    return quat_to_matrix(quat_from_euler(quat_to_euler(q, 1, 0, 2), 1, 0, 2))


def euler_zyx_back(q: Any):
    return quat_to_matrix(quat_from_euler(quat_to_euler(q, 2, 1, 0), 2, 1, 0))


def euler_zxz_back(q: Any):
    e = quat_to_euler(q, 2, 0, 2)
    first = quat_from_axis_angle(type(e)(0.0, 0.0, 1.0), e[2])
    second = quat_from_axis_angle(type(e)(1.0, 0.0, 0.0), e[0])
    third = quat_from_axis_angle(type(e)(0.0, 0.0, 1.0), e[1])
    return quat_to_matrix(mul(third, mul(second, first)))


case("quat_to_euler:xyz", "q", "m33", turn, function=euler_xyz_back)
case("quat_to_euler:yxz", "q", "m33", turn, function=euler_yxz_back)
case("quat_to_euler:zyx", "q", "m33", turn, function=euler_zyx_back)
case("quat_to_euler:zxz", "q", "m33", turn, function=euler_zxz_back)


def moved(t: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.concatenate([turn(t[3:]) @ u[:3] + t[:3], hamilton(t[3:], u[3:])])


def undone(t: np.ndarray) -> np.ndarray:
    return np.concatenate([-turn(t[3:]).T @ t[:3], conjugate(t[3:])])


case("mul", "t t", "t", moved)
case("transform_multiply", "t t", "t", moved)
case("transform_inverse", "t", "t", undone)
case("transform_get_translation", "t", "v3", lambda t: t[:3])
case("transform_get_rotation", "t", "q", lambda t: t[3:])
case("transform_set_translation_copy", "t v3", "t", lambda t, p: np.append(p, t[3:]))
case("transform_set_rotation_copy", "t q", "t", lambda t, q: np.append(t[:3], q))
case("transform_point", "t v3", "v3", lambda t, x: turn(t[3:]) @ x + t[:3])
case("transform_vector", "t v3", "v3", lambda t, x: turn(t[3:]) @ x)
case("transform_point", "m44 v3", "v3", lambda m, x: (m @ np.append(x, 1.0))[:3])
case("transform_vector", "m44 v3", "v3", lambda m, x: (m @ np.append(x, 0.0))[:3])
case("transform_to_matrix", "t", "m44", affine)


def scaled(p: np.ndarray, q: np.ndarray, s: np.ndarray) -> np.ndarray:
    return affine(np.append(p, q)) @ np.diag(np.append(s, 1.0))


case("transform_compose", "v3 q v3", "m44", scaled)


def parts(p: Any, q: Any, s: Any):
    position, rotation, scale = transform_decompose(transform_compose(p, q, s))
    return position, quat_to_matrix(rotation), scale


def positive_scale(rng: np.random.Generator, codes: Sequence[str]) -> list[np.ndarray]:
    return [*any_values(rng, codes)[:2], rng.uniform(0.5, 2.0, 3)]


case(
    "transform_decompose",
    "v3 q v3",
    "v3 m33 v3",
    lambda p, q, s: (p, turn(q), s),
    positive_scale,
    parts,
)


def affine_back(m: Any):
    return transform_to_matrix(transform_from_matrix(m))


case("transform_from_matrix", "m44", "m44", lambda m: m, rotations, affine_back)


def with_translation(t: Any, p: Any):
    transform_set_translation(t, p)
    return t


def with_rotation(t: Any, q: Any):
    transform_set_rotation(t, q)
    return t


case(
    "transform_set_translation",
    "t v3",
    "t",
    lambda t, p: np.append(p, t[3:]),
    function=with_translation,
)
case(
    "transform_set_rotation",
    "t q",
    "t",
    lambda t, q: np.append(t[:3], q),
    function=with_rotation,
)

case("spatial_top", "v6", "v3", lambda v: v[:3])
case("spatial_bottom", "v6", "v3", lambda v: v[3:])
case("spatial_dot", "v6 v6", "s", np.dot)
case("spatial_cross", "v6 v6", "v6", lambda a, b: crossing(a) @ b)
case("spatial_cross_dual", "v6 v6", "v6", lambda a, b: -crossing(a).T @ b)
case(
    "spatial_adjoint",
    "m33 m33",
    "m66",
    lambda r, s: np.block([[r, np.zeros((3, 3))], [s, r]]),
)
case("velocity_at_point", "v6 v3", "v3", lambda v, r: v[3:] + np.cross(v[:3], r))
case("transform_twist", "t v6", "v6", lambda t, x: lift(t) @ x)
case("transform_wrench", "t v6", "v6", lambda t, x: np.linalg.inv(lift(t)).T @ x)


# The signs of columns cancel in products of a factor, known weights and its transpose.
WEIGHTS = np.array([1.0, 2.5, -0.5])


@kc.func
def weighted(q: Any):
    return mul(mul(q, diag(type(q[0])(1.0, 2.5, -0.5))), transpose(q))


@kc.func
def weighted2(q: Any):
    return mul(mul(q, diag(type(q[0])(1.0, 2.5))), transpose(q))


def projectors(q: np.ndarray) -> np.ndarray:
    return (q * WEIGHTS[: len(q)]) @ q.T


def eigen_parts(a: Any):
    q, d = eig3(a)
    return weighted(q), d, mul(mul(q, diag(d)), transpose(q))


def eigen_reference(a: np.ndarray) -> tuple[np.ndarray, ...]:
    symmetric = 0.5 * (a + a.T)
    d, q = np.linalg.eigh(symmetric)
    return projectors(q), d, symmetric


def singular_parts3(a: Any):
    u, s, v = svd3(a)
    return weighted(u), s, weighted(v), mul(mul(u, diag(s)), transpose(v))


def singular_reference3(a: np.ndarray) -> tuple[np.ndarray, ...]:
    u, s, vt = np.linalg.svd(a)
    signed = s * [1.0, 1.0, np.sign(np.linalg.det(a))]
    return projectors(u), signed, projectors(vt.T), a


def singular_parts2(a: Any):
    u, s, v = svd2(a)
    return weighted2(u), s, weighted2(v), mul(mul(u, diag(s)), transpose(v))


def singular_reference2(a: np.ndarray) -> tuple[np.ndarray, ...]:
    u, s, vt = np.linalg.svd(a)
    return projectors(u), s, projectors(vt.T), a


def qr_reference(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    q, r = np.linalg.qr(a)
    signs = np.sign(np.diag(r))
    signs[2] = np.linalg.det(q) * signs[0] * signs[1]
    return q * signs, signs[:, None] * r


case("eig3", "m33", "m33 v3 m33", eigen_reference, regular, eigen_parts)
case("svd3", "m33", "m33 v3 m33 m33", singular_reference3, regular, singular_parts3)
case("svd2", "m22", "m22 v2 m22 m22", singular_reference2, regular, singular_parts2)
case("qr3", "m33", "m33 m33", qr_reference, regular, qr3)
