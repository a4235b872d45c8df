"""State that a launch of one thread updates in place has derivatives."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

import kernelcore as kc
from jax_ffi import jax_kernel
from torch_ext import torch_op

F64 = kc.array(dtype=kc.float64)
EPSILON = 1e-6


@kc.kernel
def state_without_index(x: F64, w: F64, h: F64, y: F64):
    for t in range(x.shape[0]):
        h[0] = kc.tanh(w[0] * h[0] + x[t])
        y[t] = h[0]


@kc.kernel
def state(x: F64, w: F64, h: F64, y: F64):
    _ = kc.tid()
    for t in range(x.shape[0]):
        h[0] = kc.tanh(w[0] * h[0] + x[t])
        y[t] = h[0]


@kc.kernel
def history(x: F64, w: F64, h: F64, y: F64):
    i = kc.tid()
    for t in range(x.shape[0]):
        h[t + 1] = kc.tanh(w[i] * h[t] + x[t])
    y[0] = h[x.shape[0]] * h[1]


@kc.kernel
def second_order(x: F64, w: F64, h: F64, y: F64):
    h[0] = 0.5
    h[1] = x[0]
    for t in range(x.shape[0] - 1):
        h[t + 2] = kc.sin(w[0] * h[t] + x[t] * h[t + 1])
        y[t] = h[t + 2] * h[t]


@kc.kernel
def scratch(x: F64, w: F64, h: F64, y: F64):
    h[2] = w[0]
    for t in range(x.shape[0]):
        h[2] = kc.cos(h[2] * x[t])
    y[0] = h[2]


@kc.kernel
def later_element(x: F64, w: F64, h: F64, y: F64):
    for t in range(x.shape[0]):
        h[t] = w[0] * h[t + 1] * h[t + 1] + x[t]
        y[t] = h[t]


@kc.kernel
def first_read(x: F64, w: F64, h: F64, y: F64):
    start = h[2]
    for t in range(x.shape[0]):
        h[t + 1] = kc.sin(w[0] * h[t] * start + x[t])
    y[0] = h[x.shape[0]]


FINAL_ELEMENTS_DO = [history, second_order, scratch]
KERNELS = [state_without_index, state, later_element, first_read, *FINAL_ELEMENTS_DO]


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.uniform(0.2, 1.0, n) for n in (4, 1, 6, 5)]


def seeds() -> list[np.ndarray]:
    """Cotangents after the launch: of nothing for inputs, of all elements of the state and y."""
    rng = np.random.default_rng(4)
    return [np.zeros(4), np.zeros(1), rng.standard_normal(6), rng.standard_normal(5)]


def differences(kernel: kc.Kernel) -> list[np.ndarray]:
    """The gradient of the results, weighted with ``seeds``, by central differences."""

    def loss(given: list[np.ndarray]) -> float:
        held = [v.copy() for v in given]
        kc.launch(kernel, 1, held)
        return sum(float((v * c).sum()) for v, c in zip(held, seeds(), strict=True))

    found: list[np.ndarray] = []
    for j, value in enumerate(arguments()):
        gradient = np.zeros_like(value)
        for k in range(len(value)):
            losses: list[float] = []
            for step in (EPSILON, -EPSILON):
                moved = arguments()
                moved[j][k] += step
                losses.append(loss(moved))
            gradient[k] = (losses[0] - losses[1]) / (2 * EPSILON)
        found.append(gradient)
    return found


def assert_close(found: Any, want: Any) -> None:
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_a_tape_keeps_the_state(kernel: kc.Kernel) -> None:
    given = [kc.array(v, dtype=kc.float64, requires_grad=True) for v in arguments()]
    with kc.Tape() as tape:
        kc.launch(kernel, 1, given)
    tape.backward(grads=dict(zip(given[2:], seeds()[2:], strict=True)))
    assert_close([a.grad.numpy() for a in given if a.grad is not None], differences(kernel))


@pytest.mark.parametrize("kernel", FINAL_ELEMENTS_DO, ids=lambda k: k.name)
@pytest.mark.parametrize("dim", [1, (1,)])
def test_an_adjoint_is_launched_over_final_elements_that_tell_the_others(
    kernel: kc.Kernel, dim: Any
) -> None:
    given, found = arguments(), seeds()
    kc.launch(kernel, dim, given)
    after = [v.copy() for v in given]
    kc.launch(kernel, dim, given, adj_inputs=found, adjoint=True)
    # Cotangents of what is only stored stay as they are.
    assert_close(found[:3], differences(kernel)[:3])
    for a, b in zip(given, after, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "kernel", [k for k in KERNELS if k not in FINAL_ELEMENTS_DO], ids=lambda k: k.name
)
def test_an_adjoint_of_lost_elements_is_refused(kernel: kc.Kernel) -> None:
    with pytest.raises(kc.KernelArgumentError, match="'h' is loaded and written") as caught:
        kc.launch(kernel, 1, arguments(), adj_inputs=seeds(), adjoint=True)
    assert "kc.Tape" in str(caught.value)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_an_operator_of_one_thread_is_differentiable(kernel: kc.Kernel) -> None:
    op = torch_op(kernel, launch_dims=1, outputs=[], in_out=["h", "y"])
    leaves = [torch.from_numpy(v).requires_grad_() for v in arguments()]
    weighted = zip(op(*leaves), seeds()[2:], strict=True)
    loss = sum((v * torch.from_numpy(c)).sum() for v, c in weighted)
    assert isinstance(loss, torch.Tensor)
    assert_close(torch.autograd.grad(loss, leaves), differences(kernel))
    assert torch.autograd.gradcheck(op, leaves)


def test_transformations_of_one_thread_compose() -> None:
    with jax.enable_x64(True):
        call = jax_kernel(history, 2, launch_dims=1, in_out_argnames=["h", "y"])

        def loss(*given: Any) -> Any:
            return sum((v * c).sum() for v, c in zip(call(*given), seeds()[2:], strict=True))

        want = differences(history)
        _, slope = jax.jvp(loss, arguments(), arguments())
        summed = sum(float(v @ g) for v, g in zip(arguments(), want, strict=True))
        np.testing.assert_allclose(slope, summed, rtol=1e-6)
        batch = [np.stack([v, v]) for v in arguments()]
        grad = jax.grad(loss, range(4))
        assert_close(grad(*arguments()), want)
        assert_close([g[1] for g in jax.vmap(grad)(*batch)], want)
        outer = jax.grad(lambda *given: jax.vmap(loss)(*given).sum(), range(4))
        assert_close([g[1] for g in outer(*batch)], want)


def test_several_threads_are_refused_in_the_same_words() -> None:
    given = [kc.array(v, dtype=kc.float64, requires_grad=True) for v in arguments()]
    leaves = [torch.from_numpy(v).requires_grad_() for v in arguments()]
    op = torch_op(state_without_index, outputs=[], in_out=["h", "y"])

    def taped(dim: Any) -> None:
        with kc.Tape() as tape:
            kc.launch(state_without_index, dim, given)
        tape.backward(grads={given[3]: seeds()[3]})

    taped(1)
    calls = (
        lambda: taped(2),
        lambda: taped((1, 2)),
        lambda: kc.launch(state_without_index, 2, arguments(), adj_inputs=seeds(), adjoint=True),
        lambda: op(*leaves)[0].sum().backward(),
    )
    for call in calls:
        with pytest.raises(kc.KernelGradError, match="written by another thread") as caught:
            call()
        assert "launch_dims=1" in str(caught.value)
