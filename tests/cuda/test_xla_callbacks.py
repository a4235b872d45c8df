"""Python functions that programs of JAX call on devices, with buffers that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import GraphMode, jax_callable, register_ffi_callback
from kernelcore.base.errors import KernelArgumentError
from tests.cuda.fake import FakeDriver
from tests.cuda.xla_frames import XlaError
from tests.cuda.xla_programs import Program

X = jnp.arange(6, dtype=jnp.float32)


@kc.kernel
def scale(x: kc.array(dtype=float), s: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = s * x[i]


@kc.struct
class Body:
    mass: float
    place: kc.vec3


def call(name: str, x: Any, **attributes: Any) -> Any:
    return jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(x.shape, x.dtype))(x, **attributes)


def test_callbacks_launch_in_the_stream_of_the_run(driver: FakeDriver) -> None:
    seen: list[Any] = []

    def run(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        seen.append((ctx.device, inputs[0].__dlpack_device__(), inputs[0].numpy().tolist()))
        stream = kc.Stream(ctx.device, cuda_stream=ctx.stream)
        kc.launch(scale, inputs[0].shape, [inputs[0], attrs["s"]], outputs, stream=stream)

    register_ffi_callback("test_cuda_scale", run)
    program = Program(lambda x: call("test_cuda_scale", x, s=np.float32(2.5)), X)
    stream = kc.Stream("cuda:1")
    program.initialize("cuda:1", stream.cuda_stream)
    args = program.place([X], "cuda:1")
    driver.clear()
    (found,) = program.run(args, "cuda:1")
    np.testing.assert_array_equal(found.numpy(), 2.5 * X)
    assert seen == [("cuda:1", (2, 1), X.tolist())]
    assert seen[0][0].is_cuda
    (launch,) = driver.calls("cuLaunchKernel")
    assert launch.split()[4].startswith("own")


def test_buffers_are_capsules_too(driver: FakeDriver) -> None:
    def copy(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        kc.copy(kc.from_dlpack(outputs[0]), inputs[0].array())

    register_ffi_callback("test_cuda_copy", copy)
    for x in (X, jnp.zeros((0, 3), jnp.int8), X.astype(jnp.bfloat16)):
        np.testing.assert_array_equal(Program(lambda x: call("test_cuda_copy", x), x)(x)[0], x)


def test_errors_end_the_program(driver: FakeDriver) -> None:
    def fail(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        outputs[0].numpy()
        raise ValueError("nothing doing")

    register_ffi_callback("test_cuda_fail", fail)
    program = Program(lambda x: call("test_cuda_fail", x), X)
    assert program.site.traits("execute") == 1
    with pytest.raises(XlaError, match="ValueError: nothing doing"):
        program(X)


def test_no_device_is_guessed(driver: FakeDriver) -> None:
    register_ffi_callback("test_cuda_nowhere", lambda *args: None)
    program = Program(lambda x: call("test_cuda_nowhere", x), X)
    args = program.place([X], "cuda:0")
    program.site.initialize(-1, 1)
    with pytest.raises(XlaError, match="XLA does not say which GPU"):
        program.run(args, "cuda:0")
    program.site.initialize(0, 0)
    with pytest.raises(XlaError, match="XLA does not say in which stream"):
        program.run(args, "cuda:0")


def test_dtypes_that_the_array_interface_lacks_have_none(driver: FakeDriver) -> None:
    seen: list[bool] = []

    def look(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        seen.append(hasattr(inputs[0], "__cuda_array_interface__"))

    register_ffi_callback("test_cuda_look", look)
    for dtype in (jnp.float16, jnp.bfloat16):
        x = X.astype(dtype)
        Program(lambda x: call("test_cuda_look", x), x)(x)
    assert seen == [True, False]


def test_a_callback_that_waits_is_none_of_a_graph(driver: FakeDriver) -> None:
    def read(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        inputs[0].numpy()

    def read_there(*call: Any) -> None:
        with kc.ScopedStream(stream):
            read(*call)

    stream = kc.Stream("cuda:0")
    for name, function in (("test_cuda_read", read), ("test_cuda_read_there", read_there)):
        register_ffi_callback(name, function)
        program = Program(lambda x, name=name: call(name, x), X)
        args = program.place([X], "cuda:0")
        program.initialize("cuda:0", stream.cuda_stream)
        with (
            driver.capturing(stream),
            pytest.raises(XlaError, match="registered with graph_compatible=False"),
        ):
            program.run(args, "cuda:0")


def grow(x: kc.array(dtype=float), s: float, v: kc.vec3, y: kc.array(dtype=float)):
    kc.launch(scale, x.shape, [x, s * v[0]], [y])
    if x.numpy()[-1] > 4.0:
        kc.launch(scale, x.shape, [y, 2.0], [y])


def heavier(b: kc.array(dtype=Body), s: float):
    b["mass"].assign(s * b["mass"].numpy())


def test_functions_read_elements_that_are_on_a_device(driver: FakeDriver) -> None:
    v = jnp.array([3.0, 0.0, 0.0], jnp.float32)
    hosted = jax_callable(grow, graph_mode=GraphMode.NONE)
    program = Program(hosted, X, jnp.float32(0.5), v)
    assert program.site.traits("execute") == 0
    for device in ("cuda:0", "cuda:1"):
        (found,) = program(X, 0.5, v, device=device)
        np.testing.assert_array_equal(found, 3.0 * X)


def test_fields_of_structs_are_arrays_on_the_device(driver: FakeDriver) -> None:
    bodies = {"mass": jnp.ones(4), "place": jnp.zeros((4, 3))}
    hosted = jax_callable(heavier, num_outputs=1, in_out_argnames="b", graph_mode=GraphMode.NONE)
    mass, place = Program(hosted, bodies, jnp.float32(3.0))(1 + jnp.zeros(4), jnp.zeros((4, 3)), 3)
    np.testing.assert_array_equal(mass, [3.0] * 4)
    np.testing.assert_array_equal(place, np.zeros((4, 3)))


def uses(array: kc.Array) -> dict[str, Callable[[], object]]:
    """What touches the memory of an array of six numbers, or hands it on."""
    own = kc.zeros(6, device=array.device)
    return {
        "numpy": array.numpy,
        "list": array.list,
        "element": lambda: array[0],
        "clone": array.clone,
        "copy": lambda: kc.copy(own, array),
        "launch": lambda: kc.launch(scale, 5, [array, 1.0], [own]),
        "view": lambda: kc.launch(scale, 2, [array[1:], 1.0], [own]),
        "shared": lambda: kc.Array.sharing(array).numpy(),
        "interface": lambda: array.__cuda_array_interface__,
        "capsule": array.__dlpack__,
    }


USES = "numpy list element clone copy launch view shared interface capsule"


@pytest.mark.parametrize("use", USES.split(" "))
def test_arrays_kept_beyond_the_call_refuse_every_use(driver: FakeDriver, use: str) -> None:
    kept: list[kc.Array] = []

    def function(x: kc.array(dtype=float), y: kc.array(dtype=float)):
        kept.extend((x, x[:], y))
        kc.launch(scale, x.shape, [x, 2.0], [y])

    def keep(inputs: list[Any], outputs: list[Any], attrs: dict[str, Any], ctx: Any) -> None:
        kept.extend((inputs[0].array(), inputs[0].array(float), outputs[0].array()))

    hosted = jax_callable(function, graph_mode=GraphMode.NONE)
    np.testing.assert_array_equal(Program(hosted, X)(X)[0], 2.0 * X)
    register_ffi_callback("test_cuda_kept", keep)
    Program(lambda x: call("test_cuda_kept", x), X)(X)
    assert len(kept) == 6
    for array in kept:
        with pytest.raises(KernelArgumentError, match="kept beyond the call"):
            uses(array)[use]()
