"""Derivatives of native functions: the adjoint text against closed forms, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.compiler.native_code import compile_func
from kernelcore.passes.autodiff.jvp import jvp
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import normalize
from tests.helpers import interpreter
from tests.helpers.kernel_harness import agree
from tests.helpers.native_programs import (
    floats,
    gather_kernel,
    random,
    repeated_roots,
    roots,
    saxpy_kernel,
)


def test_composites_are_values_with_components() -> None:
    @kc.func_native(
        "kc::vector<float, 3> r{m(0, 0) * v.x, v[1], s * v.z}; return r;",
        "adj_v.x += m(0, 0) * adj_ret.x; adj_m(0, 0) += v.x * adj_ret.x; adj_v.y += adj_ret.y;"
        "adj_v.z += s * adj_ret.z; adj_s += v.z * adj_ret.z;",
    )
    def mix(v: kc.vec3, m: kc.mat22, s: float) -> kc.vec3: ...

    @kc.kernel
    def run(v: kc.array(dtype=kc.vec3), m: kc.mat22, s: float, out: kc.array(dtype=kc.vec3)):
        i = kc.tid()
        out[i] = mix(v[i], m, s)

    v, m, out = random(4, 3), random(2, 2), np.zeros((4, 3), np.float32)
    found = agree(run.func, [v, m, np.float32(3), out], 4)[-1]
    scale = np.array([m[0, 0], 1, 3], np.float32)
    np.testing.assert_array_equal(found, v * scale)
    adj_v, adj_m, adj_s, ct = (
        np.zeros_like(v),
        np.zeros_like(m),
        np.zeros((), np.float32),
        random(4, 3),
    )
    adjoint = vjp(run.func, [0, 1, 2], [3]).func
    interpreter.run(adjoint, [v, m, np.float32(3), out, adj_v, adj_m, adj_s, ct], 4)
    np.testing.assert_allclose(adj_v, ct * scale, rtol=1e-6)
    np.testing.assert_allclose(adj_m[0, 0], (v * ct)[:, 0].sum(), rtol=1e-5)
    np.testing.assert_allclose(adj_s, (v * ct)[:, 2].sum(), rtol=1e-5)


def test_the_adjoint_text_is_the_adjoint_of_a_launch() -> None:
    x, y, ct = random(64), random(64), random(64)
    adj_a, adj_x, adj_y = np.zeros((), np.float32), np.zeros_like(x), np.zeros_like(y)
    kc.launch(
        saxpy_kernel,
        64,
        [2.0, x, y],
        [np.zeros(64, np.float32)],
        [adj_a, adj_x, adj_y],
        [ct],
        adjoint=True,
    )
    np.testing.assert_allclose(adj_a, (x * ct).sum(), rtol=1e-5)
    np.testing.assert_allclose(adj_x, 2 * ct, rtol=1e-6)
    np.testing.assert_allclose(adj_y, ct, rtol=1e-6)


def test_cotangents_that_nobody_asks_for_are_dropped() -> None:
    x, y, ct, adj_y = random(8), random(8), random(8), np.zeros(8, np.float32)
    out = np.zeros(8, np.float32)
    kc.launch(saxpy_kernel, 8, [2.0, x, y], [out], [None, None, adj_y], [ct], adjoint=True)
    np.testing.assert_array_equal(adj_y, ct)


def test_sums_into_cotangents_are_atomic() -> None:
    n = 200_000
    table, index = random(2), (np.arange(n) % 2).astype(np.int32)
    adj, ct = np.zeros(2, np.float32), np.ones(n, np.float32)
    out = np.zeros(n, np.float32)
    kc.launch(gather_kernel, n, [table, index], [out], [adj, None], [ct], adjoint=True)
    assert adj.tolist() == [n / 2, n / 2]


def test_results_have_derivatives_in_branches_and_loops() -> None:
    x, ct = random(16), random(16)
    adj, out = np.zeros_like(x), np.zeros_like(x)
    kc.launch(roots, 16, [x], [out], [adj], [ct], adjoint=True)
    np.testing.assert_allclose(adj, np.where(x > 1, 3 * ct / np.sqrt(x), 0), rtol=1e-6)
    adj = np.zeros_like(x)
    kc.launch(repeated_roots, 16, [x, 3], [out], [adj, None], [ct], adjoint=True)
    # s -> 2 s^1.5, three times: 2^(1 + 1.5 + 1.5^2) x^(1.5^3)
    power = 1.5**3
    expected = ct * 2**4.75 * power * x.astype(np.float64) ** (power - 1)
    np.testing.assert_allclose(adj, expected, rtol=1e-5)


def test_a_recomputation_snippet_gives_the_result() -> None:
    @kc.func_native("return x * x;", "adj_x += 2 * x * adj_ret;", "return 10.0f * x;")
    def square(x: float) -> float: ...

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        y[i] = square(x[i]) * square(x[i])

    x = random(4)
    adj, out = np.zeros_like(x), np.zeros_like(x)
    kc.launch(run, 4, [x], [out])
    np.testing.assert_allclose(out, x**4, rtol=1e-6)
    kc.launch(run, 4, [x], [out], [adj], [np.ones_like(x)], adjoint=True)
    np.testing.assert_allclose(adj, 2 * (10 * x) * (2 * x), rtol=1e-6)


def test_a_text_without_an_adjoint_has_no_derivative() -> None:
    @kc.func_native("return x * x;")
    def square(x: float) -> float: ...

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        y[i] = square(x[i])

    with pytest.raises(kc.KernelGradError, match=r"(?s)square.*without an adjoint.*adj_snippet"):
        vjp(run.func, [0], [1])


def test_forward_mode_and_second_derivatives_are_refused() -> None:
    with pytest.raises(kc.KernelGradError, match="no derivative in forward mode"):
        compile_func(jvp(saxpy_kernel.func, [0, 1, 2]).func)
    adjoint = vjp(roots.func, [0], [1]).func
    with pytest.raises(kc.KernelGradError, match="no second derivative"):
        vjp(normalize(adjoint), [0], [2])


def test_an_adjoint_that_needs_overwritten_values_is_refused() -> None:
    @kc.func_native("out[i] = x[i] * x[i];", "adj_x[i] += 2 * x[i] * adj_out[i];")
    def square(x: floats, out: floats, i: int): ...

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        square(x, y, i)
        x[i] = 0.0

    with pytest.raises(kc.KernelGradError, match="'x', which the kernel writes elsewhere"):
        vjp(run.func, [0], [1])


def test_sums_that_a_text_looks_at_are_refused() -> None:
    @kc.func_native("return x[i];", "adj_x[i] += adj_ret;")
    def element(x: floats, i: int) -> float: ...

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        kc.atomic_add(x, 0, y[i])
        y[i] = element(x, 0)

    with pytest.raises(kc.KernelGradError, match="'x' may be read here and written by another"):
        vjp(run.func, [1], [1])
