"""Reverse mode in plain autograd, first and higher order."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad, grad, gradcheck, gradgradcheck
from torch.func import functionalize, vmap
from torch.utils.checkpoint import checkpoint

import kernelcore as kc
from tests.torch import torch_kernels as k
from torch_ext import torch_op

F64 = torch.float64


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=F64, requires_grad=True)


CASES = {
    "quadratic": (torch_op(k.quadratic), k.quadratic_torch, lambda: (leaf(4), 1.5)),
    "quadratic_tensor": (torch_op(k.quadratic), k.quadratic_torch, lambda: (leaf(4), leaf())),
    "blend": (torch_op(k.blend), k.blend_torch, lambda: (leaf(4), leaf(4))),
    "neighbours": (torch_op(k.neighbours), k.neighbours_torch, lambda: (leaf(5),)),
    "product": (
        torch_op(k.product, launch_dims=("m.shape[0]",)),
        k.product_torch,
        lambda: (leaf(3, 2), leaf(2)),
    ),
    "polar": (torch_op(k.polar), k.polar_torch, lambda: (leaf(3), leaf(3))),
    "energy": (torch_op(k.energy, output_dims=1), k.energy_torch, lambda: (leaf(4),)),
    "grow": (torch_op(k.grow), k.grow_torch, lambda: (leaf(3), leaf(3))),
    "take": (
        torch_op(k.take, launch_dims="index"),
        k.take_torch,
        lambda: (leaf(4), torch.tensor([1, 0, 1], dtype=torch.int32), 1, True),
    ),
}


def tensors(value):
    return value if isinstance(value, tuple) else (value,)


def loss(results) -> torch.Tensor:
    return torch.stack(
        [(r * r * torch.arange(1, r.numel() + 1)).sum() for r in tensors(results)]
    ).sum()


@pytest.fixture(params=CASES)
def case(request):
    torch.manual_seed(0)
    op, reference, make = CASES[request.param]
    return op, reference, make()


def differentiable(args):
    return [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]


def test_gradient_is_that_of_plain_torch(case):
    op, reference, args = case
    wrt = differentiable(args)
    torch.testing.assert_close(op(*args), reference(*args))
    torch.testing.assert_close(grad(loss(op(*args)), wrt), grad(loss(reference(*args)), wrt))


def test_third_order_is_that_of_plain_torch(case):
    op, reference, args = case
    wrt = differentiable(args)

    def third(f):
        value = loss(f(*args))
        for _ in range(2):
            value = torch.stack([(g * g).sum() for g in grad(value, wrt, create_graph=True)]).sum()
        return grad(value, wrt)

    torch.testing.assert_close(third(op), third(reference))


def test_first_and_second_order_match_differences(case):
    op, _, args = case
    assert gradcheck(op, args, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(op, args, check_batched_grad=True)


@pytest.mark.parametrize("wanted", [(True, False), (False, True)])
@pytest.mark.parametrize("used", [0, 1])
def test_only_requested_operands_are_differentiated(wanted, used):
    op, reference, _ = CASES["polar"]
    x, y = (torch.randn(3, dtype=F64).requires_grad_(w) for w in wanted)
    wrt = differentiable((x, y))
    found, expected = (grad(loss(f(x, y)[used]), wrt) for f in (op, reference))
    torch.testing.assert_close(found, expected)


def test_gradient_of_an_independent_operand_is_zero():
    op, _, _ = CASES["polar"]
    x, y = leaf(3), leaf(3)
    (found,) = grad(op(x, y)[0].sum(), y, create_graph=True)
    torch.testing.assert_close(found, 2 * y)
    (found,) = grad(found.sum(), x)
    torch.testing.assert_close(found, torch.zeros(3, dtype=F64))


def test_result_that_does_not_depend_on_an_operand_has_zero_derivatives():
    op = torch_op(k.rounded)
    x, y = leaf(3), leaf(3)
    with forward_ad.dual_level():
        floor, mixed, whole = op(x, forward_ad.make_dual(y, y))
        tangents = [forward_ad.unpack_dual(r).tangent for r in (floor, mixed, whole)]
    torch.testing.assert_close(tangents[:2], [torch.zeros(3, dtype=F64), x * y])
    assert tangents[2] is None
    torch.testing.assert_close(grad(floor.sum(), x), (torch.zeros(3, dtype=F64),))


def test_cotangents_may_have_any_strides():
    op, reference, _ = CASES["blend"]
    x, y = leaf(4), leaf(4)
    for ct in (torch.ones((), dtype=F64).expand(4), torch.randn(8, dtype=F64)[::2]):
        torch.testing.assert_close(grad(op(x, y), (x, y), ct), grad(reference(x, y), (x, y), ct))


def test_empty_tensors_have_empty_gradients():
    op, _, _ = CASES["blend"]
    x, y = leaf(0), leaf(0)
    assert [g.shape for g in grad(op(x, y).sum(), (x, y))] == [(0,), (0,)]


def test_only_tensors_that_the_adjoint_needs_are_kept():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        op = torch_op(k.quadratic)
        op(leaf(3), 2.0)
        assert len(kept) == 1
        kept.clear()
        op(torch.ones(3, dtype=F64), leaf())
        assert [t.shape for t in kept] == [(3,)]


@kc.kernel
def differences(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    if i < x.shape[0] - 1:
        y[i] = x[i + 1] - x[i]
    else:
        y[i] = x[0] - x[i]


def test_linear_operators_keep_nothing():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        x = leaf(4)
        y = torch_op(differences)(x)
    y.backward(torch.arange(4.0, dtype=F64))
    assert kept == []
    torch.testing.assert_close(x.grad, torch.tensor([3.0, -1.0, -1.0, -1.0], dtype=F64))


@kc.kernel
def shifted(
    x: kc.array2d(dtype=kc.float64), b: kc.array(dtype=kc.float64), y: kc.array2d(dtype=kc.float64)
):
    i, j = kc.tid()
    y[i, j] = 2.0 * x[i, j] + 0.5 * b[j]


@pytest.mark.parametrize("transform", [lambda f: f, torch.compile, functionalize])
def test_of_operands_that_are_not_read_only_the_shape_is_kept(transform):
    op, kept = torch_op(shifted), []

    def run(x, scale):
        b = scale * 3.0
        y = op(x, b)
        b.zero_()
        return y

    for columns in (3, 4, 3, 0):
        x, scale = leaf(2, columns), leaf(columns)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            y = transform(run)(x, scale)
        found = grad(y, (x, scale), torch.ones_like(y))
        torch.testing.assert_close(found, (torch.full_like(x, 2.0), torch.full_like(scale, 3.0)))
    assert not any(t.numel() for t in kept if t.ndim)  # There is the factor of the product.


def test_second_derivatives_of_operands_that_are_not_read_are_zero():
    x, b = leaf(2, 3), leaf(3)
    assert gradgradcheck(lambda x, b: torch_op(shifted)(x, b) ** 2, (x, b))
    wanted = torch.ones(5, 3, dtype=F64)
    total = torch.func.grad(lambda b, x: torch_op(shifted)(x, b).sum())
    torch.testing.assert_close(vmap(total)(torch.ones(5, 3, dtype=F64), leaf(5, 2, 3)), wanted)


@kc.kernel
def shift(x: kc.array(dtype=kc.float64), b: kc.array(dtype=kc.float64)):
    i = kc.tid()
    x[i] = 2.0 * x[i] + b[i]


def test_operators_that_write_views_of_their_operands_are_differentiated():
    w = torch.ones(3, dtype=F64, requires_grad=True)
    z = w * 1.0
    torch_op(shift, mutates="x")(z[1:], z[:2])
    assert z.tolist() == [1.0, 3.0, 3.0]
    z.sum().backward()
    torch.testing.assert_close(w.grad, torch.tensor([2.0, 3.0, 2.0], dtype=F64))


def test_checkpoint_recomputes_the_operator():
    op, _, _ = CASES["quadratic"]
    x = leaf(4)
    y = checkpoint(lambda x: op(op(x, 1.0), 2.0), x, use_reentrant=False)
    torch.testing.assert_close(grad(y.sum(), x)[0], 8 * x**3)


def test_gradients_accumulate_in_tensors_and_parameters():
    op, _, _ = CASES["quadratic"]
    x = torch.nn.Parameter(torch.ones(3, dtype=F64))
    for _ in range(2):
        op(x, 2.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 8.0, dtype=F64))


def test_loops_without_iterations_divide_by_nothing() -> None:
    """Of a sum of no quotients, first and second derivatives are zero, though its divisor is."""

    @kc.op(launch_dims=("z.shape[0]",), output_dims=("z.shape[0]",))
    @kc.kernel
    def square_and_quotients(
        x: kc.array2d[kc.float64], z: kc.array[kc.float64], y: kc.array[kc.float64]
    ):
        i = kc.tid()
        divisor, total = z[i], kc.float64(0.0)
        for j in range(x.shape[1]):
            total += kc.sin(x[i, j]) / divisor
        y[i] = total + (divisor - 1.0) * (divisor - 1.0)

    x, z = torch.zeros(2, 0, dtype=F64), torch.zeros(2, dtype=F64, requires_grad=True)
    (first,) = grad(square_and_quotients(x, z).sum(), z, create_graph=True)
    (second,) = grad(first.sum(), z)
    assert torch.equal(first, torch.full_like(first, -2.0))
    assert torch.equal(second, torch.full_like(second, 2.0))
