"""Particles: a fluid over neighbour lists (SPH), gravitating bodies, cloth as springs."""

# Written as their users write them.
# ruff: noqa: E741, UP018

# Library functions reach the package at run time.
# pyright: reportAttributeAccessIssue=false

import numpy as np

import kernelcore as wp

PI = wp.constant(3.14159265)


@wp.struct
class Fluid:
    h: float
    mass: float
    stiffness: float
    rest_density: float
    viscosity: float
    gravity: wp.vec3


@wp.func
def poly6(r2: float, h: float):
    x = h * h - r2
    if x <= 0.0:
        return 0.0
    return 315.0 / (64.0 * PI * wp.pow(h, 9.0)) * x * x * x


@wp.func
def spiky_gradient(r: wp.vec3, h: float):
    d = wp.length(r)
    if d > 0.0 and d < h:
        return wp.normalize(r) * (-45.0 / (PI * wp.pow(h, 6.0)) * (h - d) * (h - d))
    return wp.vec3()


@wp.kernel
def density_kernel(
    x: wp.array(dtype=wp.vec3),
    start: wp.array(dtype=int),
    neighbor: wp.array(dtype=int),
    fluid: Fluid,
    rho: wp.array(dtype=float),
):
    i = wp.tid()
    total = float(0.0)
    for k in range(start[i], start[i + 1]):
        d = x[i] - x[neighbor[k]]
        total += fluid.mass * poly6(wp.dot(d, d), fluid.h)
    rho[i] = total


@wp.kernel
def force_kernel(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    rho: wp.array(dtype=float),
    start: wp.array(dtype=int),
    neighbor: wp.array(dtype=int),
    fluid: Fluid,
    f: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    pi = fluid.stiffness * (rho[i] - fluid.rest_density)
    force = fluid.gravity * rho[i]
    for k in range(start[i], start[i + 1]):
        j = neighbor[k]
        if j == i:
            continue
        r = x[i] - x[j]
        pj = fluid.stiffness * (rho[j] - fluid.rest_density)
        force -= fluid.mass * (pi + pj) / (2.0 * rho[j]) * spiky_gradient(r, fluid.h)
        lap = 45.0 / (PI * wp.pow(fluid.h, 6.0)) * wp.max(fluid.h - wp.length(r), 0.0)
        force += fluid.viscosity * fluid.mass * lap * (v[j] - v[i]) / rho[j]
    f[i] = force


def sph_reference(x, v, h, mass, stiffness, rest, viscosity, gravity):
    r = x[:, None] - x[None]
    d = np.linalg.norm(r, axis=-1)
    w = 315 / (64 * np.pi * h**9) * np.maximum(h * h - d * d, 0) ** 3
    rho = mass * w.sum(1)
    p = stiffness * (rho - rest)
    near = (d > 0) & (d < h)
    safe = np.where(d > 0, d, 1)
    grad = r / safe[..., None] * np.where(near, -45 / (np.pi * h**6) * (h - d) ** 2, 0)[..., None]
    pressure = mass * (p[:, None] + p[None]) / (2 * rho[None])
    lap = 45 / (np.pi * h**6) * np.maximum(h - d, 0)
    drag = viscosity * mass * lap[..., None] * (v[None] - v[:, None]) / rho[None, :, None]
    force = gravity * rho[:, None] + np.sum(drag - pressure[..., None] * grad, 1)
    return rho, force


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


@wp.kernel
def eval_springs(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    indices: wp.array(dtype=wp.int32),
    rest: wp.array(dtype=float),
    ke: float,
    kd: float,
    f: wp.array(dtype=wp.vec3),
):
    tid = wp.tid()
    i = indices[tid * 2 + 0]
    j = indices[tid * 2 + 1]
    xij = x[i] - x[j]
    vij = v[i] - v[j]
    l = wp.length(xij)
    dir = xij * (1.0 / l)
    fs = dir * (ke * (l - rest[tid]) + kd * wp.dot(dir, vij))
    wp.atomic_sub(f, i, fs)
    wp.atomic_add(f, j, fs)


@wp.kernel
def integrate(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
    inv_mass: wp.array(dtype=float),
    gravity: wp.vec3,
    dt: float,
):
    tid = wp.tid()
    w = inv_mass[tid]
    g = wp.where(w > 0.0, 1.0, 0.0) * gravity
    v1 = v[tid] + (f[tid] * w + g) * dt
    x[tid] = x[tid] + v1 * dt
    v[tid] = v1
    f[tid] = wp.vec3()


def cloth_reference(x, v, springs, rest, ke, kd, inv_mass, gravity, dt):
    i, j = springs.T
    xij, vij = x[i] - x[j], v[i] - v[j]
    length = np.linalg.norm(xij, axis=1)
    along = xij / length[:, None]
    fs = along * (ke * (length - rest) + kd * np.sum(along * vij, 1))[:, None]
    f = np.zeros_like(x)
    np.subtract.at(f, i, fs)
    np.add.at(f, j, fs)
    v1 = v + (f * inv_mass[:, None] + (inv_mass > 0)[:, None] * gravity) * dt
    return x + v1 * dt, v1
