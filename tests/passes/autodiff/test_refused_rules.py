"""Rules for derivatives that do not fit, and what they cover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelGradError
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.autodiff.vjp import vjp
from tests.helpers import interpreter
from tests.helpers.operations import run_operation
from tests.helpers.rule_programs import (
    array,
    floats,
    gather,
    gather_kernel,
    gradient,
    mapped,
    quantize,
    refused,
    rounded,
    tangent,
)


def rule(decorator: Callable[..., Any], make: Callable[[], Callable[..., Any]]) -> kc.Kernel:
    @kc.func
    def square(x: float):
        return x * x

    decorator(square)(make())
    return mapped(square)


def test_a_rule_that_does_not_fit_is_refused_where_it_is_written() -> None:
    def too_few():
        def adj(x: float): ...

        return adj

    def another_type():
        def adj(x: float, adj_ret: kc.vec3): ...

        return adj

    def no_parameter():
        def adj(x: float, adj_ret: float):
            kc.adjoint[adj_ret] += 1.0

        return adj

    def returns():
        def adj(x: float, adj_ret: float):
            return x

        return adj

    def tangents():
        def push(x: float, t_x: float):
            return x, t_x

        return push

    def replay():
        def again(x: float):
            return int(x)

        return again

    cases = [
        (kc.func_grad, too_few, "takes 2 arguments, 'adj' has 1"),
        (kc.func_grad, another_type, "the annotation is kc.vec3, expected float32"),
        (kc.func_grad, no_parameter, "takes a parameter of the function, found 'adj_ret'"),
        (kc.func_grad, returns, "a gradient returns nothing"),
        (kc.func_jvp, tangents, "returns float32, float32, expected float32"),
        (kc.func_replay, replay, "returns int32, expected float32"),
    ]
    for decorator, make, text in cases:
        error = refused(lambda d=decorator, m=make: rule(d, m).func, text)
        assert error.loc is not None
        assert error.loc.file == __file__


def test_rules_are_for_functions_of_the_user() -> None:
    for decorator in (kc.func_grad, kc.func_replay, kc.func_jvp):
        others: list[Any] = [np.sin, kc.sin, kc.length, quantize]
        for other in others:
            refused(lambda d=decorator, o=other: d(o), "expected a function decorated with @func")
    refused(lambda: kc.grad(np.sin), "takes a function")
    refused(lambda: kc.adjoint[0], "outside of a gradient")


def test_cotangents_are_named_in_gradients_only() -> None:
    @kc.kernel
    def adds(x: floats):
        kc.adjoint[x][0] += 1.0

    assert refused(lambda: adds.func, "in a function that is no gradient").loc is not None


def test_a_rule_that_is_not_linear_has_no_transpose() -> None:
    def clipping():
        def adj(x: float, adj_ret: float):
            kc.adjoint[x] += kc.clamp(adj_ret, -1.0, 1.0)

        return adj

    def affine():
        def push(x: float, t_x: float):
            return 2.0 * x * t_x + 1.0

        return push

    def squared():
        def push(x: float, t_x: float):
            return t_x * t_x

        return push

    clipped = rule(kc.func_grad, clipping)
    ct = array(-3, 0.5, 3)
    np.testing.assert_array_equal(gradient(clipped, array(1, 1, 1), ct=ct), [-1, 0.5, 1])
    refused(lambda: clipped.inspect("jvp"), "is not seen to be linear")
    for make in (affine, squared):
        refused(lambda m=make: rule(kc.func_jvp, m).inspect("vjp"), "is not seen to be linear")


def test_arrays_that_vary_need_a_rule_per_mode() -> None:
    refused(lambda: gather_kernel.inspect("jvp"), "has a derivative in reverse mode only")

    @kc.func
    def take(a: floats, i: int):
        return a[i]

    @kc.func_jvp(take)
    def take_jvp(a: floats, i: int, t_a: floats):
        return t_a[i]

    @kc.kernel
    def run(a: floats, y: floats):
        i = kc.tid()
        y[i] = take(a, i)

    np.testing.assert_array_equal(tangent(run, array(1, 2), array(3, 4)), [3, 4])
    refused(lambda: run.inspect("vjp"), "has a derivative in forward mode only")


def test_a_rule_may_not_read_written_arrays() -> None:
    @kc.func
    def square(x: float, a: floats, i: int):
        return x * x

    @kc.func_grad(square)
    def square_grad(x: float, a: floats, i: int, adj_ret: float):
        kc.adjoint[x] += a[i] * adj_ret

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        y[i] = square(x[i], y, i)

    refused(lambda: run.inspect("vjp"), "reads 'y', which the kernel writes")


def test_gradients_have_arguments_that_are_values() -> None:
    @kc.kernel
    def of_array(a: floats):
        a[0] = kc.grad(gather)(a, 0)

    @kc.func
    def count(x: float):
        return int(x)

    @kc.kernel
    def of_integer(a: floats):
        a[0] = kc.grad(count)(a[0])

    @kc.kernel
    def of_number(a: floats):
        a[0] = kc.grad(1.0)(a[0])

    refused(lambda: of_array.func, "whose gradient would be an array")
    refused(lambda: of_integer.func, "gives int32, which has no gradient")
    refused(lambda: of_number.func, "grad\\(\\) takes a function, found float literal")


def test_rules_inside_of_functions_are_refused() -> None:
    @kc.kernel
    def run(x: floats):
        @kc.func_grad(rounded)
        def inner(x: float, adj_ret: float):
            kc.adjoint[x] += adj_ret

        x[0] = rounded(x[0])

    refused(lambda: run.func, "is a rule for a derivative, and is defined inside")


def test_code_of_a_function_without_a_derivative_is_covered_by_its_rule() -> None:
    @kc.func
    def largest(x: float, a: floats):
        kc.atomic_max(a, 0, x)
        return x

    @kc.func_grad(largest)
    def largest_grad(x: float, a: floats, adj_ret: float):
        kc.adjoint[x] += adj_ret + (kc.adjoint[a][0] if x == 3.0 else 0.0)

    @kc.kernel
    def run(x: floats, a: floats, y: floats):
        i = kc.tid()
        y[i] = largest(x[i], a)

    op = kernel_operation(run, outputs=["y"], in_out=["a"], launch_dims="x")
    derived = derive.vjp(op, [0], [0, 1])
    x, a = array(1, 3, 2), array(0)
    (found,) = run_operation(derived.operation, [x, a, array(10), array(1, 1, 1)])
    np.testing.assert_array_equal(found, [1, 11, 1])


def test_the_interpreter_runs_rules_derived_twice() -> None:
    derived = vjp(quantize.func, [0], [1]).func
    x, adj = array(0.3), array(0)
    interpreter.run(derived, [x, array(0), adj, array(1)], 1)
    np.testing.assert_allclose(adj, np.round(4 * x) + 4 * x)


def test_extrema_of_replayed_values_are_refused() -> None:
    # Values that are replayed may differ in the last bits: no thread would attain the extremum.
    @kc.func
    def third(x: float):
        return x / 3.0

    @kc.func_replay(third)
    def _(x: float):
        return x * (1.0 / 3.0)

    def largest(of_replay: bool) -> kc.Kernel:
        @kc.kernel
        def largest(x: kc.array[float], y: kc.array[float], most: kc.array[float]):
            i = kc.tid()
            y[i] = third(x[i])
            value = x[i] * x[i]
            if kc.static(of_replay):
                value = third(x[i]) * x[i]
            kc.atomic_max(most, 0, value)

        return largest

    def gradient_of(kernel: kc.Kernel) -> np.ndarray:
        x = kc.array([1.0, -3.0, 2.0], dtype=float, requires_grad=True)
        y, most = kc.zeros(3, dtype=float), kc.zeros(1, dtype=float, requires_grad=True)
        with kc.Tape() as tape:
            kc.launch(kernel, 3, [x], [y, most])
        tape.backward(grads={most: kc.ones(1, dtype=float)})
        assert x.grad is not None
        return x.grad.numpy()

    np.testing.assert_allclose(gradient_of(largest(of_replay=False)), [0.0, -6.0, 0.0])
    with pytest.raises(KernelGradError, match="depends on a function with a replay") as caught:
        gradient_of(largest(of_replay=True))
    assert caught.value.loc is not None
