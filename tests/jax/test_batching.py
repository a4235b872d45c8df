"""vmap runs every instance of a batch on its own, whatever the kernel reads and writes."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ffi import jax_kernel
from kernelcore.language.types import MAX_GRID_DIMS
from tests.jax.kernels import (
    assert_close,
    compiled_text,
    lookup,
    neighbour,
    neighbour_reference,
    row_sums,
    row_sums_reference,
    scale_in_place,
)

METHODS = [None, "sequential", "broadcast_all", "expand_dims"]


@pytest.mark.parametrize("method", METHODS)
def test_instances_do_not_see_their_neighbours(method: str | None) -> None:
    x = jnp.arange(6.0).reshape(2, 3) + 1.0
    call = jax_kernel(neighbour, vmap_method=method)
    expected = jax.vmap(neighbour_reference)(x)
    assert_close(jax.vmap(lambda v: call(v)[0])(x), expected)
    assert_close(jax.vmap(lambda v: call(v, vmap_method="sequential")[0])(x), expected)


def test_gradients_stay_within_their_instance() -> None:
    x = jnp.arange(6.0).reshape(2, 3) + 1.0
    call = jax_kernel(neighbour)

    def total(g: Any) -> Any:
        return jax.vmap(jax.grad(lambda v: jnp.sum(g(v) ** 2)))(x)

    assert_close(total(lambda v: call(v)[0]), total(neighbour_reference))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_in_out_argument_is_batched(axis: int) -> None:
    matrices = jnp.arange(24.0).reshape(2, 3, 4)
    rows = next(n for k, n in enumerate(matrices.shape) if k != axis)
    sums = jnp.arange(matrices.shape[axis] * rows, dtype=float).reshape(-1, rows)
    call = jax_kernel(row_sums, in_out_argnames="sums")
    (actual,) = jax.jit(jax.vmap(call, in_axes=(axis, 0)))(matrices, sums)
    assert_close(actual, jax.vmap(row_sums_reference, in_axes=(axis, 0))(matrices, sums))


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 1)])
def test_shared_in_out_argument_is_copied_per_instance(axes: tuple[Any, Any]) -> None:
    rng = np.random.default_rng(1)
    x, o = (jnp.array(rng.normal(size=4 if axis is None else (4, 4))) for axis in axes)
    call = jax_kernel(scale_in_place, in_out_argnames=["o"])
    mapped = jax.vmap(lambda x, o: call(x, o)[0], axes)
    reference = jax.vmap(lambda x, o: x * o, axes)
    assert_close(mapped(x, o), reference(x, o))

    def gradients(g: Any) -> Any:
        return jax.grad(lambda x, o: jnp.sum(jnp.sin(g(x, o))), (0, 1))(x, o)

    assert_close(gradients(mapped), gradients(reference))


@pytest.mark.parametrize(("axis", "count"), [(0, 5), (1, 3)])
def test_launch_dims_leave_the_batch_out(axis: int, count: int) -> None:
    table = jnp.linspace(0.0, 1.0, 10)
    indices = jnp.array(np.random.default_rng(2).integers(0, 10, (3, 5)), jnp.int32)
    for dims in (count, (count,), "indices", ("indices.shape[0]",)):
        call = partial(jax_kernel(lookup), launch_dims=dims)
        (actual,) = jax.jit(jax.vmap(call, in_axes=(None, axis)))(table, indices)
        assert_close(actual, jax.vmap(lambda i: table[i] ** 2, axis)(indices))


def test_shared_table_collects_gradients_of_all_instances() -> None:
    table = jnp.linspace(0.0, 1.0, 10)
    indices = jnp.array(np.random.default_rng(2).integers(0, 10, (3, 5)), jnp.int32)
    call = jax_kernel(lookup, launch_dims="indices")

    def total(g: Any) -> Any:
        return jax.grad(lambda t: jnp.sum(jnp.sin(jax.vmap(g, (None, 0))(t, indices))))(table)

    assert_close(total(lambda t, i: call(t, i)[0]), total(lambda t, i: t[i] ** 2))


def test_batch_is_one_call_without_broadcasts() -> None:
    call = jax_kernel(lookup, launch_dims="indices")
    mapped = jax.vmap(call, in_axes=(None, 0))
    text = compiled_text(mapped, jnp.ones(10), jnp.zeros((3, 5), jnp.int32))
    assert text.count(" custom-call(") == 1
    assert " while(" not in text
    assert " broadcast(" not in text


def test_batches_nest_deeper_than_launch_dimensions() -> None:
    def deep(g: Any) -> Any:
        for _ in range(MAX_GRID_DIMS + 1):
            g = jax.vmap(g)
        return g

    x = jnp.arange(6.0).reshape(2, *(1,) * MAX_GRID_DIMS, 3) + 1.0
    call = jax_kernel(neighbour)

    def gradient(g: Any) -> Any:
        return jax.jit(jax.grad(lambda x: jnp.sum(deep(g)(x) ** 2)))(x)

    assert_close(gradient(lambda v: call(v)[0]), gradient(neighbour_reference))


def test_empty_batch() -> None:
    call = jax_kernel(neighbour)
    (actual,) = jax.vmap(call)(jnp.zeros((0, 3)))
    assert actual.shape == (0, 3)
