"""Patterns of views, strides, indexed arrays, gather and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, F64_2D, I32, MAT33, VEC3, pattern, rows, tensors


@kc.func
def weighted(row: F64, w: F64) -> kc.float64:
    s = kc.float64(0.0)
    for j in range(len(row)):
        s = 0.5 * s + row[j] * row[j] * w[j]
    return s


def weighed(row: np.ndarray, w: np.ndarray) -> float:
    s = 0.0
    for a, b in zip(row, w, strict=False):
        s = 0.5 * s + a * a * b
    return s


@pattern(
    tensors((3, 4), (5,)),
    rows(lambda m, w: weighed(m, w) * weighed(w[1:4], m)),
    launch_dims=("m.shape[0]",),
)
@kc.kernel
def rows_passed_to_functions(m: F64_2D, w: F64, y: F64):
    i = kc.tid()
    y[i] = weighted(m[i], w) * weighted(w[1:4], m[i])


def nested_views(x: np.ndarray) -> float:
    plane = x[1:]
    row = plane[::2][1][::-2]
    return weighed(row, plane[0][1:]) + plane[:, 1:3][-1][1] ** 3


@pattern(
    tensors((2, 4, 4)),
    rows(nested_views),
    launch_dims=("x.shape[0]",),
)
@kc.kernel
def views_of_views(x: kc.array(dtype=kc.float64, ndim=3), y: F64):
    i = kc.tid()
    plane = x[i, 1:]
    row = plane[::2][1][::-2]
    last = plane[:, 1:3][2][1]
    y[i] = weighted(row, plane[0, 1:]) + last * last * last


def reversed_rows(m: np.ndarray, k: int) -> tuple[float, float]:
    turned = m[::-1]
    part = m[k::-1]
    a = sum(v * v * (j + 1) for j, v in enumerate(turned[k:]))
    b = 1.0
    for v in part:
        b = b * v + np.sin(b)
    return a, b


@pattern(
    lambda rng: [rng.uniform(0.5, 1.2, (3, 5)), np.array([0, 2, 4], np.int32)],
    rows(reversed_rows, 2),
    launch_dims=("m.shape[0]",),
)
@kc.kernel
def negative_step_slices(m: F64_2D, k: I32, y: F64, z: F64):
    i = kc.tid()
    turned = m[i, ::-1][k[i] :]
    a = kc.float64(0.0)
    for j in range(len(turned)):
        a += turned[j] * turned[j] * kc.float64(j + 1)
    y[i] = a
    part = m[i][k[i] :: -1]
    b = kc.float64(1.0)
    for j in range(len(part)):
        b = b * part[j] + kc.sin(b)
    z[i] = b


@kc.func
def doubled_cumulative(row: F64, s: kc.float64):
    for j in range(1, len(row)):
        row[j] = row[j] * s + row[j - 1] * row[j - 1]


def cumulative_through_views(x: np.ndarray, s: float) -> np.ndarray:
    for view in (x[0, ::-1], x[1:][0][1:], x[:, 1]):
        for j in range(1, len(view)):
            view[j] = view[j] * s + view[j - 1] ** 2
    return x


@pattern(
    tensors((2, 3, 4), (2,), low=0.3, high=0.9),
    rows(cumulative_through_views, 2),
    launch_dims="s",
)
@kc.kernel
def updates_through_views(x: kc.array(dtype=kc.float64, ndim=3), s: F64):
    i = kc.tid()
    doubled_cumulative(x[i, 0, ::-1], s[i])
    doubled_cumulative(x[i, 1:][0][1:], s[i])
    doubled_cumulative(x[i][:, 1], s[i])


def vectors_in_views(x: np.ndarray, m: np.ndarray) -> np.ndarray:
    x[::-1][0][1] = m[0, 2] * x[0, 0]
    x[1] = m @ x[2]
    x[0] *= x[1, 0] * x[2, 1]
    return x


@pattern(tensors((2, 3, 3), (2, 3, 3)), rows(vectors_in_views, 2), launch_dims="m")
@kc.kernel
def vectors_through_views(x: kc.array2d[kc.vec3d], m: MAT33):
    i = kc.tid()
    x[i, ::-1][0].y = m[i][0][2] * x[i, 0].x
    x[i][1:][0] = m[i] * x[i][2]
    x[i, 0] *= x[i, 1].x * x[i, 2].y


def strided(rng: np.random.Generator) -> list[Any]:
    return [
        rng.uniform(0.4, 1.6, (6, 4))[::2, 1:],
        rng.uniform(0.4, 1.6, (3, 3, 3)).transpose(2, 0, 1),
        rng.uniform(0.4, 1.6, 9)[1::3],
    ]


def strided_reference(x: np.ndarray, m: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = np.einsum("irc,ic->ir", m, x) * s[:, None]
    return s * np.einsum("ir,ir->i", np.sin(x), y), y


@pattern(strided, strided_reference)
@kc.kernel
def strided_inputs(x: VEC3, m: MAT33, s: F64, y: VEC3):
    i = kc.tid()
    v = m[i] * x[i] * s[i]
    y[i] = v
    u = x[i]
    s[i] *= kc.dot(kc.vec3d(kc.sin(u.x), kc.sin(u.y), kc.sin(u.z)), v)


def strided_in_out(rng: np.random.Generator) -> list[Any]:
    return [rng.uniform(0.4, 1.6, (4, 3)).T, rng.uniform(0.4, 1.6, (8,))[::2]]


def swept(h: np.ndarray, x: np.ndarray) -> tuple[np.ndarray]:
    h = np.array(h)
    for t in range(1, 4):
        h[:, t] *= np.sin(h[:, t - 1]) + x[t]
    return (h,)


@pattern(strided_in_out, swept, launch_dims=("h.shape[0]",))
@kc.kernel
def strided_in_place(h: F64_2D, x: F64):
    i = kc.tid()
    for t in range(1, h.shape[1]):
        h[i, t] *= kc.sin(h[i, t - 1]) + x[t]


def looked_up(x: np.ndarray, index: np.ndarray, y: np.ndarray) -> tuple[np.ndarray]:
    chosen = x[index]
    return (np.cross(chosen, np.roll(chosen, 1, axis=0)) * y[:, None],)


@pattern(
    lambda rng: [rng.uniform(0, 1, (3, 3)), np.array([2, 0, 2, 2], np.int32), rng.uniform(0, 1, 4)],
    looked_up,
    launch_dims="y",
)
@kc.kernel
def indexed_array_with_duplicates(x: kc.indexedarray(dtype=kc.vec3d), y: F64, out: VEC3):
    i = kc.tid()
    before = (i + len(x) - 1) % len(x)
    out[i] = kc.cross(x[i], x[before]) * y[i]


def looked_up_twice(x: np.ndarray, r: np.ndarray, c: np.ndarray) -> tuple[np.ndarray]:
    part = x[np.ix_(r, c)]
    return (np.sin(part) * part[:, ::-1] + part[:, :1] ** 2,)


@pattern(
    lambda rng: [
        rng.uniform(0, 1, (3, 4)),
        np.array([2, 0, 2], np.int32),
        np.array([3, 1], np.int32),
    ],
    looked_up_twice,
    launch_dims=("x.indices[0].shape[0]", "x.indices[1].shape[0]"),
)
@kc.kernel
def indexed_array_of_two_dimensions(x: kc.indexedarray(dtype=kc.float64, ndim=2), y: F64_2D):
    i, j = kc.tid()
    row = x[i]
    y[i, j] = kc.sin(x[i, j]) * row[1 - j] + row[0] * row[0]


def triangles(p: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    normals, area = np.zeros_like(p), 0.0
    for a, b, c in faces:
        n = np.cross(p[b] - p[a], p[c] - p[a])
        for k in (a, b, c):
            normals[k] += n
        area += 0.5 * np.linalg.norm(n)
    return normals, np.array([area])


@pattern(
    lambda rng: [
        rng.uniform(-1, 1, (4, 3)),
        np.array([[0, 1, 2], [1, 2, 3], [0, 1, 3], [3, 2, 0]], np.int32),
    ],
    triangles,
    launch_dims=("f.shape[0]",),
    output_dims={"normal": ("p.shape[0]",), "area": 1},
)
@kc.kernel
def gather_and_scatter_of_vectors(p: VEC3, f: kc.array2d[int], normal: VEC3, area: F64):
    t = kc.tid()
    a = p[f[t, 0]]
    n = kc.cross(p[f[t, 1]] - a, p[f[t, 2]] - a)
    for k in range(3):
        kc.atomic_add(normal, f[t, k], n)
    area[0] += 0.5 * kc.length(n)


def plus_and_minus(
    x: np.ndarray, m: np.ndarray, index: np.ndarray, total: np.ndarray, out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    total, out = total.copy(), out.copy()
    for v, a, k in zip(x, m, index, strict=True):
        total[k] -= np.sin(v) * v[0]
        out[0] += a * v[1]
        out[1, 2, 0] -= a[0, 1] ** 2
    return total, out


@pattern(
    lambda rng: [
        *tensors((4, 3), (4, 3, 3))(rng),
        np.array([1, 0, 1, 1], np.int32),
        *tensors((2, 3), (2, 3, 3))(rng),
    ],
    plus_and_minus,
    outputs=(),
    in_out=("total", "out"),
)
@kc.kernel
def atomics_of_elements_and_components(x: VEC3, m: MAT33, index: I32, total: VEC3, out: MAT33):
    i = kc.tid()
    v = x[i]
    kc.atomic_sub(total, index[i], kc.vec3d(kc.sin(v.x), kc.sin(v.y), kc.sin(v.z)) * v.x)
    out[0] += m[i] * v.y
    out[1][2, 0] -= m[i][0, 1] * m[i][0, 1]


def windows(u: np.ndarray, w: np.ndarray) -> tuple[np.ndarray]:
    n, m = u.shape
    return (
        np.array(
            [
                [
                    np.sum(np.tanh(u[i : i + 3, j : j + 3]) * w) * u[i + 1, j + 1]
                    for j in range(m - 2)
                ]
                for i in range(n - 2)
            ]
        ),
    )


@kc.func
def convolved(patch: F64_2D, w: F64_2D) -> kc.float64:
    s = kc.float64(0.0)
    for r in range(patch.shape[0]):
        for c in range(patch.shape[1]):
            s += kc.tanh(patch[r, c]) * w[r, c]
    return s * patch[1, 1]


@pattern(tensors((4, 5), (3, 3)), windows, launch_dims=(2, 3))
@kc.kernel
def sliding_windows(u: F64_2D, w: F64_2D, y: F64_2D):
    i, j = kc.tid()
    y[i, j] = convolved(u[i : i + 3, j : j + 3], w)


def interpolated(table: np.ndarray, x: np.ndarray) -> tuple[np.ndarray]:
    k = np.clip(np.floor(x).astype(int), 0, len(table) - 2)
    t = x - k
    return (table[k] * (1 - t) + table[k + 1] * t + t * t * table[k],)


@pattern(
    lambda rng: [rng.uniform(0, 1, 5), rng.integers(0, 4, 5) + rng.uniform(0.1, 0.9, 5)],
    interpolated,
    launch_dims="x",
)
@kc.kernel
def table_with_computed_index(table: F64, x: F64, y: F64):
    i = kc.tid()
    k = kc.clamp(int(kc.floor(x[i])), 0, len(table) - 2)
    t = x[i] - kc.float64(k)
    y[i] = table[k] * (1.0 - t) + table[k + 1] * t + t * t * table[k]
