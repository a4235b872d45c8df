"""Ways to make an operator: decorators, generic kernels, updates in place, profiled calls."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch.profiler import profile

import kernelcore as kc
from tests.torch import torch_kernels as k
from torch_ext import overload, torch_op

grow = torch_op(k.grow, mutates=["state"])


@torch_op
@kc.kernel
def doubled(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[i]


@torch_op(output_dims=1)
def total(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    """The sum."""
    i = kc.tid()
    kc.atomic_add(y, 0, x[i])


@torch_op(outputs=["y"])
def scaled(x: kc.array(dtype=Any), a: Any, y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


@kc.kernel
def counted(y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[i, j] += 1.0


@kc.kernel
def half(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = x[i] / x.dtype(2)


@kc.kernel
def exchanged(a: kc.array(dtype=kc.float64), b: kc.array(dtype=kc.float64)):
    i = kc.tid()
    kept = a[i]
    a[i] = b[i]
    b[i] = kept


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def test_decorators_make_operators_of_kernels_and_functions():
    x = torch.randn(4)
    torch.testing.assert_close(doubled(x), 2 * x)
    torch.testing.assert_close(total(x), x.sum().reshape(1))
    assert (total.__name__, total.__doc__) == ("total", "The sum.")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_generic_kernels_take_the_types_of_their_arguments(dtype):
    x, a = torch.arange(5).to(dtype), torch.tensor(3, dtype=dtype)
    found = scaled(x, a)
    assert found.dtype is dtype
    torch.testing.assert_close(found, a * x * x)
    torch.testing.assert_close(scaled(a=a, x=x), a * x * x)
    if dtype.is_floating_point:
        torch.testing.assert_close(torch.func.jacfwd(scaled, 1)(x, a), x * x)


def test_generic_kernels_are_one_graph_for_all_sizes():
    compiled = torch.compile(scaled, fullgraph=True, dynamic=True, backend="aot_eager")
    a = torch.tensor(1.5, dtype=torch.float64)
    for n in (4, 5, 7):
        x = leaf(n)
        with torch._dynamo.config.patch(error_on_recompile=True):
            y = compiled(x, a)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 3 * x)


def test_an_error_names_the_types_that_a_generic_kernel_needs():
    with pytest.raises(
        kc.KernelArgumentError, match=r"name its results, for example outputs=\"y\""
    ):
        torch_op(half)
    with pytest.raises(kc.KernelArgumentError, match="no parameter is named 'z'"):
        torch_op(half, outputs=["z"])
    with pytest.raises(kc.KernelTypeError, match=r"expected .* found"):
        scaled(torch.ones(2, dtype=torch.complex64), 2)
    with pytest.raises(kc.KernelArgumentError, match="'a' is missing"):
        scaled(torch.ones(2))
    with pytest.raises(kc.KernelArgumentError, match="expected an operator"):
        overload(scaled)


def test_mutated_tensors_are_updated_and_not_returned():
    x, state = torch.randn(4, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    expected = k.grow_torch(x, state[::2])
    version = state._version
    assert grow(x, state[::2]) is None
    torch.testing.assert_close(state[::2], expected)
    assert state._version == version + 1


@kc.struct
class Weights:
    old: float
    new: float


@kc.kernel
def blended(
    w: Weights,
    x: kc.array(dtype=float, ndim=...),
    state: kc.array(dtype=float, ndim=...),
    y: kc.array(dtype=float, ndim=...),
):
    i = kc.tid()
    state[i] = w.old * state[i] + w.new * x[i]
    y[i] = 2.0 * x[i]


@pytest.mark.parametrize("by_operand", [False, True])
def test_mutated_tensors_of_any_rank_and_stride_are_updated(by_operand):
    op = torch_op(blended, mutates=["state"])
    weights = (2.0, 3.0) if by_operand else ({"old": 2.0, "new": 3.0},)
    for state in (torch.ones(3, 4), torch.ones(4, 3).T, torch.ones(3, 8)[:, ::2], torch.ones(())):
        x = torch.arange(state.numel(), dtype=torch.float32).reshape(state.shape)
        expected = 2.0 * state + 3.0 * x
        torch.testing.assert_close(op(*weights, x, state), 2.0 * x)
        torch.testing.assert_close(state, expected)
    compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
    state = torch.ones(4, 3).T
    compiled(*weights, torch.ones(3, 4), state)
    assert state.tolist() == [[5.0] * 4] * 3


@kc.kernel
def mixed(
    x: kc.array(dtype=Any, ndim=...),
    state: kc.array(dtype=Any, ndim=...),
    y: kc.array(dtype=Any, ndim=...),
):
    i = kc.tid()
    state[i] = state[i] * state[i] + x[i]
    y[i] = x[i] * state[i]


@pytest.mark.parametrize("backend", [None, "aot_eager", "inductor"])
def test_mutated_tensors_of_any_rank_have_the_gradients_of_torch(backend):
    op = kc.op(mixed, outputs="y", mutates="state")

    def run(f, x, s):
        state = (2.0 * s).T
        y = f(x, state)
        return (state**3).sum() + y.sum()

    def in_torch(x, state):
        state.copy_(state.clone() ** 2 + x)
        return x * state

    x, s = leaf(3, 4), leaf(4, 3)
    f = torch.compile(run, fullgraph=True, backend=backend) if backend else run
    expected = torch.autograd.grad(run(in_torch, x, s), (x, s))
    torch.testing.assert_close(torch.autograd.grad(f(op, x, s), (x, s)), expected)
    functional = torch.func.functionalize(lambda x, s: run(op, x, s))
    torch.testing.assert_close(functional(x.detach(), s.detach()), run(in_torch, x, s).detach())


def test_mutated_tensors_may_be_empty():
    op, state = torch_op(blended, mutates=["state"]), torch.zeros(0, 3).expand(2, 0, 3)
    assert op(2.0, 3.0, torch.zeros(2, 0, 3), state).shape == (2, 0, 3)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_gradients_of_mutated_tensors_are_those_of_torch(backend):
    def run(f, x, s):
        state = s * 2
        f(x, state)
        return (state**3).sum()

    def in_torch(x, state):
        state.copy_(k.grow_torch(x, state.clone()))

    x, s = leaf(4), leaf(4)
    f = torch.compile(run, fullgraph=True, backend=backend) if backend else run
    expected = torch.autograd.grad(run(in_torch, x, s), (x, s))
    torch.testing.assert_close(torch.autograd.grad(f(grow, x, s), (x, s)), expected)


def test_in_out_operands_that_share_memory_are_refused():
    x, state = torch.ones(4, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    with pytest.raises(kc.KernelArgumentError, match=r"'state': .*several elements share memory"):
        grow(x, state.expand(4))
    windows = torch.zeros(6).as_strided((2, 4), (1, 1))
    with pytest.raises(kc.KernelArgumentError, match=r"'y': .*several elements share memory"):
        torch_op(counted, in_out=["y"], mutates=["y"])(windows)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        grow(x, leaf(4))
    with pytest.raises(kc.KernelArgumentError, match=r"mutates: 'x' is no array .* these are: st"):
        torch_op(k.grow, mutates=["x"])
    assert state.item() == 1.0


class Labelled(torch.Tensor):
    """A tensor with memory of its own."""


def test_in_out_operands_of_subclasses_and_batches_are_checked():
    op = torch_op(exchanged, in_out=["a", "b"], mutates=["a", "b"])
    whole = torch.arange(6.0, dtype=torch.float64).as_subclass(Labelled)
    with pytest.raises(kc.KernelArgumentError, match=r"'b': .*shares elements with 'a'"):
        op(whole[:4], whole[2:])
    windows = torch.zeros(6).as_strided((3, 4), (1, 1))
    with pytest.raises(kc.KernelArgumentError, match=r"'y': .*several elements share memory"):
        torch.vmap(torch_op(counted, in_out=["y"], mutates=["y"]))(windows[:, None])


def test_shapes_of_several_mutated_tensors_are_enough():
    op = torch_op(exchanged, in_out=["a", "b"], mutates=["a", "b"])
    a, b = (torch.ones(3, dtype=torch.float64, device="meta") for _ in range(2))
    assert op(a, b) is None
    with pytest.raises(kc.KernelArgumentError, match=r"'b': .*shares elements with 'a'"):
        op(*(torch.ones(3, dtype=torch.float64),) * 2)


def test_batches_of_mutated_tensors_are_updated():
    x = torch.full((4,), 3.0, dtype=torch.float64)
    state = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    expected = k.grow_torch(x, state)
    torch.func.vmap(lambda row: (grow(x, row), row)[1])(state)
    torch.testing.assert_close(state, expected)


def test_profiled_operators_are_events():
    op = torch_op(k.quadratic, profiled=True)
    x = leaf(3)
    with profile(acc_events=True) as profiler:
        y = op(x, 2.0)
    names = [e.key for e in profiler.key_averages()]
    assert any(n.startswith("kernelcore::quadratic") for n in names)
    assert any(re.fullmatch(r"quadratic \(torch_kernels\.py:\d+\)", n) for n in names)
    torch.testing.assert_close(y, 2 * x * x)


def test_eager_calls_are_events_while_a_profiler_records():
    op = torch_op(k.quadratic)
    x = leaf(3)
    expected = op(x, 2.0)
    with profile(acc_events=True) as profiler:
        y = op(x, 2.0)
        y.sum().backward()
        with torch.no_grad():
            z = op(x, 2.0)
    counts = {e.key: e.count for e in profiler.key_averages()}
    forward = [n for n in counts if re.fullmatch(r"kernelcore::quadratic_[0-9a-f]+", n)]
    adjoint = [n for n in counts if re.match(r"kernelcore::quadratic_[0-9a-f]+_vjp", n)]
    assert [counts[n] for n in forward] == [2]
    assert adjoint
    assert torch.equal(y, expected)
    assert torch.equal(z, expected)
    torch.testing.assert_close(x.grad, 4 * x.detach())
