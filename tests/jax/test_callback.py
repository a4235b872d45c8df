"""Python functions as targets of jax.ffi.ffi_call."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import register_ffi_callback
from jax_ffi.callback import CudaBuffer, call_loan
from kernelcore.base.errors import KernelArgumentError
from tests.jax.kernels import axpy
from tests.jax.refusal import Golden, check_refusal


def call(name: str, *args: Any, **attributes: Any) -> Any:
    result = jax.ShapeDtypeStruct(args[0].shape, args[0].dtype)
    return jax.ffi.ffi_call(name, result)(*args, **attributes)


def test_buffers_are_arrays_for_launches() -> None:
    seen: list[Any] = []

    def scale(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        seen.append((ctx.stream, ctx.device))
        kc.launch(axpy, inputs[0].shape, [inputs[0], attrs["scale"], attrs["n"]], outputs)

    register_ffi_callback("test_scale", scale)
    x = jnp.arange(6, dtype=jnp.float32)
    for run in (call, jax.jit(call, static_argnums=0, static_argnames=("scale", "n"))):
        found = run("test_scale", x, scale=np.float32(2.5), n=np.int32(1))
        np.testing.assert_array_equal(found, 2.5 * x + 1)
    assert seen == [(None, "cpu")] * 2
    assert seen[0][1].is_cpu


def test_buffers_kept_beyond_the_call_refuse_every_use() -> None:
    kept: list[Any] = []

    def keep(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        kept.extend((*inputs, *outputs, inputs[0].array(), inputs[0].array()[1:]))
        outputs[0].numpy()[...] = inputs[0].numpy()

    register_ffi_callback("test_keep", keep)
    jax.block_until_ready(call("test_keep", jnp.arange(4, dtype=jnp.float32)))
    for buffer in kept:
        uses = [
            buffer.numpy,
            lambda b=buffer: np.asarray(b),
            lambda b=buffer: kc.array(b, copy=False),
        ]
        uses.append(lambda b=buffer: kc.launch(axpy, 2, [b, 1.0, 1], [kc.zeros(2)]))
        for use in uses:
            with pytest.raises(KernelArgumentError, match="kept beyond the call"):
                use()


def test_attributes_and_buffers_arrive_as_they_are() -> None:
    seen: dict[str, Any] = {}

    def look(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        seen.update(attrs)
        (x,), (o,) = inputs, outputs
        assert (x.shape, x.dtype) == ((2, 3), jnp.bfloat16)
        assert not x.numpy().flags.writeable
        o.numpy()[...] = x.numpy() + np.asarray(x)

    register_ffi_callback("test_look", look)
    x = jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)
    given = {"text": "a", "flag": True, "count": np.int64(3), "table": np.arange(3.0)}
    found = call("test_look", x, **given)
    np.testing.assert_array_equal(found, 2 * x)
    np.testing.assert_array_equal(seen.pop("table"), given.pop("table"))
    assert seen == given
    assert type(seen["count"]) is int


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_protocols_share_memory(dtype: str) -> None:
    def copy(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        np.from_dlpack(outputs[0])[...] = np.asarray(inputs[0].__array_interface__ and inputs[0])

    register_ffi_callback(f"test_copy_{dtype}", copy)
    x = jnp.arange(4).astype(dtype)
    np.testing.assert_array_equal(call(f"test_copy_{dtype}", x), x)
    empty = jnp.zeros((0, 3), dtype)
    assert call(f"test_copy_{dtype}", empty).shape == (0, 3)


def test_errors_end_the_program() -> None:
    def fail(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        raise ValueError("nothing doing")

    register_ffi_callback("test_fail", fail)
    for run in (call, jax.jit(call, static_argnums=0)):
        with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: nothing doing"):
            jax.block_until_ready(run("test_fail", jnp.ones(3)))


def test_a_registered_name_is_replaced() -> None:
    for value in (1.0, 2.0):

        def fill(i: Any, outputs: Any, a: Any, c: Any, value: float = value) -> None:
            outputs[0].numpy()[...] = value

        register_ffi_callback("test_fill", fill)
        np.testing.assert_array_equal(call("test_fill", jnp.zeros(2)), [value] * 2)


# Of types that the annotations exclude.
NOTHING: Any = None


def test_other_arguments_are_refused(golden_error: Golden) -> None:
    check_refusal(lambda: register_ffi_callback(NOTHING, print), "callback_name", golden_error)
    check_refusal(lambda: register_ffi_callback("test", NOTHING), "callback_function", golden_error)


def test_buffers_of_gpus_say_where_they_are() -> None:
    face = CudaBuffer(
        ("float64", 4096, (2, 3)), call_loan(), 1, is_read_only=True
    ).__cuda_array_interface__
    assert (face["shape"], face["data"], face["stream"]) == ((2, 3), (4096, True), 1)
    bfloat16 = CudaBuffer(("bfloat16", 4096, (2, 3)), call_loan(), 1, is_read_only=True)
    assert not hasattr(bfloat16, "__cuda_array_interface__")
    assert CudaBuffer(
        ("float32", 1, ()), call_loan(), 77, is_read_only=False
    ).__cuda_array_interface__ == {
        "shape": (),
        "typestr": "<f4",
        "data": (1, False),
        "version": 3,
        "stream": 77,
    }
