"""Patterns of structs: values, elements, fields, nested structs, structs of arrays."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import F64, I32, VEC3, pattern, rows, tensors


@kc.struct
class Material:
    density: kc.float64
    colour: kc.vec3d
    kind: int


@kc.struct
class Body:
    position: kc.vec3d
    velocity: kc.vec3d
    mass: kc.float64


@kc.struct
class Solid:
    body: Body
    material: Material
    inertia: kc.mat33d


@kc.struct
class Spline:
    knots: kc.array(dtype=kc.float64)
    weights: kc.array(dtype=kc.vec3d)
    scale: kc.float64


@kc.struct
class Buffers:
    source: kc.array(dtype=kc.float64)
    target: kc.array(dtype=kc.float64)


def energy(
    position: np.ndarray, velocity: np.ndarray, mass: float, x: np.ndarray
) -> tuple[np.ndarray]:
    return (np.array([mass * (velocity @ velocity) / np.linalg.norm(v - position) for v in x]),)


@pattern(
    lambda rng: [rng.uniform(2, 3, 3), rng.uniform(0, 1, 3), 1.3, rng.uniform(0, 1, (4, 3))], energy
)
@kc.kernel
def struct_by_value(b: Body, x: VEC3, y: F64):
    i = kc.tid()
    y[i] = b.mass * kc.dot(b.velocity, b.velocity) / kc.length(x[i] - b.position)


def nested_value(*a: Any) -> tuple[np.ndarray, ...]:
    position, velocity, mass, density, colour, kind, inertia, x = a
    spin = inertia @ np.cross(position, velocity) * mass
    return rows(lambda v: spin * (v @ colour) + density * v * kind)(x)


@pattern(
    lambda rng: [
        *tensors((3,), (3,), (), (), (3,))(rng),
        2,
        *tensors((3, 3), (3, 3))(rng),
    ],
    nested_value,
)
@kc.kernel
def nested_struct_by_value(s: Solid, x: VEC3, y: VEC3):
    i = kc.tid()
    b = s.body
    spin = s.inertia * kc.cross(b.position, b.velocity) * b.mass
    m = s.material
    y[i] = spin * kc.dot(x[i], m.colour) + m.density * x[i] * kc.float64(m.kind)


def attracted(position: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray]:
    force = np.zeros_like(position)
    for i, p in enumerate(position):
        for j, q in enumerate(position):
            d = q - p
            force[i] += d * mass[j] / (d @ d + 0.1) ** 1.5
    return (force * mass[:, None],)


@pattern(
    lambda rng: [rng.uniform(-1, 1, (3, 3)), rng.uniform(-1, 1, (3, 3)), rng.uniform(0.5, 1.5, 3)],
    lambda position, velocity, mass: attracted(position, mass),
)
@kc.kernel
def array_of_structs(bodies: kc.array(dtype=Body), force: VEC3):
    i = kc.tid()
    me = bodies[i]
    total = kc.vec3d()
    for j in range(len(bodies)):
        d = bodies[j].position - me.position
        total += d * (bodies[j].mass / (kc.dot(d, d) + 0.1) ** 1.5)
    force[i] = total * me.mass


def steps(x: np.ndarray, v: np.ndarray, mass: float, h: float) -> tuple[Any, ...]:
    for k in range(3):
        v = v - h * np.sin(x) / mass
        x = x + h * v
        v = np.array([v[0] * (1.0 - 0.1 * k), v[1] + x[0] * x[2], v[2]])
    return x, v, mass * (1.0 + v @ v)


@pattern(
    lambda rng: [*tensors((3, 3), (3, 3), (3,))(rng), 0.2],
    rows(steps, 3),
)
@kc.kernel
def struct_elements_in_place(bodies: kc.array(dtype=Body), h: kc.float64):
    i = kc.tid()
    for k in range(3):
        x = bodies[i].position
        bodies[i].velocity -= h * kc.vec3d(kc.sin(x.x), kc.sin(x.y), kc.sin(x.z)) / bodies[i].mass
        bodies[i].position += h * bodies[i].velocity
        bodies[i].velocity.x *= 1.0 - 0.1 * kc.float64(k)
        bodies[i].velocity[1] += bodies[i].position.x * bodies[i].position[2]
    v = bodies[i].velocity
    bodies[i].mass *= 1.0 + kc.dot(v, v)


@kc.func
def advanced(b: Body, h: kc.float64) -> Body:
    b.position += h * b.velocity
    if b.position.x > 1.0:
        b.velocity.x = -0.5 * b.velocity.x
        return b
    b.velocity *= kc.cos(b.position.y)
    b.mass *= 1.1
    return b


def carried(x: np.ndarray, v: np.ndarray, mass: float, n: int, h: float) -> tuple[Any, ...]:
    for _ in range(n):
        x = x + h * v
        if x[0] > 1.0:
            v = v * np.array([-0.5, 1.0, 1.0])
        else:
            v = v * np.cos(x[1])
            mass *= 1.1
        if mass > 2.0:
            break
    return x * mass, v + x * mass


@pattern(
    lambda rng: [
        *tensors((4, 3), (4, 3), (4,), low=0.3, high=1.4)(rng),
        np.array([0, 2, 4, 8], np.int32),
        0.3,
    ],
    rows(carried, 4),
)
@kc.kernel
def struct_carried_by_a_loop(bodies: kc.array(dtype=Body), n: I32, h: kc.float64, x: VEC3, y: VEC3):
    i = kc.tid()
    b = bodies[i]
    for _ in range(n[i]):
        b = advanced(b, h)
        if b.mass > 2.0:
            break
    x[i] = b.position * b.mass
    y[i] = b.velocity + b.position * b.mass


def spline(knots: np.ndarray, weights: np.ndarray, scale: float, x: np.ndarray) -> tuple[Any, ...]:
    return rows(
        lambda v: sum(
            w * np.exp(-scale * (v - k) ** 2) for k, w in zip(knots, weights, strict=True)
        )
    )(x)


@pattern(lambda rng: [*tensors((4,), (4, 3), (), (3,))(rng)], spline, launch_dims="x")
@kc.kernel
def struct_of_arrays(s: Spline, x: F64, y: VEC3):
    i = kc.tid()
    total = kc.vec3d()
    for k in range(s.knots.shape[0]):
        d = x[i] - s.knots[k]
        total += s.weights[k] * kc.exp(-s.scale * d * d)
    y[i] = total


@pattern(
    tensors((4,), (4,)),
    lambda a, b: (np.sin(a) * b + (np.sin(a) * b) ** 2,),
)
@kc.kernel
def struct_of_arrays_that_are_written(s: Buffers):
    i = kc.tid()
    s.target[i] *= kc.sin(s.source[i])
    t = s
    t.target[i] = t.target[i] + s.target[i] * s.target[i]


def swapped(x: np.ndarray, v: np.ndarray, mass: float) -> tuple[Any, ...]:
    return v * mass, x * 2.0 * (v @ x), mass * mass * x[0]


@pattern(
    tensors((3, 3), (3, 3), (3,)),
    rows(swapped, 3),
    outputs=["out.position", "out.velocity", "out.mass"],
)
@kc.kernel
def struct_stored_whole(bodies: kc.array(dtype=Body), out: kc.array(dtype=Body)):
    i = kc.tid()
    b = bodies[i]
    c = b
    c.position = b.velocity * c.mass
    c.velocity = b.position * 2.0 * kc.dot(b.velocity, bodies[i].position)
    c.mass *= b.mass * b.position.x
    out[i] = c


def chosen(x: np.ndarray, v: np.ndarray, mass: float, k: int, t: float) -> tuple[np.ndarray, float]:
    if k == 0:
        return x * mass, mass * t
    if mass > 1.0:
        return v * t, t * t * mass
    return x + v * t, mass


@kc.func
def state(b: Body, k: int, t: kc.float64) -> tuple[kc.vec3d, Material]:
    m = Material()
    m.density = b.mass
    if k == 0:
        m.density *= t
        return b.position * b.mass, m
    if b.mass > 1.0:
        m.density *= t * t
        return b.velocity * t, m
    return b.position + b.velocity * t, m


@pattern(
    lambda rng: [
        *tensors((5, 3), (5, 3), (5,))(rng),
        np.array([0, 1, 1, 1, 0], np.int32),
        rng.uniform(0.5, 1.5, 5),
    ],
    rows(chosen, 5),
)
@kc.kernel
def structs_returned_on_several_paths(
    bodies: kc.array(dtype=Body), k: I32, t: F64, x: VEC3, y: F64
):
    i = kc.tid()
    v, m = state(bodies[i], k[i], t[i])
    x[i] = v
    y[i] = m.density


@kc.struct
class Cell:
    stress: kc.mat33d
    rotation: kc.quatd
    strain: kc.vec3d


def flow(stress: np.ndarray, q: np.ndarray, strain: np.ndarray) -> tuple[Any, ...]:
    stress[0, 1] = strain[2] * q[3]
    stress[2] = stress[2] + strain * q[0]
    q = np.array([q[0] * stress[0, 1], q[1], q[2], q[3] + strain @ strain])
    return stress, q


@pattern(tensors((3, 3, 3), (3, 4), (3, 3)), rows(flow, 3))
@kc.kernel
def struct_of_matrices_in_place(cells: kc.array(dtype=Cell)):
    i = kc.tid()
    e = cells[i].strain
    cells[i].stress[0, 1] = e.z * cells[i].rotation.w
    cells[i].stress[2] += e * cells[i].rotation.x
    cells[i].rotation.x *= cells[i].stress[0][1]
    cells[i].rotation[3] += kc.dot(e, e)
