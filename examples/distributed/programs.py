"""Kernels on arrays that are cut over devices and processes: a scale, a product, a stencil."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, PartitionSpec

import kernelcore as kc
from jax_ffi import jax_kernel

P = PartitionSpec
ROW = kc.array[kc.float64]
TABLE = kc.array2d[kc.float64]


@kc.kernel
def scale(x: ROW, by: kc.float64, scaled: ROW):
    i = kc.tid()
    scaled[i] = x[i] * by


@kc.kernel
def matmul(a: TABLE, b: TABLE, c: TABLE):
    i, j = kc.tid()
    total = kc.float64(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@kc.kernel
def diffuse(u: ROW, left: ROW, right: ROW, rate: kc.float64, after: ROW):
    """One step of the heat equation; ``left`` and ``right`` are the neighbours' last elements."""
    i = kc.tid()
    n = u.shape[0]
    below = left[0]
    if i > 0:
        below = u[i - 1]
    above = right[0]
    if i < n - 1:
        above = u[i + 1]
    after[i] = u[i] + rate * (below - kc.float64(2.0) * u[i] + above)


def all_devices() -> Mesh:
    """A mesh of all devices of all processes, along one axis."""
    return jax.make_mesh((jax.device_count(),), ("x",), axis_types=(AxisType.Auto,))


def sharded_scale(mesh: Mesh) -> Any:
    """``x * by`` for x of shape (n,), which is cut over the mesh."""

    def body(x: Any, by: Any) -> Any:
        return jax_kernel(scale)(x, by)[0]

    return jax.shard_map(body, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))


def sharded_matmul(mesh: Mesh) -> Any:
    """``a @ b`` for a of shape (m, k), whose rows are cut over the mesh, and b of shape (k, n)."""

    def body(a: Any, b: Any) -> Any:
        dims = (a.shape[0], b.shape[1])
        return jax_kernel(matmul)(a, b, launch_dims=dims)[0]

    return jax.shard_map(body, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))


def sharded_heat(mesh: Mesh, steps: int = 4, exchanges: bool = True) -> Any:
    """``steps`` steps of the heat equation on a ring of shape (n,), which is cut over the mesh.

    Without ``exchanges`` every part is a ring of its own: what the steps cost but for the halos.
    """
    count = mesh.devices.size
    up = [(k, (k + 1) % count) for k in range(count)]
    down = [(k, (k - 1) % count) for k in range(count)]

    def step(u: Any, rate: Any) -> Any:
        # The elements at the ends of a part are the halos of its neighbours.
        left, right = u[-1:], u[:1]
        if exchanges:
            left, right = jax.lax.ppermute(left, "x", up), jax.lax.ppermute(right, "x", down)
        return jax_kernel(diffuse)(u, left, right, rate, launch_dims="u")[0]

    def body(u: Any, rate: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, u: step(u, rate), u, unroll=True)

    return jax.shard_map(body, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))


def loss(run: Any, x: Any, other: Any) -> Any:
    """A number that depends on every element of the result."""
    return jnp.sum(jnp.sin(run(x, other)))


def derivatives(run: Any, x: Any, other: Any) -> Any:
    """The loss, its gradient, and the product of its Hessian with (x, other)."""
    of = partial(loss, run)
    value, gradient = jax.value_and_grad(of, (0, 1))(x, other)
    product = jax.jvp(jax.grad(of, (0, 1)), (x, other), (x, other))[1]
    return value, gradient, product
