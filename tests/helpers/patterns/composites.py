"""Patterns of vectors and matrices: arithmetic, components, parts, values that loops carry."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportCallIssue=false

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, I32, MAT33, VEC3, pattern, rows, tensors


def blend(a: np.ndarray, b: np.ndarray, s: float) -> np.ndarray:
    v = s * a - b / (1.0 + s) + 2.0 / a
    return v * a * b + (v / b) * np.dot(a, v) - np.linalg.norm(v)


@pattern(tensors((4, 3), (4, 3), ()), rows(blend, 2))
@kc.kernel
def vector_arithmetic(a: VEC3, b: VEC3, s: kc.float64, y: VEC3):
    i = kc.tid()
    v = s * a[i] - b[i] / (1.0 + s) + 2.0 / a[i]
    w = kc.cw_mul(kc.cw_mul(v, a[i]), b[i]) + kc.cw_div(v, b[i]) * kc.dot(a[i], v)
    y[i] = w - kc.vec3d(kc.length(v))


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


@pattern(tensors((4, 3), (4, 3)), rows(lambda a, b: unit(np.cross(a, np.sin(b))), 2))
@kc.kernel
def normalized_cross(a: VEC3, b: VEC3, y: VEC3):
    i = kc.tid()
    v = b[i]
    y[i] = kc.normalize(kc.cross(a[i], kc.vec3d(kc.sin(v.x), kc.sin(v.y), kc.sin(v.z))))


def assigned(v: np.ndarray) -> np.ndarray:
    v[0] = v[1] * v[2]
    v[2] *= v[0]
    v[-2] = np.sin(v[2])
    v[0] += v[1] * v[1]
    return v


@pattern(tensors((4, 3)), rows(assigned))
@kc.kernel
def component_assignment(x: VEC3, y: VEC3):
    i = kc.tid()
    v = x[i]
    v.x = v.y * v.z
    v[2] *= v.x
    v[-2] = kc.sin(v.z)
    v.x += v.y * v.y
    y[i] = v


def by_index(m: np.ndarray, v: np.ndarray, k: int) -> tuple[np.ndarray, float]:
    v[k] = v[k] * v[(k + 1) % 3]
    m[k, (k + 2) % 3] *= v[k]
    row = m[k] * 1.0
    row[k] += v[0]
    m[(k + 1) % 3] = row
    m[k][0] = np.cos(v[k])
    return m, v[k] * m[k, k] + v @ v


@pattern(
    lambda rng: [
        rng.uniform(0.5, 1.5, (3, 3, 3)),
        rng.uniform(0.5, 1.5, (3, 3)),
        np.arange(3)[::-1].astype(np.int32),
    ],
    rows(by_index, 3),
)
@kc.kernel
def component_by_dynamic_index(m: MAT33, x: VEC3, index: I32, out: MAT33, y: F64):
    i = kc.tid()
    k = index[i]
    a = m[i]
    v = x[i]
    v[k] = v[k] * v[(k + 1) % 3]
    a[k, (k + 2) % 3] *= v[k]
    row = a[k]
    row[k] += v[0]
    a[(k + 1) % 3] = row
    a[k][0] = kc.cos(v[k])
    out[i] = a
    y[i] = v[k] * a[k, k] + kc.dot(v, v)


def parts(v: np.ndarray) -> np.ndarray:
    v[0:2] = v[3:5] * v[0]
    w = np.array([v[1] * v[1], v[2], v[0] * v[4], v[4]])
    w[2:] = w[:2] * 1.0
    return w[::-1] * v[2]


@pattern(tensors((3, 5)), rows(parts))
@kc.kernel
def vector_parts(x: kc.array(dtype=kc.vector(5, kc.float64)), y: kc.array(dtype=kc.vec4d)):
    i = kc.tid()
    v = x[i]
    v[0:2] = v[3:5] * v[0]
    w = kc.vec4d(v[1:3], v[0] * v[4], v[-1])
    w.x *= v[1]
    w.zw = w.xy
    y[i] = w.wzyx * v[2]


def in_elements(x: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x[0] *= m[1, 1]
    x[2] += x[0] * x[1]
    m[1, 0] = x[2] * m[0, 1]
    m[2, 2] -= m[1, 0] * x[0]
    x[1] = m[2, 2] * m[1, 0]
    return x, m


@pattern(tensors((3, 3), (3, 3, 3)), rows(in_elements, 2))
@kc.kernel
def element_components_in_place(x: VEC3, m: MAT33):
    i = kc.tid()
    x[i].x *= m[i][1, 1]
    x[i].z += x[i][0] * x[i].y
    m[i][1, 0] = x[i].z * m[i][0, 1]
    m[i][2][2] -= m[i][1, 0] * x[i][0]
    x[i][1] = m[i][2, 2] * m[i][1, 0]


def chained(a: np.ndarray, b: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, float]:
    c = a @ b + np.outer(v, b @ v) - 0.5 * a.T
    w = v @ c
    skew = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    return c @ skew, np.trace(c) * np.sum(a * c) + np.linalg.det(c)


@pattern(tensors((3, 3, 3), (3, 3, 3), (3, 3)), rows(chained, 3))
@kc.kernel
def matrix_products(a: MAT33, b: MAT33, x: VEC3, m: MAT33, y: F64):
    i = kc.tid()
    v = x[i]
    c = a[i] * b[i] + kc.outer(v, b[i] * v) - 0.5 * kc.transpose(a[i])
    m[i] = c @ kc.skew(v * c)
    y[i] = kc.trace(c) * kc.ddot(a[i], c) + kc.determinant(c)


def inverses(a: np.ndarray, b: np.ndarray, v: np.ndarray) -> np.ndarray:
    b = b + 2.0 * np.eye(4)
    w = np.linalg.inv(b) @ np.append(v, 1.0) * np.linalg.det(b)
    return np.linalg.inv(a + 2.0 * np.eye(3)) @ w[:3] + w[3]


@pattern(tensors((2, 3, 3), (2, 4, 4), (2, 3)), rows(inverses, 3))
@kc.kernel
def matrix_inverses(a: MAT33, b: kc.array(dtype=kc.mat44d), x: VEC3, y: VEC3):
    i = kc.tid()
    m = b[i] + 2.0 * kc.identity(4, dtype=kc.float64)
    w = kc.inverse(m) * kc.vec4d(x[i], 1.0) * kc.determinant(m)
    near = a[i] + kc.diag(kc.vec3d(2.0))
    y[i] = kc.inverse(near) * w[0:3] + kc.vec3d(w.w)


def pushed(x: np.ndarray, s: float, t: np.ndarray, m: np.ndarray) -> np.ndarray:
    return s * (m @ (x + t * t)) + np.cross(t, x) * m[0, 2] * s


@pattern(
    lambda rng: [0.7, *tensors((3,), (3, 3), (4, 3))(rng)],
    lambda s, t, m, x: rows(pushed)(x, s, t, m),
)
@kc.kernel
def values_by_reference(s: kc.float64, t: kc.vec3d, m: kc.mat33d, x: VEC3, y: VEC3):
    i = kc.tid()
    y[i] = s * (m * (x[i] + kc.cw_mul(t, t))) + kc.cross(t, x[i]) * m[0, 2] * s


def spiral(v: np.ndarray, n: int) -> np.ndarray:
    w = np.array([1.0, 0.5, -0.5])
    for k in range(n):
        if k % 2 == 0:
            w = w * v[0] - 0.3 * np.cross(v, w)
        else:
            w = np.array([w[0], np.sin(w[1]) * v[1], w[2]])
        if w[0] > 2.0:
            break
        w = w + 0.1 * k * v
    return w


@pattern(
    lambda rng: [rng.uniform(0.6, 1.6, (4, 3)), np.array([0, 2, 5, 9], np.int32)],
    rows(spiral, 2),
)
@kc.kernel
def vector_carried_by_a_loop(x: VEC3, n: I32, y: VEC3):
    i = kc.tid()
    v = x[i]
    w = kc.vec3d(1.0, 0.5, -0.5)
    for k in range(n[i]):
        if k % 2 == 0:
            w = w * v.x - 0.3 * kc.cross(v, w)
        else:
            w.y = kc.sin(w.y) * v.y
        if w.x > 2.0:
            break
        w += 0.1 * kc.float64(k) * v
    y[i] = w


def closest(c: np.ndarray) -> np.ndarray:
    v = c * 1.0
    for _ in range(60):
        v = c - 0.3 * np.sin(v) * np.dot(v, v) / (1.0 + np.dot(v, v))
    return v


@pattern(tensors((3, 3), high=1.0), rows(closest))
@kc.kernel
def vector_fixed_point(c: VEC3, y: VEC3):
    i = kc.tid()
    v = c[i]
    step = kc.float64(1.0)
    while step > 1.0e-28:
        s = kc.vec3d(kc.sin(v.x), kc.sin(v.y), kc.sin(v.z))
        w = c[i] - 0.3 * s * kc.dot(v, v) / (1.0 + kc.dot(v, v))
        step = kc.length_sq(w - v)
        v = w
    y[i] = v


@kc.func
def gravity(x: kc.vec3d, mass: kc.float64) -> kc.vec3d:
    return x * (-mass / kc.length(x) ** 3.0)


def rk4(x: np.ndarray, v: np.ndarray, mass: float, h: float) -> tuple[np.ndarray, np.ndarray]:
    def force(p: np.ndarray) -> np.ndarray:
        return p * (-mass / np.linalg.norm(p) ** 3)

    for _ in range(4):
        v1, a1 = v, force(x)
        v2, a2 = v + 0.5 * h * a1, force(x + 0.5 * h * v1)
        v3, a3 = v + 0.5 * h * a2, force(x + 0.5 * h * v2)
        v4, a4 = v + h * a3, force(x + h * v3)
        x = x + (h / 6.0) * (v1 + 2.0 * v2 + 2.0 * v3 + v4)
        v = v + (h / 6.0) * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
    return x, v


@pattern(
    lambda rng: [*tensors((2, 3), (2, 3), low=0.6, high=1.2)(rng), 0.8, 0.1],
    rows(rk4, 2),
    in_out=("x", "v"),
    outputs=(),
)
@kc.kernel
def orbit_by_runge_kutta(x: VEC3, v: VEC3, mass: kc.float64, h: kc.float64):
    i = kc.tid()
    p = x[i]
    u = v[i]
    for _ in range(4):
        a1 = gravity(p, mass)
        v2 = u + 0.5 * h * a1
        a2 = gravity(p + 0.5 * h * u, mass)
        v3 = u + 0.5 * h * a2
        a3 = gravity(p + 0.5 * h * v2, mass)
        v4 = u + h * a3
        a4 = gravity(p + h * v3, mass)
        p += (h / 6.0) * (u + 2.0 * v2 + 2.0 * v3 + v4)
        u += (h / 6.0) * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
    x[i] = p
    v[i] = u


def unrolled(m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    w = np.zeros(3)
    for r in range(3):
        for c in range(3):
            if r != c:
                w[r] += m[r, c] * v[c]
            else:
                w[r] = w[r] * v[r] + np.exp(-m[r, r])
            m[r, c] = w[r] * m[c, r]
    return w, m


@pattern(tensors((3, 3, 3), (3, 3)), rows(unrolled, 2))
@kc.kernel
def unrolled_components(m: MAT33, x: VEC3, y: VEC3, out: MAT33):
    i = kc.tid()
    a = m[i]
    v = x[i]
    w = kc.vec3d()
    for r in range(3):
        for c in range(3):
            if r != c:
                w[r] += a[r, c] * v[c]
            else:
                w[r] = w[r] * v[r] + kc.exp(-a[r, r])
            a[r, c] = w[r] * a[c, r]
    y[i] = w
    out[i] = a


def copied(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = x * 1.0
    b = a * 1.0
    b[0] = a[1] * a[2]
    c = b * 1.0
    c[1] *= b[0]
    a = a * c
    return c, a + b * c


@pattern(tensors((3, 3)), rows(copied), outputs=["y"], in_out=["x"])
@kc.kernel
def copies_are_values(x: VEC3, y: VEC3):
    i = kc.tid()
    a = x[i]
    b = a
    b.x = a.y * a.z
    c = b
    x[i] = c
    c.y *= b.x
    x[i].y = c.y
    a = kc.cw_mul(a, c)
    y[i] = a + kc.cw_mul(b, c)


def mixed(x: np.ndarray) -> np.ndarray:
    v = x.astype(np.float64)
    return np.cross(v, np.sin(v)) * v[0]


@pattern(lambda rng: [rng.uniform(0.5, 1.5, (3, 3)).astype(np.float32)], rows(mixed))
@kc.kernel
def vector_through_a_cast(x: kc.array(dtype=kc.vec3), y: VEC3):
    i = kc.tid()
    v = kc.vec3d(x[i])
    y[i] = kc.cross(v, kc.vec3d(kc.sin(v.x), kc.sin(v.y), kc.sin(v.z))) * v.x
