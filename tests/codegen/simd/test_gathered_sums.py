"""Sums over threads that become loops over these: which kernels gather them, and what they give."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import kernelcore as kc
from kernelcore.base import native
from kernelcore.codegen.simd.gathering import (
    FEW_POINTS,
    LEAST_TRIPS,
    LEAST_TRIPS_OF_FEW,
    choose_gathering,
)
from kernelcore.codegen.target import cpu
from kernelcore.codegen.target.machine import STRAIGHT
from kernelcore.ir.core import Func
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import adjoint_func
from tests.helpers.vectorised.rows import layer, product

F32_1D, F32_2D, F32_3D = kc.array1d[float], kc.array2d[float], kc.array3d[float]


@kc.kernel
def products(a: F32_3D, b: F32_2D, c: F32_3D):
    n, i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[2]):
        total += a[n, i, k] * b[j, k]
    c[n, i, j] = total


@kc.kernel
def batched(a: F32_3D, b: F32_3D, c: F32_3D):
    n, i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[2]):
        total += a[n, i, k] * b[n, k, j]
    c[n, i, j] = total


@kc.kernel
def similarities(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += kc.exp(-kc.abs(a[i, k] - b[j, k]))
    c[i, j] = total


@kc.kernel
def ratios(a: F32_2D, b: F32_2D, c: F32_2D):
    """Its terms take more than adding them."""
    i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] / (b[k, j] * b[k, j] + 1.0)
    c[i, j] = total


@kc.kernel
def smoothed(w: F32_1D, x: F32_2D, y: F32_2D):
    """Its adjoint adds to neighbours in the same loop."""
    i, j = kc.tid()
    total = 0.0
    for k in range(w.shape[0]):
        total += w[k] * x[i, j + k]
    y[i, j] = total


@kc.kernel
def rows(w: F32_1D, x: F32_2D, y: F32_1D):
    i = kc.tid()
    total = 0.0
    for k in range(w.shape[0]):
        total += w[k] * x[i, k]
    y[i] = total


@kc.kernel
def counted(w: F32_2D, x: F32_2D, total: F32_2D):
    i, j = kc.tid()
    for k in range(w.shape[1]):
        kc.atomic_add(total, j, k, w[j, k] * x[i, k])


@kc.kernel
def stopped(w: F32_2D, x: F32_2D, total: F32_2D):
    i, j = kc.tid()
    for k in range(w.shape[1]):
        if x[i, k] > 0.0:
            kc.atomic_add(total, j, k, w[j, k] * x[i, k])


@kc.kernel
def running(w: F32_2D, x: F32_2D, total: F32_2D):
    i, j = kc.tid()
    sum = 0.0
    for k in range(w.shape[1]):
        sum += w[j, k] * x[i, k]
        kc.atomic_add(total, j, k, sum)


@pytest.mark.parametrize(
    ("func", "axes", "trips"),
    [
        (adjoint_func(layer), {0, 1}, 0),
        (adjoint_func(product), {0, 1}, 16),
        (adjoint_func(products), {1, 2}, 0),
        (adjoint_func(similarities), {0, 1}, 0),
        (optimize(counted.func), {1}, 0),
    ],
    ids=["layer", "product", "products", "similarities", "counted"],
)
def test_sums_of_products_are_gathered(func: Func, axes: set[int], trips: int) -> None:
    found = choose_gathering(func)
    assert found is not None
    assert {one.axis for one in found.sums.sums} == axes
    assert found.least_trips == trips


@pytest.mark.parametrize(
    "func",
    [
        adjoint_func(ratios),
        adjoint_func(smoothed),
        adjoint_func(rows),
        optimize(stopped.func),
        optimize(running.func),
        optimize(product.func),
    ],
    ids=["ratios", "smoothed", "rows", "stopped", "running", "forward"],
)
def test_other_kernels_add_as_they_are_written(func: Func) -> None:
    """Their terms are dear, depend on other iterations, or are a part of what a loop adds."""
    assert choose_gathering(func) is None


def data(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


# Rows, columns, iterations: of one point, shorter and longer than a gang, of several pieces, and a
# row that is longer than a piece.
SIZES = ((1, 1, 1), (3, 5, 7), (70, 33, 20), (5, 3, 200), (300, 129, 65), (2, 20_000, 3))


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_packed", [True, False])
def test_gradients_do_not_depend_on_the_threads(
    size: tuple[int, int, int], is_packed: bool
) -> None:
    n, parts, length = size
    w, x, cotangent = data((parts, length), (n, length), (n, parts))
    given = [w, x] if is_packed else [np.asfortranarray(w), np.asfortranarray(x)]
    found: list[list[Any]] = []
    for threads in (1, 2, 5):
        kc.set_num_threads(threads)
        gradients = [np.ones_like(a) for a in given]
        y = np.zeros((n, parts), np.float32)
        kc.launch(layer, (n, parts), given, [y], gradients, [cotangent.copy()], adjoint=True)
        found.append(gradients)
    for other in found[1:]:
        assert all((a == b).all() for a, b in zip(found[0], other, strict=True))
    back = cotangent * (1 - np.tanh(x.astype(float) @ w.astype(float).T) ** 2)
    for got, expected in zip(found[0], (1 + back.T @ x, 1 + back @ w), strict=True):
        np.testing.assert_allclose(got, expected, 1e-4, 1e-4 * np.abs(expected).max())


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("length", [3, 4, 15, 16, 40])
@pytest.mark.parametrize(
    "size", [(7, 9), (130, 70), (33, 300), (70, 3000), (20, 9000), (200, 32), (200, 33), (500, 1)]
)
def test_loops_of_any_length_give_the_gradient(length: int, size: tuple[int, int]) -> None:
    a, b, cotangent = data((size[0], length), (length, size[1]), size)
    found: list[list[Any]] = []
    for threads in (1, 3):
        kc.set_num_threads(threads)
        gradients = [np.zeros_like(a), np.zeros_like(b)]
        given, y = cotangent.copy(), np.zeros(size, np.float32)
        kc.launch(product, size, [a, b], [y], gradients, [given], adjoint=True)
        found.append(gradients)
    assert all((p == q).all() for p, q in zip(*found, strict=True))
    for got, expected in zip(found[0], (cotangent @ b.T, a.T @ cotangent), strict=True):
        np.testing.assert_allclose(got, expected, 1e-4, 1e-4 * np.abs(expected).max())


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("size", [(2, 3, 5, 17), (5, 40, 9, 33), (1, 1, 70, 20)])
def test_a_leading_axis_stays_apart_or_is_summed_up(size: tuple[int, int, int, int]) -> None:
    n, m, parts, length = size
    a, b, cotangent = data((n, m, length), (parts, length), (n, m, parts))
    gradients = [np.zeros_like(a), np.zeros_like(b)]
    y = np.zeros((n, m, parts), np.float32)
    kc.set_num_threads(3)
    given = cotangent.copy()
    kc.launch(products, (n, m, parts), [a, b], [y], gradients, [given], adjoint=True)
    wanted = np.einsum("nij,jk->nik", cotangent, b), np.einsum("nij,nik->jk", cotangent, a)
    for got, expected in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(got, expected, 1e-4, 1e-4 * np.abs(expected).max())


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("count", [15, 16, 33])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_chunk_of_whole_slices_needs_no_copy(count: int, threads: int) -> None:
    rng = np.random.default_rng(count)
    sizes = (count, 70, 20), (count, 20, 33), (count, 70, 33)
    a, b, cotangent = (rng.integers(-3, 4, size).astype(np.float32) for size in sizes)
    kc.set_num_threads(threads)
    gradients = [np.ones_like(a), np.ones_like(b)]
    y, given = np.zeros_like(cotangent), cotangent.copy()
    kc.launch(batched, y.shape, [a, b], [y], gradients, [given], adjoint=True)
    np.testing.assert_array_equal(gradients[0], 1 + cotangent @ b.swapaxes(1, 2))
    np.testing.assert_array_equal(gradients[1], 1 + a.swapaxes(1, 2) @ cotangent)


def test_products_are_added_with_one_rounding() -> None:
    factor = 1 + 2.0**-12
    rounded = 1 + 2.0**-11  # of the square, whose last bit is lost
    a, b = np.array([[[1], [factor]]], np.float32), np.zeros((1, 1), np.float32)
    cotangent = np.array([[[-rounded], [factor]]], np.float32)
    gradients = [np.zeros_like(a), np.zeros_like(b)]
    y = np.zeros_like(cotangent)
    kc.launch(products, y.shape, [a, b], [y], gradients, [cotangent], adjoint=True)
    exact = factor**2 - rounded
    assert gradients[1] == (exact if native.has_fma else 0)


def test_an_array_that_is_added_to_may_share_memory() -> None:
    """Then another form of the kernel runs point by point."""
    w, x = data((6, 30), (11, 30))
    total = np.zeros((6, 30), np.float32)
    kc.launch(counted, (11, 6), [w, x], [total])
    np.testing.assert_allclose(total, w * x.sum(0), 1e-4, 1e-4)
    shared = w.copy()
    kc.launch(counted, (11, 6), [shared, x], [shared])
    np.testing.assert_allclose(shared, w * (1 + x).prod(0), 1e-3, 1e-3)


def test_llvm_hoists_code_out_of_the_loops_of_sums() -> None:
    """The kernel that runs before them, in the same module, has no loop."""
    assert STRAIGHT not in cpu.llvm_text(adjoint_func(product))


def test_launches_over_short_rows_gather_sums_of_fewer_iterations() -> None:
    text = cpu.llvm_text(adjoint_func(product))
    least = re.search(r"(%\S+) = select i1 (%\S+), i64 (\d+), i64 (\d+)\n", text)
    assert least is not None
    assert least.group(3, 4) == (str(LEAST_TRIPS_OF_FEW), str(LEAST_TRIPS))
    assert re.search(rf"{least[2]} = icmp sle i64 %\S+, {FEW_POINTS}\n", text)
    assert re.search(rf"icmp uge i64 %\S+, {least[1]}\n", text)


def test_the_report_says_which_sums_are_gathered() -> None:
    w, x = data((6, 30), (11, 30))
    report = str(kc.explain(counted, w, x, np.zeros_like(w)))
    assert "additions to total are gathered: loops over the threads make them\n" in report
    assert "  what follows is of the kernel as it is written\n" in report
    assert "lanes lie along it" not in report


def test_an_iteration_may_compute_an_index_that_all_threads_share() -> None:
    @kc.op(launch_dims=(3, 60), output_dims=(3, 60))
    @kc.kernel
    def added(x: kc.array3d[float], y: kc.array2d[float]):
        i, j = kc.tid()
        total = kc.float32(0)
        for a in range(x.shape[1]):
            total += x[x.shape[0] - 1, a, i]
        y[i, j] = total + kc.float32(j)

    x = torch.zeros(2, 50, 3, requires_grad=True)
    cotangent = torch.arange(180.0).reshape(3, 60)
    (found,) = torch.autograd.grad(added(x), x, cotangent)
    expected = torch.zeros(2, 50, 3)
    expected[1] = cotangent.sum(1)
    assert torch.equal(found, expected)
