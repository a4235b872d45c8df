"""Tensors and data arrays share memory and gradients."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

import gc
import importlib
from typing import Any

import numpy as np
import pytest
import torch

import kernelcore as kc
from kernelcore._exports import ADAPTERS
from kernelcore.language.types import SCALARS
from torch_ext import (
    device_from_torch,
    device_to_torch,
    dtype_from_torch,
    dtype_to_torch,
    from_torch,
    stream_from_torch,
    stream_to_torch,
    to_torch,
)

OTHER: Any = np.zeros(3)


@kc.kernel
def loss(xs: kc.array2d(dtype=float), total: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(total, 0, (xs[i, 0] - 1.0) ** 2.0 + (xs[i, 1] + 2.0) ** 2.0)


@kc.kernel
def double(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[i]


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_every_dtype_is_shared_both_ways(scalar):
    t = torch.tensor([1, 0, 1], dtype=dtype_to_torch(scalar))
    a = from_torch(t)
    assert a.dtype is scalar
    assert a.ptr == t.data_ptr()
    back = to_torch(a)
    assert back.dtype == t.dtype
    assert back.data_ptr() == t.data_ptr()
    assert dtype_from_torch(back.dtype) == scalar


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (2, 3), (2, 1, 3, 2)])
def test_strides_and_shapes_are_kept(shape):
    base = torch.randn(shape)
    for t in (base, base.mT if base.ndim > 1 else base[::2]):
        a = from_torch(t)
        assert a.shape == tuple(t.shape)
        assert a.size == 0 or a.strides == tuple(4 * s for s in t.stride())
        torch.testing.assert_close(to_torch(a), t)


def test_last_dimensions_are_components():
    t = torch.arange(6.0).reshape(2, 3)
    a = from_torch(t, dtype=kc.vec3)
    assert a.shape == (2,)
    assert a[1] == kc.vec3(3.0, 4.0, 5.0)
    assert to_torch(a).shape == (2, 3)
    with pytest.raises(kc.KernelArgumentError, match="expected memory of vec2"):
        from_torch(t, dtype=kc.vec2)


def test_memory_outlives_either_side():
    t = torch.ones(4)
    a = from_torch(t)
    del t
    gc.collect()
    assert a.numpy().tolist() == [1.0] * 4
    back = to_torch(a)
    del a
    gc.collect()
    assert back.tolist() == [1.0] * 4


def test_gradients_are_shared():
    t = torch.ones(3, requires_grad=True)
    a = from_torch(t)
    assert a.requires_grad
    a.grad.fill_(2.0)
    assert t.grad is not None
    assert t.grad.tolist() == [2.0] * 3
    t.grad.add_(1.0)
    assert a.grad.numpy().tolist() == [3.0] * 3
    assert not from_torch(t, requires_grad=False).requires_grad
    given = torch.zeros(3)
    b = from_torch(t.detach(), grad=given)
    b.grad.fill_(5.0)
    assert given.tolist() == [5.0] * 3
    c = from_torch(torch.ones(3), requires_grad=True)
    assert c.grad.numpy().tolist() == [0.0] * 3
    inner = from_torch(t * 2)
    inner.grad.fill_(1.0)
    assert t.grad.tolist() == [3.0] * 3


def test_gradients_of_arrays_are_those_of_their_tensors():
    a = kc.array(np.ones(3), dtype=float, requires_grad=True)
    t = to_torch(a)
    assert t.requires_grad
    (t * 3.0).sum().backward()
    assert a.grad.numpy().tolist() == [3.0] * 3
    assert not to_torch(a, requires_grad=False).requires_grad


@pytest.mark.parametrize("owner", ["torch", "kernelcore"])
def test_adam_minimises_a_loss_of_kernels(owner):
    start = np.random.default_rng(1).normal(size=(20, 2)).astype(np.float32)
    if owner == "torch":
        tensor = torch.tensor(start, requires_grad=True)
        xs, total = from_torch(tensor), from_torch(torch.zeros(1, requires_grad=True))
    else:
        xs = kc.array(start, dtype=float, requires_grad=True)
        total = kc.zeros(1, requires_grad=True)
        tensor = to_torch(xs)
    optimizer = torch.optim.Adam([tensor], lr=0.1)
    for _ in range(200):
        total.zero_()
        with kc.Tape() as tape:
            kc.launch(loss, len(xs), [xs], [total])
        tape.zero()
        tape.backward(loss=total)
        optimizer.step()
    np.testing.assert_allclose(tensor.detach().numpy(), np.tile([1.0, -2.0], (20, 1)), atol=1e-2)


def test_handles_are_arguments_of_launches():
    x, y = torch.ones(4), torch.zeros(4)
    kc.launch(double, 4, [from_torch(x, return_ctype=True)], [from_torch(y, return_ctype=True)])
    assert y.tolist() == [2.0] * 4
    kc.launch(double, 4, [from_torch(y)], [x])
    assert x.tolist() == [4.0] * 4


@pytest.mark.parametrize("return_ctype", [False, True])
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.zeros(2, dtype=torch.complex64), "complex"),
        (lambda: torch.zeros(2, device="meta"), "CPU|memory"),
        (lambda: torch.zeros(2, dtype=torch.complex64).conj().imag, "resolve_neg"),
        (lambda: torch.zeros(2).to_sparse(), "expected"),
    ],
)
def test_other_memory_is_refused(make, text, return_ctype):
    with pytest.raises((kc.KernelArgumentError, TypeError, BufferError), match=text):
        from_torch(make(), return_ctype=return_ctype)


def test_other_objects_than_tensors_are_refused():
    with pytest.raises(kc.KernelArgumentError, match="expected a tensor, found ndarray"):
        from_torch(OTHER)
    with pytest.raises(kc.KernelArgumentError, match="expected a data array, found ndarray"):
        to_torch(OTHER)
    point = kc.struct(type("Point", (), {"__annotations__": {"x": float}, "__module__": __name__}))
    with pytest.raises(kc.KernelArgumentError, match="fields"):
        to_torch(kc.zeros(3, point))


def test_devices_and_dtypes():
    assert device_from_torch("cpu") == device_from_torch(torch.device("cpu")) == "cpu"
    assert device_to_torch() == device_to_torch(kc.get_device()) == "cpu"
    for call in (device_from_torch, device_to_torch):
        with pytest.raises(kc.KernelError, match="cuda:99"):
            call("cuda:99")
    with pytest.raises(kc.KernelError, match="cuda:99"):
        stream_from_torch("cuda:99")
    with pytest.raises(kc.KernelError, match="cuda:99"):
        stream_to_torch("cuda:99")
    for given in (None, "cpu", torch.device("cpu"), torch.cpu.current_stream()):
        assert stream_from_torch(given) is kc.get_stream("cpu")
    assert isinstance(stream_to_torch(kc.get_stream()), torch.cpu.Stream)
    with pytest.raises(kc.KernelTypeError, match="complex64"):
        dtype_from_torch(torch.complex64)
    assert dtype_to_torch(float) == torch.float32
    assert dtype_to_torch(int) == torch.int32
    with pytest.raises(kc.KernelTypeError, match="vec3"):
        dtype_to_torch(kc.vec3)


@pytest.mark.parametrize("name", [n for n, home in ADAPTERS.items() if home == "torch_ext"])
def test_the_package_has_the_names_of_adapters(name):
    assert getattr(kc, name) is getattr(importlib.import_module(ADAPTERS[name]), name)
