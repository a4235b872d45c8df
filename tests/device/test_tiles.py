"""Kernels whose threads take several points at once give what points one by one give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.gpu import tiles
from kernelcore.ir.core import Func
from kernelcore.passes.pipeline import optimize
from tests.device import engine
from tests.helpers.environment import ROOT

THREADS = 32
TILE = THREADS * tiles.POINTS
FILL = -7.0


@kc.kernel
def mixed(x: kc.array(dtype=float), y: kc.array(dtype=float), z: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[i] + float(i)
    z[i] = y[i] * x[i]


@kc.kernel
def transposed(x: kc.array2d(dtype=float), z: kc.array2d(dtype=float)):
    i, j = kc.tid()
    z[j, i] = x[i, j] + float(1000 * i + j)


@kc.kernel
def summed(x: kc.array(dtype=float), total: kc.array(dtype=float)):
    kc.atomic_add(total, 0, x[kc.tid()])


@kc.kernel
def elaborate(x: kc.array(dtype=kc.float64), z: kc.array(dtype=kc.float64)):
    v = x[kc.tid()]
    z[kc.tid()] = kc.sin(v) * kc.exp(v) + kc.tanh(v) * kc.log(1.0 + v * v) + kc.cos(v)


@kc.kernel
def vectors(x: kc.array(dtype=kc.vec3), z: kc.array(dtype=kc.vec3)):
    z[kc.tid()] = 2.0 * x[kc.tid()]


@kc.kernel
def constant(z: kc.array(dtype=float)):
    z[kc.tid()] = 1.0


def func_of(kernel: kc.Kernel) -> Func:
    return optimize(kernel.func)


def test_points_of_short_straight_code_that_loads_scalars_are_taken_together() -> None:
    kernels = (mixed, transposed, summed, elaborate, vectors, constant)
    taken = [k.name for k in kernels if tiles.is_memory_bound(func_of(k))]
    assert taken == ["mixed", "transposed"]


def test_launches_reckon_with_as_many_points() -> None:
    source = (ROOT / "csrc" / "cuda" / "kernel.cc").read_text()
    assert f"kPointsPerThread = {tiles.POINTS};" in source


@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize(
    "count",
    [1, THREADS - 1, THREADS, THREADS + 1, TILE - 1, TILE, TILE + 1, 2 * TILE + 5, 5 * TILE - 31],
)
def test_every_point_is_run_once(count: int, blocks: int) -> None:
    x = np.random.default_rng(count).standard_normal(count + 3).astype(np.float32)
    y, z = (np.full(count + 3, FILL, np.float32) for _ in range(2))
    assert engine.run(func_of(mixed), [x, y, z], count, blocks, THREADS) == abi.STATUS_OK
    expected = 2 * x + np.arange(count + 3, dtype=np.float32)
    np.testing.assert_array_equal(y[:count], expected[:count])
    np.testing.assert_array_equal(z[:count], expected[:count] * x[:count])
    # Points behind the grid are not run.
    assert np.all(y[count:] == FILL)
    assert np.all(z[count:] == FILL)


@pytest.mark.parametrize("grid", [(1, 1), (3, 7), (32, 9), (17, 31), (129, 4)])
def test_grids_of_two_axes(grid: Sequence[int]) -> None:
    x = np.random.default_rng(1).standard_normal(grid).astype(np.float32)
    z = np.zeros(tuple(grid)[::-1], np.float32)
    assert engine.run(func_of(transposed), [x, z], grid, 2, THREADS) == abi.STATUS_OK
    rows, columns = np.indices(grid)
    np.testing.assert_array_equal(z.T, x + (1000 * rows + columns).astype(np.float32))
