"""One step of gravitating bodies, all pairs."""

# Library functions reach the package at run time.
# pyright: reportAttributeAccessIssue=false

import numpy as np

import kernelcore as wp


@wp.func
def attraction(pi: wp.vec3, pj: wp.vec3, mass: float, softening: float) -> wp.vec3:
    r = pj - pi
    d2 = wp.dot(r, r) + softening * softening
    inv = 1.0 / wp.sqrt(d2)
    return r * (mass * inv * inv * inv)


@wp.kernel
def nbody_step(
    pos: wp.array(dtype=wp.vec3),
    vel: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=wp.float32),
    new_pos: wp.array(dtype=wp.vec3),
    new_vel: wp.array(dtype=wp.vec3),
    softening: float,
    dt: float,
):
    tid = wp.tid()
    p = pos[tid]
    acc = wp.vec3(0.0, 0.0, 0.0)
    for j in range(pos.shape[0]):
        if j != tid:
            acc += attraction(p, pos[j], mass[j], softening)
    v = vel[tid] + acc * dt
    new_vel[tid] = v
    new_pos[tid] = p + v * dt


def nbody_reference(pos, vel, mass, softening, dt):
    r = pos[None] - pos[:, None]
    d2 = np.sum(r * r, -1) + softening**2
    acc = np.sum(r * (mass[None] * d2**-1.5)[..., None], 1)
    v = vel + acc * dt
    return pos + v * dt, v
