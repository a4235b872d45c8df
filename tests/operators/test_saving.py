"""Operations that save results of loops: which results, and what their adjoints still run."""

from __future__ import annotations

import pytest
import torch

import kernelcore as kc
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.operators import Operation, derive, kernel_operation, saving, vjp_of_saved

F2, F1 = kc.array(kc.float64, 2), kc.array(kc.float64, 1)


@kc.kernel
def softmax(x: F2, y: F2):
    i = kc.tid()
    top = x[i, 0]
    for k in range(x.shape[1]):
        top = kc.max(top, x[i, k])
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k] - top)
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k] - top) / total


@kc.kernel
def sums(x: F2, y: F2):
    # The adjoint needs no sum.
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
    y[i, 0] = total


@kc.kernel
def recurrence(x: F2, y: F2):
    # The adjoint needs what every iteration carried.
    i = kc.tid()
    state = kc.float64(0.5)
    for k in range(x.shape[1]):
        state = kc.sin(state * x[i, k])
    y[i, 0] = state * state


@kc.kernel
def few_terms(x: F2, y: F2):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(3):
        total += x[i, k] * x[i, k]
    y[i, 0] = kc.sqrt(total)


@kc.kernel
def rooms(x: F2, y: F2):
    # Only one of two loops is needed again.
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    plain = kc.float64(0.0)
    for k in range(x.shape[1]):
        plain += x[i, k]
    y[i, 0] = kc.sqrt(total) + plain


@kc.kernel
def largest_of_recorded(x: F2, y: F2):
    # The first loop runs again, and adds up in another order than in the kernel: what it gives the
    # second one would not have the bits of the saved extremum.
    i = kc.tid()
    state = kc.float64(0.5)
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        state = kc.sin(state * x[i, k])
        total += x[i, k] * x[i, k]
    top = kc.float64(0.0)
    for k in range(x.shape[1]):
        top = kc.max(top, kc.exp(x[i, k] - total))
    y[i, 0] = top * state


@kc.kernel
def largest_of_written(x: F2, y: F2):
    # The kernel changes what it takes the largest of.
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] * x[i, k]
    top = kc.float64(0.0)
    for k in range(x.shape[1]):
        top = kc.max(top, y[i, k])
    y[i, 0] = top * top


def operation(kernel: kc.Kernel) -> Operation:
    return kernel_operation(kernel, ["y"], launch_dims=("x.shape[0]",), output_dims="x")


def loops(op: Operation) -> int:
    return sum(e.op.kind is OpKind.FOR for e in walk_eqns(op.func.body))


@pytest.mark.parametrize(
    ("kernel", "saved", "spared"),
    [(softmax, ["saved_top", "saved_total"], 2), (rooms, ["saved_sqrt"], 1)],
)
def test_results_that_spare_loops_are_saved(
    kernel: kc.Kernel, saved: list[str], spared: int
) -> None:
    op = operation(kernel)
    made = saving(op, (0,))
    assert made is not None
    assert [r.name for r in made.outputs] == ["y", *saved]
    assert all(r.shape == op.grid for r in made.outputs[1:])
    plain, short = derive.vjp(op, (0,), (0,)), vjp_of_saved(op, (0,), (0,))
    assert [o.name for o in short.operation.operands] == ["x", *saved, "ct_y"]
    assert short.produced == plain.produced
    assert loops(plain.operation) - loops(short.operation) == spared


@kc.func
def root(a: kc.float64) -> kc.float64:
    guess = a + 1.0
    for _ in range(8):
        guess = 0.5 * (guess + a / guess)
    return guess


@kc.func_replay(root)
def root_in_closed_form(a: kc.float64) -> kc.float64:
    return kc.sqrt(a)


@kc.kernel
def largest_of_replayed(x: F2, y: F2):
    # What the adjoint replays has other last bits than what the forward would save.
    i = kc.tid()
    largest = kc.float64(0.0)
    for k in range(x.shape[1]):
        largest = kc.max(largest, root(x[i, k]))
    y[i, 0] = largest


def test_extrema_of_replayed_values_have_gradients() -> None:
    op = kc.op(launch_dims="x.shape[0]", output_dims="x")(largest_of_replayed)
    x = torch.linspace(1.0, 5.0, 320, dtype=torch.float64).reshape(40, 8).requires_grad_()
    y = op(x)
    y[:, 0].sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.sum(1), (0.5 / y[:, 0]).detach())


@pytest.mark.parametrize(
    "kernel",
    [sums, recurrence, few_terms, largest_of_recorded, largest_of_written, largest_of_replayed],
)
def test_nothing_is_saved_where_no_loop_is_spared(kernel: kc.Kernel) -> None:
    assert saving(operation(kernel), (0,)) is None


def test_nothing_is_saved_for_no_derivative() -> None:
    assert saving(operation(softmax), ()) is None


@kc.kernel
def variances(x: F2, w: F1, y: F2):
    # For ``w`` alone, the adjoint needs the mean for nothing but to be spared the other loop.
    i = kc.tid()
    mean = kc.float64(0.0)
    for k in range(x.shape[1]):
        mean += x[i, k] / kc.float64(x.shape[1])
    variance = kc.float64(0.0)
    for k in range(x.shape[1]):
        variance += (x[i, k] - mean) * (x[i, k] - mean)
    y[i, 0] = variance * w[0]


def test_nothing_is_saved_that_would_not_spare_its_loop() -> None:
    op = operation(variances)
    assert saving(op, (1,)) is None
    assert saving(op, (0, 1)) is not None
    plain, short = derive.vjp(op, (0, 1), (0,)), vjp_of_saved(op, (0, 1), (0,))
    assert loops(short.operation) < loops(plain.operation)
