"""Grids: Maxwell's equations with an absorbing layer (FDTD), a renderer that marches rays."""

# Written as their users write them.
# ruff: noqa: UP018

# Library functions reach the package at run time.
# pyright: reportAttributeAccessIssue=false

import numpy as np

import kernelcore as wp


@wp.func
def absorption(i: int, n: int, width: int):
    depth = wp.max(width - i, wp.max(i - (n - 1 - width), 0))
    s = float(depth) / float(width)
    return 0.4 * s * s


@wp.kernel
def update_h(
    ex: wp.array2d(dtype=float),
    ey: wp.array2d(dtype=float),
    hz: wp.array2d(dtype=float),
    c: float,
    width: int,
):
    i, j = wp.tid()
    nx = hz.shape[0]
    ny = hz.shape[1]
    damp = 1.0 - wp.max(absorption(i, nx, width), absorption(j, ny, width))
    if i < nx - 1 and j < ny - 1:
        curl = ex[i, j + 1] - ex[i, j] - ey[i + 1, j] + ey[i, j]
        hz[i, j] = damp * (hz[i, j] + c * curl)


@wp.kernel
def update_e(
    ex: wp.array2d(dtype=float),
    ey: wp.array2d(dtype=float),
    hz: wp.array2d(dtype=float),
    eps: wp.array2d(dtype=float),
    c: float,
):
    i, j = wp.tid()
    if i == 0 or j == 0:
        return
    ex[i, j] += c / eps[i, j] * (hz[i, j] - hz[i, j - 1])
    ey[i, j] -= c / eps[i, j] * (hz[i, j] - hz[i - 1, j])


@wp.kernel
def add_source(hz: wp.array2d(dtype=float), si: int, sj: int, t: float):
    wp.atomic_add(hz, si, sj, wp.exp(-(t - 3.0) * (t - 3.0)) * wp.sin(2.0 * t))


def fdtd_reference(shape, eps, c, width, source, times):
    ex, ey, hz = (np.zeros(shape) for _ in range(3))

    def layer(n):
        i = np.arange(n)
        depth = np.maximum(width - i, np.maximum(i - (n - 1 - width), 0))
        return 0.4 * (depth / width) ** 2

    damp = 1 - np.maximum(layer(shape[0])[:, None], layer(shape[1])[None])
    for t in times:
        curl = ex[:-1, 1:] - ex[:-1, :-1] - ey[1:, :-1] + ey[:-1, :-1]
        hz[:-1, :-1] = damp[:-1, :-1] * (hz[:-1, :-1] + c * curl)
        hz[source] += np.exp(-((t - 3) ** 2)) * np.sin(2 * t)
        ex[1:, 1:] += c / eps[1:, 1:] * (hz[1:, 1:] - hz[1:, :-1])
        ey[1:, 1:] -= c / eps[1:, 1:] * (hz[1:, 1:] - hz[:-1, 1:])
    return ex, ey, hz


@wp.struct
class Camera:
    eye: wp.vec3
    rotation: wp.mat33
    focal: float
    width: int
    height: int


@wp.func
def sdf_sphere(p: wp.vec3, r: float) -> float:
    return wp.length(p) - r


@wp.func
def sdf_box(p: wp.vec3, b: wp.vec3) -> float:
    q = wp.vec3(wp.abs(p[0]) - b[0], wp.abs(p[1]) - b[1], wp.abs(p[2]) - b[2])
    outside = wp.length(wp.vec3(wp.max(q.x, 0.0), wp.max(q.y, 0.0), wp.max(q.z, 0.0)))
    return outside + wp.min(wp.max(q.x, wp.max(q.y, q.z)), 0.0)


@wp.func
def scene(p: wp.vec3):
    ball = sdf_sphere(p - wp.vec3(0.0, 0.4, 0.0), 0.7)
    box = sdf_box(p - wp.vec3(0.5, -0.3, 0.2), wp.vec3(0.5, 0.4, 0.6))
    floor = p[1] + 1.0
    return wp.min(wp.min(ball, box), floor)


@wp.func
def normal_at(p: wp.vec3) -> wp.vec3:
    eps = 1.0e-2
    dx = scene(p + wp.vec3(eps, 0.0, 0.0)) - scene(p - wp.vec3(eps, 0.0, 0.0))
    dy = scene(p + wp.vec3(0.0, eps, 0.0)) - scene(p - wp.vec3(0.0, eps, 0.0))
    dz = scene(p + wp.vec3(0.0, 0.0, eps)) - scene(p - wp.vec3(0.0, 0.0, eps))
    return wp.normalize(wp.vec3(dx, dy, dz))


@wp.kernel
def render(
    camera: Camera,
    light: wp.vec3,
    pixels: wp.array(dtype=wp.vec3, ndim=2),
    depth: wp.array(dtype=float, ndim=2),
):
    i, j = wp.tid()
    u = (float(j) + 0.5 - float(camera.width) * 0.5) / float(camera.height)
    v = (float(camera.height) * 0.5 - float(i) - 0.5) / float(camera.height)
    d = wp.normalize(camera.rotation * wp.vec3(u, v, -camera.focal))
    t = float(0.0)
    hit = bool(False)
    for _ in range(80):
        s = scene(camera.eye + d * t)
        if s < 1.0e-3:
            hit = True
            break
        t += s
        if t > 20.0:
            break
    color = wp.vec3(0.1, 0.2, 0.3)
    if hit:
        n = normal_at(camera.eye + d * t)
        color = wp.vec3(0.9, 0.6, 0.3) * wp.clamp(wp.dot(n, light), 0.0, 1.0)
    pixels[i, j] = color
    depth[i, j] = t


def scene_reference(p):
    ball = np.linalg.norm(p - [0, 0.4, 0], axis=-1) - 0.7
    q = np.abs(p - [0.5, -0.3, 0.2]) - [0.5, 0.4, 0.6]
    box = np.linalg.norm(np.maximum(q, 0), axis=-1) + np.minimum(q.max(-1), 0)
    return np.minimum(np.minimum(ball, box), p[..., 1] + 1)


def render_reference(eye, rotation, focal, width, height, light):
    i, j = np.mgrid[:height, :width]
    u = (j + 0.5 - width * 0.5) / height
    v = (height * 0.5 - i - 0.5) / height
    d = np.stack([u, v, np.full_like(u, -focal)], -1) @ np.asarray(rotation).T
    d /= np.linalg.norm(d, axis=-1, keepdims=True)
    t = np.zeros((height, width))
    hit = np.zeros((height, width), bool)
    for _ in range(80):
        s = scene_reference(eye + d * t[..., None])
        open_ = ~hit & (t <= 20)
        hit |= open_ & (s < 1e-3)
        t = np.where(open_ & ~hit, t + s, t)
    p = eye + d * t[..., None]
    steps = np.eye(3) * 1e-2
    n = np.stack([scene_reference(p + e) - scene_reference(p - e) for e in steps], -1)
    n /= np.linalg.norm(n, axis=-1, keepdims=True)
    lit = np.clip(n @ light, 0, 1)[..., None] * [0.9, 0.6, 0.3]
    return np.where(hit[..., None], lit, [0.1, 0.2, 0.3]), t
