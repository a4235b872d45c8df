"""torch operators on the device of the suite: values, gradients, streams, graphs, compilation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kernelcore as kc
from tests.helpers.environment import DEVICE, IS_CPU
from torch_ext import torch_op


@kc.kernel
def wave(x: kc.array(dtype=float), w: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = kc.sin(w * x[i]) * x[i]


def expected(x: torch.Tensor, w: float) -> torch.Tensor:
    return torch.sin(w * x) * x


def sample(size: int = 4096) -> torch.Tensor:
    return torch.linspace(-2.0, 2.0, size, device=DEVICE)


def test_results_are_where_the_operands_are() -> None:
    x = sample()
    found = torch_op(wave)(x, 3.0)
    assert found.device == x.device
    torch.testing.assert_close(found, expected(x, 3.0))


def test_gradients_are_those_of_torch() -> None:
    x, z = sample().requires_grad_(), sample().requires_grad_()
    torch_op(wave)(x, 3.0).square().sum().backward()
    expected(z, 3.0).square().sum().backward()
    torch.testing.assert_close(x.grad, z.grad, rtol=1e-4, atol=1e-4)


def test_operators_use_the_current_stream() -> None:
    if IS_CPU:
        return
    op, x = torch_op(wave), sample(1 << 20)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x
        for _ in range(20):
            y = op(y, 1.5) + 0.25
    torch.cuda.current_stream().wait_stream(stream)
    z = x
    for _ in range(20):
        z = expected(z, 1.5) + 0.25
    torch.testing.assert_close(y, z, rtol=1e-3, atol=1e-3)


def test_a_cuda_graph_holds_operators() -> None:
    if IS_CPU:
        return
    op, x = torch_op(wave), sample()
    op(x, 2.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(op(x, 2.0), 0.5)
    x.mul_(0.5)
    graph.replay()
    torch.testing.assert_close(y, expected(expected(x, 2.0), 0.5))


def test_compiled_programs_replay_one_graph() -> None:
    op = torch_op(wave)
    mode = "default" if IS_CPU else "reduce-overhead"
    compiled = torch.compile(lambda x: op(x * 2.0, 1.5).sum(), fullgraph=True, mode=mode)
    for k in range(4):
        x = (sample() + 0.1 * k).requires_grad_()
        z = x.detach().clone().requires_grad_()
        found, wanted = compiled(x), expected(z * 2.0, 1.5).sum()
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-2)
        np.testing.assert_allclose(
            torch.autograd.grad(found, x)[0].cpu(),
            torch.autograd.grad(wanted, z)[0].cpu(),
            rtol=1e-3,
            atol=1e-3,
        )


@kc.kernel
def moved(offset: kc.vec3, points: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    points[i] = points[i] + offset


@kc.kernel
def rooted(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] >= 0.0, "a negative number"
    y[i] = kc.sqrt(x[i])


def test_scalars_are_read_where_they_are() -> None:
    x = sample()
    for device in ("cpu", DEVICE):
        w, v = (torch.tensor(3.0, device=device, requires_grad=True) for _ in range(2))
        torch_op(wave)(x, w).sum().backward()
        expected(x, v).sum().backward()  # pyright: ignore[reportArgumentType]
        assert w.grad is not None
        assert w.grad.device == w.device
        torch.testing.assert_close(w.grad, v.grad, rtol=1e-3, atol=1e-2)


def test_values_and_strides_of_updated_arrays() -> None:
    points = torch.arange(24.0, device=DEVICE).reshape(3, 8).t()
    found = torch_op(moved)((1.0, 2.0, 3.0), points)
    torch.testing.assert_close(found, points + torch.tensor([1.0, 2.0, 3.0], device=DEVICE))


def test_a_failed_assertion_is_raised() -> None:
    op, x = torch_op(rooted), sample(16)

    def finish() -> None:
        op(x)
        kc.synchronize()

    with pytest.raises(kc.KernelAssertionError, match="a negative number"):
        finish()
    torch.testing.assert_close(op(x.square()), x.abs())
