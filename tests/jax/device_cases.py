"""JAX kernels on the device of the suite: values, gradients, batches, loops in one program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import (
    GraphMode,
    from_jax,
    jax_callable,
    jax_kernel,
    register_ffi_callback,
    to_jax,
)
from tests.helpers.environment import DEVICE, IS_CPU


@kc.kernel
def wave(x: kc.array(dtype=float), w: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = kc.sin(w * x[i]) * x[i]


@kc.kernel
def add(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = y[i] + x[i]


@kc.kernel
def positive(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] > 0.0, "positive"
    y[i] = x[i]


def waves(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    once = kc.zeros(x.shape, dtype=float)
    kc.launch(wave, x.shape, [x, 0.5], [once])
    kc.launch(wave, x.shape, [once, 2.0], [y])
    kc.launch(add, x.shape, [x], [y])


def call(x: jax.Array, w: float | jax.Array) -> jax.Array:
    return jax_kernel(wave)(x, w)[0]


def expected(x: jax.Array, w: float | jax.Array) -> jax.Array:
    return jnp.sin(w * x) * x


@pytest.fixture(autouse=True)
def device() -> None:
    """JAX puts arrays on GPUs by itself; that it does is checked."""
    platform = jnp.zeros(1).devices().pop().platform
    assert platform == ("cpu" if IS_CPU else "gpu"), (platform, DEVICE)


def sample(*shape: int) -> jax.Array:
    return jnp.linspace(-2.0, 2.0, int(np.prod(shape)), dtype=jnp.float32).reshape(shape)


def test_values_eagerly_and_in_a_program() -> None:
    x = sample(4096)
    for function in (call, jax.jit(call, static_argnums=1)):
        np.testing.assert_allclose(function(x, 3.0), expected(x, 3.0), rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_jax() -> None:
    x = sample(4096)
    found = jax.jit(jax.grad(lambda x: (call(x, 3.0) ** 2).sum()))(x)
    wanted = jax.grad(lambda x: (expected(x, 3.0) ** 2).sum())(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_batches_are_one_launch() -> None:
    x = sample(16, 256)
    found = jax.jit(jax.vmap(lambda row: call(row, 0.5)))(x)
    np.testing.assert_allclose(found, expected(x, 0.5), rtol=1e-5, atol=1e-6)


def test_a_loop_of_launches_is_one_program() -> None:
    x = sample(4096)
    found = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, v: call(v, 1.5) + 0.25, x))(x)
    wanted = x
    for _ in range(20):
        wanted = expected(wanted, 1.5) + 0.25
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_numbers_that_are_computed_stay_on_the_device() -> None:
    x = sample(1000)
    found = jax.jit(lambda x: call(x, x.sum() / 1000 + 1.5))(x)
    np.testing.assert_allclose(found, expected(x, x.sum() / 1000 + 1.5), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", [GraphMode.JAX, GraphMode.WARP, GraphMode.NONE])
def test_functions_run_in_every_mode(mode: GraphMode) -> None:
    x = sample(3000)
    run = jax.jit(lambda x: jax_callable(waves, graph_mode=mode)(x)[0])
    wanted = expected(expected(x, 0.5), 2.0) + x
    for _ in range(3):
        np.testing.assert_allclose(run(x), wanted, rtol=1e-5, atol=1e-6)


def test_updated_arguments_are_kept_or_donated() -> None:
    x, y = sample(512), jnp.ones(512, jnp.float32)
    run = jax_kernel(add, in_out_argnames="y")
    np.testing.assert_allclose(jax.jit(run)(x, y)[0], x + 1, rtol=1e-6)
    np.testing.assert_array_equal(y, 1)
    np.testing.assert_allclose(jax.jit(run, donate_argnums=1)(x, y)[0], x + 1, rtol=1e-6)
    assert y.is_deleted()


def test_callbacks_launch_in_the_stream_of_the_program() -> None:
    def run(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        stream = None if ctx.device.is_cpu else kc.Stream(ctx.device, cuda_stream=ctx.stream)
        kc.launch(wave, inputs[0].shape, [inputs[0], 3.0], outputs, stream=stream)

    register_ffi_callback("device_cases_wave", run)
    x = sample(2048)
    target = jax.ffi.ffi_call("device_cases_wave", jax.ShapeDtypeStruct(x.shape, x.dtype))
    found = jax.jit(lambda x: target(x + 1.0) - 1.0)(x)
    np.testing.assert_allclose(found, expected(x + 1.0, 3.0) - 1.0, rtol=1e-5, atol=1e-5)


def test_memory_is_shared_both_ways() -> None:
    x = sample(256)
    shared = from_jax(x)
    assert str(shared.device) == ("cpu" if IS_CPU else DEVICE)
    np.testing.assert_array_equal(shared.numpy(), x)
    own = kc.ones(256, device=shared.device)
    np.testing.assert_array_equal(to_jax(own) + x, 1 + x)


def test_a_failed_assertion_is_an_error_of_that_run_or_the_next() -> None:
    run = jax.jit(jax_kernel(positive))
    with pytest.raises(jax.errors.JaxRuntimeError, match="positive"):  # noqa: PT012
        jax.block_until_ready(run(sample(64)))
        jax.block_until_ready(run(jnp.ones(64, jnp.float32)))
    np.testing.assert_array_equal(run(jnp.ones(64, jnp.float32))[0], 1)


def test_all_devices_run_their_shards() -> None:
    mesh = jax.make_mesh((len(jax.local_devices()),), ("i",))
    shards = jax.sharding.PartitionSpec("i")
    x = sample(4096)
    run = jax.shard_map(lambda x: call(x, 3.0), mesh=mesh, in_specs=shards, out_specs=shards)
    given = jax.device_put(x, jax.sharding.NamedSharding(mesh, shards))
    np.testing.assert_allclose(jax.jit(run)(given), expected(x, 3.0), rtol=1e-5, atol=1e-6)
