"""Articulated bodies: transforms, joints, contacts."""

from __future__ import annotations

from typing import Any

import warp as wp
from warp.types import matrix

mat66 = matrix(shape=(6, 6), dtype=wp.float32)

JOINT_HINGE = 0
JOINT_BALL = 1
LIMIT: float = 3.0


@wp.struct
class Body:
    pose: wp.transform
    velocity: wp.spatial_vector
    mass: float
    parent: int


@wp.struct
class Joints:
    kind: wp.array(dtype=wp.int32)
    axis: wp.array(dtype=wp.vec3)
    lower: wp.array(dtype=float)
    upper: wp.array(dtype=float)
    start: wp.array(dtype=int)


@wp.func
def wrap_angle(a: float):
    return wp.mod(a + wp.pi, 2.0 * wp.pi) - wp.pi  # port: differs mod


@wp.func
def limited(q: float, joints: Joints, j: int):
    return wp.clamp(q, joints.lower[j], joints.upper[j])  # port: differs clamp


@wp.func
def angle_between(a: wp.vec3, b: wp.vec3):
    return wp.acos(wp.dot(wp.normalize(a), wp.normalize(b)))  # port: differs acos


@wp.func
def clipped(x: Any, low: Any, high: Any):
    return wp.min(wp.max(x, low), high)  # port: differs min max


@wp.func
def block_of(i: int):
    return i // 6, i % 6  # port: differs %


@wp.kernel
def forward(q: wp.array(dtype=float), joints: Joints, parent: wp.array(dtype=int), x: wp.array(dtype=wp.transform)):
    j = wp.tid()
    t = wp.transform_identity()
    k = j
    while k >= 0:
        r = wp.quat_from_axis_angle(joints.axis[k], limited(q[k], joints, k))
        t = wp.transform_multiply(wp.transform(wp.vec3(0.0, 0.0, 1.0), r), t)
        k = parent[k]
    x[j] = t


@wp.kernel
def points_of(x: wp.array(dtype=wp.transform), p: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.transform_point(x[i], p[i])


@wp.kernel
def hinge_angles(r: wp.array(dtype=wp.quat), axis: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    q = r[i]
    v = wp.vec3(q[0], q[1], q[2])
    s = wp.sign(wp.dot(v, axis[i]))  # port: differs sign
    out[i] = wrap_angle(2.0 * s * wp.acos(q[3]))  # port: differs acos


@wp.kernel
def slerp(a: wp.array(dtype=wp.quat), b: wp.array(dtype=wp.quat), t: float, out: wp.array(dtype=wp.quat)):
    i = wp.tid()
    out[i] = wp.quat_slerp(a[i], b[i], t)


@wp.kernel
def kinds(joints: Joints, count: wp.array(dtype=int)):
    j = wp.tid()
    if joints.kind[j] == JOINT_HINGE:
        wp.atomic_add(count, 0, 1)
    elif joints.kind[j] == JOINT_BALL:
        wp.atomic_add(count, 1, 1)


@wp.kernel
def limits(q: wp.array(dtype=float), joints: Joints, out: wp.array(dtype=float)):
    j = wp.tid()
    over = wp.max(q[j] - joints.upper[j], 0.0) + wp.max(joints.lower[j] - q[j], 0.0)  # port: differs max
    out[j] = wp.min(over, LIMIT)  # port: differs min


@wp.kernel
def start_of(joints: Joints, out: wp.array(dtype=int)):
    j = wp.tid()
    out[j] = joints.start[j] / 6 + joints.start[j] // 6  # port: differs /


@wp.kernel
def inertia(bodies: wp.array(dtype=Body), out: wp.array(dtype=mat66)):
    i = wp.tid()
    m = mat66()
    for k in range(6):
        m[k, k] = bodies[i].mass
    out[i] = m


@wp.kernel
def kinetic(bodies: wp.array(dtype=Body), e: wp.array(dtype=float)):
    b = bodies[wp.tid()]
    v = wp.spatial_bottom(b.velocity)
    wp.atomic_add(e, 0, 0.5 * b.mass * wp.dot(v, v))


@wp.kernel
def depths(bodies: wp.array(dtype=Body), out: wp.array(dtype=int)):
    i = wp.tid()
    n = int(0)
    k = bodies[i].parent
    while k >= 0:
        n += 1
        k = bodies[k].parent
    out[i] = n % 4


@wp.kernel
def block_rows(out: wp.array2d(dtype=int)):
    i = wp.tid()
    row, column = block_of(i)
    out[i, 0] = row
    out[i, 1] = column % 3  # port: differs %


@wp.kernel
def contact(x: wp.array(dtype=wp.vec3), n: wp.vec3, mu: float, v: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    depth = wp.dot(x[i], n)
    if depth < 0.0:
        normal = -depth * 1.0e4
        vt = v[i] - n * wp.dot(v[i], n)
        speed = wp.max(wp.length(vt), 1.0e-5)  # port: differs max
        f[i] = f[i] + n * normal - vt / speed * clipped(speed, 0.0, mu * normal)


@wp.kernel
def bends(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = angle_between(a[i], b[i]) / wp.float32(i + 1)


@wp.kernel
def legacy(flag: wp.array(dtype=bool), a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    a[i] = wp.select(flag[i], a[i], b[i])


@wp.kernel
def masked(m: wp.array(dtype=wp.mat33), out: wp.array(dtype=int)):
    i = wp.tid()
    if wp.isfinite(m[i]) and wp.isfinite(wp.determinant(m[i])):  # port: differs isfinite
        out[i] = 1


@wp.kernel
def inverse(m: wp.array(dtype=wp.mat33), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.inverse(m[i]) * v[i] / wp.trace(m[i])


@wp.kernel
def generic_scale(x: wp.array(dtype=Any), s: Any):
    i = wp.tid()
    x[i] = x[i] / s  # port: differs /


@wp.kernel
def static_parts(x: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(wp.static(7 % 4)):
        x[i] += float(k)


def step(model, state, dt: float):
    wp.config.verify_fp = True
    wp.config.no_such_setting = 1  # port: missing config.no_such_setting
    state.q = wp.clone(model.q, requires_grad=True)
    wp.launch(limits, dim=4, inputs=[state.q, model.joints], outputs=[state.e], block=64)  # port: missing launch(block=)
    graph = wp.capture_end()
    wp.capture_launch(graph)
    return wp.array(state.q.numpy() / dt, dtype=wp.float32, device="cpu")
