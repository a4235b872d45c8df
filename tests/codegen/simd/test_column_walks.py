"""Loops down columns that many gangs run a few rows at a time: which these are, and their bits."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.simd.bodies import choose_bodies, gaining_middle
from kernelcore.codegen.simd.column_walks import LEAST_TRIPS, column_walks, dtype_of
from kernelcore.codegen.simd.strategy import POINTS_OF_WALKS, VectorStrategy, points_at_once
from kernelcore.codegen.simd.strip_loop import ROWS_OF_BLOCK, STRIP_BYTES
from kernelcore.codegen.target.cpu import llvm_text
from kernelcore.passes.pipeline import optimize
from tests.helpers import interpreter
from tests.helpers.kernel_harness import (
    adjoint_func,
    assert_same_arrays,
    copies,
    launch,
    unoptimised,
)
from tests.helpers.vectorised.columns import column_softmax, column_sum

GANG = 8
WIDTH = STRIP_BYTES // 4  # of a strip of one float32 a thread


@kc.kernel
def column_variance(x: kc.array2d[float], y: kc.array1d[float]):
    j = kc.tid()
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k, j]
    mean = total / float(x.shape[0])
    squares = 0.0
    for k in range(x.shape[0]):
        squares += (x[k, j] - mean) * (x[k, j] - mean)
    y[j] = squares / float(x.shape[0])


@kc.kernel
def centred(x: kc.array2d[float], y: kc.array2d[float]):
    j = kc.tid()
    first = x[0, j]
    for k in range(x.shape[0]):
        y[k, j] = x[k, j] - first


@kc.kernel
def weighed(a: kc.array1d[float], x: kc.array2d[float], y: kc.array1d[float], low: int):
    j = kc.tid()
    if j % 3 == 1:
        return
    total = 1.0
    count = 0
    for k in range(low, x.shape[0] - 1):
        if x[k, j] > 0.5:
            total += a[k] * x[k + 1, j]
            count += 1
    y[j] = y[j] + total


@kc.kernel
def counted(
    a: kc.array1d[float], x: kc.array2d[float], y: kc.array1d[float], z: kc.array1d[int], low: int
):
    j = kc.tid()
    total = kc.float64(1.0)
    count = 0
    for k in range(low, x.shape[0] - 1):
        if x[k, j] > 0.5:
            total += kc.float64(a[k] * x[k + 1, j])
            count += k
    if count > 100:
        y[j] = float(total)
    z[j] = count


@kc.kernel
def of_batches(x: kc.array3d[float], y: kc.array2d[float]):
    b, j = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[b, k, j]
    y[b, j] = total


@kc.kernel
def running(x: kc.array2d[float], y: kc.array2d[float]):
    j = kc.tid()
    total = 0.0
    for k in range(x.shape[0]):
        y[k, j] = total
        total += x[k, j] * y[k, j]


@kc.kernel
def of_own_length(x: kc.array2d[float], y: kc.array1d[float]):
    j = kc.tid()
    total = 0.0
    for k in range(j):
        total += x[k, j]
    y[j] = total


@kc.kernel
def by_rows(x: kc.array2d[float], y: kc.array1d[float]):
    j = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[j, k]
    y[j] = total


@kc.kernel
def of_few_rows(x: kc.array2d[float], y: kc.array1d[float]):
    j = kc.tid()
    total = 0.0
    for k in range(16):
        total += x[k, j]
    y[j] = total


@kc.kernel
def blended(x: kc.array2d[float], z: kc.array2d[float], y: kc.array1d[float]):
    j = kc.tid()
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k, j] * z[j, k]
    y[j] = total


@kc.kernel
def scaled(a: kc.array1d[float], x: kc.array2d[float], y: kc.array2d[float]):
    j = kc.tid()
    scale = a[0]
    for k in range(x.shape[0]):
        y[k, j] = x[k, j] * scale


@kc.kernel
def wrapped(x: kc.array2d[float], y: kc.array1d[float]):
    j = kc.tid()
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k, j] * x[k, (j + 1) % x.shape[1]]
    y[j] = total


@kc.kernel
def by_first(x: kc.array2d[float], y: kc.array2d[float]):
    j = kc.tid()
    scale = y[0, 0]
    for k in range(x.shape[0]):
        y[k, j] = x[k, j] * scale


WALKS = (
    *(column_sum, column_variance, column_softmax, centred, counted, of_batches, running, scaled),
)
OTHERS = (blended, weighed, of_own_length, by_rows, of_few_rows, by_first)


def func_of(kernel: Any) -> Any:
    return optimize(kernel.func)


@pytest.mark.parametrize("kernel", WALKS, ids=lambda k: k.name)
def test_loops_down_columns_run_in_parts(kernel: Any) -> None:
    walks = column_walks(func_of(kernel))
    assert walks is not None
    text = llvm_text(func_of(kernel), strategy=VectorStrategy(GANG))
    width = STRIP_BYTES // (walks.bytes_of_thread or 4) // GANG * GANG
    assert text.count("align 64") >= len(walks.kept)
    for array in walks.kept:
        assert f"alloca [{width * dtype_of(array).size_bytes} x i8], align 64" in text


def test_indices_that_wrap_are_those_of_neighbours_in_the_middle_of_rows() -> None:
    func = func_of(wrapped)
    assert column_walks(func) is not None
    assert gaining_middle(func) is not None
    bodies = choose_bodies(func, GANG, 1)
    assert (bodies.middle is None, bodies.walks) == (False, None)
    assert points_at_once(func) == 0


def test_values_are_kept_once_and_only_where_another_part_needs_them() -> None:
    kept = {k.name: column_walks(func_of(k)) for k in (column_softmax, centred, scaled)}
    names = {name: [v.name for v in walks.kept] for name, walks in kept.items() if walks}
    assert names == {"column_softmax": ["top", "total"], "centred": ["first"], "scaled": []}


def test_what_parts_load_anew_must_be_apart_from_what_they_write() -> None:
    walks = column_walks(func_of(scaled))
    assert walks is not None
    assert [(x.name, y.name) for x, y in walks.apart] == [("y", "a")]


@pytest.mark.parametrize("kernel", OTHERS, ids=lambda k: k.name)
def test_other_kernels_stay_whole(kernel: Any) -> None:
    assert column_walks(func_of(kernel)) is None


def sums(x: np.ndarray) -> np.ndarray:
    """Of each column, in the order of rows."""
    total = np.zeros(x.shape[1:], np.float32)
    for row in x:
        total = total + row
    return total


def variances(x: np.ndarray) -> np.ndarray:
    mean, squares = sums(x) / np.float32(len(x)), np.zeros(x.shape[1], np.float32)
    for row in x:
        squares = squares + (row - mean) * (row - mean)
    return squares / np.float32(len(x))


def random_rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


# A strip and a part of the next one, remainders of rows, blocks that are not full, few iterations.
SHAPES = (
    (LEAST_TRIPS, WIDTH + 3 * GANG),
    (LEAST_TRIPS + 1, 5 * GANG + 3),
    (3 * ROWS_OF_BLOCK + 2 * LEAST_TRIPS - 1, 2 * GANG),
    (LEAST_TRIPS - 1, 4 * GANG),
    (100, GANG),
    (100, 3),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("kernel", "oracle"),
    [(column_sum, sums), (column_variance, variances)],
    ids=["sum", "variance"],
)
@pytest.mark.parametrize("gang", [GANG, 32])
def test_sums_have_the_order_of_rows(
    kernel: Any, oracle: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int], gang: int
) -> None:
    x, y = random_rows(*shape), np.zeros(shape[1], np.float32)
    assert launch(func_of(kernel), [x, y], shape[1:], lanes=gang) == abi.STATUS_OK
    np.testing.assert_array_equal(y, oracle(x))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_loops_store_to_columns(shape: tuple[int, int]) -> None:
    x, y = random_rows(*shape), np.zeros(shape, np.float32)
    assert launch(func_of(column_softmax), [x, y], shape[1:], lanes=GANG) == abi.STATUS_OK
    exact = np.exp(x.astype(np.float64) - x.max(axis=0))
    np.testing.assert_allclose(y, exact / exact.sum(axis=0), rtol=2e-6)


def test_a_loop_may_store_to_what_it_reads() -> None:
    """``first`` is computed anew for every block, but not from what a block has stored."""
    x = random_rows(100, 6 * GANG)
    wanted = x - x[0]
    assert launch(func_of(centred), [x, x], (6 * GANG,), lanes=GANG) == abi.STATUS_OK
    np.testing.assert_array_equal(x, wanted)


def assert_runs_as_interpreted(kernel: Any, given: list[Any], columns: int) -> None:
    func, wanted, found = func_of(kernel), copies(given), copies(given)
    with unoptimised():
        assert launch(func, found, (columns,), lanes=GANG) == abi.STATUS_OK
    interpreter.run(func, wanted, (columns,))
    assert_same_arrays(func, wanted, found, kernel.name)


@pytest.mark.parametrize("low", [0, 7, 60, 300])
def test_loops_start_anywhere_and_carry_several_values(low: int) -> None:
    columns = 9 * GANG + 1
    a, x, y = random_rows(200), random_rows(200, columns), random_rows(columns)
    assert_runs_as_interpreted(counted, [a, x, y, np.zeros(columns, np.int32), low], columns)


def test_a_loop_may_read_what_it_stores() -> None:
    x = random_rows(90, 5 * GANG)
    assert_runs_as_interpreted(running, [x, np.zeros_like(x)], 5 * GANG)


@pytest.mark.parametrize("part", [(0, 3), (5, 300), (97, 100)])
def test_launches_run_parts_of_the_grid(part: tuple[int, int]) -> None:
    x, y = random_rows(3, 40, 100), np.zeros((3, 100), np.float32)
    func = func_of(of_batches)
    assert launch(func, [x, y], (3, 100), lanes=GANG, chunks=[part]) == abi.STATUS_OK
    wanted = np.stack([sums(one) for one in x]).ravel()
    wanted[: part[0]] = wanted[part[1] :] = 0
    np.testing.assert_array_equal(y.ravel(), wanted)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("columns", [700, 5000])
def test_threads_share_columns(columns: int) -> None:
    assert points_at_once(func_of(column_sum)) == POINTS_OF_WALKS
    assert points_at_once(func_of(by_rows)) == 0
    x, y = random_rows(100, columns), np.zeros(columns, np.float32)
    for threads in (1, 2, 3):
        kc.set_num_threads(threads)
        y[:] = 0
        kc.launch(column_sum, columns, [x, y])
        np.testing.assert_array_equal(y, sums(x))


@pytest.mark.parametrize("kernel", [column_sum, column_variance], ids=lambda k: k.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_adjoints_add_to_columns(kernel: Any, shape: tuple[int, int]) -> None:
    func = adjoint_func(kernel)
    assert column_walks(func) is not None
    x, ct_y = random_rows(*shape), random_rows(shape[1])
    found, wanted = ([x, np.zeros_like(ct_y), 1 + x, ct_y.copy()] for _ in range(2))
    with unoptimised():
        assert launch(func, found, shape[1:], lanes=GANG) == abi.STATUS_OK
        assert launch(func, wanted, shape[1:], lanes=1) == abi.STATUS_OK
    assert np.any(found[2] != 1 + x)
    np.testing.assert_array_equal(found[2], wanted[2])
