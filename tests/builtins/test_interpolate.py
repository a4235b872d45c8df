"""Interpolation, steps, inverse error functions and search against closed forms and NumPy."""

# Overloads of one name: a type checker sees the last one.
# pyright: reportCallIssue=false

import math

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins.interpolate import erfcinv, erfinv, lerp, nonzero, smoothstep, step
from kernelcore.builtins.search import lower_bound
from kernelcore.language.composite_types import mat22, quat, vec3
from kernelcore.language.types import float64, int32, uint32
from tests.helpers.library_harness import mapped, run_both, slopes


@kc.func
def _steep(x: float64):
    return smoothstep(-0.5, float64(1.5), x)


@kc.func
def _blend(x: float64):
    return lerp(x * x, float64(3.0), x)


@pytest.mark.parametrize("function", [_steep, _blend, erfinv])
def test_derivative_is_that_of_differences(function):
    x = np.linspace(-0.85, 0.85, 41)
    found, expected = slopes(mapped(function, float64), x, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def test_derivative_of_erfcinv_is_that_of_differences():
    x = np.linspace(0.02, 1.98, 41)
    found, expected = slopes(mapped(erfcinv, float64), x, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_derivative_of_erfinv_is_the_closed_form():
    x = np.linspace(-0.999, 0.999, 101)
    found, _ = slopes(mapped(erfinv, float64), x, 1e-6)
    y = np.zeros_like(x)
    kc.launch(mapped(erfinv, float64), dim=len(x), inputs=[x, y])
    np.testing.assert_allclose(found, 0.5 * math.sqrt(math.pi) * np.exp(y * y), rtol=1e-13)


@pytest.mark.parametrize(("dtype", "numpy"), [(float64, np.float64), (kc.float32, np.float32)])
def test_inverse_error_functions_invert(dtype, numpy):
    eps = float(np.finfo(numpy).eps)
    y = np.r_[np.linspace(-2.0, 2.0, 401), 1e-8, -1e-12].astype(numpy)
    x = np.array([math.erf(v) for v in y.tolist()]).astype(numpy)
    found = np.zeros_like(y)
    run_both(mapped(erfinv, dtype), [x, found], len(x))
    # Half a unit in the last place of x moves y by this much, and a few units are its own.
    conditioning = 0.5 * math.sqrt(math.pi) * np.exp(y.astype(float) ** 2) * np.abs(x) * eps
    assert np.all(np.abs(found - y) <= conditioning + 4 * eps * np.abs(y))

    y = np.linspace(0.3, 5.0 if numpy is np.float64 else 4.0, 301).astype(numpy)
    x = np.array([math.erfc(v) for v in y.tolist()]).astype(numpy)
    found = np.zeros_like(y)
    run_both(mapped(erfcinv, dtype), [x, found], len(x))
    np.testing.assert_allclose(found, y, rtol=8 * eps)


def test_inverse_error_functions_at_and_beyond_their_ends():
    x = np.array([-1.0, 1.0, 1.5, -1.5, 0.0, np.nan])
    found = np.zeros_like(x)
    kc.launch(mapped(erfinv, float64), dim=len(x), inputs=[x, found])
    np.testing.assert_array_equal(found, [-np.inf, np.inf, np.nan, np.nan, 0.0, np.nan])
    x = np.array([0.0, 2.0, -0.1, 2.1, 1.0, np.nan])
    kc.launch(mapped(erfcinv, float64), dim=len(x), inputs=[x, found])
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, np.nan, 0.0, np.nan])


def test_step_is_one_below_zero_as_in_warp():
    x = np.array([-2.0, -0.0, 0.0, 3.0])
    found = np.zeros_like(x)
    run_both(mapped(step, float64), [x, found], len(x))
    np.testing.assert_array_equal(found, [1.0, 0.0, 0.0, 0.0])
    n = np.array([-3, 0, 3], np.int32)
    counted = np.zeros_like(n)
    run_both(mapped(step, int32), [n, counted], len(n))
    np.testing.assert_array_equal(counted, [1, 0, 0])


def test_nonzero_tells_zero_from_the_rest():
    n = np.array([0, 1, 2**31, 2**32 - 1], np.uint32)
    found = np.zeros_like(n)
    run_both(mapped(nonzero, uint32), [n, found], len(n))
    np.testing.assert_array_equal(found, [0, 1, 1, 1])


def test_smoothstep_clamps_and_is_the_cubic_between():
    x = np.array([-9.0, -0.5, 0.5, 1.5, 9.0])
    found = np.zeros_like(x)
    run_both(mapped(_steep, float64), [x, found], len(x))
    np.testing.assert_array_equal(found, [0.0, 0.0, 0.5, 1.0, 1.0])


@kc.kernel
def _lerp_composites(
    a: kc.array(dtype=vec3),
    b: kc.array(dtype=mat22),
    q: kc.array(dtype=quat),
    t: float,
):
    a[2] = lerp(a[0], a[1], t)
    b[2] = lerp(b[0], b[1], t)
    q[2] = lerp(q[0], q[1], t)


def test_lerp_of_composites_is_componentwise():
    rng = np.random.default_rng(1)
    a, b, q = (rng.normal(size=(3, *s)).astype(np.float32) for s in ((3,), (2, 2), (4,)))
    kc.launch(_lerp_composites, dim=1, inputs=[a, b, q, 0.25])
    for values in (a, b, q):
        expected = 0.75 * values[0] + 0.25 * values[1]
        np.testing.assert_allclose(values[2], expected, rtol=1e-6, atol=1e-6)


@kc.kernel
def _search(
    arr: kc.array(dtype=float),
    value: kc.array(dtype=float),
    whole: kc.array(dtype=int),
    part: kc.array(dtype=int),
):
    i = kc.tid()
    whole[i] = lower_bound(arr, value[i])
    part[i] = lower_bound(arr, 3, 11, value[i])


def test_lower_bound_is_searchsorted():
    rng = np.random.default_rng(2)
    arr = np.sort(rng.integers(0, 9, 17)).astype(np.float32)
    value = np.r_[np.arange(-1, 11), 0.5, 3.5, 7.25].astype(np.float32)
    whole, part = (np.zeros(len(value), np.int32) for _ in range(2))
    run_both(_search, [arr, value, whole, part], len(value))
    np.testing.assert_array_equal(whole, np.searchsorted(arr, value))
    np.testing.assert_array_equal(part, 3 + np.searchsorted(arr[3:11], value))


def test_lower_bound_of_nothing_is_its_begin():
    found = np.zeros(1, np.int32)
    arr = np.zeros(0, np.float32)

    @kc.kernel
    def search_empty(arr: kc.array(dtype=float), found: kc.array(dtype=int)):
        found[0] = lower_bound(arr, 1.0) + lower_bound(arr, 5, 5, 1.0)

    kc.launch(search_empty, dim=1, inputs=[arr, found])
    assert found[0] == 5
