"""Threads that go along long rows one by one: which kernels do, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen.simd.bodies import choose_bodies
from kernelcore.codegen.simd.strategy import (
    choose_strategy,
    has_vector_form,
    loops_in_parts,
    rows_of_own_length,
)
from kernelcore.ir.core import Func
from kernelcore.passes.pipeline import optimize
from tests.helpers import interpreter


@kc.kernel
def normalise(x: kc.array2d[float], y: kc.array2d[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] / kc.sqrt(total)


@kc.kernel
def loss(x: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k])
    y[0] += kc.log(total)


@kc.kernel
def with_other_loop(x: kc.array2d[float], steps: int, y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    for _ in range(steps):
        total = 0.5 * total + 1.0 / total
    y[i] = total


@kc.kernel
def with_much_else(x: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    y[i] = kc.sin(total) + kc.cos(total) + kc.tanh(total) + kc.exp(total)


@kc.kernel
def with_activation(x: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    y[i] = kc.tanh(total)


@kc.kernel
def of_groups(x: kc.array3d[float], w: kc.array2d[float], y: kc.array3d[float]):
    i = kc.tid()
    total = 0.0
    for c in range(x.shape[1]):
        for k in range(x.shape[2]):
            total += x[i, c, k] * x[i, c, k]
    for c in range(x.shape[1]):
        for k in range(x.shape[2]):
            y[i, c, k] = x[i, c, k] / kc.sqrt(total) * w[i, c]


@kc.kernel
def distances(x: kc.array2d[float], z: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    found = 0.0
    for j in range(z.shape[0]):
        for k in range(x.shape[1]):
            found += (x[i, k] - z[j, k]) * (x[i, k] - z[j, k])
    y[i] = found


@kc.kernel
def up_to_own(x: kc.array2d[float], y: kc.array2d[float]):
    i = kc.tid()
    total = 0.0
    for k in range(i + 1):
        total += kc.exp(x[i, k])
    for k in range(i + 1):
        y[i, k] = kc.exp(x[i, k]) / total


@kc.kernel
def of_segments(start: kc.array[int], x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(start[i], start[i + 1]):
        total += kc.exp(x[k])
    y[i] = total


@kc.kernel
def in_window(x: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(kc.max(i - 2, 0), kc.min(i + 3, x.shape[1])):
        total += kc.exp(x[i, k])
    y[i] = total


@kc.kernel
def with_own_and_other_loop(x: kc.array2d[float], steps: int, y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total += x[i, k]
    for _ in range(steps):
        total = 0.5 * kc.sin(total) + kc.exp(-total * total)
    y[i] = total


@kc.kernel
def shared_by_rows(a: kc.array2d[float], w: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    total = 0.0
    for c in range(w.shape[1]):
        for k in range(a.shape[1]):
            total += a[j, k] * w[i, c]
    y[i, j] = total


@pytest.mark.parametrize(
    ("kernel", "lanes"),
    [
        (normalise, 1),
        (of_groups, 1),
        (distances, 16),
        (loss, 16),
        (with_other_loop, 16),
        (with_much_else, 16),
        (with_activation, 16),
    ],
)
def test_a_thread_alone_needs_little_besides_its_rows(kernel: kc.Kernel, lanes: int) -> None:
    assert choose_bodies(optimize(kernel.func), 16, 1).tail_lanes == lanes


@pytest.mark.parametrize("columns", [1, 31, 32, 77])
@pytest.mark.parametrize("rows", [1, 15, 16, 37])
def test_results_are_those_of_other_strides(rows: int, columns: int) -> None:
    x = np.random.default_rng(rows * columns).normal(size=(rows, columns)).astype(np.float32)
    y, strided = np.zeros_like(x), np.zeros((columns, rows), np.float32).T
    kc.launch(normalise, rows, [x, y])
    kc.launch(normalise, rows, [np.asfortranarray(x), strided])
    assert np.array_equal(y, strided)
    exact = x.astype(np.float64)
    exact /= np.sqrt((exact * exact).sum(1, keepdims=True))
    assert np.allclose(y, exact, rtol=1e-6, atol=0)


def of_kernel(kernel: kc.Kernel) -> Func:
    return optimize(kernel.func)


def test_loops_in_others_have_parts_where_all_they_read_are_rows_of_threads() -> None:
    """Of what lanes share, the next iteration of the loop around would read another row."""
    found = {k.name: list(loops_in_parts(of_kernel(k)).values()) for k in (of_groups, distances)}
    assert [len(found[name]) for name in ("of_groups", "distances")] == [1, 0]


@pytest.mark.parametrize("columns", [5, 31, 32, 77])
@pytest.mark.parametrize("rows", [1, 15, 37])
def test_rows_of_groups_are_summed_up_exactly(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows * columns)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, 3, columns), (rows, 3)))
    y, wanted = np.zeros_like(x), [x.copy(), w.copy(), np.zeros_like(x)]
    kc.launch(of_groups, rows, [x, w, y])
    interpreter.run(of_kernel(of_groups), wanted, (rows,))
    np.testing.assert_array_equal(y, wanted[2])
    exact = x.astype(np.float64)
    exact *= w[:, :, None] / np.sqrt((exact * exact).sum((1, 2), keepdims=True))
    np.testing.assert_allclose(y, exact, rtol=2e-6)


def test_single_threads_go_along_rows_of_their_own_length() -> None:
    others = (of_segments, in_window, with_own_and_other_loop, normalise)
    for kernel, count in ((up_to_own, 2), *((other, 0) for other in others)):
        func = of_kernel(kernel)
        assert len(rows_of_own_length(func)) == count
        assert has_vector_form(func) == (not count)
        assert not count or choose_strategy(func, host()).gang == 1


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("size", [1, 7, 31, 32, 33, 200])
def test_rows_of_their_own_length_are_summed_up_exactly(size: int) -> None:
    x = np.random.default_rng(size).normal(size=(size, size)).astype(np.float32)
    wanted = [x, np.zeros_like(x)]
    interpreter.run(of_kernel(up_to_own), wanted, (size,))
    exact = np.tril(np.exp(x.astype(np.float64)))
    np.testing.assert_allclose(wanted[1], exact / exact.sum(1, keepdims=True), rtol=2e-6)
    for threads in (1, 2, 3):
        kc.set_num_threads(threads)
        for given, y in (
            (x, np.zeros_like(x)),
            (np.asfortranarray(x), np.zeros_like(x).T.copy().T),
        ):
            kc.launch(up_to_own, size, [given, y])
            np.testing.assert_array_equal(y, wanted[1])


def test_the_report_says_why_threads_run_alone() -> None:
    report = str(kc.explain(up_to_own))
    assert (
        "one thread at a time, its loops 8 iterations at once: 'for k in range(i + 1):'" in report
    )
    assert "goes along rows of another length for each thread" in report
    assert (
        "from 32 iterations on 32 or 8 iterations at once; fewer are added in their order" in report
    )


@pytest.mark.parametrize("rows", [3, 16, 33])
def test_rows_in_nests_that_rows_of_the_grid_share_need_no_panels(rows: int) -> None:
    rng = np.random.default_rng(rows)
    shapes = ((21, 40), (rows, 3), (rows, 21))
    a, w, y = (rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
    kc.launch(shared_by_rows, y.shape, [a, w, y])
    np.testing.assert_array_equal(y, w.sum(1)[:, None] * a.sum(1))


@pytest.mark.usefixtures("eager_sharing")
def test_any_number_of_threads_gives_the_same_bits() -> None:
    x = np.random.default_rng(0).normal(size=(4001, 96)).astype(np.float32)
    found: list[np.ndarray] = []
    for threads in (1, 2, 3):
        kc.set_num_threads(threads)
        y = np.zeros_like(x)
        kc.launch(normalise, len(x), [x, y])
        found.append(y)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
