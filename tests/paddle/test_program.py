"""Operators in static programs of Paddle give what Paddle's own operators give there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import paddle
import pytest

import kernelcore as kc


@kc.op
@kc.kernel
def square_times(x: kc.array[float], w: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = x[i] * x[i] * w[i]


@kc.op
@kc.kernel
def product_and_sum(x: kc.array[float], w: kc.array[float], y: kc.array[float], z: kc.array[float]):
    i = kc.tid()
    y[i] = x[i] * w[i]
    z[i] = x[i] * x[i] + w[i]


@kc.op
@kc.kernel
def square_and_floor(x: kc.array[float], y: kc.array[float], c: kc.array[int]):
    i = kc.tid()
    y[i] = x[i] * x[i]
    c[i] = int(x[i])


@kc.op
@kc.kernel
def floored(x: kc.array[float], c: kc.array[int]):
    i = kc.tid()
    c[i] = int(x[i])


def native_square_times(x: Any, w: Any) -> Any:
    return x * x * w


def native_product_and_sum(x: Any, w: Any) -> Any:
    return x * w, x * x + w


def native_square_and_floor(x: Any) -> Any:
    return x * x, x.astype("int32").detach()


def native_floored(x: Any) -> Any:
    return x.astype("int32").detach()


NATIVE: dict[Any, Any] = {
    square_times: native_square_times,
    product_and_sum: native_product_and_sum,
    square_and_floor: native_square_and_floor,
    floored: native_floored,
}


def tensor(values: Any) -> Any:
    return paddle.to_tensor(np.asarray(values, np.float32), stop_gradient=False)


def within_no_grad(op: Any, x: Any, w: Any) -> Any:
    with paddle.no_grad():
        t = op(x, w)
    return t * x


@paddle.no_grad()
def without_gradients(op: Any, x: Any, w: Any) -> Any:
    return op(x, w)


def decorated(op: Any, x: Any, w: Any) -> Any:
    return without_gradients(op, x, w) * x


def gradients_set_off(op: Any, x: Any, w: Any) -> Any:
    with paddle.set_grad_enabled(False):
        t = op(x, w)
    return t * x


def enabled_within(op: Any, x: Any, w: Any) -> Any:
    with paddle.no_grad():
        t = op(x, w)
        with paddle.enable_grad():
            u = op(x, w)
        v = op(u, w)
    return t * x + u + v * w


def later_operator(op: Any, x: Any, w: Any) -> Any:
    with paddle.no_grad():
        t = op(x, w)
    return op(t, w) + op(x, t)


def chain_within(op: Any, x: Any, w: Any) -> Any:
    with paddle.no_grad():
        t = op(op(x, w), w)
    return t * w


def one_operator_beside(op: Any, x: Any, w: Any) -> Any:
    y = op(x, w)
    with paddle.no_grad():
        t = op(x, w)
    return y * t


CASES: list[Callable[..., Any]] = [
    within_no_grad,
    decorated,
    gradients_set_off,
    enabled_within,
    later_operator,
    chain_within,
    one_operator_beside,
]


def gradients(function: Callable[..., Any], op: Any) -> list[Any]:
    """The value of ``function``, and the derivatives of its sum, with 0 where there are none."""
    tensors = [tensor([1.0, 2.0]), tensor([3.0, 4.0])]
    value = function(op, *tensors)
    value.sum().backward()
    grads = [np.zeros(2) if t.grad is None else t.grad.numpy() for t in tensors]
    return [value.numpy(), *grads]


def program_gradients(function: Callable[..., Any], op: Any, full_graph: bool) -> list[Any]:
    """The same where ``function`` of ``op`` is a static program."""

    def body(x: Any, w: Any) -> Any:
        return function(op, x, w)

    program: Any = paddle.jit.to_static(body, full_graph=full_graph)
    return gradients(lambda _, x, w: program(x, w), op)


def assert_as_native(function: Callable[..., Any], op: Any, full_graph: bool) -> None:
    expected = gradients(function, NATIVE[op])
    found = program_gradients(function, op, full_graph)
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-6)


@pytest.mark.parametrize("full_graph", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_programs_record_nothing_where_gradients_are_off(
    case: Callable[..., Any], full_graph: bool
) -> None:
    assert_as_native(case, square_times, full_graph)


def several_results(op: Any, x: Any, w: Any) -> Any:
    with paddle.no_grad():
        y, z = op(x, w)
    u, v = op(y, w)
    return u * x + v * z + y


@pytest.mark.parametrize("full_graph", [True, False])
def test_programs_record_nothing_of_several_results(full_graph: bool) -> None:
    assert_as_native(several_results, product_and_sum, full_graph)


def with_whole_result(op: Any, x: Any, w: Any) -> Any:
    y, c = op(x)
    return c.astype("float32") * w * y


def of_whole_result(op: Any, x: Any, w: Any) -> Any:
    return op(x).astype("float32") * w * x


@pytest.mark.parametrize(
    ("function", "op"), [(with_whole_result, square_and_floor), (of_whole_result, floored)]
)
def test_integer_results_in_programs_have_no_gradient(function: Any, op: Any) -> None:
    assert_as_native(function, op, full_graph=True)


@pytest.fixture
def _static_mode() -> Iterator[None]:
    paddle.enable_static()
    try:
        yield
    finally:
        paddle.disable_static()


@pytest.mark.usefixtures("_static_mode")
def test_results_say_whether_they_have_gradients_as_native_ones_do() -> None:
    found: list[list[bool]] = []
    operators: list[Any] = [square_times, native_square_times]
    for op in operators:
        with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
            x: Any = paddle.static.data("x", [2], "float32")
            x.stop_gradient = False
            with paddle.no_grad():
                t = op(x, x * 1.0)
                with paddle.enable_grad():
                    u = op(x, t)
            found.append([v.stop_gradient for v in (t, u, op(t, t), op(x, t))])
    assert found[0] == found[1] == [True, False, True, False]


def training_losses(op: Any) -> list[float]:
    """The losses of steps of gradient descent, with a factor that gradients do not pass."""
    main, start = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, start):
        x = paddle.static.data("x", [None], "float32")
        two = paddle.nn.initializer.Constant(2.0)
        w = paddle.static.create_parameter([2], "float32", default_initializer=two)
        with paddle.no_grad():
            target = op(x, w)
        loss = (op(x, w) * target).sum()
        paddle.optimizer.SGD(0.01).minimize(loss)
    executor = paddle.static.Executor()
    executor.run(start)
    feed = {"x": np.array([1.0, 2.0], np.float32)}
    return [float(executor.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(4)]


@pytest.mark.usefixtures("_static_mode")
def test_training_in_static_mode_has_the_losses_of_native_operators() -> None:
    found, expected = training_losses(square_times), training_losses(native_square_times)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert expected[-1] < expected[0]


@kc.op
@kc.kernel
def mixed(x: kc.array[float], w: kc.array[float], a: float, b: float, y: kc.array[float]):
    i = kc.tid()
    y[i] = a * x[i] * x[i] * w[i] + b * b


@kc.op(in_out="u")
@kc.kernel
def decayed(u: kc.array[float], x: kc.array[float]):
    i = kc.tid()
    u[i] = u[i] * x[i]


def native_mixed(x: Any, w: Any, a: Any, b: Any) -> Any:
    return a * x * x * w + b * b


def native_decayed(u: Any, x: Any) -> Any:
    return u * x


NATIVE |= {mixed: native_mixed, decayed: native_decayed}


def one_tensor(op: Any, x: Any, w: Any) -> Any:
    return op(x, x) * w


def one_of_a_chain(op: Any, x: Any, w: Any) -> Any:
    z = x * w
    return op(op(z, z), z)


def one_beside_itself_detached(op: Any, x: Any, w: Any) -> Any:
    return op(x, x.detach()) + op(w.detach(), w.detach())


def one_scalar(op: Any, x: Any, w: Any) -> Any:
    a = x.sum()
    return op(x, w, a, a) + op(x, x, 2.0, a) + op(w, w, w.sum(), -0.5)


def one_of_several_results(op: Any, x: Any, w: Any) -> Any:
    y, z = op(x, x)
    return y * w + z


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (one_tensor, square_times),
        (one_of_a_chain, square_times),
        (one_beside_itself_detached, square_times),
        (one_scalar, mixed),
        (one_tensor, decayed),
        (one_of_several_results, product_and_sum),
    ],
)
def test_cotangents_of_one_value_for_several_operands_add_up(function: Any, op: Any) -> None:
    assert_as_native(function, op, full_graph=True)
