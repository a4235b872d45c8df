"""Narrower gangs where rows have few points: which kernels have them, and what they give."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import re

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.dataclass import replace
from kernelcore.base.host import host
from kernelcore.codegen.code_form import code_form
from kernelcore.codegen.reduction.accumulation import adds_in_order
from kernelcore.codegen.simd.strategy import choose_strategy, short_rows
from kernelcore.codegen.target import cpu
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import adjoint_func
from tests.helpers.threads import with_gradients
from tests.helpers.vectorised.rows import product

F32_2D, I32 = kc.array2d[float], kc.array1d[int]


@kc.kernel
def differences(x: F32_2D, start: I32, column: I32, y: F32_2D):
    """The graph Laplacian, whose rows have any number of entries."""
    i, c = kc.tid()
    total = 0.0
    for e in range(start[i], start[i + 1]):
        total += x[column[e], c] - x[i, c]
    y[i, c] = total


@kc.kernel
def doubled(x: F32_2D, y: F32_2D):
    i, c = kc.tid()
    y[i, c] = 2.0 * x[i, c]


def graph(nodes: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(columns)
    start = np.concatenate(([0], np.cumsum(rng.integers(0, 6, nodes)))).astype(np.int32)
    column = rng.integers(0, nodes, start[-1]).astype(np.int32)
    return rng.standard_normal((nodes, columns)).astype(np.float32), start, column


def matrix(start: np.ndarray, column: np.ndarray) -> np.ndarray:
    """What ``differences`` multiplies columns by."""
    nodes = len(start) - 1
    row = np.repeat(np.arange(nodes), np.diff(start))
    found = np.zeros((nodes, nodes))
    np.add.at(found, (row, column), 1.0)
    np.add.at(found, (row, row), -1.0)
    return found


def test_the_code_asks_how_long_rows_are() -> None:
    func = code_form(differences.func)
    found = short_rows(func, choose_strategy(func, host()), host())
    text = cpu.llvm_text(func, "launch")
    assert ("@kc.short_rows" in text) == (found is not None)
    if found is not None:
        assert re.search(rf"icmp sle i64 %\S+, {found.most_points}$", text, re.MULTILINE)


COLUMNS = (1, 3, 8, 12, 31, 32, 33, 70)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("columns", COLUMNS)
def test_rows_of_any_length_have_the_elements_of_single_threads(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, start, column = graph(40, columns)
    found = [np.zeros_like(x) for _ in range(3)]
    for threads, y in zip((1, 3), found, strict=False):
        kc.set_num_threads(threads)
        kc.launch(differences, x.shape, [x, start, column], [y])
    monkeypatch.setattr(kc.config, "optimize", False)
    kc.launch(kc.kernel(differences.pyfunc), x.shape, [x, start, column], [found[2]])
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()
    np.testing.assert_allclose(found[0], matrix(start, column) @ x, 1e-5, 1e-5)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("columns", COLUMNS)
def test_gradients_of_short_rows_do_not_depend_on_the_threads(columns: int) -> None:
    x, start, column = graph(200, columns)
    cotangent = np.random.default_rng(0).standard_normal(x.shape).astype(np.float32)
    _, gradient = with_gradients(differences, [x, start, column], cotangent)
    expected = matrix(start, column).T @ cotangent
    np.testing.assert_allclose(gradient, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("kernel", [product, doubled])
def test_gangs_that_rows_fill_stay_as_they_are(kernel: kc.Kernel) -> None:
    """Those that run several rows, and those that go on in the next row."""
    func = code_form(optimize(kernel.func))
    assert short_rows(func, choose_strategy(func, host()), host()) is None


def test_the_report_names_the_gangs_of_short_rows() -> None:
    found = kc.explain(differences).short_rows
    has_wide_gangs = choose_strategy(code_form(optimize(differences.func)), host()).gang >= 32
    assert (found is not None) == has_wide_gangs
    if found is not None:
        line = f"rows of at most {found.most_points} points: gangs of 8 threads"
        assert line in str(kc.explain(differences))
    assert "rows of at most" not in str(kc.explain(product))


@kc.kernel
def sums_of_products(x: F32_2D, w: F32_2D, sums: kc.array1d[float]):
    i, c = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k] * w[k, c]
    kc.atomic_add(sums, 0, total * total)


@pytest.mark.parametrize("kernel", [product, sums_of_products])
def test_sums_of_short_rows_do_not_depend_on_the_processor(kernel: kc.Kernel) -> None:
    """Tiles of rows do, which have no narrower gangs."""
    hosts = [replace(host(), features=f) for f in ("", "+avx", "+avx,+avx512f")]
    for func in (optimize(kernel.func), optimize(adjoint_func(kernel))):
        form = code_form(func)
        found = [short_rows(form, choose_strategy(form, one), one) for one in hosts]
        narrow = [rows.strategy for rows in found if rows is not None]
        assert all((s.tile_rows, s.tile_gang) == (1, s.gang) for s in narrow)
        gangs = {None if rows is None else (rows.strategy.gang, rows.most_points) for rows in found}
        assert len(gangs) == 1 or adds_in_order(form)
