"""Structs, vectors, views
=======================

Structs, arrays of vectors, views and generic functions, checked against NumPy.
"""

from typing import Any

import numpy as np

import kernelcore as kc


@kc.struct
class Body:
    position: kc.vec3d
    velocity: kc.vec3d
    mass: kc.float64


@kc.func
def kinetic(b: Body):
    return 0.5 * b.mass * kc.length_sq(b.velocity)


@kc.func
def potential(a: Body, b: Body):
    return -a.mass * b.mass / kc.length(a.position - b.position)


@kc.func
def total(x: kc.array[Any]):  # Any: of whatever elements the caller has
    result = x[0]
    for k in range(1, x.shape[0]):
        result += x[k]
    return result


@kc.kernel
def energies(bodies: kc.array[Body], e: kc.array[kc.float64]):
    i = kc.tid()
    e[i] = kinetic(bodies[i])
    for j in range(i):
        e[i] += potential(bodies[i], bodies[j])


@kc.kernel
def drift(bodies: kc.array[Body], dt: kc.float64, path: kc.array2d[kc.vec3d]):
    i = kc.tid()
    b = bodies[i]
    for k in range(path.shape[1]):
        path[i, k] = b.position
        b.position += dt * b.velocity
    bodies[i] = b


@kc.kernel
def sums(x: kc.array2d[Any], every_second: kc.array[Any]):
    i = kc.tid()
    every_second[i] = total(x[i, ::2])


def check(claim: str, found: np.ndarray, wanted: np.ndarray) -> None:
    """Print how far ``found`` is from what NumPy says."""
    difference = np.abs(found - wanted).max() / np.abs(wanted).max()
    print(f"{claim:56s} relative difference {difference:.0e}")


rng = np.random.default_rng(0)
count, steps, dt = 6, 8, 0.125
bodies: Any = np.zeros(count, kc.dtype_to_numpy(Body))
bodies["position"], bodies["velocity"] = rng.normal(size=(2, count, 3))
bodies["mass"] = rng.uniform(1.0, 2.0, count)
x, v, m = (bodies[name].copy() for name in ("position", "velocity", "mass"))

e, path = np.zeros(count), np.zeros((count, steps, 3))
kc.launch(energies, count, [bodies], [e])
between = x[:, None] - x[None]
distance = np.linalg.norm(between, axis=2) + np.eye(count)
pairs = m[:, None] * m[None] * (1.0 - np.eye(count)) / distance
check("functions of structs", e.sum(), 0.5 * m @ (v * v).sum(1) - 0.5 * pairs.sum())

slope = {name: np.zeros_like(bodies[name]) for name in ("position", "velocity", "mass")}
kc.launch(energies, count, [bodies], [e], [slope], [np.ones(count)], adjoint=True)
force = -(pairs / distance**2)[..., None] * between
check("adjoint: the slope of the energy is minus the force", slope["position"], -force.sum(1))
check("adjoint: its slope by velocity is the momentum", slope["velocity"], m[:, None] * v)

kc.launch(drift, count, [bodies, dt], [path])
times = dt * np.arange(steps)[:, None]
check("a struct is read, changed and written as a value", path, x[:, None] + times * v[:, None])
check("arrays of structs are NumPy's, in place", bodies["position"], x + steps * dt * v)

of_vectors, of_numbers = np.zeros((count, 3)), np.zeros(count)
# An array of NumPy does not say that three numbers are a vector; an overload does.
of_vec3d = kc.overload(sums, [kc.array2d[kc.vec3d], kc.array[kc.vec3d]])
kc.launch(of_vec3d, count, [path], [of_vectors])
kc.launch(sums, count, [path[..., 0]], [of_numbers])
check("generic: sums over a view of vectors", of_vectors, path[:, ::2].sum(1))
check("generic: the same kernel on numbers", of_numbers, path[:, ::2, 0].sum(1))
