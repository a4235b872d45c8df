"""Kernels inside shard_map and over sharded arrays; ``test_matrix`` runs it on four devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.jax.kernels import (
    F64,
    F64_2D,
    assert_close,
    mixed_kernel,
    mixed_reference,
)

N = 16
Function = Callable[..., Any]
P = PartitionSpec
VECTORS = kc.array(dtype=kc.vec3d)


def mesh_of(axis_type: AxisType) -> Mesh:
    assert jax.device_count() == 4
    return jax.make_mesh((4,), ("i",), axis_types=(axis_type,))


def operands() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    return jnp.array(rng.normal(size=N)), jnp.array(rng.normal(size=N)), jnp.array(0.7)


def loss(g: Function) -> Function:
    def of(x: Any, y: Any, s: Any) -> Any:
        o, r = g(x, y, s)
        return jnp.sum(jnp.cos(o)) * r + r**2

    return of


def mapped(check_vma: bool) -> Function:
    """``mixed`` with x and y cut over four devices and s shared by them."""

    def body(x: Any, y: Any, s: Any) -> tuple[Any, Any]:
        o, r = mixed_kernel(x, y, s)
        return o, jax.lax.psum(r, "i")

    return jax.shard_map(
        body,
        mesh=mesh_of(AxisType.Auto),
        in_specs=(P("i"), P("i"), P()),
        out_specs=(P("i"), P()),
        check_vma=check_vma,
    )


ALL = (0, 1, 2)
TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "call": lambda g: g,
    "grad": lambda g: jax.grad(loss(g), ALL),
    "jvp": lambda g: lambda *a: jax.jvp(g, a, a),
    "hessian of the shared scalar": lambda g: jax.hessian(loss(g), 2),
    "vmap of the shared scalar": lambda g: (
        lambda x, y, s: jax.vmap(g, (None, None, 0))(x, y, jnp.stack([s, 2 * s]))
    ),
}


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_shard_map(name: str, check_vma: bool) -> None:
    transform = TRANSFORMS[name]
    actual = jax.jit(transform(mapped(check_vma)))(*operands())
    assert_close(actual, transform(mixed_reference)(*operands()))


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("name", ["call", "grad", "jvp"])
def test_sharded_arguments(name: str, axis_type: AxisType) -> None:
    mesh = mesh_of(axis_type)
    x, y, s = operands()
    transform = TRANSFORMS[name]
    expected = transform(mixed_reference)(x, y, s)
    with jax.set_mesh(mesh):
        x, y = (jax.device_put(a, NamedSharding(mesh, P("i"))) for a in (x, y))
        assert_close(jax.jit(transform(mixed_kernel))(x, y, s), expected)


@kc.kernel
def scaled_sum(x: F64, y: F64, s: kc.float64, o: F64):
    i = kc.tid()
    o[i] = kc.sin(x[i]) * s + y[i]


@kc.kernel
def moved(x: VECTORS, by: kc.vec3d, mass: F64, o: VECTORS):
    i = kc.tid()
    o[i] = x[i] * mass[i] + by


@kc.kernel
def weighted(x: VECTORS, mass: F64, o: VECTORS):
    i = kc.tid()
    o[i] = x[i] * mass[i]


@kc.kernel
def numbered(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * kc.float64(i)


def cut(*shapes: tuple[int, ...], axis: int = 0) -> list[Any]:
    mesh = mesh_of(AxisType.Auto)
    spec = P(*(None,) * axis, "i")
    rng = np.random.default_rng(1)
    return [
        jax.device_put(jnp.array(rng.normal(size=s)), NamedSharding(mesh, spec)) for s in shapes
    ]


def compiled(function: Function, *args: Any) -> tuple[str, Any]:
    program = jax.jit(function).lower(*args).compile()
    return program.as_text() or "", program(*args)


@pytest.mark.parametrize("axis", [0, 1])
def test_elementwise_kernels_stay_sharded(axis: int) -> None:
    call = jax.vmap(lambda x, y, s: jax_kernel(scaled_sum)(x, y, s)[0], (0, 0, None))
    x, y = cut((8, 8), (8, 8), axis=axis)
    s = jnp.array(0.7)

    def value_and_tangent(x: Any, y: Any, s: Any) -> Any:
        return jax.jvp(call, (x, y, s), (y, x, s))

    def reference(x: Any, y: Any, s: Any) -> Any:
        return jax.jvp(lambda x, y, s: jnp.sin(x) * s + y, (x, y, s), (y, x, s))

    text, found = compiled(value_and_tangent, x, y, s)
    assert "all-gather" not in text
    assert {r.sharding.spec for r in found} == {x.sharding.spec}
    assert_close(found, reference(x, y, s))
    ct = lambda f: lambda x, y: jax.vjp(lambda x, y: f(x, y, s), x, y)[1](x)  # noqa: E731
    text, found = compiled(ct(call), x, y)
    assert "all-gather" not in text
    assert_close(found, ct(lambda x, y, s: jnp.sin(x) * s + y)(x, y))


@kc.kernel
def adam(p: F64_2D, m: F64_2D, v: F64_2D, g: F64_2D, rate: kc.float64):
    i, j = kc.tid()
    m[i, j] = 0.9 * m[i, j] + 0.1 * g[i, j]
    v[i, j] = 0.99 * v[i, j] + 0.01 * g[i, j] * g[i, j]
    p[i, j] = p[i, j] - rate * m[i, j] / (kc.sqrt(v[i, j]) + 1.0)


ADAM = jax_kernel(adam, num_outputs=3, in_out_argnames=["p", "m", "v"])


def test_kernels_of_many_arrays_stay_sharded() -> None:
    state = cut((8, 8), (8, 8), (8, 8), (8, 8))
    p, m, v, g = (jnp.abs(a) for a in state)
    text, found = compiled(ADAM, p, m, v, g, 0.1)
    assert "all-gather" not in text
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    assert_close(found, (p - 0.1 * m / (jnp.sqrt(v) + 1.0), m, v))


def test_elements_with_components_stay_sharded() -> None:
    x, mass = cut((8, 3), (8,))
    text, found = compiled(lambda x, m: jax_kernel(weighted)(x, m)[0], x, mass)
    assert "all-gather" not in text
    assert_close(found, x * mass[:, None])
