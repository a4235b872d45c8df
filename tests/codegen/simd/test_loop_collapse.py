"""Gangs that go on from row to row = the interpreter, bit for bit, whatever the rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.analysis.uniformity import row_major_accesses
from kernelcore.codegen.simd.cost_model import ANY_ROW, MANY_GANGS, Bodies, choose_bodies
from kernelcore.codegen.simd.strategy import LANES
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import agree
from tests.helpers.operations import run_operation

F32, F32_2D, F32_3D = (kc.array(kc.float32, n) for n in (1, 2, 3))
gangs = pytest.mark.parametrize("lanes", LANES[1:])
# Rows of one point, of less than a gang, of more, and fewer points than a gang.
SHAPES = [(150, 1), (70, 3), (11, 17), (3, 67), (2, 2)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def run(kernel: kc.Kernel, lanes: int, dims: tuple[int, ...], *args: Any) -> list[np.ndarray]:
    """The arrays after a launch in chunks that start anywhere."""
    total = int(np.prod(dims))
    cuts = (0, total // 5, total // 2, total)
    chunks = [(a, b) for a, b in pairwise(cuts) if a < b]
    return agree(optimize(kernel.func), args, dims, chunks, lanes)


@kc.kernel
def updated(a: kc.float32, x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = a * x[i, j] + y[i, j]


@kc.kernel
def of_rows(x: F32_2D, row: F32, column: F32, y: F32_2D):
    i, j = kc.tid()
    v = x[i, j] * row[i] + column[j]
    turns = 0
    while kc.abs(v) < 4.0 and turns < 9:
        turns += 1
        v = v * 1.5 + kc.float32(j)
        if turns > i % 5:
            v += kc.sin(v)
    for k in range(j % 3):
        v += x[i, k]
    if v > 0.0 or i % 2 == 1:
        y[i, j] = v


@kc.kernel
def around(x: F32_3D, y: F32_3D):
    i, j, k = kc.tid()
    v = y[i, j, k]
    if i > 0 and j > 0 and j + 1 < x.shape[1]:
        v += x[i - 1, j, k] - x[i, j + 1, k] + x[i, j - 1, k]
    y[i, j, k] = v


@kc.kernel
def of_vectors(x: kc.array2d(dtype=kc.vec3), w: F32_2D, y: kc.array2d(dtype=kc.vec3)):
    i, j = kc.tid()
    v = x[i, j] * w[i, j]
    y[i, j] = v if j % 2 == 0 else kc.cross(v, y[i, j])


def test_accesses_that_follow_the_grid_are_known() -> None:
    for kernel, count in ((updated, 3), (of_rows, 2), (around, 5), (of_vectors, 10)):
        func = optimize(kernel.func)
        assert len(row_major_accesses(func)) == count, kernel
    assert choose_bodies(optimize(updated.func), 4, 1).collapse_limit == MANY_GANGS
    assert choose_bodies(optimize(around.func), 4, 1).collapse_limit == MANY_GANGS
    assert choose_bodies(optimize(of_vectors.func), 4, 1).collapse_limit == MANY_GANGS


@gangs
@shapes
def test_elements_of_the_grid(shape: tuple[int, int], lanes: int) -> None:
    run(updated, lanes, shape, np.float32(0.5), floats(*shape), floats(*shape, seed=1))


@gangs
def test_arrays_that_reach_beyond_the_grid_or_are_strided(lanes: int) -> None:
    x, wide, rows = floats(40, 3), floats(41, 4), floats(80, 3)[::2]
    for first, second in ((x, wide), (wide, x), (x, rows), (rows, x), (x, floats(40, 6)[:, ::2])):
        run(updated, lanes, (40, 3), np.float32(0.5), first, second.copy(order="K"))
    run(updated, lanes, (40, 3), np.float32(0.5), floats(90, 3), floats(90, 3, seed=1))
    run(updated, lanes, (40, 3), np.float32(0.5), floats(3, 40).T, floats(40, 3))


@gangs
@shapes
def test_indices_of_threads_in_loops_and_branches(
    shape: tuple[int, int], lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = Bodies(collapse_limit=MANY_GANGS)
    monkeypatch.setattr("kernelcore.codegen.llvm.kernel.choose_bodies", lambda *_: bodies)
    rows, columns = shape
    x = floats(rows, max(columns, 3))[:, :columns]
    args = [floats(rows), floats(columns, seed=1), floats(rows, columns, seed=2)]
    run(of_rows, lanes, shape, x.copy() if columns >= 3 else x, *args)


@gangs
@pytest.mark.parametrize("shape", [(5, 7, 3), (9, 1, 1), (2, 3, 70), (1, 1, 200), (30, 2, 2)])
def test_neighbours_in_three_axes(shape: tuple[int, int, int], lanes: int) -> None:
    run(around, lanes, shape, floats(*shape), floats(*shape, seed=1))


@gangs
@shapes
def test_elements_of_several_components(shape: tuple[int, int], lanes: int) -> None:
    x, y = (floats(*shape, 3, seed=k) for k in range(2))
    run(of_vectors, lanes, shape, x, floats(*shape), y)


@kc.kernel
def waves(x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    v = x[i, j]
    for _ in range(j + 1):
        v = kc.sin(v) + 0.5 * v * v
    y[i, j] = v


@gangs
def test_adjoints(lanes: int) -> None:
    adjoint = derive.vjp(kernel_operation(waves, ["y"]), [0], [0]).operation
    assert choose_bodies(optimize(adjoint.func), 4, 1).collapse_limit == ANY_ROW
    args = [floats(50, 3), floats(50, 3, seed=1)]
    want, found = (run_operation(adjoint, args, lanes=n) for n in (1, lanes))
    np.testing.assert_array_equal(found, want)
    assert np.count_nonzero(want[0]) > 100


@kc.kernel
def marked(x: kc.array2d(dtype=kc.float16), seen: kc.array2d(dtype=kc.bool)):
    i, j = kc.tid()
    seen[i, j] = x[i, j] > kc.float16(0.5)
    if j == 1:
        x[i, j] = kc.float16(7.0)


@gangs
@shapes
def test_small_elements(shape: tuple[int, int], lanes: int) -> None:
    run(marked, lanes, shape, floats(*shape).astype(np.float16), np.zeros(shape, np.bool_))
