"""grad() inside kernels, and rules wherever a function is called."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import kernelcore as kc
from tests.helpers.kernel_harness import agree
from tests.helpers.rule_programs import Pair, array, floats, gradient


def test_gradients_in_kernels_have_derivatives() -> None:
    @kc.func
    def wave(x: float, y: float):
        s = x
        for _ in range(3):
            s = s * kc.sin(y) + x
        return s

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        a, b = kc.grad(wave)(x[i], y=2.0 * x[i])
        y[i] = a + b

    x = np.array([0.3, 0.7, 1.1])
    s, c = np.sin(2 * x), np.cos(2 * x)
    found = agree(run.func, [x.astype(np.float32), np.zeros(3, np.float32)], 3)[-1]
    # wave = x (s^3 + s^2 + s + 1)
    np.testing.assert_allclose(
        found, (s**3 + s**2 + s + 1) + x * c * (3 * s**2 + 2 * s + 1), rtol=1e-5
    )

    def value(x: np.ndarray) -> np.ndarray:
        s, c = np.sin(2 * x), np.cos(2 * x)
        return (s**3 + s**2 + s + 1) + x * c * (3 * s**2 + 2 * s + 1)

    expected = (value(x + 1e-5) - value(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(gradient(run, x.astype(np.float32)), expected, rtol=1e-4)


def test_the_gradient_of_several_results_is_that_of_their_sum() -> None:
    @kc.func
    def both(x: float, n: int, y: float):
        return x * y * float(n), x + y

    @kc.kernel
    def run(out: floats):
        a, b, c = kc.grad(both)(2.0, 3, 5.0)
        out[0], out[1], out[2] = a, float(b), c

    found = agree(run.func, [np.zeros(3, np.float32)], 1)[0]
    assert found.tolist() == [16, 0, 7]


def test_gradients_take_composites() -> None:
    gradient_of_length = kc.grad(kc.length)

    @kc.kernel
    def run(v: kc.array(dtype=kc.vec3), out: kc.array(dtype=kc.vec3)):
        i = kc.tid()
        out[i] = gradient_of_length(v[i])

    v = np.array([[1, 2, 2], [0, 3, 4]], np.float32)
    found = agree(run.func, [v, np.zeros_like(v)], 2)[-1]
    np.testing.assert_allclose(found, v / np.linalg.norm(v, axis=1, keepdims=True), rtol=1e-6)


@kc.func
def compounded(x: float, n: int):
    s = x
    for _ in range(n):
        s = s * s + x
    return s


def test_gradients_are_taken_in_loops_and_in_rules() -> None:
    @kc.func
    def steps(x: float):
        total = 0.0
        for k in range(4):
            d, _ = kc.grad(compounded)(x, k)
            total += d
        return total

    @kc.func
    def flat(x: float):
        return compounded(x, 3)

    @kc.func_grad(flat)
    def flat_grad(x: float, adj_ret: float):
        kc.adjoint[x] += kc.grad(flat)(x) * adj_ret

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        y[i] = steps(x[i]) + flat(x[i])

    def value(x: np.ndarray) -> np.ndarray:
        s, d = x, np.ones_like(x)
        total = d.copy()
        for _ in range(3):
            s, d = s * s + x, 2 * s * d + 1
            total = total + d
        return total + s

    x = np.array([0.3, 0.5, -0.4])
    found = agree(run.func, [x.astype(np.float32), np.zeros(3, np.float32)], 3)[-1]
    np.testing.assert_allclose(found, value(x), rtol=1e-5)
    expected = (value(x + 1e-5) - value(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(gradient(run, x.astype(np.float32)), expected, rtol=1e-4)


def test_a_rule_applies_wherever_the_function_is_called() -> None:
    @kc.func
    def split(v: kc.vec2, s: float):
        return s * v, Pair(v, 3, s)

    @kc.func_grad(split)
    def split_grad(v: kc.vec2, s: float, adj_v: kc.vec2, adj_p: Pair):
        kc.adjoint[v] += 2.0 * adj_v + adj_p.x
        kc.adjoint[s] += 5.0 * adj_p.w

    @kc.func
    def inner(x: float):
        w, p = split(kc.vec2(x, 2.0 * x), x)
        return w[0] + p.x[1] + p.w * float(p.n)

    @kc.func
    def apply(f: Callable, x: float):
        return f(x) if x > 0.0 else 0.0

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        y[i] = apply(inner, x[i])

    # ct_v = (2, 1), and v = (x, 2 x); ct_s = 5 * 3.
    np.testing.assert_array_equal(gradient(run, array(1, -1)), [2 + 2 + 15, 0])
