"""Paddle tensors as arrays and back: memory, gradients, dtypes, devices."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportOptionalSubscript=false

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

import kernelcore as kc
from kernelcore._exports import ADAPTERS
from kernelcore.language.types import SCALARS
from paddle_ext import (
    device_from_paddle,
    device_to_paddle,
    dtype_from_paddle,
    dtype_to_paddle,
    from_paddle,
    paddle_op,
    stream_from_paddle,
    to_paddle,
)
from paddle_ext.dtype import SIGNED


@kc.kernel
def squared(x: kc.array(dtype=float), loss: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(loss, 0, x[i] * x[i])


def test_gradients_are_shared_from_paddle() -> None:
    tensor: Any = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
    array, loss = from_paddle(tensor), kc.zeros(1, requires_grad=True)
    tape = kc.Tape()
    with tape:
        kc.launch(squared, dim=3, inputs=[array], outputs=[loss])
    tape.backward(loss)
    np.testing.assert_array_equal(kc.from_numpy(tensor.grad.numpy()).list(), [2.0, 4.0, 6.0])
    assert array.grad is not None
    tensor.grad[0] = 9.0
    assert array.grad[0] == 9.0
    assert from_paddle(tensor).grad.ptr == array.grad.ptr
    assert from_paddle(tensor, requires_grad=False).grad is None


def test_gradients_are_shared_to_paddle() -> None:
    array = kc.array([1.0, 2.0], dtype=float, requires_grad=True)
    tensor = to_paddle(array)
    assert not tensor.stop_gradient
    tensor.grad[1] = 5.0
    assert array.grad[1] == 5.0
    array.grad[0] = 7.0
    assert float(tensor.grad[0]) == 7.0
    assert to_paddle(array, requires_grad=False).stop_gradient


def test_a_gradient_that_is_given() -> None:
    tensor, grad = paddle.ones([3]), paddle.zeros([3])
    array = from_paddle(tensor, grad=grad)
    assert array.grad.ptr == grad.data_ptr()


def test_light_handles_and_tensors_are_launched_directly() -> None:
    x, loss = paddle.to_tensor([1.0, 2.0]), paddle.zeros([1])
    handle = from_paddle(x, return_ctype=True)
    assert type(handle) is kc.ArrayMemory
    kc.launch(squared, dim=2, inputs=[handle], outputs=[loss])
    kc.launch(squared, dim=2, inputs=[x], outputs=[loss])
    assert float(loss[0]) == 10.0
    assert loss.inplace_version > 0


@pytest.mark.parametrize(
    "read",
    [
        kc.ArrayMemory,
        from_paddle,
        lambda t: kc.launch(squared, dim=1, inputs=[t], outputs=[paddle.zeros([1])]),
        paddle_op(squared, output_dims=1),
    ],
    ids=["memory", "array", "launch", "operator"],
)
def test_tensors_that_are_read_leave_derivatives_of_paddle_as_they_are(read: Any) -> None:
    x = paddle.to_tensor([2.0], stop_gradient=False)
    value, other = (x * x * x * x).sum(), paddle.ones([1])
    for expected in (32.0, 48.0, 48.0):
        read(other)
        (value,) = paddle.grad(value, x, create_graph=True)
        assert value.item() == expected


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_dtypes(scalar: kc.types.Scalar) -> None:
    found = dtype_to_paddle(scalar)
    signed = SIGNED.get(scalar, scalar)
    assert dtype_from_paddle(found) == signed
    tensor = to_paddle(kc.zeros(2, dtype=scalar))
    assert tensor.dtype == found
    assert from_paddle(tensor).dtype == signed


def test_components_become_dimensions() -> None:
    assert to_paddle(kc.zeros(2, dtype=kc.mat33)).shape == [2, 3, 3]
    tensor = paddle.zeros([4, 2])
    tensor.stop_gradient = False
    array = from_paddle(tensor, dtype=kc.vec2)
    assert (array.shape, array.grad.shape, array.grad.dtype) == ((4,), (4,), kc.vec2)


def test_devices_and_streams() -> None:
    for name in ("cpu", paddle.CPUPlace(), paddle.ones([1]).place):
        assert device_from_paddle(name) == "cpu"
    assert device_to_paddle(kc.get_device()) == "cpu"
    assert stream_from_paddle().device == "cpu"
    with pytest.raises(kc.KernelError, match="'cuda:99'"):
        device_from_paddle("gpu:99")


def test_dtypes_that_paddle_lacks_are_refused() -> None:
    with pytest.raises(kc.KernelTypeError, match="complex64"):
        dtype_from_paddle(paddle.complex64)
    with pytest.raises(kc.KernelArgumentError, match="complex64"):
        from_paddle(paddle.ones([2], dtype="complex64"))
    values = np.ones(3, np.float32)
    values.flags.writeable = False
    with pytest.raises(kc.KernelArgumentError, match="read-only"):
        to_paddle(kc.from_numpy(values, copy=False))


def test_names_are_found_in_kernelcore_too() -> None:
    found = [name for name, home in ADAPTERS.items() if home == "paddle_ext"]
    assert len(found) == 8
    assert all(callable(getattr(kc, name)) for name in found)
