"""Operators follow the names around a kernel in every framework; what was captured keeps them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paddle
import pytest
import torch

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from paddle_ext import paddle_op
from tests.launch.test_changed_names import Session
from torch_ext import torch_callable, torch_op

KERNEL = """
SCALE, SHIFT = 2.0, 0.0

@kc.func
def g(a: float):
    return SCALE * a

@kc.kernel
def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = g(x[i]) + SHIFT

@kc.kernel
def any_k(x: kc.array(dtype=Any, ndim=...), y: kc.array(dtype=Any, ndim=...)):
    i = kc.tid()
    y[i] = g(x[i]) + SHIFT

@kc.kernel
def flat_k(x: kc.array(dtype=float, ndim=...), y: kc.array(dtype=float, ndim=...)):
    i = kc.tid()
    y[i] = g(x[i]) + SHIFT

@kc.struct
class Pair:
    a: float
    b: kc.array(dtype=float)

@kc.kernel
def of_struct(p: Pair, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = g(p.b[i]) + SHIFT * p.a

@kc.kernel
def update(x: kc.array(dtype=float, ndim=...), y: kc.array(dtype=float, ndim=...)):
    i = kc.tid()
    y[i] = 0.0 * y[i] + g(x[i]) + SHIFT

def launches(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    kc.launch(k, x.shape, [x], [y])
"""


def _plain(op: Any, x: Any) -> Any:
    return op(x)


def _first(op: Any, x: Any) -> Any:
    return op(x)[0]


def _updated(op: Any, x: Any) -> Any:
    y = torch.zeros_like(x)
    op(x, y)
    return y


# What makes an operator of a session, what calls it, and what makes its argument.
CASES: dict[str, tuple[Callable[[Session], Any], Callable[[Any, Any], Any], Any]] = {
    "torch": (lambda s: torch_op(s["k"]), _plain, torch.tensor),
    "torch, out": (
        lambda s: torch_op(s["k"]),
        lambda op, x: op(x, out=torch.empty(0)),
        torch.tensor,
    ),
    "torch, any rank": (lambda s: torch_op(s["flat_k"]), _plain, torch.tensor),
    "torch, generic": (lambda s: torch_op(s["any_k"], outputs=["y"]), _plain, torch.tensor),
    "torch, struct": (
        lambda s: torch_op(s["of_struct"]),
        lambda op, x: op((1.0, x)),
        torch.tensor,
    ),
    "torch, struct, out": (
        lambda s: torch_op(s["of_struct"]),
        lambda op, x: op((1.0, x), out=torch.empty(0)),
        torch.tensor,
    ),
    "torch, profiled": (lambda s: torch_op(s["k"], profiled=True), _plain, torch.tensor),
    "torch, mutates": (lambda s: torch_op(s["update"], mutates=["y"]), _updated, torch.tensor),
    "torch, vmap": (
        lambda s: torch_op(s["k"]),
        lambda op, x: torch.vmap(op)(x[None])[0],
        torch.tensor,
    ),
    "torch, launches": (lambda s: torch_callable(s["launches"]), _plain, torch.tensor),
    "jax": (lambda s: jax_kernel(s["k"]), _first, jnp.array),
    "jax, launches": (lambda s: jax_callable(s["launches"]), _first, jnp.array),
    "paddle": (lambda s: paddle_op(s["k"]), _plain, paddle.to_tensor),
}
for _name, _array in {
    "torch": torch.tensor,
    "jax": jnp.array,
    "paddle": paddle.to_tensor,
    "numpy": lambda x: np.array(x, np.float32),
    "kernelcore": lambda x: kc.array(x, dtype=float),
}.items():
    CASES[f"kc.op, {_name}"] = (lambda s: kc.op(s["k"]), _plain, _array)
    if _name != "paddle":
        CASES[f"kc.op, {_name}, launches"] = (lambda s: kc.op(s["launches"]), _plain, _array)


@pytest.mark.parametrize("mode", ["release", "debug"])
@pytest.mark.parametrize("name", CASES)
def test_eager_calls_follow(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kc.config, "mode", mode)
    s = Session(KERNEL)
    make, run, array = CASES[name]
    op = make(s)

    def call(x: float) -> float:
        # The second call takes another way.
        found = [float(np.asarray(run(op, array([x])))[0]) for _ in range(2)]
        assert found[0] == found[1]
        return found[0]

    assert call(3.0) == 6.0
    s.names["SCALE"] = 5.0
    assert call(3.0) == 15.0
    s.run("@kc.func\ndef g(a: float):\n    return a - SCALE\n")
    assert call(3.0) == -2.0
    s.names.update(SHIFT=1.0, SCALE=float("5.0"))
    assert call(3.0) == -1.0
    s.names["SHIFT"] = 0.0
    assert call(3.0) == -2.0


def test_gradients_are_those_of_the_forward_pass() -> None:
    s = Session(KERNEL)
    op = torch_op(s["k"])
    x = torch.ones(2, requires_grad=True)
    y = op(x).sum()
    s.names["SCALE"] = 7.0
    assert torch.autograd.grad(y, x)[0].tolist() == [2.0, 2.0]
    assert torch.autograd.grad(op(x).sum(), x)[0].tolist() == [7.0, 7.0]
    op = paddle_op(s["k"])
    z = paddle.ones([2], "float32")
    z.stop_gradient = False
    y = op(z).sum()
    s.names["SCALE"] = 3.0
    y.backward()
    assert np.asarray(z.grad).tolist() == [7.0, 7.0]


@pytest.mark.parametrize("make", [lambda s: torch_op(s["k"]), lambda s: kc.op(s["k"]).torch])
def test_graphs_keep_what_they_were_captured_with(make: Callable[[Session], Any]) -> None:
    s = Session(KERNEL)
    op, x = make(s), torch.ones(2)
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend="eager")
    exported = torch.export.export(_Model(op), (x,)).module()
    jitted = jax.jit(lambda x: jax_kernel(s["k"])(x)[0])
    calls = [lambda: compiled(x), lambda: exported(x), lambda: jitted(jnp.ones(2))]
    for call in calls:
        assert call().tolist() == [2.0, 2.0]
    s.names["SCALE"] = 4.0
    for call in calls:
        assert call().tolist() == [2.0, 2.0]
    again = torch.compile(lambda x: op(x) + 0.0, fullgraph=True, backend="eager")
    assert again(x).tolist() == op(x).tolist() == [4.0, 4.0]


class _Model(torch.nn.Module):
    def __init__(self, op: Callable[..., Any]) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x)


def test_a_version_that_writes_something_else_is_refused() -> None:
    s = Session(
        "FLAG = False\n@kc.kernel\ndef k(x: kc.array(dtype=float), y: kc.array(dtype=float)):\n"
        "    i = kc.tid()\n    y[i] = x[i]\n    if kc.static(FLAG):\n        x[i] = 0.0\n"
    )
    op, x = torch_op(s["k"]), torch.ones(2)
    assert op(x).tolist() == [1.0, 1.0]
    s.names["FLAG"] = True
    with pytest.raises(kc.KernelArgumentError, match="writes 'x', which is neither an output"):
        op(x)
    s.names["FLAG"] = False
    assert op(x).tolist() == [1.0, 1.0]


def test_a_named_operator_that_changed_is_not_exported() -> None:
    s = Session(KERNEL)
    op, x = torch_op(s["k"], name="changed_names::k"), torch.ones(2)
    s.names["SCALE"] = math.pi
    assert op(x).tolist() == [float(np.float32(math.pi))] * 2
    with pytest.raises(Exception, match="'changed_names::k' exists and computes something else"):
        torch.export.export(_Model(op), (x,))
