"""Points at the ends of rows, which are no whole gang: every bit is that of single threads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.row_tiling import can_run_again, has_bands
from kernelcore.codegen.llvm.kernel import emit_kernel
from kernelcore.codegen.simd.cost_model import Bodies, choose_bodies
from kernelcore.codegen.simd.strategy import Form
from kernelcore.ir.core import Func
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.helpers.kernel_harness import agree, launch

F32, F32_2D, I32 = kc.array(kc.float32, 1), kc.array(kc.float32, 2), kc.array(kc.int32, 1)
F64_2D, I8 = kc.array(kc.float64, 2), kc.array(kc.int8, 1)
LANES = 4
TAIL, NARROW = Bodies(has_tail=True), Bodies(general_lanes=LANES)
# No whole gang, one and two, and every end that these may have.
SIZES = range(1, 2 * LANES + 2)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def cut(size: int) -> list[tuple[int, int]]:
    """Chunks that begin and end within gangs."""
    places = sorted({0, size // 3, size // 2 + 1, size})
    return list(pairwise(places))


@kc.kernel
def smoothed(x: F32_2D, w: F32, kept: I8, wide: F64_2D, y: F32_2D):
    i, j = kc.tid()
    total = y[i, j]
    for k in range(w.shape[0]):
        if x[i, j + k] > 0.0:
            total += w[k] * x[i, j + k]
        if total > 4.0:
            break
    if kept[j] > 0:
        y[i, j] = total
        wide[i, j] += kc.float64(total)


def arguments(width: int) -> tuple[Any, ...]:
    kept = np.arange(width).astype(np.int8) % 3
    rows = floats(3, width + 2), floats(3, width, seed=2)
    return rows[0], floats(3, seed=1), kept, np.ones((3, width)), rows[1]


@pytest.mark.parametrize("lanes", [LANES, 16, 64])
def test_packed_gangs_under_a_mask(lanes: int) -> None:
    func = optimize(smoothed.func)
    assert choose_bodies(func, LANES, 1).has_tail
    widths = SIZES if lanes == LANES else (1, 3, 4, 2 * lanes - 1, 2 * lanes + 5)
    for width in widths:
        for chunks in (None, cut(3 * width)):
            agree(func, arguments(width), (3, width), chunks, lanes)


def test_arrays_that_are_not_packed_go_one_by_one() -> None:
    for width in SIZES:
        x, *others, y = arguments(width)
        apart = floats(3, 2 * width + 4)[:, ::2], floats(3, 3 * width)[:, ::-3]
        for args in ((apart[0], *others, y), (x, *others, apart[1])):
            agree(optimize(smoothed.func), args, (3, width), cut(3 * width), LANES)


@kc.kernel
def convolved(x: F32, w: F32, here: F32, y: F32):
    i = kc.tid()
    total = here[i]
    for k in range(w.shape[0]):
        total += w[k] * x[i + k]
    y[i] = total


@pytest.mark.parametrize("lanes", [LANES, 64])
def test_tails_of_one_axis(lanes: int) -> None:
    func = optimize(convolved.func)
    assert choose_bodies(func, LANES, 1) == TAIL
    for size in SIZES if lanes == LANES else (63, 64, 65, 127, 150):
        args = floats(size + 2), floats(3, seed=1), floats(size, seed=2), floats(size)
        for chunks in (None, cut(size)):
            *_, expected = agree(func, args, (size,), chunks, lanes)
            x, w, shared, _ = args
            copy = shared.copy()
            assert launch(func, [x, w, copy, copy], (size,), chunks, lanes) == abi.STATUS_OK
            np.testing.assert_array_equal(copy, expected)


@kc.kernel
def product(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = c[i, j]
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


@pytest.mark.parametrize(("lanes", "few"), [(16, 2), (32, 4), (64, 8)])
def test_points_that_take_less_than_a_gang_go_one_by_one(lanes: int, few: int) -> None:
    func = optimize(smoothed.func)
    # Of points that begin within a gang, one.
    assert f", i64 {few}, i64 1\n" in emit_kernel(func, "k", None, Form(lanes))
    for width in (few, few + 1):
        agree(func, arguments(width), (3, width), cut(3 * width), lanes)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_last_gangs_of_bands_are_moved_back(rows: int) -> None:
    func = optimize(product.func)
    assert has_bands(func)
    assert can_run_again(func)
    for height in (3, 4, 5):
        for width in SIZES:
            args = floats(height, 5), floats(5, width, seed=1), floats(height, width, seed=2)
            for chunks in (None, cut(height * width)):
                agree(func, args, (height, width), chunks, LANES, rows=rows)


@kc.kernel
def added(x: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = x[i, j]
    for k in range(b.shape[0]):
        total += b[k, j]
    c[i, j] = total


def test_gangs_that_are_moved_back_see_what_they_stored_under_another_name() -> None:
    func, b = optimize(added.func), floats(5, 7)
    assert can_run_again(func)
    expected, c = floats(4, 7, seed=1), floats(4, 7, seed=1)
    assert launch(func, [expected.copy(), b, expected], (4, 7), lanes=1) == abi.STATUS_OK
    assert launch(func, [c, b, c], (4, 7), lanes=LANES, rows=4) == abi.STATUS_OK
    np.testing.assert_array_equal(c, expected)


@kc.kernel
def stores_in_turns(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        c[i, j] = a[i, k] * b[k, j]


@kc.kernel
def adds(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        c[i, j] += a[i, k] * b[k, j]


@kc.kernel
def gathers(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    total = c[i, j]
    for k in range(a.shape[1]):
        total += b[k, n[j]]
    c[i, j] = total


@kc.kernel
def counts(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    total = c[i, j]
    for k in range(n[j]):
        total += b[k, j]
    c[i, j] = total


@kc.kernel
def asks(a: F32_2D, b: F32_2D, n: I32, c: F32_2D):
    i, j = kc.tid()
    total = c[i, j]
    for k in range(a.shape[1]):
        total += b[k, j]
    if n[j] > 0:
        c[i, j] = total


@pytest.mark.parametrize("kernel", [stores_in_turns, adds, gathers, counts, asks])
def test_gangs_are_moved_back_only_where_loads_cannot_stray(kernel: kc.Kernel) -> None:
    func, n = optimize(kernel.func), np.array([2, 0, 1, 3, 4, 1, 2], np.int32)
    assert has_bands(func)
    assert not can_run_again(func)
    args = floats(5, 5), floats(5, 7, seed=1), n, floats(5, 7, seed=2)
    agree(func, args, (5, 7), lanes=LANES, rows=4)


@kc.kernel
def attracted(x: F32, w: F32, f: F32):
    i = kc.tid()
    total = kc.float32(0.0)
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        s = 1.0 / kc.sqrt(d * d + 0.01)
        total += w[j] * d * s * s * s + d * kc.tanh(d * s)
    f[i] = total


@kc.kernel
def turns_until(x: F32, y: F32):
    i = kc.tid()
    v, n = x[i], 0
    while kc.abs(v * v - 2.0) > 1e-3 and n < 20:
        v = 0.5 * (v + 2.0 / v)
        n += 1
    y[i] = v + kc.float32(n)


@pytest.mark.parametrize("kernel", [attracted, turns_until])
@pytest.mark.parametrize("step", [1, -2])
def test_narrow_gangs_of_any_strides(kernel: kc.Kernel, step: int) -> None:
    func = optimize(kernel.func)
    assert choose_bodies(func, LANES, 1) == NARROW
    for size in (1, 15, 16, 17, 47):
        arrays = [floats(size * abs(step), seed=k)[::step] for k in range(len(func.params))]
        for chunks in (None, cut(size)):
            agree(func, arrays, (size,), chunks, lanes=32)


@kc.kernel
def multiplied(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


def adjoint_of_product() -> Func:
    return optimize(tidy(vjp(multiplied.func, [0, 1], [2]).func))


def test_sums_of_bands_are_those_of_rows_whatever_the_ends() -> None:
    func = adjoint_of_product()
    assert choose_bodies(func, LANES, 1) == TAIL
    for width in range(LANES, 2 * LANES + 1):
        shapes = ((9, 5), (5, width), (9, width))
        args = [floats(*s, seed=k) * 1e3 for k, s in enumerate(shapes)]
        args += [np.zeros(s, np.float32) for s in shapes[:2]] + [floats(*shapes[2], seed=3)]
        for chunks in (None, cut(9 * width)):
            results: list[list[Any]] = []
            for rows in (1, 2, 4):
                results.append([a.copy() for a in args])
                assert launch(func, results[-1], shapes[2], chunks, LANES, rows=rows) == 0
            for one, *others in zip(*results, strict=True):
                for other in others:
                    np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("width", [63, 65, 67, 90])
def test_sums_of_ends_do_not_depend_on_the_threads(width: int) -> None:
    results: list[list[np.ndarray]] = []
    a, b, seed = floats(160, 50), floats(50, width, seed=1), floats(160, width, seed=2)
    points = [floats(12 * width, seed=k) for k in range(3)]
    for count in (1, 2):
        kc.set_num_threads(count)
        found: list[np.ndarray] = []
        for kernel, *values in ((multiplied, a, b, seed), (attracted, *points)):
            arrays = [kc.array(v) for v in values]
            cts = [kc.array(np.zeros_like(v)) for v in values[:2]] + [kc.array(values[2].copy())]
            grid = values[2].shape
            kc.launch(kernel, grid, arrays[:2], arrays[2:], cts[:2], cts[2:], adjoint=True)
            found += [c.numpy() for c in cts[:2]]
        results.append(found)
    for one, two, expected in zip(*(r[:2] for r in results), (seed @ b.T, a.T @ seed), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(one, two)
    for one, two in zip(*(r[2:] for r in results), strict=True):
        np.testing.assert_array_equal(one, two)


@kc.kernel
def summed(x: F32_2D, y: F32_2D, sums: F32):
    i, j = kc.tid()
    for k in range(3):
        kc.atomic_add(sums, 0, x[i, j] * y[i, j + k])


@kc.kernel
def losses(x: F32, y: F32, sums: F32):
    i = kc.tid()
    v = kc.sin(x[i]) * kc.exp(y[i]) + kc.tanh(x[i])
    kc.atomic_add(sums, 0, v * kc.log(1.0 + v * v))


@kc.kernel
def scattered(x: F32, y: F32, sums: F32):
    i = kc.tid()
    v = kc.sin(x[i]) * kc.exp(y[i]) + kc.tanh(x[i])
    kc.atomic_add(sums, i * i % 3, v * kc.log(1.0 + v * v))


@pytest.mark.parametrize("kernel", [summed, losses, scattered])
def test_sums_in_the_order_of_points_are_those_of_single_threads(kernel: kc.Kernel) -> None:
    func = optimize(kernel.func)
    assert choose_bodies(func, LANES, 1) == (TAIL if kernel is summed else NARROW)

    def grid(width: int) -> tuple[int, ...]:
        return (1, width) if func.rank == 2 else (width,)

    for size in (*SIZES, 47, 64, 81):
        for chunks in (None, cut(size)):
            shapes = (grid(size), grid(size + 2))
            args = [*(floats(*s, seed=s[-1]) for s in shapes), np.zeros(3, np.float32)]
            expected = [a.copy() for a in args]
            assert launch(func, args, grid(size), chunks, lanes=16) == abi.STATUS_OK
            assert launch(func, expected, grid(size), chunks, lanes=1) == abi.STATUS_OK
            np.testing.assert_array_equal(args[2], expected[2])
