"""Cloth as masses and springs: forces are gathered per spring with atomics."""

# Written as its users write it.
# ruff: noqa: E741

# Library functions reach the package at run time.
# pyright: reportAttributeAccessIssue=false

import numpy as np

import kernelcore as wp


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
