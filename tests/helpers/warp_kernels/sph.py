"""Smoothed particle hydrodynamics over neighbour lists in CSR form."""

# Written as its users write it.
# ruff: noqa: UP018

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
