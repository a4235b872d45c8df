"""paddle_op: kernels as differentiable functions of Paddle tensors, eager and in programs."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import paddle
import pytest

import kernelcore as kc
from paddle_ext import paddle_op


@kc.kernel
def cubed(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i] * x[i] * x[i]


@kc.kernel
def product_and_sum(
    x: kc.array(dtype=float),
    w: kc.array(dtype=float),
    y: kc.array(dtype=float),
    z: kc.array(dtype=float),
):
    i = kc.tid()
    y[i] = x[i] * w[i]
    z[i] = x[i] + w[i]


@kc.kernel
def scaled(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = y[i] * x[i]


@kc.kernel
def gated(x: kc.array(dtype=float), w: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * x[i] + w[i]


@kc.kernel
def projected(
    x: kc.array(dtype=kc.vec3),
    m: kc.vec3,
    n: kc.array(dtype=kc.uint32),
    y: kc.array(dtype=float),
    c: kc.array(dtype=kc.uint32),
):
    i = kc.tid()
    y[i] = kc.dot(x[i], m)
    c[i] = n[i] + kc.uint32(1)


@kc.kernel
def largest_and_smallest(
    x: kc.array(dtype=float), m: kc.array(dtype=float), low: kc.array(dtype=float)
):
    i = kc.tid()
    kc.atomic_max(m, 0, x[i] * x[i])
    kc.atomic_min(low, 0, -x[i] * x[i])


def tensor(values: Any, grad: bool = True) -> Any:
    return paddle.to_tensor(np.asarray(values, np.float32), stop_gradient=not grad)


def test_derivatives_of_every_order() -> None:
    op, x = paddle_op(cubed), tensor([0.0, 1.0, 2.0, 3.0])
    (first,) = paddle.grad(op(x, 2.0).sum(), x, create_graph=True)
    (second,) = paddle.grad(first.sum(), x, create_graph=True)
    (third,) = paddle.grad(second.sum(), x)
    np.testing.assert_array_equal(first.numpy(), 6 * x.numpy() ** 2)
    np.testing.assert_array_equal(second.numpy(), 12 * x.numpy())
    np.testing.assert_array_equal(third.numpy(), np.full(4, 12.0))


def test_second_derivatives_through_later_operations() -> None:
    op, x = paddle_op(cubed), tensor([1.0, 2.0])
    y = op(x, 1.0)
    (first,) = paddle.grad((y * y).sum(), x, create_graph=True)
    (second,) = paddle.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), 30 * x.numpy() ** 4, rtol=1e-6)


def test_third_derivatives_through_products_with_the_operand() -> None:
    op, x = paddle_op(cubed), tensor([2.0])
    (first,) = paddle.grad((op(x, 1.0) * x).sum(), x, create_graph=True)
    (second,) = paddle.grad(first, x, create_graph=True)
    (third,) = paddle.grad(second, x)
    assert [first.item(), second.item(), third.item()] == [32.0, 48.0, 48.0]


def test_gradients_of_some_of_several_tensors() -> None:
    op, x, w = paddle_op(product_and_sum), tensor([1.0, 2.0]), tensor([3.0, 4.0])
    product, total = op(x, w)
    (only,) = paddle.grad((product * total).sum(), w)
    np.testing.assert_array_equal(only.numpy(), [1 + 6, 4 + 16])
    product, _ = op(x * 1.0, w * 1.0)
    (only,) = paddle.grad(product.sum(), w, retain_graph=True)
    np.testing.assert_array_equal(only.numpy(), x.numpy())
    product.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), w.numpy())
    np.testing.assert_array_equal(w.grad.numpy(), x.numpy())


def test_scalars_are_numbers_or_tensors_with_gradients() -> None:
    op, x, a = paddle_op(cubed), tensor([1.0, 2.0], grad=False), tensor(2.0)
    op(x, a).sum().backward()
    assert float(a.grad) == 9.0
    assert op(x=x, a=2.0).stop_gradient


def test_updated_arrays_are_results_and_stay_as_they_were() -> None:
    op, x, y = paddle_op(scaled), tensor([2.0, 3.0]), tensor([5.0, 7.0])
    found = op(x, y)
    found.sum().backward()
    np.testing.assert_array_equal(found.numpy(), [10.0, 21.0])
    np.testing.assert_array_equal(y.numpy(), [5.0, 7.0])
    np.testing.assert_array_equal(x.grad.numpy(), [5.0, 7.0])
    np.testing.assert_array_equal(y.grad.numpy(), [2.0, 3.0])


def test_composites_and_integers_that_paddle_lacks() -> None:
    op, x = paddle_op(projected), tensor(np.arange(6.0).reshape(2, 3))
    y, count = op(x, (1.0, 2.0, 3.0), paddle.to_tensor([1, -2], dtype="int32"))
    y.sum().backward()
    np.testing.assert_array_equal(y.numpy(), [8.0, 26.0])
    np.testing.assert_array_equal(count.numpy(), [2, -1])
    assert count.stop_gradient
    np.testing.assert_array_equal(x.grad.numpy(), [[1.0, 2.0, 3.0]] * 2)


def test_tensors_of_any_strides() -> None:
    op, whole = paddle_op(cubed), tensor(np.arange(6.0).reshape(3, 2))
    op(whole[:, 1], 1.0).sum().backward()
    np.testing.assert_array_equal(whole.grad.numpy()[:, 1], 3 * np.array([1.0, 3.0, 5.0]) ** 2)
    assert op(paddle.zeros([0]), 1.0).shape == [0]


CHANGES = {
    "element": lambda z: z.__setitem__(0, 5.0),
    "view": lambda z: z[1:].add_(paddle.ones([1])),
    "detached": lambda z: z.detach().add_(paddle.ones([2])),
}


@pytest.mark.parametrize("change", CHANGES)
def test_operands_changed_in_place_before_the_backward_are_refused(change: str) -> None:
    x = tensor([1.0, 2.0])
    z = x * 1.0
    y = paddle_op(cubed)(z, 1.0)
    CHANGES[change](z)
    with pytest.raises(Exception, match=r"KernelGradError: cubed.* 'x': .* changed in place"):
        y.sum().backward()


def test_leaves_changed_in_place_before_the_backward_are_refused() -> None:
    x = tensor([1.0, 2.0])
    y = paddle_op(cubed)(x, 1.0)
    with paddle.no_grad():
        x.add_(paddle.ones([2]))
    with pytest.raises(Exception, match=r"KernelGradError: cubed.* 'x': .* changed in place"):
        y.sum().backward()


def test_tensors_that_hooks_restore_have_versions_of_their_own() -> None:
    x = tensor([1.0, 2.0])
    z = x * 1.0
    z.add_(z)
    with paddle.autograd.saved_tensors_hooks(lambda t: t.numpy(), paddle.to_tensor):
        y = paddle_op(cubed)(z, 1.0)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [24.0, 96.0])


def test_operands_that_the_backward_does_not_read_may_change_in_place() -> None:
    x, w = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    changed = w * 1.0
    y = paddle_op(gated)(x, changed)
    changed[0] = 7.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])
    np.testing.assert_array_equal(w.grad.numpy(), [1.0, 1.0])


@pytest.mark.parametrize("is_static", [False, True])
def test_equal_extrema_share_the_derivative(is_static: bool) -> None:
    op = paddle_op(largest_and_smallest, in_out=["m"], outputs=["low"], output_dims=1)

    def function(x: Any, m: Any) -> Any:
        return op(x, m)

    call = paddle.jit.to_static(function, full_graph=True) if is_static else op
    x, m = tensor([1.0, 2.0, 2.0, 0.5]), tensor([4.0])
    high, low = call(x, m)
    (high + low).sum().backward()
    third = 4.0 / 3.0
    np.testing.assert_allclose(x.grad.numpy(), [0.0, third - 2.0, third - 2.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(m.grad.numpy(), [1.0 / 3.0], rtol=1e-6)


@pytest.mark.parametrize("full_graph", [True, False])
def test_operators_of_every_framework_in_programs(full_graph: bool) -> None:
    op, other = kc.op(cubed), kc.op(product_and_sum)

    def function(x: Any, w: Any) -> Any:
        y, z = other(op(x, a=2.0), w)
        return y * z

    x, w = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    value = paddle.jit.to_static(function, full_graph=full_graph)(x, w)
    value.sum().backward()
    found = [value.numpy(), x.grad.numpy(), w.grad.numpy()]
    x.clear_grad()
    w.clear_grad()
    value = function(x, w)
    value.sum().backward()
    for one, expected in zip(found, [value, x.grad, w.grad], strict=True):
        np.testing.assert_array_equal(one, expected.numpy())


@pytest.mark.parametrize("full_graph", [True, False])
def test_programs(full_graph: bool) -> None:
    op, other = paddle_op(cubed), paddle_op(product_and_sum)

    def function(x: Any, w: Any) -> Any:
        y, z = other(op(x, 2.0), w)
        return (y * z + 1.0).sum()

    x, w = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    program = paddle.jit.to_static(function, full_graph=full_graph)
    value = program(x, w)
    value.backward()
    found = [float(value), x.grad.numpy(), w.grad.numpy()]
    x.clear_grad()
    w.clear_grad()
    function(x, w).backward()
    np.testing.assert_array_equal(found[0], float(function(x, w)))
    np.testing.assert_array_equal(found[1], x.grad.numpy())
    np.testing.assert_array_equal(found[2], w.grad.numpy())


REFUSED = {
    "rank": (lambda op: op(paddle.ones([2, 2]), 1.0), "argument 'x': expected array of float32"),
    "dtype": (lambda op: op(paddle.ones([2], dtype="float64"), 1.0), "found float64"),
    "array": (lambda op: op([1.0, 2.0], 1.0), "expected a Paddle tensor, found list"),
    "missing": (lambda op: op(paddle.ones([2])), "argument 'a' is missing"),
    "unknown": (lambda op: op(paddle.ones([2]), 1.0, b=2), "unknown argument 'b'"),
    "number": (lambda op: op(paddle.ones([2]), "two"), "expected a float32 value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_of_wrong_types_are_refused(case: str) -> None:
    call, text = REFUSED[case]
    with pytest.raises(kc.KernelArgumentError, match=text):
        call(paddle_op(cubed))


UNFIT = {
    "rank": ((paddle.ones([2, 2]), paddle.ones([2])), "'x': expected array of float32 with 1"),
    "extent": ((paddle.ones([4]), paddle.ones([2])), "'w': expected at least 4 elements"),
    "dtype": ((paddle.ones([2], dtype="float64"), paddle.ones([2])), "'x': .* found float64"),
}


@pytest.mark.parametrize("full_graph", [True, False])
@pytest.mark.parametrize("case", UNFIT)
def test_values_that_do_not_fit_are_refused_while_a_program_is_made(
    case: str, full_graph: bool
) -> None:
    op = paddle_op(product_and_sum)

    def function(x: Any, w: Any) -> Any:
        return op(x, w)

    given, text = UNFIT[case]
    with pytest.raises(kc.KernelArgumentError, match=text):
        paddle.jit.to_static(function, full_graph=full_graph)(*given)


def test_programs_for_any_extent_check_it_when_they_run() -> None:
    op = paddle_op(product_and_sum)

    def function(x: Any, w: Any) -> Any:
        return op(x, w)

    specs = [paddle.static.InputSpec([None], "float32")] * 2
    program: Any = paddle.jit.to_static(function, input_spec=specs, full_graph=True)
    for extent in (2, 3):
        product, _ = program(paddle.ones([extent]), paddle.ones([extent]))
        np.testing.assert_array_equal(product.numpy(), np.ones(extent))
    with pytest.raises(SystemError, match="kernelcore_"):
        program(paddle.ones([3]), paddle.ones([2]))


def test_misspelt_options_are_named() -> None:
    with pytest.raises(kc.KernelArgumentError, match=r"unknown argument 'output'(.|\n)*'outputs'"):
        cast("Any", paddle_op)(cubed, output=["y"])


def test_generic_kernels_are_operators() -> None:
    def scaled(x: kc.array(dtype=Any), a: Any, y: kc.array(dtype=Any)):
        i = kc.tid()
        y[i] = x[i] * a

    op = paddle_op(kc.kernel(scaled), outputs="y")
    for dtype in ("float32", "float64"):
        x = paddle.to_tensor([1.0, 2.0], dtype=dtype, stop_gradient=False)
        a = paddle.to_tensor(3.0, dtype=dtype)
        y = op(x, a)
        assert y.dtype == x.dtype
        assert y.tolist() == [3.0, 6.0]
        y.sum().backward()
        np.testing.assert_array_equal(x.grad, [3.0, 3.0])
    with pytest.raises(kc.KernelArgumentError, match="follows from its types"):
        paddle_op(kc.kernel(scaled))
    with pytest.raises(kc.KernelArgumentError, match="in_out: no parameter is named 'z'"):
        paddle_op(cubed, in_out="z")


def test_hooks_on_assigned_results_change_the_gradient() -> None:
    x = tensor([1.0, 2.0])
    y = paddle.assign(paddle_op(cubed)(x, 1.0))
    y.register_hook(lambda gradient: gradient * 9.0)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 27 * x.numpy() ** 2)


def test_a_retained_graph_gives_its_gradients_again() -> None:
    x = tensor([1.0, 2.0])
    total = paddle_op(cubed)(x, 1.0).sum()
    for _ in range(3):
        (found,) = paddle.grad(total, x, retain_graph=True)
        np.testing.assert_array_equal(found.numpy(), 3 * x.numpy() ** 2)
    total.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 3 * x.numpy() ** 2)
