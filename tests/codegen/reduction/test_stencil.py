"""Additions of gangs to overlapping runs of elements: gang after gang, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.reduction.stencil import joined_additions
from kernelcore.ir.core import Func
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import launch

# Elements on either side of those at the indices of the threads.
MARGIN = 40
every_gang = pytest.mark.parametrize("lanes", [1, 4, 16, 64])


def in_row(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    v = x[i]
    kc.atomic_add(y, i + 41, v)
    kc.atomic_add(y, i + 39, v + v)
    kc.atomic_add(y, i + 40, v * v)
    kc.atomic_add(y, i + 37, v)
    kc.atomic_add(y, i + 41, -v)


def far_apart(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    kc.atomic_add(y, i, x[i])
    kc.atomic_add(y, i + 40, x[i])
    kc.atomic_add(y, i + 2, x[i])
    kc.atomic_add(y, i + 42, x[i])


def backwards(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    kc.atomic_add(y, 500 - i, x[i])
    kc.atomic_add(y, 501 - i, x[i])


IN_ROW = (
    lambda v: v,
    lambda v: v + v,
    lambda v: v * v,
    lambda v: v,
    lambda v: -v,
)


@kc.kernel
def five_points(x: kc.array2d(dtype=kc.float32), y: kc.array2d(dtype=kc.float32)):
    i, j = kc.tid()
    v = x[i, j]
    if v > -2.0:
        kc.atomic_add(y, i + 1, j + 2, v)
        kc.atomic_add(y, i + 2, j + 1, v)
        kc.atomic_add(y, i + 1, j, v * v)
        kc.atomic_add(y, i, j + 1, v)
        kc.atomic_add(y, i + 1, j + 1, -v)


@kc.kernel
def rows_that_may_meet(x: kc.array2d(dtype=kc.float32), k: int, y: kc.array2d(dtype=kc.float32)):
    i, j = kc.tid()
    kc.atomic_add(y, i, j + 1, x[i, j])
    kc.atomic_add(y, i + k, j + 1, x[i, j] * 3.0)
    kc.atomic_add(y, i, j, x[i, j] * 5.0)
    kc.atomic_add(y, i + k, j, x[i, j] * 7.0)


@kc.kernel
def in_one_array(x: kc.array2d(dtype=kc.float32), y: kc.array(dtype=kc.float32)):
    i, j = kc.tid()
    at = i * x.shape[1] + j
    kc.atomic_add(y, at + 1, x[i, j])
    kc.atomic_add(y, at, x[i, j] * 3.0)
    kc.atomic_add(y, at + 2, x[i, j] * x[i, j])


def gangs(extent: int, lanes: int) -> list[range]:
    """The points of a row in the runs that step together."""
    whole = extent // lanes * lanes
    runs = [range(k, k + lanes) for k in range(0, whole, lanes)]
    return [*runs, range(whole, extent)] if lanes > 1 else runs


def added(
    x: np.ndarray,
    y: np.ndarray,
    sites: Sequence[tuple[int, int, Callable[[np.ndarray], np.ndarray]]],
    lanes: int,
) -> np.ndarray:
    """``y`` after every point of the rows ``x`` has added a function of its value per site."""
    for i, row in enumerate(x):
        for run in gangs(len(row), lanes):
            v = row[run.start : run.stop]
            for up, right, function in sites:
                y[i + up, run.start + right : run.stop + right] += function(v)
    return y


def make(function: Any, dtype: Any) -> Any:
    """The kernel ``function`` for arrays of ``dtype``."""
    array = np.zeros(0, dtype)
    return optimize(kc.kernel(function).for_arguments((array, array)).func)


@every_gang
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_stencil_of_one_row(dtype: Any, lanes: int) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=n).astype(np.float64) * 9 for n in (203, 203 + 2 * MARGIN))
    x, y = x.astype(dtype), y.astype(dtype)
    y[50:60] = x[10:20] = -0.0
    offsets = (41, 39, 40, 37, 41)
    sites = [(0, o, f) for o, f in zip(offsets, IN_ROW, strict=True)]
    want = added(x[None], y[None].copy(), sites, lanes)[0]
    assert launch(make(in_row, dtype), [x, y], len(x), None, lanes) == abi.STATUS_OK
    np.testing.assert_array_equal(y.view(np.uint8), want.view(np.uint8))


@every_gang
def test_rows_around_a_point(lanes: int) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.normal(size=s).astype(np.float32) for s in ((5, 143), (7, 145)))
    x[3, 70] = -5.0
    kept = np.where(x > -2.0, x, 0)
    sites = [
        (1, 2, lambda v: v),
        (2, 1, lambda v: v),
        (1, 0, lambda v: v * v),
        (0, 1, lambda v: v),
        (1, 1, lambda v: -v),
    ]
    want = added(kept, y.copy(), sites, lanes)
    func = optimize(five_points.func)
    assert launch(func, [x, y], x.shape, None, lanes) == abi.STATUS_OK
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("k", [0, 1])
@every_gang
def test_rows_that_may_be_the_same(lanes: int, k: int) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=s).astype(np.float32) for s in ((4, 140), (6, 142)))
    sites = [
        (0, 1, lambda v: v),
        (k, 1, lambda v: v * np.float32(3)),
        (0, 0, lambda v: v * np.float32(5)),
        (k, 0, lambda v: v * np.float32(7)),
    ]
    want = added(x, y.copy(), sites, lanes)
    func = optimize(rows_that_may_meet.func)
    assert launch(func, [x, k, y], x.shape, None, lanes) == abi.STATUS_OK
    np.testing.assert_array_equal(y, want)


@pytest.mark.usefixtures("eager_sharing")
def test_stencil_accumulation_does_not_depend_on_the_threads() -> None:
    func = optimize(in_one_array.func)
    assert len(joined_additions(func, lane_strides(func), 8)) == 3
    x = np.random.default_rng(4).normal(size=(64, 4096)).astype(np.float32)
    found: list[bytes] = []
    for threads in (1, 2, 3):
        kc.set_num_threads(threads)
        y = kc.zeros(x.size + 2, dtype=kc.float32)
        for _ in range(5):
            kc.launch(in_one_array, x.shape, [x], [y])
        found.append(y.numpy().tobytes())
    assert found == found[:1] * 3


@pytest.mark.parametrize(
    ("func", "together"),
    [
        (make(in_row, np.float32), 5),
        (make(far_apart, np.float32), 0),
        (make(backwards, np.float32), 0),
        (optimize(five_points.func), 3),
        (optimize(rows_that_may_meet.func), 0),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_stencil_accumulation(func: Func, together: int) -> None:
    found = joined_additions(func, lane_strides(func), 8)
    assert len(found) == together
    assert set(found) <= set(walk_eqns(func.body))
