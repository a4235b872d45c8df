"""Kernels with C++ texts as operators of torch."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import grad

import kernelcore as kc
from tests.helpers.native_programs import (
    exponential_kernel,
    gather_kernel,
    repeated_roots,
    saxpy_kernel,
    scale_kernel,
)
from torch_ext import torch_op


@kc.func_native("return x * x;")
def square(x: float) -> float: ...


@kc.kernel
def square_kernel(x: kc.array(dtype=float), out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = square(x[i])


def leaf(*shape: int) -> torch.Tensor:
    return torch.rand(shape).add(0.5).requires_grad_()


def test_a_text_is_differentiated_by_its_adjoint() -> None:
    a, x, y, ct = leaf(), leaf(7), leaf(7), torch.rand(7)
    out = torch_op(saxpy_kernel, output_dims="x")(a, x, y)
    torch.testing.assert_close(out, a * x + y)
    found = grad(out, (a, x, y), ct)
    torch.testing.assert_close(found, grad(a * x + y, (a, x, y), ct))


def test_shared_elements_are_summed() -> None:
    table, index = leaf(3), torch.tensor([2, 0, 2, 2], dtype=torch.int32)
    out = torch_op(gather_kernel, launch_dims="index", output_dims="index")(table, index)
    torch.testing.assert_close(out, table[index])
    (found,) = grad(out.sum(), table)
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0, 3.0]))


def test_results_in_loops_are_differentiated() -> None:
    x = leaf(5)
    (found,) = grad(torch_op(repeated_roots)(x, 2).sum(), x)
    expected = x
    for _ in range(2):
        expected = 2 * expected * torch.sqrt(expected)
    torch.testing.assert_close(found, grad(expected.sum(), x)[0], rtol=1e-5, atol=1e-5)


def test_an_adjoint_may_read_arrays_that_its_snippet_wrote() -> None:
    x = leaf(6)
    op = torch_op(exponential_kernel, output_dims="x")
    out = op(x.detach(), torch.zeros(6))
    torch.testing.assert_close(out, x.exp())
    (found,) = grad(op(x, torch.zeros(6)).sum(), x)
    torch.testing.assert_close(found, x.exp())


def test_an_array_that_a_text_updates_is_copied_and_differentiated() -> None:
    x, a = leaf(4), leaf()
    before = x.detach().clone()
    out = torch_op(scale_kernel)(x, a)
    torch.testing.assert_close(out, x * a)
    torch.testing.assert_close(x.detach(), before)
    ct = torch.rand(4)
    torch.testing.assert_close(grad(out, (x, a), ct), grad(x * a, (x, a), ct))


def test_a_text_is_batched() -> None:
    a, x, y = torch.rand(3), torch.rand(3, 5), torch.rand(5)
    found = torch.vmap(torch_op(saxpy_kernel, output_dims="x"), (0, 0, None))(a, x, y)
    torch.testing.assert_close(found, a[:, None] * x + y)
    ct = torch.rand(3, 5)
    leaves = [t.requires_grad_() for t in (a, x, y)]
    found = torch.vmap(torch_op(saxpy_kernel, output_dims="x"), (0, 0, None))(*leaves)
    torch.testing.assert_close(grad(found, leaves, ct), grad(a[:, None] * x + y, leaves, ct))


def test_a_text_without_an_adjoint_runs_and_has_no_gradient() -> None:
    op, x = torch_op(square_kernel), leaf(3)
    torch.testing.assert_close(op(x.detach()), x.detach() ** 2)
    with pytest.raises(kc.KernelGradError, match=r"square\(\) is a native snippet without an adj"):
        op(x).sum().backward()
