"""A number that changes between calls of a compiled function compiles no more than torch's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import kernelcore as kc

Floats = kc.array(dtype=float)
VALUES = (0.1, 1.25, 2.7, 3.5, 1e-3)


@kc.op
@kc.kernel
def square(x: Floats, a: float, y: Floats):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


@kc.op(outputs="y")
@kc.kernel
def scale(x: kc.array1d[Any], a: Any, y: kc.array1d[Any]):
    i = kc.tid()
    y[i] = a * x[i]


@kc.op
@kc.kernel
def shift(x: kc.array(dtype=kc.vec3), by: kc.vec3, y: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    y[i] = x[i] + by


@kc.op(launch_dims=lambda x, n: (x[0] * n,))
@kc.kernel
def repeat(x: Floats, n: int, y: Floats):
    i = kc.tid()
    y[i] = x[i // n]


@kc.op(launch_dims=("n",))
@kc.kernel
def ramp(n: int, slope: float, y: Floats):
    i = kc.tid()
    y[i] = slope * float(i)


@kc.op
def twice(x: Floats, a: float, y: Floats):
    inner = kc.zeros(x.shape, dtype=float)
    kc.launch(square.kernel, x.shape[0], [x, a, inner])
    kc.launch(square.kernel, x.shape[0], [inner, a, y])


def compiles(call: Callable[..., Any], x: torch.Tensor, values: Sequence[Any]) -> int:
    """How many graphs torch.compile makes for calls with ``values``, whose results are right."""
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for value in values:
        assert torch.equal(compiled(x, value), call(x, value))
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


CALLS = {
    "float": (lambda x, a: square(x, a), torch.rand(4), VALUES),
    "torch_op": (lambda x, a: square.torch(x, a), torch.rand(4), VALUES),
    "int for a float": (lambda x, a: square(x, a), torch.rand(4), (2, 3, 4, 5)),
    "generic": (lambda x, a: scale(x, a), torch.rand(4), VALUES),
    "vector": (lambda x, a: shift(x, (a, 1.0, 2.0)), torch.rand(4, 3), VALUES),
    "several kernels": (lambda x, a: twice(x, a), torch.rand(4), VALUES),
    "extent": (lambda x, n: repeat(x, n), torch.rand(4), (2, 3, 4, 5)),
    "extent alone": (lambda x, n: ramp.torch(n, 0.5) + x[0], torch.rand(4), (2, 3, 4, 5)),
    "extent of the call": (lambda x, n: square(x, 2.0, launch_dims=n), torch.rand(4), (2, 3, 4)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_torch_compiles_as_often_as_for_a_product(name: str, requires_grad: bool) -> None:
    call, x, values = CALLS[name]
    x = x.clone().requires_grad_(requires_grad)
    of_product = compiles(lambda x, a: x * a, x, values)
    assert compiles(call, x, values) <= of_product


def test_gradients_of_calls_with_symbols_are_exact() -> None:
    x = torch.rand(4)
    compiled = torch.compile(lambda x, a: square(x, a), fullgraph=True, backend="aot_eager")
    for value in VALUES:
        found, wanted = (x.clone().requires_grad_() for _ in range(2))
        compiled(found, value).sum().backward()
        square(wanted, value).sum().backward()
        assert found.grad is not None
        assert wanted.grad is not None
        assert torch.equal(found.grad, wanted.grad)


def test_jax_traces_once() -> None:
    traced = 0

    @jax.jit
    def call(x: Any, a: Any) -> Any:
        nonlocal traced
        traced += 1
        return square(x, a)

    x = jnp.ones(4)
    square(x, 1.0)  # Modules that the first call imports add options to JAX, which it traces for.
    for value in VALUES:
        np.testing.assert_array_equal(call(x, value), square(x, value))
    assert traced == 1


@pytest.mark.parametrize("static", [False, True])
def test_jax_traces_as_often_as_for_a_product(static: bool) -> None:
    strong = [] if static else [np.float32(2.0), jnp.float32(2.5), jnp.asarray(1.5), 3]
    counts: list[int] = []
    for function in (lambda x, a: x * a * x, lambda x, a: square(x, a)):
        traced: list[None] = []

        def call(x: Any, a: Any, function: Any = function, traced: Any = traced) -> Any:
            traced.append(None)
            return function(x, a)

        x = jnp.arange(4, dtype=jnp.float32)
        square(x, 1.0)
        compiled = jax.jit(call, static_argnums=1 if static else ())
        for value in (*VALUES, *strong, *VALUES):
            np.testing.assert_allclose(compiled(x, value), float(value) * x * x, rtol=1e-6)
        counts.append(len(traced))
    assert counts[1] <= counts[0]
