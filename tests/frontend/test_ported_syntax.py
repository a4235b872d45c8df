"""The parts of the language that programs written for Warp use, in every mode, with derivatives."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: basic, reportInvalidTypeForm=false, reportCallIssue=false, reportRedeclaration=false
# pyright: reportArgumentType=false, reportOperatorIssue=false, reportUndefinedVariable=false
# pyright: reportInvalidTypeArguments=false

from __future__ import annotations

import pickle
from typing import Any, Literal

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import sin, vec3
from tests.helpers.language import agree

RNG = np.random.default_rng(24)
A1 = kc.array(dtype=kc.float64)


def test_constants_and_types_have_the_names_of_the_language() -> None:
    @kc.kernel
    def kernel(out: A1):
        out[0] = kc.pi + kc.PI - kc.tau
        out[1] = kc.HALF_PI - kc.pi / 2.0 + kc.half_pi
        out[2] = kc.e * kc.ln2 + kc.LN10 - kc.log2e + kc.LOG10E + kc.phi
        if kc.isnan(kc.nan) and kc.isinf(-kc.INF):
            out[3] = kc.float64(kc.float(kc.int(2.75)))
        v = vec3(1.0, 2.0, 3.0)
        out[4] = kc.float64(sin(v.y))

    (out,) = agree(kernel, 1, [np.zeros(5)])
    want = np.e * np.log(2) + np.log(10) - np.log2(np.e) + np.log10(np.e) + (1 + 5**0.5) / 2
    np.testing.assert_allclose(out, [0.0, np.pi / 2, want, 2.0, np.sin(np.float32(2))], 1e-7, 0)
    assert (kc.int, kc.float) == (kc.int32, kc.float32)


def test_random_states_advance_in_python_mode() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=float), s: kc.array(dtype=kc.uint32)):
        i = kc.tid()
        state = kc.rand_init(7, i)
        for _ in range(3):
            x[i] += kc.randf(state) + kc.randn(state)
        s[i] = state
        x[i] += kc.randf(s[i])

    agree(kernel, 5, [np.zeros(5, np.float32), np.zeros(5, np.uint32)])


@kc.func
def total(a: kc.float64, b: kc.float64, c: kc.float64) -> kc.float64:
    return a + 2.0 * b + 3.0 * c


def test_stars_spread_tuples_and_vectors() -> None:
    @kc.kernel
    def kernel(v: kc.array(dtype=kc.vec3d), out: A1):
        i = kc.tid()
        pair = (v[i][2], v[i][0])
        out[i] = total(*v[i]) + total(1.0, *pair) + kc.max(*kc.vec2d(v[i].x, v[i].y))

    v = RNG.normal(size=(4, 3))
    _, out = agree(kernel, 4, [v, np.zeros(4)])
    want = v @ [1, 2, 3] + 1 + 2 * v[:, 2] + 3 * v[:, 0] + np.maximum(v[:, 0], v[:, 1])
    np.testing.assert_allclose(out, want, 1e-14)
    kc.gradcheck(kernel, 4, [v], [np.zeros(4)])


def test_numbers_are_conditions() -> None:
    @kc.kernel
    def kernel(n: kc.array(dtype=int), x: A1, out: A1):
        i = kc.tid()
        if n[i] and x[i]:
            out[i] += 1.0
        if n[i] & 1 or not x[i]:
            out[i] += 2.0
        out[i] += kc.where(n[i] & 2, x[i], 2.0 * x[i])
        v = kc.where(n[i], kc.vec2d(x[i], 1.0), kc.vec2d(0.0, x[i]))
        out[i] += v[0] * v[1]

    n, x = np.array([0, 1, 2, 3], np.int32), np.array([1.5, 0.0, -2.0, 3.0])
    _, _, out = agree(kernel, 4, [n, x, np.zeros(4)])
    want = 1.0 * ((n != 0) & (x != 0)) + 2.0 * ((n % 2 == 1) | (x == 0))
    np.testing.assert_array_equal(out, want + np.where(n & 2, x, 2 * x) + np.where(n, x, 0))
    kc.gradcheck(kernel, 4, [n, x + 1], [np.zeros(4)])


def test_an_array_is_true_unless_it_is_empty() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.float64, ndim=2), out: A1):
        if x:
            out[0] = x[0, 0]
        if not x or out[0] > 3.0:
            out[0] += 1.0

    assert agree(kernel, 1, [np.full((2, 2), 2.0), np.zeros(1)])[1] == [2.0]
    assert agree(kernel, 1, [np.zeros((2, 0)), np.zeros(1)])[1] == [1.0]


LOOPED = (1.5, 2.5)


def test_loops_run_over_reversed_ranges_tuples_and_vectors() -> None:
    @kc.kernel
    def kernel(n: int, v: kc.vec3d, out: kc.array(dtype=kc.float64, ndim=2)):
        i = kc.tid()
        at = 0
        for k in reversed(range(i, n, 2)):
            out[i, at] = kc.float64(k)
            at += 1
        for k in reversed(range(n, i, -3)):
            out[i, at] = kc.float64(k)
            at += 1
        for k in reversed(range(3)):
            out[i, at] += v[k] * kc.float64(kc.static(k * k))
        for value in (v.x, v.y, 2.0):
            out[i, at] += value
        for value in LOOPED:
            if value > 2.0:
                break
            out[i, at] += kc.float64(value)
        for value in v:
            out[i, at] += value * value

    v, out = kc.vec3d(1.0, 2.0, 3.0), np.zeros((4, 12))
    found = agree(kernel, 4, [7, v, out])[2]
    for i in range(4):
        row = [*reversed(range(i, 7, 2)), *reversed(range(7, i, -3))]
        want = np.array([*row, 2.0 + 12.0 + 1.0 + 2.0 + 2.0 + 1.5 + 14.0])
        np.testing.assert_array_equal(found[i, : len(want)], want)


def test_slices_have_steps_known_at_run_time() -> None:
    @kc.kernel
    def kernel(x: A1, low: int, high: int, step: kc.array(dtype=int), out: A1):
        i = kc.tid()
        part = x[low : high : step[i]]
        whole = x[:: step[i]]
        for k in range(len(part)):
            out[i] += part[k] * kc.float64(k + 1)
        for k in range(len(whole)):
            out[i] += whole[k] * kc.float64(k + 2)

    x, steps = RNG.normal(size=9), np.array([1, 2, 3, -1, -2, 20, -20], np.int32)
    for low, high in ((1, 8), (-3, -9), (7, 2), (0, 100)):
        found = agree(kernel, 7, [x, low, high, steps, np.zeros(7)])[4]
        rows = [(x[low:high:s], x[::s]) for s in steps]
        want = [a @ np.arange(1, len(a) + 1) + b @ np.arange(2, len(b) + 2) for a, b in rows]
        np.testing.assert_allclose(found, want, 1e-13, 1e-13)
    kc.gradcheck(kernel, 7, [x, 7, 1, steps], [np.zeros(7)])


def test_facts_of_variables_are_static() -> None:
    @kc.kernel
    def kernel(x: A1, out: A1):
        i = kc.tid()
        v = kc.vec3d(x[i], 1.0, 2.0)
        w = kc.static(type(v))(3.0)
        scratch = kc.zeros(shape=(2, 3), dtype=kc.float64)
        scratch[i % 2, kc.static(len(v) - 1)] += w[0] * v[0]
        row = kc.zeros(kc.static(v.length), dtype=x.dtype)
        row[i] = scratch[i % 2, 2]
        out[i] = row[i] + kc.float64(kc.static(x.ndim) + v.length) + type(v[0])()

    x = RNG.normal(size=3)
    _, out = agree(kernel, 3, [x, np.zeros(3)])
    np.testing.assert_allclose(out, 3 * x + 4, 1e-15)
    kc.gradcheck(kernel, 3, [x], [np.zeros(3)])


@kc.struct
class Dual:
    value: kc.float64
    slope: kc.float64


@kc.func
def mul(a: Dual, b: Dual) -> Dual:
    return Dual(a.value * b.value, a.value * b.slope + a.slope * b.value)


@kc.func
def add(a: Dual, b: Dual) -> Dual:
    return Dual(a.value + b.value, a.slope + b.slope)


def test_functions_are_operators_of_structs() -> None:
    @kc.kernel
    def kernel(x: A1, out: A1):
        i = kc.tid()
        a = Dual(x[i], 1.0)
        a *= a + a
        out[i] = a.slope + a.value

    x = RNG.normal(size=4)
    _, out = agree(kernel, 4, [x, np.zeros(4)])
    np.testing.assert_allclose(out, 4 * x + 2 * x * x, 1e-14)
    kc.gradcheck(kernel, 4, [x], [np.zeros(4)])


@kc.func
def applied(f: kc.Function, pair: tuple[float, float]):
    return f(pair[0], pair[1], kc.float64(1.0))


def test_annotations_say_function_and_tuple() -> None:
    @kc.kernel
    def kernel(x: A1, out: A1):
        i = kc.tid()
        out[i] = applied(total, (x[i], 2.0 * x[i]))

    x = RNG.normal(size=4)
    np.testing.assert_allclose(agree(kernel, 4, [x, np.zeros(4)])[1], 5 * x + 3, 1e-14)

    @kc.kernel
    def refused(x: tuple[float, float], out: A1):
        out[0] = x[0]

    with pytest.raises(kc.KernelTypeError, match="a kernel takes no tuple"):
        _ = refused.func


def test_debug_mode_warns_of_expressions_without_effect() -> None:
    @kc.kernel
    def kernel(out: A1):
        out[0] == 1.0  # noqa: B015

    assert agree(kernel, 1, [np.zeros(1)])[0] == [0.0]
    kc.config.mode = "debug"
    try:
        with pytest.warns(kc.KernelWarning, match="has no effect"):
            kc.launch(kernel, 1, [np.zeros(1)])
    finally:
        kc.config.mode = "release"


def test_options_of_kernels_are_kept_and_unknown_ones_are_refused() -> None:
    @kc.kernel(enable_backward=False, module="unique", module_options={"fast_math": False})
    def kernel(x: kc.array(dtype=float), y: kc.array(dtype=float)):
        i = kc.tid()
        y[i] = x[i] * x[i]

    assert kernel.options["enable_backward"] is False
    assert kernel.key.endswith("unknown_ones_are_refused__locals__kernel")
    assert kernel.module is not None
    assert kernel.module.__name__ == __name__
    kc.gradcheck(kernel, 3, [np.ones(3, np.float32)], [np.zeros(3, np.float32)])
    named = kc.kernel(name="square")(kernel.pyfunc)
    assert (named.key, named.name) == ("square", "kernel")
    by_hand = kc.Kernel(func=kernel.pyfunc, key="by_hand")
    out = np.zeros(2, np.float32)
    kc.launch(by_hand, 2, [np.full(2, 3.0, np.float32)], [out])
    assert by_hand.key == pickle.loads(pickle.dumps(by_hand)).key == "by_hand"
    np.testing.assert_array_equal(out, 9.0)
    with pytest.raises(kc.KernelArgumentError, match="unknown option 'enable_backwards'"):
        kc.kernel(enable_backwards=False)
    with pytest.raises(kc.KernelArgumentError, match="fast_math: expected False"):
        kc.kernel(module_options={"fast_math": True})
    with pytest.raises(kc.KernelTypeError, match="takes a function"):
        kc.Kernel(func=3)


def test_overload_decorates_a_function_without_a_body() -> None:
    @kc.kernel
    def scale(x: kc.array(dtype=Any), factor: Any):
        i = kc.tid()
        x[i] *= factor

    generic = scale

    @kc.overload
    def scale(x: kc.array(dtype=kc.float64), factor: kc.float64): ...

    assert scale is generic
    assert len(scale.overloads) == 1
    one = scale.add_overload([kc.array(dtype=float), float])
    assert len(scale.overloads) == 2
    x = np.ones(3, np.float32)
    kc.launch(one, 3, [x, 2.0])
    np.testing.assert_array_equal(x, 2.0)
    with pytest.raises(kc.KernelSyntaxError, match="'scale' has a body"):

        @kc.overload
        def scale(x: kc.array(dtype=kc.float64), factor: kc.float64):
            x[0] = factor

    with pytest.raises(kc.KernelArgumentError, match="no kernel 'other' above"):

        @kc.overload
        def other(x: kc.array(dtype=kc.float64)): ...


@kc.func
def corner(x: kc.array[kc.float64, Literal[2]]) -> kc.float64:
    return x[1, 0]


def test_annotations_say_the_number_of_dimensions_as_a_literal() -> None:
    @kc.kernel
    def kernel(x: kc.array[kc.float64, Literal[2]], out: kc.array[kc.float64, Literal[1]]):
        out[0] = corner(x) * x[0, 1]

    assert kernel.parameters[0].type == kc.array2d[kc.float64]
    x = RNG.normal(size=(2, 2))
    assert agree(kernel, 1, [x, np.zeros(1)])[1] == [x[1, 0] * x[0, 1]]
    with pytest.raises(kc.KernelTypeError, match="expected 1 to 4 dimensions, found 'two'"):
        kc.array[float, Literal["two"]]
    with pytest.raises(kc.KernelTypeError, match="one number of dimensions"):
        kc.array[float, 1, 2]


def test_none_is_an_empty_array_of_any_elements() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=Any), y: kc.array(dtype=Any, ndim=2), out: A1):
        out[0] = 7.0
        if x:
            out[0] = kc.float64(x[0])
        if not y:
            out[0] += 0.5

    for x, y, want in ((None, None, 7.5), (np.ones(2), None, 1.5), (None, np.ones((1, 1)), 7.0)):
        out = np.zeros(1)
        kc.launch(kernel, 1, [x, y, out])
        assert out == [want]
