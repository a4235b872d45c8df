"""Derivatives of atomic minima and maxima: who gets them, at ties, NaN and in every transform."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import kernelcore as kc
from jax_ffi import jax_kernel
from kernelcore.autograd import gradcheck
from torch_ext import torch_op

F64 = kc.array(dtype=kc.float64)
F32 = kc.array(dtype=kc.float32)
I32 = kc.array(dtype=kc.int32)
INDEX = np.array([0, 1, 0, 1, 1, 3], np.int32)
X = np.array([0.3, 0.7, 0.3, 0.7, 0.2, 0.1])
START = np.array([0.1, 0.7, 0.5, 0.6])


@kc.kernel
def group_max(x: F64, index: I32, m: F64):
    i = kc.tid()
    kc.atomic_max(m, index[i], x[i])


@kc.kernel
def group_min32(x: F32, index: I32, m: F32):
    i = kc.tid()
    kc.atomic_min(m, index[i], kc.exp(kc.sin(x[i])))


@kc.kernel
def waves(x: F64, s: kc.float64, index: I32, m: F64, y: F64):
    i = kc.tid()
    v = kc.tanh(kc.sin(x[i] * s) + kc.exp(-x[i])) ** 3.0
    kc.atomic_max(m, index[i], v)
    y[i] = v


def reference(x: Any, s: Any, m: Any) -> torch.Tensor:
    v = torch.tanh(torch.sin(x * s) + torch.exp(-x)) ** 3.0
    return m.scatter_reduce(0, torch.tensor(INDEX).long(), v, "amax", include_self=True)


def marked(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_ties_share_the_gradient_with_the_old_element_as_in_torch() -> None:
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    found, want = ([marked(X), marked(START)] for _ in range(2))
    (torch_op(group_max)(found[0], torch.tensor(INDEX), found[1]) * weights).sum().backward()
    index = torch.tensor(INDEX).long()
    (want[1].scatter_reduce(0, index, want[0], "amax") * weights).sum().backward()
    for a, b in zip(found, want, strict=True):
        assert a.grad is not None
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=0)


@jax.enable_x64(True)
def test_ties_share_the_gradient_on_a_tape_and_in_jax() -> None:
    x, m = (kc.array(v, dtype=kc.float64, requires_grad=True) for v in (X, START))
    with kc.Tape() as tape:
        kc.launch(group_max, 6, [x, INDEX], [m])
    tape.backward(grads={m: np.array([1.0, 2.0, 3.0, 4.0])})
    assert x.grad is not None
    assert m.grad is not None
    want_x, want_m = [0.5, 2 / 3, 0.5, 2 / 3, 0.0, 0.0], [0.0, 2 / 3, 3.0, 4.0]
    np.testing.assert_allclose(x.grad.numpy(), want_x, rtol=1e-15)
    np.testing.assert_allclose(m.grad.numpy(), want_m, rtol=1e-15)
    operator = jax_kernel(group_max, in_out_argnames=["m"])

    def loss(x: Any, m: Any) -> Any:
        (found,) = operator(x, INDEX, m)
        return jnp.sum(found * jnp.array([1.0, 2.0, 3.0, 4.0]))

    in_x, in_m = jax.grad(loss, (0, 1))(X, START)
    np.testing.assert_allclose(in_x, want_x, rtol=1e-15)
    np.testing.assert_allclose(in_m, want_m, rtol=1e-15)


def test_every_element_has_all_of_its_gradient_whatever_code_computed_it() -> None:
    """The sweeps recompute the values, in other kernels: equal bits, or a gradient is lost."""
    rng = np.random.default_rng(3)
    n, groups = 4099, 512
    index = rng.integers(0, groups, n).astype(np.int32)
    x = torch.tensor(rng.uniform(-3, 3, n), dtype=torch.float64, requires_grad=True)
    s = marked(1.1)
    start = torch.full((groups,), -9.0, dtype=torch.float64)
    found, _ = torch_op(waves)(x, s, torch.tensor(index), start)
    v = torch.tanh(torch.sin(x * s) + torch.exp(-x)) ** 3.0
    want = start.scatter_reduce(0, torch.tensor(index).long(), v, "amax")
    for a, b in zip(
        torch.autograd.grad(found.sum(), [x, s]),
        torch.autograd.grad(want.sum(), [x, s]),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    operator = torch_op(group_min32)
    x32 = torch.tensor(rng.uniform(-3, 3, n), dtype=torch.float32)
    top = torch.full((groups,), 9.0)
    share = torch.func.jvp(
        lambda t: operator(x32, torch.tensor(index), t), (top,), (torch.ones(groups),)
    )[1]
    np.testing.assert_array_equal(share.numpy(), np.bincount(index, minlength=groups) == 0)


def test_values_that_are_no_numbers_share_the_gradient_of_one() -> None:
    x, m = marked([1.0, np.nan, np.nan, 2.0]), marked([0.0])
    (torch_op(group_max)(x, torch.zeros(4, dtype=torch.int32), m)).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.5, 0.5, 0.0])


def test_the_gradient_of_an_empty_grid_is_that_of_the_old_elements() -> None:
    x, m = marked(np.zeros(0)), marked(START)
    torch_op(group_max)(x, torch.zeros(0, dtype=torch.int32), m).sum().backward()
    assert m.grad is not None
    np.testing.assert_array_equal(m.grad.numpy(), np.ones(4))


def test_transforms_of_torch_agree_with_its_own_extremum() -> None:
    rng = np.random.default_rng(5)
    xs, ms = (torch.tensor(rng.uniform(0.1, 1.0, shape)) for shape in ((3, 6), (3, 4)))
    operator, index = torch_op(waves), torch.tensor(INDEX)
    s = torch.tensor(1.1, dtype=torch.float64)

    def ours(x: Any, m: Any) -> Any:
        return (operator(x, s, index, m)[0] ** 2).sum()

    def theirs(x: Any, m: Any) -> Any:
        return (reference(x, s, m) ** 2).sum()

    func = torch.func
    for transform in (
        lambda f: func.vmap(func.grad(f, (0, 1))),
        lambda f: func.vmap(func.hessian(f)),
        lambda f: func.vmap(func.jacrev(func.jacfwd(f))),
    ):
        found, want = transform(ours)(xs, ms), transform(theirs)(xs, ms)
        torch.testing.assert_close(found, want, rtol=1e-10, atol=1e-12)
    compiled = torch.compile(ours)
    points = [(marked(xs[0].tolist()), marked(ms[0].tolist())) for _ in range(2)]
    found = torch.autograd.grad(compiled(*points[0]), points[0])
    torch.testing.assert_close(found, torch.autograd.grad(theirs(*points[1]), points[1]))


@jax.enable_x64(True)
def test_transforms_of_jax_agree_with_those_of_torch() -> None:
    rng = np.random.default_rng(6)
    xs, ms = rng.uniform(0.1, 1.0, (3, 6)), rng.uniform(0.1, 1.0, (3, 4))
    operator = jax_kernel(waves, num_outputs=2, in_out_argnames=["m"])

    def ours(x: Any, m: Any) -> Any:
        return jnp.sum(operator(x, 1.1, INDEX, m)[0] ** 2)

    def theirs(x: Any, m: Any) -> Any:
        return (reference(x, 1.1, m) ** 2).sum()

    found = jax.jit(jax.vmap(jax.hessian(ours, (0, 1))))(xs, ms)
    want = torch.func.vmap(torch.func.hessian(theirs, (0, 1)))(torch.tensor(xs), torch.tensor(ms))
    for row, other in zip(found, want, strict=True):
        for a, b in zip(row, other, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-10, atol=1e-12)


def test_gradcheck_and_tape_of_two_launches() -> None:
    rng = np.random.default_rng(7)
    args = [rng.uniform(0.1, 1.0, 6), 1.1, INDEX, rng.uniform(0.1, 0.3, 4)]
    assert gradcheck.gradcheck(waves, 6, args, [np.zeros(6)], atol=1e-7, rtol=1e-6)
    x = kc.array(args[0], dtype=kc.float64, requires_grad=True)
    m = kc.array(args[3], dtype=kc.float64, requires_grad=True)
    y = kc.zeros(6, dtype=kc.float64, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(waves, 6, [x, 0.9, INDEX, m, y])
        kc.launch(waves, 6, [x, 1.4, INDEX, m, y])
    tape.backward(grads={m: np.ones(4)})
    torch_x, torch_m = marked(args[0]), marked(args[3])
    reference(torch_x, 1.4, reference(torch_x, 0.9, torch_m)).sum().backward()
    for ours, theirs in ((x, torch_x), (m, torch_m)):
        assert ours.grad is not None
        assert theirs.grad is not None
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("stage", ["jvp", "vjp"])
def test_inspection_shows_differentiated_parameters(stage: str) -> None:
    assert "m_tie_weight" in waves.inspect(stage)


@kc.kernel
def largest_sums(w: kc.array2d(kc.float64), x: F64, m: F64):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[0]):
        total += w[i, k] * x[k]
    kc.atomic_max(m, i // 4, kc.tanh(total))


@kc.kernel
def largest_of_product(w: kc.array2d(kc.float64), x: kc.array2d(kc.float64), m: F64):
    i, j = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[0]):
        total += w[i, k] * x[k, j]
    kc.atomic_max(m, i, total)


@pytest.mark.parametrize("extent", [5, 20])
def test_who_attains_it_is_known_where_values_are_products(extent: int) -> None:
    """Kernels without atomic operations may round a product and its sum once."""
    rng = np.random.default_rng(extent)
    w, x = (torch.tensor(rng.standard_normal(s)) for s in ((8, extent), (extent, 9)))
    w.requires_grad_()
    op = torch_op(largest_of_product, in_out="m", launch_dims=("w.shape[0]", "x.shape[1]"))
    (found,) = torch.autograd.grad(op(w, x, torch.full((8,), -1e9, dtype=w.dtype)).sum(), [w])
    (wanted,) = torch.autograd.grad((w @ x).amax(1).sum(), [w])
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("rows", [8, 36])
def test_who_attains_it_is_known_where_values_are_sums(rows: int) -> None:
    """Kernels without atomic operations may add up such rows in another order."""
    rng = np.random.default_rng(rows)
    weights, x = 0.1 * rng.standard_normal((rows, 70)), rng.standard_normal(70)
    given = [torch.tensor(weights, requires_grad=True), torch.tensor(x)]
    op = torch_op(
        largest_sums, outputs=["m"], launch_dims=("w.shape[0]",), output_dims=(rows // 4,)
    )
    found = op(*given)
    values = torch.tanh(given[0] @ given[1]).reshape(-1, 4).amax(1).clamp(min=0.0)
    ct = torch.arange(1.0, rows // 4 + 1.0, dtype=torch.float64)
    (wanted,) = torch.autograd.grad(values, given[:1], ct)
    torch.testing.assert_close(torch.autograd.grad(found, given[:1], ct)[0], wanted)

    w, m = kc.array(weights, requires_grad=True), kc.zeros(rows // 4, dtype=kc.float64)
    m.requires_grad = True
    with kc.Tape() as tape:
        kc.launch(largest_sums, rows, [w, kc.array(x)], [m])
    tape.backward(grads={m: ct.numpy()})
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [kc.float16, kc.bfloat16])
def test_ties_of_small_floats(dtype: Any) -> None:
    @kc.kernel
    def largest(x: kc.array(dtype=Any), m: kc.array(dtype=Any)):
        kc.atomic_max(m, 0, x[kc.tid()])

    x = kc.array([1.0, 2.0, 2.0], dtype=dtype, requires_grad=True)
    m = kc.zeros(1, dtype=dtype, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(largest, 3, [x], [m])
    tape.backward(grads={m: kc.ones(1, dtype=dtype)})
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy().astype(np.float32), [0.0, 0.5, 0.5])
    name = "bfloat16" if dtype is kc.bfloat16 else "float16"
    tensor = torch.tensor([1.0, 2.0, 2.0], dtype=getattr(torch, name), requires_grad=True)
    torch_op(largest, in_out="m")(tensor, torch.zeros(1, dtype=tensor.dtype)).sum().backward()
    assert tensor.grad is not None
    assert tensor.grad.tolist() == [0.0, 0.5, 0.5]
