"""Operators of kc.op under autocast, torch.func, opcheck and export, as torch's own are."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch.export import Dim, export

import kernelcore as kc
from tests.operators.contract.cases import (
    Floats,
    axpy,
    histogram,
    polar,
    quartic,
    ramp,
    repeated,
    swish,
    wave,
)


@kc.op(outputs="z")
@kc.kernel
def product(x: kc.array2d[Any], y: kc.array2d[Any], z: kc.array2d[Any]):
    i, j = kc.tid()
    z[i, j] = x[i, j] * y[i, j]


@kc.op(mutates="y")
@kc.kernel
def increase(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = y[i] + x[i]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_autocast_widens_the_arguments_of_generic_operators(
    narrow: torch.dtype, compiled: bool
) -> None:
    torch.compiler.reset()
    call = product
    if compiled:
        call = torch.compile(lambda x, y: product(x, y), fullgraph=True, backend="aot_eager")
    x, y = torch.rand(3, 4, requires_grad=True), torch.rand(3, 4).to(narrow).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        found = call(x, y)
        assert torch.equal(found, x * y)
        assert found.dtype == (x * y).dtype == torch.float32
    found.sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert x.grad.dtype == torch.float32
    assert y.grad.dtype == narrow
    assert torch.equal(x.grad, y.detach().float())
    with pytest.raises(kc.KernelError, match="different types"):
        product(x, y)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (wave, (torch.rand(5, requires_grad=True), 1.5)),
        (polar, (torch.rand(5, requires_grad=True), torch.rand(5) + 1.0)),
        (axpy, (0.5, torch.rand(5), torch.rand(5, requires_grad=True))),
        (histogram, (torch.rand(3), torch.tensor([0, 1, 1], dtype=torch.int32), 4)),
        (ramp, (3, 4, 0.5)),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_opcheck_passes(op: Any, args: tuple[Any, ...]) -> None:
    torch.library.opcheck(op.overload, args)


@pytest.mark.parametrize("op", [product, repeated, quartic], ids=lambda op: op.__name__)
def test_operators_that_torch_registers_by_call_have_no_overload(op: Any) -> None:
    with pytest.raises(kc.KernelArgumentError, match="registers once") as raised:
        _ = op.overload
    assert "generic kernels, functions and extents that a callable decides" in str(raised.value)


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\.\w+. is deprecated")
def test_transforms_of_torch_func() -> None:
    x = torch.rand(4)
    hessian = torch.func.hessian(lambda x: wave(x, 1.5).sum())(x)
    torch.testing.assert_close(hessian, torch.diag(-2.25 * torch.sin(1.5 * x)))
    jacobian = torch.func.vmap(torch.func.jacrev(lambda x: polar(x, x * x).radius))(x[:, None])
    want = torch.func.vmap(torch.func.jacrev(lambda x: (x * x + x**4).sqrt()))(x[:, None])
    torch.testing.assert_close(jacobian, want)
    tangent = torch.func.jvp(repeated, (x,), (torch.ones(4),))[1]
    assert torch.equal(tangent, torch.full((8,), 3.0))


def test_a_batch_of_extents_is_refused() -> None:
    with pytest.raises(kc.KernelError, match=r"argument 'h': expected a number"):
        torch.func.vmap(ramp.torch, in_dims=(0, None, None))(torch.arange(3), 4, 0.5)


def test_gradients_where_an_extent_is_a_number_and_a_scalar_a_tensor() -> None:
    scale = torch.tensor(0.5, requires_grad=True)
    ramp(3, 4, scale).sum().backward()
    assert scale.grad is not None
    assert scale.grad == sum(10.0 * i + j for i in range(3) for j in range(4))
    found = torch.func.vmap(lambda s: ramp(2, 3, s))(torch.tensor([1.0, 2.0]))
    assert torch.equal(found[1], 2.0 * found[0])


@pytest.mark.parametrize("strict", [False, True])
def test_exported_programs(strict: bool) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            found = polar(wave(x, 2.0), y)
            return found.radius + found.slope, repeated(x), repeated(x, launch_dims=3)

    x, y = torch.rand(5) + 0.5, torch.rand(5)
    n = Dim("n", min=2)
    program = export(Model(), (x, y), dynamic_shapes=({0: n}, {0: n}), strict=strict)
    other = torch.rand(7) + 0.5
    for found, want in zip(program.module()(other, other), Model()(other, other), strict=True):
        assert torch.equal(found, want)


def test_updates_in_place() -> None:
    x, y = torch.ones(3), torch.arange(3.0)
    assert increase(x, y) is None
    assert y.tolist() == [1, 2, 3]
    base = torch.zeros(3, requires_grad=True)
    moved = base * 1.0
    increase(x, moved)
    moved.sum().backward()
    assert base.grad is not None
    assert base.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("op", [swish, kc.op(swish.kernel, fuse=False)], ids=["named", "made"])
def test_the_form_of_an_operator_pickles(op: Any) -> None:
    x = torch.randn(2, 3)
    assert torch.equal(pickle.loads(pickle.dumps(op.torch))(x, 2.0), op(x, 2.0))
