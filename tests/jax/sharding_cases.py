"""Kernels inside shard_map and over sharded arrays; ``test_checked`` runs it on four devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from tests.jax.kernels import assert_close, mixed_kernel, mixed_reference

N = 16
Function = Callable[..., Any]
P = PartitionSpec


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
