"""Numbers in static programs of Paddle are those of eager calls, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest

import kernelcore as kc


@kc.op
@kc.kernel
def sign_and_value(
    x: kc.array[kc.float64], a: kc.float64, s: kc.array[kc.float64], y: kc.array[kc.float64]
):
    i = kc.tid()
    s[i] = kc.copysign(x[i], a)
    y[i] = a


@kc.op
@kc.kernel
def chosen(x: kc.array[float], flag: bool, y: kc.array[float]):
    i = kc.tid()
    y[i] = x[i] if flag else -x[i]


@kc.op
@kc.kernel
def quotient(x: kc.array[float], a: float, y: kc.array[float]):
    i = kc.tid()
    y[i] = x[i] / a


NUMBERS = [
    *(0.0, -0.0, np.nan, np.copysign(np.nan, -1.0), np.inf, 1, True, 1.0, 0.1),
    *(np.float32(0.1), np.float64(0.1), np.int8(-3), np.array(0.1, np.float32), np.array(7)),
]


def one() -> Any:
    return paddle.to_tensor([1.0], stop_gradient=False)


def calls(number: Any) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        return sign_and_value(x, number)

    return call


@pytest.mark.parametrize("full_graph", [True, False])
def test_numbers_in_programs_have_the_bits_of_eager_calls(full_graph: bool) -> None:
    x = paddle.to_tensor([1.0], dtype="float64")
    for call in [calls(number) for number in NUMBERS * 2]:
        found = paddle.jit.to_static(call, full_graph=full_graph)(x)
        for result, expected in zip(found, call(x), strict=True):
            assert result.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.parametrize("flag", [True, False, 1, 0, np.True_, np.int32(2), np.array(True)])
def test_flags_in_programs_are_numbers_of_any_kind(flag: Any) -> None:
    def call(x: Any) -> Any:
        return chosen(x, flag)

    found = paddle.jit.to_static(call, full_graph=True)(one())
    assert found.item() == call(one()).item() == (1.0 if flag else -1.0)


def test_zeros_of_both_signs_in_one_program_are_two() -> None:
    def call(x: Any) -> Any:
        return quotient(x, 0.0), quotient(x, -0.0)

    x = one()
    plus, minus = paddle.jit.to_static(call, full_graph=True)(x)
    assert [plus.item(), minus.item()] == [np.inf, -np.inf]


def test_derivatives_in_programs_take_the_number_of_the_call() -> None:
    def call(x: Any) -> Any:
        return quotient(x, np.array(4.0)) + quotient(x, -0.0)

    x = one()
    paddle.jit.to_static(call, full_graph=True)(x).backward()
    assert x.grad.item() == -np.inf


@pytest.mark.parametrize("number", ["two", None, 2j, [1.0], pytest.param(10**400, id="huge")])
def test_what_is_no_number_is_refused_while_a_program_is_made(number: Any) -> None:
    def call(x: Any) -> Any:
        return quotient(x, number)

    with pytest.raises(kc.KernelArgumentError, match=r"argument 'a': expected float32"):
        paddle.jit.to_static(call, full_graph=True)(one())


@kc.kernel
def ramp(n: int, s: float, y: kc.array[float]):
    i = kc.tid()
    y[i] = float(i) * s * s


ramp_op = kc.paddle_op(ramp, launch_dims="n", output_dims=("n",), outputs="y")


def ramp_loss(x: Any, s: Any) -> Any:
    return (ramp_op(x.shape[0], s) * x).sum()


@pytest.mark.parametrize("extents", [None, [2], [None]])
def test_extents_that_programs_know_when_they_run_are_launch_sizes(extents: Any) -> None:
    spec = paddle.static.InputSpec
    specs = None if extents is None else [spec(extents), spec([])]
    program: Any = paddle.jit.to_static(ramp_loss, input_spec=specs, full_graph=True)
    for extent in (2, 3) if extents != [2] else (2,):
        x = paddle.arange(extent, dtype="float32") + 1.0
        s = paddle.to_tensor(3.0, stop_gradient=False)
        value = program(x, s)
        (gradient,) = paddle.grad(value, s)
        total = sum(i * (i + 1) for i in range(extent))
        assert [value.item(), gradient.item()] == [9 * total, 6 * total]


@pytest.mark.parametrize("full_graph", [True, False])
def test_integers_of_tensors_are_launch_sizes(full_graph: bool) -> None:
    def call(n: Any) -> Any:
        return ramp_op(n, 2.0)

    program: Any = paddle.jit.to_static(call, full_graph=full_graph)
    for dtype in ("int32", "int64"):
        n = paddle.to_tensor(3, dtype=dtype)
        np.testing.assert_array_equal(program(n).numpy(), [0.0, 4.0, 8.0])
        np.testing.assert_array_equal(ramp_op(n, 2.0).numpy(), [0.0, 4.0, 8.0])
    np.testing.assert_array_equal(ramp_op(np.array(2), 2.0).numpy(), [0.0, 4.0])


@pytest.mark.parametrize(
    ("size", "found"), [(-1, "found -1"), (2.0, "found 2.0"), ([2], r"found shape \(1,\)")]
)
def test_tensors_that_are_no_launch_sizes_are_refused(size: Any, found: str) -> None:
    with pytest.raises(kc.KernelArgumentError, match=rf"'n': expected an extent.*{found}"):
        ramp_op(paddle.to_tensor(size), 2.0)


def test_tensors_that_are_not_of_the_program_are_refused_while_it_is_made() -> None:
    half = paddle.to_tensor(0.5)
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            x = paddle.static.data("x", [2], "float32")
            with pytest.raises(kc.KernelArgumentError, match=r"'a': expected a value of the prog"):
                quotient(x, half)
    finally:
        paddle.disable_static()


@pytest.mark.parametrize(("shape", "dtype"), [([2], "int32"), ([], "float32")])
def test_extents_are_integers_without_dimensions(shape: list[int], dtype: Any) -> None:
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()):
            n = paddle.static.data("n", shape, dtype)
            with pytest.raises(kc.KernelArgumentError, match="'n': expected an extent, found"):
                ramp_op(n, 2.0)
    finally:
        paddle.disable_static()
