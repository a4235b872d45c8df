"""``config.check_finite`` in operators: every framework raises what a launch raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paddle
import pytest
import torch
from jax.errors import JaxRuntimeError

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from torch_ext import torch_callable, torch_op

F = np.float32
Floats = kc.array(dtype=float)
MAKERS: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "torch": torch.tensor,
    "jax": jnp.asarray,
    "paddle": paddle.to_tensor,
    "kernelcore": kc.from_numpy,
}


@pytest.fixture(autouse=True)
def _checks() -> Iterator[None]:
    with kc.check_finite():
        yield


@kc.kernel
def roots(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = kc.sqrt(x[i])


def test_operators_of_torch_are_checked() -> None:
    operator = torch_op(kc.Kernel(roots.pyfunc))
    negative = torch.tensor([1.0, -1.0])
    assert operator(-negative[1:]).tolist() == [1.0]
    with pytest.raises(kc.KernelFiniteError, match=r"thread 1 stores nan to y\[1\]"):
        operator(negative)
    with pytest.raises(RuntimeError, match=r"stores nan to y\[1\]"):
        torch.compile(operator, fullgraph=True, backend="aot_eager")(negative)
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    with pytest.raises(kc.KernelFiniteError, match=r"adds inf to the gradient of x\[1\]"):
        operator(x).sum().backward()
    with pytest.raises(kc.KernelFiniteError, match=r"thread \(1, 0\) stores nan to y\[1, 0\]"):
        torch.vmap(operator)(torch.tensor([[1.0, 2.0], [-1.0, 1.0]]))


def test_kernels_under_jax_are_checked() -> None:
    function = jax_kernel(roots)
    with pytest.raises(JaxRuntimeError, match=r"thread 1 stores nan to y\[1\]"):
        np.asarray(jax.jit(function)(np.array([1.0, -1.0], F)))
    gradient = jax.grad(lambda x: function(x)[0].sum())
    with pytest.raises(JaxRuntimeError, match=r"adds inf to the gradient of x\[1\]"):
        np.asarray(gradient(np.array([1.0, 0.0], F)))
    with pytest.raises(JaxRuntimeError, match=r"thread \(1, 0\) stores nan to y\[1, 0\]"):
        np.asarray(jax.vmap(function)(np.array([[1.0, 2.0], [-1.0, 1.0]], F)))


def test_kc_op_is_checked_in_every_framework() -> None:
    operator = kc.op(kc.Kernel(roots.pyfunc))
    values = np.array([1.0, -1.0], F)
    for array in (values, torch.tensor(values), paddle.to_tensor(values), kc.from_numpy(values)):
        with pytest.raises(kc.KernelFiniteError, match=r"thread 1 stores nan to y\[1\]"):
            operator(array)
    with pytest.raises(JaxRuntimeError, match=r"thread 1 stores nan to y\[1\]"):
        np.asarray(operator(jnp.asarray(values)))


@pytest.mark.parametrize("framework", MAKERS)
def test_eager_calls_follow_the_setting(framework: str) -> None:
    operator, make = kc.op(kc.Kernel(roots.pyfunc)), MAKERS[framework]
    values = make(np.array([1.0, -1.0], F))
    for _ in range(3):
        kc.config.check_finite = False
        for _ in range(3):
            assert np.isnan(np.asarray(operator(values))[1])
        kc.config.check_finite = True
        for _ in range(3):
            with pytest.raises((kc.KernelFiniteError, JaxRuntimeError), match=r"nan to y\[1\]"):
                np.asarray(operator(values))


def twice(x: Floats, y: Floats) -> None:
    z = kc.empty(x.shape, dtype=float)
    kc.launch(roots, x.shape, [x], [z])
    kc.launch(roots, x.shape, [z], [y])


def test_what_is_checked_is_not_fused() -> None:
    operator = kc.op(kc.Kernel(roots.pyfunc), fuse=True)
    for values in (torch.tensor([1.0, -1.0]), jnp.asarray([1.0, -1.0])):
        with pytest.raises((kc.KernelFiniteError, JaxRuntimeError), match=r"nan to y\[1\]"):
            np.asarray(operator(values))


@pytest.mark.parametrize(("make", "framework"), [(torch_callable, "torch"), (jax_callable, "jax")])
def test_programs_of_several_launches_follow_the_setting(make: Any, framework: str) -> None:
    operator, values = make(twice), MAKERS[framework](np.array([1.0, -1.0], F))
    for _ in range(2):
        with pytest.raises((kc.KernelFiniteError, JaxRuntimeError), match=r"nan to [yz]\[1\]"):
            np.asarray(operator(values))
        with kc.check_finite(False):
            assert np.isnan(np.asarray(operator(values)).ravel()[1])
