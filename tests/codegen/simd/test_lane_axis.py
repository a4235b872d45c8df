"""Lanes along another launch axis than the last: which kernels have them, and what they give."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base import native
from kernelcore.codegen.code_form import code_form
from kernelcore.codegen.simd.lane_axis import other_axis
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import adjoint_func
from tests.helpers.threads import with_gradients
from tests.helpers.vectorised.rows import product

F32_2D, F32_3D = kc.array2d[float], kc.array3d[float]


@kc.kernel
def whitened(mean: F32_2D, scale: F32_3D, x: F32_2D, y: F32_2D):
    """The squares of ``scale[k] @ (x[i] - mean[k])``, summed up."""
    i, k = kc.tid()
    square = 0.0
    for a in range(x.shape[1]):
        r = 0.0
        for b in range(a + 1):
            r += scale[k, a, b] * (x[i, b] - mean[k, b])
        square += r * r
    y[i, k] = square


@kc.kernel
def between(w: F32_2D, v: F32_2D, x: F32_3D, y: F32_3D):
    h, i, k = kc.tid()
    total = 0.0
    for b in range(w.shape[1]):
        total += w[k, b] * v[k, b] * x[h, i, b]
    y[h, i, k] = total


@kc.kernel
def counted(w: F32_2D, v: F32_2D, x: F32_2D, total: F32_2D):
    i, k = kc.tid()
    for b in range(w.shape[1]):
        kc.atomic_add(total, k, b, w[k, b] * v[k, b] * x[i, b])


@kc.kernel
def distances(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += (a[i, k] - b[j, k]) * (a[i, k] - b[j, k])
    c[i, j] = total


@kc.kernel
def printed(w: F32_2D, v: F32_2D, x: F32_2D, y: F32_2D):
    i, k = kc.tid()
    total = 0.0
    for b in range(w.shape[1]):
        total += w[k, b] * v[k, b] * x[i, b]
    print(total)
    y[i, k] = total


@kc.kernel
def overwritten(w: F32_2D, v: F32_2D, x: F32_2D, y: F32_2D):
    i, k = kc.tid()
    total = 0.0
    for b in range(w.shape[1]):
        total += w[k, b] * v[k, b] * x[i, b]
    y[0, k] = total


@pytest.mark.parametrize(("kernel", "axis"), [(whitened, 0), (between, 1), (counted, 0)])
def test_lanes_share_more_along_another_axis(kernel: kc.Kernel, axis: int) -> None:
    found = other_axis(optimize(kernel.func))
    assert found is not None
    assert found.axis == axis


@pytest.mark.parametrize("kernel", [product, printed, overwritten])
def test_lanes_stay_along_the_last_axis(kernel: kc.Kernel) -> None:
    """Which they suit as well, or threads have an order."""
    assert other_axis(optimize(kernel.func)) is None


@kc.kernel
def weighted(x: F32_2D, mean: F32_2D, scale: F32_2D, y: F32_2D):
    i, k = kc.tid()
    total = 0.0
    for b in range(x.shape[1]):
        total += (x[i, b] - mean[k, b]) * scale[k, b]
    y[i, k] = total


def test_rows_that_are_transposed_once_leave_lanes_along_the_last_axis() -> None:
    """Unless that has few points."""
    found = other_axis(optimize(weighted.func))
    assert found is not None
    taken = [shape for shape in ((4, 4), (5, 4), (100, 5), (100, 4)) if found.is_taken(shape)]
    assert taken == [(5, 4), (100, 4)]
    assert "axis 0 is longer than the last one and that has at most 4" in str(kc.explain(weighted))


@pytest.mark.parametrize("columns", [4, 5])
def test_few_and_more_columns_have_the_same_bits(columns: int) -> None:
    """From 32 iterations on, panels have parts of sums that another axis has not."""
    x, mean, scale = data((40, 21), (columns, 21), (columns, 21))
    y, of_four = np.zeros((40, columns), np.float32), np.zeros((40, 4), np.float32)
    kc.launch(weighted, (40, columns), [x, mean, scale], [y])
    kc.launch(weighted, (40, 4), [x, mean[:4], scale[:4]], [of_four])
    assert (y[:, :4] == of_four).all()
    expected = np.einsum("ikb,kb->ik", x[:, None].astype(float) - mean, scale)
    np.testing.assert_allclose(y, expected, 1e-4, 1e-4)


@kc.kernel
def skinned(weight: F32_2D, bone: F32_3D, p: F32_2D, y: F32_2D):
    """Points moved by a weighted mean of affine maps, a component a thread."""
    i, r = kc.tid()
    total = 0.0
    for b in range(weight.shape[1]):
        moved = bone[b, r, 0] * p[i, 0] + bone[b, r, 1] * p[i, 1] + bone[b, r, 2] * p[i, 2]
        total += weight[i, b] * (moved + bone[b, r, 3])
    y[i, r] = total


@kc.kernel
def crossed(a: F32_2D, b: F32_2D, y: F32_2D):
    i, c = kc.tid()
    p, q = (c + 1) % 3, (c + 2) % 3
    y[i, c] = a[i, p] * b[i, q] - a[i, q] * b[i, p]


def test_lanes_leave_short_rows_of_which_each_has_data_of_its_own() -> None:
    found = other_axis(code_form(optimize(skinned.func)))
    assert found is not None
    taken = [shape for shape in ((3, 3), (4, 3), (99, 12), (99, 13)) if found.is_taken(shape)]
    assert taken == [(4, 3), (99, 12)]
    assert "axis 0 is longer than the last one and that has at most 12" in str(kc.explain(skinned))


def test_lanes_leave_short_rows_if_they_would_add_to_rows_one_by_one() -> None:
    assert other_axis(optimize(crossed.func)) is None
    found = other_axis(optimize(adjoint_func(crossed)))
    assert found is not None
    assert found.most_points


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("components", [2, 3, 12, 13, 20])
def test_skinning_has_the_gradients_of_its_formula(components: int) -> None:
    given = data((90, 24), (24, components, 4), (90, 3))
    cotangent = data((90, components))[0]
    found = with_gradients(skinned, given, cotangent)
    weight, bone, p = (a.astype(float) for a in given)
    at = np.concatenate((p, np.ones((90, 1))), 1)
    expected = (
        np.einsum("ib,brk,ik->ir", weight, bone, at),
        np.einsum("ir,brk,ik->ib", cotangent, bone, at),
        np.einsum("ir,ib,ik->brk", cotangent, weight, at),
        np.einsum("ir,ib,brk->ik", cotangent, weight, bone)[:, :3],
    )
    for got, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, right, 1e-4, 1e-4 * np.abs(right).max())


@pytest.mark.usefixtures("eager_sharing")
def test_cross_products_by_components_have_the_gradients_of_their_formula() -> None:
    a, b, cotangent = data((90, 3), (90, 3), (90, 3))
    y, of_a, of_b = with_gradients(crossed, [a, b], cotangent)
    np.testing.assert_allclose(y, np.cross(a, b), 1e-4, 1e-5)
    np.testing.assert_allclose(of_a, np.cross(b, cotangent), 1e-4, 1e-5)
    np.testing.assert_allclose(of_b, np.cross(cotangent, a), 1e-4, 1e-5)


def data(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def whitened_in_float64(mean: Any, scale: Any, x: Any) -> np.ndarray:
    mean, lower, x = mean.astype(float), np.tril(scale.astype(float)), x.astype(float)
    parts = [((x - m) @ each.T) for m, each in zip(mean, lower, strict=True)]
    return np.stack([(p * p).sum(1) for p in parts], 1)


# Longer along axis 0 than along the last one, as long, and shorter; no whole gang, and several.
POINTS = ((1, 1), (2, 1), (5, 5), (7, 3), (3, 7), (70, 9), (9, 70), (150, 21))


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("is_packed", [True, False])
def test_values_are_those_of_lanes_along_the_last_axis(
    points: tuple[int, int], is_packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, parts = points
    given = data((parts, 21), (parts, 21, 21), (n, 21))
    if not is_packed:
        given = [np.asfortranarray(a) for a in given]
    results = [np.zeros(points, np.float32) for _ in range(3)]
    for threads, y in zip((1, 3), results, strict=False):
        kc.set_num_threads(threads)
        kc.launch(whitened, points, given, [y])
    monkeypatch.setattr(kc.config, "optimize", False)
    kc.launch(kc.kernel(whitened.pyfunc), points, given, [results[2]])
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()
    np.testing.assert_allclose(results[0], whitened_in_float64(*given), 1e-4, 1e-4)


@pytest.mark.parametrize("points", [(3, 40, 7), (1, 7, 40), (2, 20, 1)])
def test_the_axis_may_be_in_the_middle(points: tuple[int, int, int]) -> None:
    h, n, parts = points
    w, v, x = data((parts, 40), (parts, 40), (h, n, 40))
    y = np.zeros(points, np.float32)
    kc.launch(between, points, [w, v, x], [y])
    expected = np.einsum("kb,kb,hib->hik", *(a.astype(float) for a in (w, v, x)))
    np.testing.assert_allclose(y, expected, 1e-4, 1e-4)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("points", [(9, 40, 3), (40, 9, 3), (3, 40, 20)])
def test_gradients_along_an_axis_in_the_middle_are_exact(points: tuple[int, int, int]) -> None:
    """Chunks still take the points of the first axis one after the other."""
    h, n, parts = points
    given = data((parts, 40), (parts, 40), (h, n, 40))
    cotangent = data(points)[0]
    _, *found = with_gradients(between, given, cotangent)
    w, v, x = (a.astype(float) for a in given)
    expected = (
        np.einsum("hik,kb,hib->kb", cotangent, v, x),
        np.einsum("hik,kb,hib->kb", cotangent, w, x),
        np.einsum("hik,kb,kb->hib", cotangent, w, v),
    )
    for got, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, right, 1e-3, 1e-4 * np.abs(right).max())


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("points", POINTS)
def test_gradients_do_not_depend_on_the_threads(points: tuple[int, int]) -> None:
    n, parts = points
    given = data((parts, 21), (parts, 21, 21), (n, 21))
    cotangent = data(points)[0]
    _, *found = with_gradients(whitened, given, cotangent)
    mean, lower, x = (a.astype(float) for a in (given[0], np.tril(given[1]), given[2]))
    r = np.einsum("kab,ikb->ika", lower, x[:, None] - mean)
    back = 2.0 * cotangent.astype(float)[:, :, None] * r
    of_x = np.einsum("ika,kab->ib", back, lower)
    of_mean = -np.einsum("ika,kab->kb", back, lower)
    of_scale = np.tril(np.einsum("ika,ikb->kab", back, x[:, None] - mean))
    for got, expected in zip(found, (of_mean, of_scale, of_x), strict=True):
        np.testing.assert_allclose(got, expected, 1e-3, 1e-3 * np.abs(expected).max())


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("points", [(300, 4), (4, 300), (33, 33)])
def test_sums_over_points_do_not_depend_on_the_threads(points: tuple[int, int]) -> None:
    n, parts = points
    w, v, x = data((parts, 40), (parts, 40), (n, 40))
    totals = []
    for threads in (1, 2, 5):
        kc.set_num_threads(threads)
        total = kc.zeros((parts, 40), dtype=float)
        kc.launch(counted, points, [w, v, x], [total])
        totals.append(total.numpy())
    assert (totals[0] == totals[1]).all()
    assert (totals[0] == totals[2]).all()
    expected = np.einsum("kb,kb,ib->kb", *(a.astype(float) for a in (w, v, x)))
    np.testing.assert_allclose(totals[0], expected, 1e-4, 1e-3)


def test_another_axis_contracts_the_same_sums() -> None:
    w, v, x = data((3, 21), (3, 21), (2, 70, 21))
    found = kc.explain(between, w, v, x, np.zeros((2, 70, 3), np.float32))
    assert found.lane_axis is not None
    assert found.lane_axis.is_taken
    assert found.is_contracted == kc.explain(between).is_contracted == native.has_fma


def test_the_report_says_along_which_axis_lanes_lie() -> None:
    mean, scale, x = data((3, 21), (3, 21, 21), (70, 21))
    along_0 = str(kc.explain(whitened, mean, scale, x, np.zeros((70, 3), np.float32)))
    assert "where launch axis 0 is longer than the last one, lanes lie along it, as re" in along_0
    assert "load scale: one element for all lanes" in along_0
    few = x[:2].copy()
    along_1 = str(kc.explain(whitened, mean, scale, few, np.zeros((2, 3), np.float32)))
    assert "where launch axis 0 is longer than the last one, lanes lie along it\n" in along_1
    assert "load x: one element for all lanes" in along_1
