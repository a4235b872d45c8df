"""Sums whose elements the chunks of a launch divide: which these are, and what they give."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.analysis.own_elements import own_elements
from kernelcore.codegen.simd.gathering import choose_gathering
from kernelcore.compiler.describe_launch import accumulated_rows
from kernelcore.passes.access.accumulation_plan import OwnElements
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import adjoint_func
from tests.helpers.vectorised.rows import layer, product

F32_2D = kc.array2d[float]


@kc.kernel
def linear(w: F32_2D, x: F32_2D, y: F32_2D):
    b, i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += w[i, k] * x[b, k]
    y[b, i] = total


@kc.kernel
def outer(a: F32_2D, g: F32_2D, total: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(total, k, j, a[i, k] * g[i, j])


@kc.kernel
def twice(a: F32_2D, g: F32_2D, total: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(total, k, j, a[i, k] * g[i, j])
        kc.atomic_add(total, k + 1, j, a[i, k])


@kc.kernel
def bounded(a: F32_2D, g: F32_2D, n: int, total: F32_2D):
    i, j = kc.tid()
    for k in range(n):
        kc.atomic_add(total, k, j, a[i, k] * g[i, j])


def divided(func: Any) -> dict[str, OwnElements]:
    """What launches know of the arrays of ``func`` whose elements chunks can divide."""
    gathering = choose_gathering(func)
    if gathering is None:
        return {}
    ways = own_elements(gathering.sums, gathering.least_trips)
    sums = zip(gathering.sums.sums, ways, strict=True)
    return {one.arrays[0].name: how for one, how in sums if how is not None}


def test_sums_over_rows_of_the_grid_are_divided() -> None:
    assert divided(adjoint_func(product)) == {"ct_b": OwnElements(0, 1, -1, 16)}
    # Rows of elements belong to columns of the grid, which all launches gather.
    assert divided(adjoint_func(linear)) == {"ct_w": OwnElements(1, 1, 1, 0)}
    assert divided(optimize(outer.func)) == {"total": OwnElements(0, 1, -1, 16)}


@pytest.mark.parametrize(
    "func",
    [adjoint_func(layer), optimize(twice.func), optimize(bounded.func)],
    ids=["kept values", "two additions", "a number as bound"],
)
def test_other_sums_are_not(func: Any) -> None:
    assert divided(func) == {}


def test_launches_are_told() -> None:
    rows = {row[0]: row[6:] for row in accumulated_rows(AccessMap(adjoint_func(product)))}
    names = [p.name for p in adjoint_func(product).params]
    assert rows[names.index("ct_b")] == (0, 1, -1, 16)
    assert rows[names.index("ct_a")] == (-1, -1, -1, 0)


def numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Small integers, whose sums are exact in any order."""
    rng = np.random.default_rng(1)
    return [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


# Rows, columns and iterations: too few of these, too many rows for them, blocks of 256 rows with
# one more or less, parts of a tile, and copies of more than 4 MiB.
SIZES = (
    (40, 50, 31),
    (130, 70, 32),
    (129, 70, 32),
    (255, 33, 100),
    (257, 129, 65),
    (513, 300, 130),
    (70, 5000, 40),
    (64, 1100, 1000),
)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_gradients_are_exact(size: tuple[int, int, int], threads: int) -> None:
    n, m, length = size
    kc.set_num_threads(threads)
    a, b, w, g = numbers((n, length), (length, m), (m, length), (n, m))
    y = np.zeros_like(g)
    found = [np.ones_like(a), np.ones_like(b)]
    kc.launch(product, (n, m), [a, b], [y], found, [g.copy()], adjoint=True)
    np.testing.assert_array_equal(found[0], 1 + g @ b.T)
    np.testing.assert_array_equal(found[1], 1 + a.T @ g)
    found = [np.ones_like(w), np.ones_like(a)]
    kc.launch(linear, (n, m), [w, a], [y], found, [g.copy()], adjoint=True)
    np.testing.assert_array_equal(found[0], 1 + g.T @ a)
    np.testing.assert_array_equal(found[1], 1 + g @ w)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("size", [(257, 129, 65), (100, 700, 300)])
def test_threads_and_strides_change_no_bit(size: tuple[int, int, int]) -> None:
    n, m, length = size
    rng = np.random.default_rng(2)
    a, b, g = (
        rng.standard_normal(s).astype(np.float32) for s in ((n, length), (length, m), (n, m))
    )
    found: list[np.ndarray] = []
    for threads in (1, 2, 5):
        kc.set_num_threads(threads)
        for order in (np.ascontiguousarray, np.asfortranarray):
            gradients = [np.zeros_like(a), np.zeros_like(b)]
            given = [order(a), order(b)]
            y, cotangent = np.zeros((n, m), np.float32), order(g).copy("K")
            kc.launch(product, (n, m), given, [y], gradients, [cotangent], adjoint=True)
            found.append(gradients[1])
    assert all((found[0] == other).all() for other in found[1:])


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("threads", [1, 4])
def test_elements_may_lie_anywhere(threads: int) -> None:
    """Also several in one place, which no two chunks may add to at once."""
    n, m, length = 100, 90, 64
    kc.set_num_threads(threads)
    a, g = numbers((n, length), (n, m))
    wanted = a.T @ g
    memory = np.zeros((2 * length, 3 * m), np.float32)
    apart = {
        "dense": np.zeros((length, m), np.float32),
        "gaps": memory[::2, 1::3],
        "backwards": memory[::-2, ::-3],
        "columns": np.zeros((m, length), np.float32).T,
    }
    for name, total in apart.items():
        total[:] = 1
        kc.launch(outer, (n, m), [a, g], [total])
        np.testing.assert_array_equal(total, 1 + wanted, name)
    one_row = np.zeros(m, np.float32)
    rows = np.lib.stride_tricks.as_strided(one_row, (length, m), (0, 4))
    kc.launch(outer, (n, m), [a, g], [rows])
    np.testing.assert_array_equal(one_row, wanted.sum(0))
    line = np.zeros(length + m - 1, np.float32)
    windows = np.lib.stride_tricks.as_strided(line, (length, m), (4, 4))
    kc.launch(outer, (n, m), [a, g], [windows])
    diagonals = [np.fliplr(wanted).diagonal(m - 1 - k).sum() for k in range(line.size)]
    np.testing.assert_array_equal(line, diagonals)


@kc.kernel
def doubled(a: F32_2D, g: F32_2D, total: F32_2D, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = 2.0 * g[i, j]
    for k in range(a.shape[1]):
        kc.atomic_add(total, k, j, a[i, k] * g[i, j])


@kc.kernel
def doubled_at_the_end(a: F32_2D, g: F32_2D, total: F32_2D, y: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        kc.atomic_add(total, k, j, a[i, k] * g[i, j])
    y[i, j] = 2.0 * g[i, j]


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("length", [8, 31, 64])
@pytest.mark.parametrize("threads", [1, 4])
def test_an_operand_may_be_overwritten_by_its_threads(length: int, threads: int) -> None:
    """The sums of other threads read it, too: the kernel runs as it is written."""
    kc.set_num_threads(threads)
    a, g = numbers((130, length), (130, 70))
    for kernel, factor in ((doubled, 2), (doubled_at_the_end, 1)):
        given, total = g.copy(), np.zeros((length, 70), np.float32)
        kc.launch(kernel, g.shape, [a, given], [total, given])
        np.testing.assert_array_equal(total, factor * (a.T @ g))
        np.testing.assert_array_equal(given, 2 * g)


@pytest.mark.usefixtures("eager_sharing")
def test_code_that_is_not_optimised_divides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kc.config, "optimize", False)
    kc.set_num_threads(4)
    a, g = numbers((100, 64), (100, 90))
    total, plain = np.zeros((64, 90), np.float32), kc.kernel(outer.pyfunc)
    for _ in range(20):
        total[:] = 0
        kc.launch(plain, (100, 90), [a, g], [total])
        np.testing.assert_array_equal(total, a.T @ g)


def test_the_report_names_the_arrays() -> None:
    report = str(kc.explain(outer))
    assert "parts of a launch may divide the elements of total, and copy none\n" in report
