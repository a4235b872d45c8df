"""Calls that autograd records save results of loops; every other use of the graph has them too."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import kernelcore as kc
from torch_ext import torch_op

F64 = torch.float64


@kc.kernel
def moments(x: kc.array2d(kc.float64), w: kc.array(kc.float64), y: kc.array2d(kc.float64),
            spread: kc.array(kc.float64)):  # fmt: skip
    i = kc.tid()
    mean = kc.float64(0.0)
    for k in range(x.shape[1]):
        mean += x[i, k]
    mean = mean / kc.float64(x.shape[1])
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += (x[i, k] - mean) * (x[i, k] - mean)
    for k in range(x.shape[1]):
        y[i, k] = (x[i, k] - mean) / kc.sqrt(total + 0.1) * w[k]
    spread[i] = kc.log(total + 1.0)


op = torch_op(
    moments,
    outputs=["y", "spread"],
    launch_dims=("x.shape[0]",),
    output_dims={"y": "x", "spread": ("x.shape[0]",)},
)


def reference(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    away = x - x.mean(-1, keepdim=True)
    total = (away * away).sum(-1)
    return away / (total[..., None] + 0.1).sqrt() * w, (total + 1.0).log()


def leaves(*shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(shape))
    made = [torch.randn(*s, dtype=F64, generator=generator) for s in (shape, shape[-1:])]
    return [m.requires_grad_() for m in made]


@kc.func
def logistic(x: kc.float64):
    return kc.float64(1.0) / (kc.float64(1.0) + kc.exp(-x))


def layer(activation: Any) -> kc.Kernel:
    @kc.kernel
    def kernel(w: kc.array2d(kc.float64), x: kc.array(kc.float64), y: kc.array(kc.float64)):
        i = kc.tid()
        total = kc.float64(0.0)
        for k in range(x.shape[0]):
            total += w[i, k] * x[k]
        y[i] = activation(total)

    return kernel


@pytest.mark.parametrize(
    ("activation", "saved", "by_torch"),
    [
        (kc.tanh, torch.tanh, torch.tanh),
        (kc.sin, torch.clone, torch.sin),
        # Its adjoint needs two of the functions, so it gets the one total.
        (logistic, torch.clone, torch.sigmoid),
    ],
)
def test_what_an_activation_needs_is_saved(
    activation: Any,
    saved: Callable[[torch.Tensor], torch.Tensor],
    by_torch: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    rows = ("w.shape[0]",)
    op = torch_op(layer(activation), outputs=["y"], launch_dims=rows, output_dims={"y": rows})
    w, x = leaves(5, 40)
    y, total = op(w, x), w @ x
    torch.testing.assert_close(y.grad_fn.saved_tensors[2], saved(total).detach())
    ct = torch.arange(1.0, 6.0, dtype=F64)
    found = torch.autograd.grad(y, (w, x), ct)
    torch.testing.assert_close(found, torch.autograd.grad(by_torch(total), (w, x), ct))


@kc.kernel
def two_sums(w: kc.array2d(kc.float64), x: kc.array(kc.float64), y: kc.array(kc.float64)):
    i = kc.tid()
    total = kc.float64(0.0)
    other = kc.float64(0.0)
    for k in range(x.shape[0]):
        total += w[i, k] * x[k]
        other += w[i, k] * w[i, k]
    y[i] = kc.tanh(total) * other


def test_loops_with_two_results_save_both() -> None:
    rows = ("w.shape[0]",)
    op = torch_op(two_sums, outputs=["y"], launch_dims=rows, output_dims={"y": rows})
    w, x = leaves(5, 40)
    y = op(w, x)
    for found, wanted in zip(y.grad_fn.saved_tensors[2:], (w @ x, (w * w).sum(1)), strict=True):
        torch.testing.assert_close(found, wanted.detach())


def test_saved_results_have_the_shape_of_the_launch() -> None:
    y, _ = op(*leaves(5, 40))
    assert [t.shape for t in y.grad_fn.saved_tensors] == [(5, 40), (40,), (5,), (5,)]


@pytest.mark.parametrize("shape", [(1, 1), (5, 40), (37, 70), (0, 3), (3, 0)])
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("wanted", [(0, 1), (0,), (1,)])
def test_gradients_are_those_of_torch(
    shape: tuple[int, int], given: tuple[bool, bool], wanted: tuple[int, ...]
) -> None:
    found: list[tuple[torch.Tensor | None, ...]] = []
    for function in (op, reference):
        args = [a if k in wanted else a.detach() for k, a in enumerate(leaves(*shape))]
        results = [r for r, is_given in zip(function(*args), given, strict=True) if is_given]
        cotangents = [torch.cos(torch.arange(r.numel(), dtype=F64)).view_as(r) for r in results]
        needed = [args[k] for k in wanted]
        if not all(r.requires_grad for r in results):
            return
        grads = torch.autograd.grad(results, needed, cotangents, allow_unused=True)
        found.append(tuple(g if g is None else g.clone() for g in grads))
    for one, other in zip(*found, strict=True):
        other = torch.zeros_like(one) if other is None and one is not None else other
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def loss(function: Callable[..., tuple[torch.Tensor, torch.Tensor]], *args: torch.Tensor):
    y, spread = function(*args)
    return (y * y * y).sum() + (spread * spread).sum()


def test_second_derivatives_run_the_loops_again() -> None:
    args = leaves(4, 33)
    assert torch.autograd.gradgradcheck(lambda *a: loss(op, *a), args, atol=1e-6)


def test_a_graph_that_is_kept_gives_the_same_gradients_twice() -> None:
    args = leaves(4, 33)
    value = loss(op, *args)
    first = torch.autograd.grad(value, args, retain_graph=True)
    recorded = torch.autograd.grad(value, args, retain_graph=True, create_graph=True)
    again = torch.autograd.grad(value, args)
    for one, other, third in zip(first, again, recorded, strict=True):
        assert torch.equal(one, other)
        torch.testing.assert_close(one, third, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_checkpoints_save_again(is_reentrant: bool) -> None:
    args = leaves(4, 33)
    plain = torch.autograd.grad(loss(op, *args), args)
    value = checkpoint(lambda *a: loss(op, *a), *args, use_reentrant=is_reentrant)
    value.backward()
    for arg, wanted in zip(args, plain, strict=True):
        assert arg.grad is not None
        assert torch.equal(arg.grad, wanted)


def test_hooks_see_saved_results() -> None:
    args, packed = leaves(4, 33), []
    plain = torch.autograd.grad(loss(op, *args), args)

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tuple(tensor.shape))
        return tensor.clone()

    with saved_tensors_hooks(pack, lambda t: t):
        value = loss(op, *args)
    assert packed[:4] == [(4, 33), (33,), (4,), (4,)]
    for one, other in zip(torch.autograd.grad(value, args), plain, strict=True):
        assert torch.equal(one, other)
    with save_on_cpu():
        value = loss(op, *args)
    for one, other in zip(torch.autograd.grad(value, args), plain, strict=True):
        assert torch.equal(one, other)


def test_an_operand_that_changed_is_refused() -> None:
    x, w = leaves(4, 33)
    moved = x * 1.0
    value = loss(op, moved, w)
    moved.data.view(-1)  # Not seen by autograd.
    with torch.no_grad():
        moved.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_batches_save_too() -> None:
    x, w = leaves(3, 5, 33)[0], leaves(5, 33)[1]
    batched = torch.vmap(op, (0, None))
    y, _ = batched(x, w)
    assert (3, 5) in [tuple(t.shape) for t in y.grad_fn.saved_tensors]
    found = torch.autograd.grad(loss(batched, x, w), [x, w])
    wanted = torch.autograd.grad(loss(reference, x, w), [x, w])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    per_sample = torch.vmap(torch.func.grad(lambda a, b: loss(op, a, b)), (0, None))(x, w)
    torch.testing.assert_close(per_sample, found[0], rtol=1e-11, atol=1e-12)


def test_a_graph_that_is_dropped_frees_what_was_saved() -> None:
    y, spread = op(*leaves(4, 33))
    saved = [weakref.ref(t) for t in y.grad_fn.saved_tensors]
    gc.collect()
    del y, spread
    gc.collect()
    assert all(s() is None for s in saved[2:])


@kc.kernel
def counted(
    x: kc.array2d(dtype=kc.float64), w: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)
):
    i = kc.tid()
    total = kc.float64(0.0)
    for t in range(x.shape[1]):
        c = 0
        while c * c < t:
            c += 1
        total += x[i, t] * kc.float64(c)
    y[i] = w[i] * total


@kc.kernel
def blended(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    s = kc.float64(1.0)
    for _ in range(x.shape[0]):
        w = 0
        while w < 2:
            s = s * 0.5 + x[i]
            w += 1
    y[i] = s * x[i]


def test_inner_loops_are_spared_unless_the_adjoint_asks_how_often_they_ran() -> None:
    rows = ("w.shape[0]",)
    x, w = leaves(9, 5)[0].detach().T.contiguous(), torch.ones(5, dtype=F64, requires_grad=True)
    y = torch_op(counted, launch_dims=rows, output_dims=rows)(x, w)
    factors = torch.tensor([0.0, 1, 2, 2, 2, 3, 3, 3, 3], dtype=F64)
    torch.testing.assert_close(y.grad_fn.saved_tensors[-1], x @ factors)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), w)[0], x @ factors)
    x = torch.tensor([0.5, 1.0, 2.0], dtype=F64, requires_grad=True)
    torch_op(blended)(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([1.984375, 3.953125, 7.890625], dtype=F64))
