"""Patterns of quaternions, transforms and functions of the library, against NumPy."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, MAT33, QUAT, VEC3, pattern, rows, tensors


def product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    vector = p[3] * q[:3] + q[3] * p[:3] + np.cross(p[:3], q[:3])
    return np.append(vector, p[3] * q[3] - p[:3] @ q[:3])


def rotate(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    u, w = q[:3], q[3]
    return v * (2.0 * w * w - 1.0) + 2.0 * np.cross(u, v) * w + 2.0 * u * (u @ v)


def conjugate(q: np.ndarray) -> np.ndarray:
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def turned(q: np.ndarray, x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    unit = q / np.linalg.norm(q)
    both = product(p, unit)
    return rotate(unit, x) + rotate(conjugate(unit), p[:3]), both + q @ p * conjugate(p)


@pattern(
    lambda rng: tensors((4,), (3, 4), (3, 3))(rng),
    lambda p, q, x: rows(turned, 2)(q, x, p),
)
@kc.kernel
def quaternion_rotations(p: kc.quatd, q: QUAT, x: VEC3, y: VEC3, out: QUAT):
    i = kc.tid()
    unit = kc.normalize(q[i])
    y[i] = kc.quat_rotate(unit, x[i]) + kc.quat_rotate_inv(unit, kc.vec3d(p.x, p.y, p.z))
    out[i] = p * unit + kc.dot(q[i], p) * kc.quat_inverse(p)


def from_angle(axis: np.ndarray, angle: float) -> np.ndarray:
    unit = axis / np.linalg.norm(axis)
    return np.append(unit * np.sin(0.5 * angle), np.cos(0.5 * angle))


def slerped(axis: np.ndarray, angle: float, t: float, q: np.ndarray) -> np.ndarray:
    a = from_angle(axis, angle)
    b = q / np.linalg.norm(q)
    half = np.arccos(a @ b)
    return (np.sin((1 - t) * half) * a + np.sin(t * half) * b) / np.sin(half)


@pattern(
    lambda rng: [
        rng.uniform(0.4, 1.0, (3, 3)),
        rng.uniform(0.5, 1.0, 3),
        rng.uniform(0.2, 0.8, 3),
        rng.uniform(0.4, 1.0, 4),
    ],
    rows(slerped, 3),
)
@kc.kernel
def quaternion_slerp(axis: VEC3, angle: F64, t: F64, q: kc.quatd, y: QUAT):
    i = kc.tid()
    start = kc.quat_from_axis_angle(kc.normalize(axis[i]), angle[i])
    y[i] = kc.quat_slerp(start, kc.normalize(q), t[i])


def matrix_of(q: np.ndarray) -> np.ndarray:
    return np.stack([rotate(q, e) for e in np.eye(3)], axis=1)


def there_and_back(q: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    unit = q / np.linalg.norm(q)
    vector = unit[:3] / np.linalg.norm(unit[:3])
    return matrix_of(unit), unit, vector * 2.0 * np.arctan2(np.linalg.norm(unit[:3]), unit[3])


@pattern(tensors((3, 4), (3, 3)), rows(there_and_back, 2))
@kc.kernel
def quaternion_matrix_and_back(q: QUAT, x: VEC3, m: MAT33, back: QUAT, turn: VEC3):
    i = kc.tid()
    unit = kc.normalize(q[i])
    m[i] = kc.quat_to_matrix(unit)
    back[i] = kc.quat_from_matrix(kc.quat_to_matrix(unit))
    axis, angle = kc.quat_to_axis_angle(unit)
    turn[i] = axis * angle


def moved(s: np.ndarray, t: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def point(t: np.ndarray, v: np.ndarray) -> np.ndarray:
        return t[:3] + rotate(t[3:], v)

    s = np.append(s[:3], s[3:] / np.linalg.norm(s[3:]))
    t = np.append(t[:3], t[3:] / np.linalg.norm(t[3:]))
    both = np.append(point(s, t[:3]), product(s[3:], t[3:]))
    back = np.append(-rotate(conjugate(t[3:]), t[:3]), conjugate(t[3:]))
    return both * x[0], point(back, x) + point(both, np.sin(x)) + rotate(s[3:], x)


@pattern(
    lambda rng: tensors((7,), (2, 7), (2, 3))(rng),
    lambda s, t, x: rows(lambda t, x: moved(s, t, x), 2)(t, x),
)
@kc.kernel
def rigid_transforms(
    s: kc.transformd,
    t: kc.array(dtype=kc.transformd),
    x: VEC3,
    both: kc.array(dtype=kc.transformd),
    y: VEC3,
):
    i = kc.tid()
    v = x[i]
    a = kc.transformd(kc.transform_get_translation(s), kc.normalize(kc.transform_get_rotation(s)))
    b = t[i]
    kc.transform_set_rotation(b, kc.normalize(kc.transform_get_rotation(b)))
    c = a * b
    both[i] = c * v.x
    sines = kc.vec3d(kc.sin(v.x), kc.sin(v.y), kc.sin(v.z))
    back = kc.transform_point(kc.transform_inverse(b), v)
    y[i] = back + kc.transform_point(c, sines) + kc.transform_vector(a, v)


def symmetric(rng: np.random.Generator, count: int) -> np.ndarray:
    a = rng.uniform(-1.0, 1.0, (count, 3, 3))
    return a + np.swapaxes(a, 1, 2) + np.diag([0.0, 2.0, 4.0])


def eigen_functions(a: np.ndarray) -> tuple[float, np.ndarray]:
    s = 0.5 * (a + a.T)
    values, vectors = np.linalg.eigh(s)
    return float(np.sum(np.sin(values))), vectors @ np.diag(np.exp(0.3 * values)) @ vectors.T


@pattern(lambda rng: [symmetric(rng, 2)], rows(eigen_functions))
@kc.kernel
def functions_of_eigenvalues(a: MAT33, y: F64, m: MAT33):
    i = kc.tid()
    q, d = kc.eig3(0.5 * (a[i] + kc.transpose(a[i])))
    y[i] = kc.sin(d.x) + kc.sin(d.y) + kc.sin(d.z)
    grown = kc.vec3d(kc.exp(0.3 * d.x), kc.exp(0.3 * d.y), kc.exp(0.3 * d.z))
    m[i] = q * kc.diag(grown) * kc.transpose(q)


def singular_functions(a: np.ndarray) -> tuple[float, np.ndarray]:
    u, s, vt = np.linalg.svd(a)
    return float(np.sum(s) + np.prod(s * s)), u @ vt


@pattern(lambda rng: [rng.uniform(-1, 1, (2, 3, 3)) + np.diag([1, 2, 3])], rows(singular_functions))
@kc.kernel
def functions_of_singular_values(a: MAT33, y: F64, m: MAT33):
    i = kc.tid()
    u, s, v = kc.svd3(a[i])
    y[i] = s.x + s.y + kc.abs(s.z) + (s.x * s.y * s.z) ** 2.0
    m[i] = u * kc.transpose(v)


def qr_functions(a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
    q, r = np.linalg.qr(a)
    return float(np.sum(np.log(np.abs(np.diag(r))))), q @ q.T @ b + np.linalg.solve(a, b)


@pattern(
    lambda rng: [rng.uniform(-1, 1, (2, 3, 3)) + 2 * np.eye(3), rng.uniform(-1, 1, (2, 3))],
    rows(qr_functions, 2),
)
@kc.kernel
def functions_of_qr(a: MAT33, b: VEC3, y: F64, x: VEC3):
    i = kc.tid()
    q, r = kc.qr3(a[i])
    y[i] = kc.log(kc.abs(r[0, 0])) + kc.log(kc.abs(r[1, 1])) + kc.log(kc.abs(r[2, 2]))
    v = b[i] * kc.float64(1.0)
    c = kc.transpose(q) * v
    z = c.z / r[2, 2]
    s = (c.y - r[1, 2] * z) / r[1, 1]
    x[i] = q * c + kc.vec3d((c.x - r[0, 1] * s - r[0, 2] * z) / r[0, 0], s, z)


def interpolated(a: np.ndarray, b: np.ndarray, t: float) -> tuple[np.ndarray, float]:
    def smooth(lo: float, hi: float, x: float) -> float:
        u = np.clip((x - lo) / (hi - lo), 0.0, 1.0)
        return u * u * (3.0 - 2.0 * u)

    v = a + (b - a) * t
    w = np.clip(v, 0.7, 1.1) * np.minimum(a, b) - np.maximum(a, t)
    return w, smooth(a[0], a[0] + b[1], 0.5 + t) + smooth(0.0, 1.0, a[1] - 5.0)


@pattern(tensors((5, 3), (5, 3), (5,)), rows(interpolated, 3))
@kc.kernel
def interpolation_of_vectors(a: VEC3, b: VEC3, t: F64, y: VEC3, s: F64):
    i = kc.tid()
    lo = a[i]
    v = kc.clamp(kc.lerp(lo, b[i], t[i]), kc.float64(0.7), kc.float64(1.1))
    y[i] = kc.cw_mul(v, kc.min(lo, b[i])) - kc.max(lo, kc.vec3d(t[i]))
    edge = kc.smoothstep(lo.x, lo.x + b[i].y, 0.5 + t[i])
    s[i] = edge + kc.smoothstep(kc.float64(0.0), kc.float64(1.0), lo.y - 5.0)


def norms(v: np.ndarray) -> tuple[float, np.ndarray]:
    square = v @ v
    size = np.sqrt(square)
    huber = 0.5 * square if square <= 1.5**2 else 1.5 * (size - 0.75)
    pseudo = np.sqrt(1.0 + square / 4.0) * 2.0
    return np.abs(v).sum() * size + huber + v.max() * v.min(), v / pseudo


@pattern(tensors((5, 3)), rows(norms))
@kc.kernel
def norms_of_vectors(x: VEC3, y: F64, u: VEC3):
    i = kc.tid()
    v = x[i]
    size = kc.norm_l1(v) * kc.norm_l2(v) + kc.norm_huber(v, 1.5)
    y[i] = size + kc.max(v) * kc.min(v)
    u[i] = kc.smooth_normalize(v, 2.0)


def crossed(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, float]:
    w, v = a[:3], a[3:]
    cross = np.concatenate([np.cross(w, b[:3]), np.cross(w, b[3:]) + np.cross(v, b[:3])])
    return cross * a[2], float(cross @ b)


@pattern(tensors((2, 6), (2, 6)), rows(crossed, 2))
@kc.kernel
def spatial_products(
    a: kc.array(dtype=kc.vector(6, kc.float64)),
    b: kc.array(dtype=kc.vector(6, kc.float64)),
    y: kc.array(dtype=kc.vector(6, kc.float64)),
    s: F64,
):
    i = kc.tid()
    c = kc.spatial_cross(a[i], b[i])
    y[i] = c * a[i][2]
    s[i] = kc.spatial_dot(c, b[i])


def special(x: float, y: float) -> float:
    return float(np.hypot(x, y) * np.arctan2(y, x) + np.sinh(x) / np.cosh(y) + np.log1p(x) ** 3)


@pattern(tensors((4,), (4,)), lambda *a: special_reference(*a))
@kc.kernel
def elementary_functions(x: F64, y: F64, z: F64):
    i = kc.tid()
    a = x[i]
    b = y[i]
    radius = kc.sqrt(a * a + b * b)
    z[i] = radius * kc.atan2(b, a) + kc.sinh(a) / kc.cosh(b) + kc.log(1.0 + a) ** 3.0


def special_reference(x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    return rows(special, 2)(x, y)
