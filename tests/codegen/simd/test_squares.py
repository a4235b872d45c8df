"""Gangs that run several rows of the grid, and transpose what lies along them."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import Host
from kernelcore.codegen import abi
from kernelcore.codegen.simd.bodies import choose_bodies
from kernelcore.codegen.simd.squares import ROWS, squares_of
from kernelcore.codegen.simd.strategy import choose_strategy, panel_rows
from kernelcore.passes.pipeline import optimize
from tests.helpers import interpreter
from tests.helpers.kernel_harness import (
    adjoint_func,
    assert_same_arrays,
    copies,
    launch,
    unoptimised,
)

GANGS = (4, 8, 16, 64)
HOSTS = [Host("any", "any", names, (22,)) for names in ("+avx", "+avx,+avx512f,+avx512bw")]
# Whole squares, rows and columns that are left, and rows of less than a gang.
SHAPES = ((ROWS, 64), (2 * ROWS + 3, 35), (ROWS - 1, 64), (40, 7), (100, 129))


@kc.kernel
def transposed(x: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    y[i, j] = x[j, i]


@kc.kernel
def symmetric(x: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    y[i, j] = 0.5 * (x[i, j] + x[j, i])


@kc.kernel
def shifted(x: kc.array2d[float], z: kc.array2d[float], y: kc.array2d[float], low: int):
    i, j = kc.tid()
    value = x[j + 1, i + low] - 2.0 * x[j, i + 1] * z[i, j]
    if value > 0.0:
        value = kc.sqrt(value)
    y[i, j] += value


@kc.kernel
def written(x: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    y[j, i] = 2.0 * x[i, j] + float(i)


@kc.kernel
def of_batches(x: kc.array3d[float], y: kc.array3d[float]):
    b, i, j = kc.tid()
    y[b, i, j] = x[b, j, i]


@kc.kernel
def at_indices(x: kc.array2d[float], at: kc.array1d[int], y: kc.array2d[float]):
    i, j = kc.tid()
    y[i, j] = x[j, i] + x[at[j], i]


@kc.kernel
def gathered(x: kc.array2d[float], at: kc.array1d[int], y: kc.array2d[float]):
    i, j = kc.tid()
    y[i, j] = x[j, i] + x[i, at[j]]


@kc.kernel
def strided(x: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    y[i, j] = x[j, 2 * i]


@kc.kernel
def in_loop(x: kc.array2d[float], y: kc.array2d[float]):
    i, j = kc.tid()
    for k in range(3):
        y[i, j] += x[j, i] * float(k)


@kc.kernel
def asking_late(x: kc.array2d[float], y: kc.array2d[float], n: int):
    i, j = kc.tid()
    value = x[j, i]
    if n > 0:
        row, _ = kc.tid()
        value += float(row)
    y[i, j] = value


@kc.kernel
def in_place(x: kc.array2d[float]):
    i, j = kc.tid()
    x[j, i] = x[i, j]


def func_of(kernel: Any) -> Any:
    return optimize(kernel.func)


SQUARES = (transposed, symmetric, shifted, written, of_batches, at_indices)


@pytest.mark.parametrize("kernel", SQUARES, ids=lambda k: k.name)
@pytest.mark.parametrize("host", HOSTS, ids=["AVX2", "AVX-512"])
def test_gangs_take_squares(kernel: Any, host: Any) -> None:
    func = func_of(kernel)
    strategy = choose_strategy(func, host)
    assert strategy.gang >= host.float_lanes
    assert choose_bodies(func, strategy.gang, 1).squares is not None
    assert panel_rows(func) == ROWS


@pytest.mark.parametrize(
    "kernel", [gathered, strided, in_loop, in_place, asking_late], ids=lambda k: k.name
)
def test_other_kernels_have_none(kernel: Any) -> None:
    assert squares_of(func_of(kernel)) is None


def test_single_threads_run_what_gangs_would_gather() -> None:
    bodies = {k.name: choose_bodies(func_of(k), 16, 1) for k in (transposed, shifted)}
    assert {name: found.leaves_rest_to_threads for name, found in bodies.items()} == {
        "transposed": True,
        "shifted": False,
    }


def test_elements_without_masked_accesses_have_no_squares() -> None:
    assert squares_of(func_of(transposed), 4) is not None
    assert squares_of(func_of(transposed), 8) is None


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def arguments(kernel: Any, shape: tuple[int, int]) -> tuple[list[Any], tuple[int, ...]]:
    """Arguments of ``kernel`` for a grid of that shape, and the grid."""
    (n, m), y = shape, numbers(*shape)
    match kernel.name:
        case "symmetric":
            size = max(shape)
            return [numbers(size, size), y], shape
        case "shifted":
            return [numbers(m + 1, n + 2), numbers(*shape), y, 2], shape
        case "written":
            return [numbers(n, m), numbers(m, n)], shape
        case "of_batches":
            return [numbers(3, m, n), numbers(3, n, m)], (3, *shape)
        case "at_indices":
            at = np.random.default_rng(0).permutation(m).astype(np.int32)
            return [numbers(m, n), at, y], shape
        case _:
            return [numbers(m, n), y], shape


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", SQUARES, ids=lambda k: k.name)
def test_every_gang_gives_what_threads_compute(kernel: Any, shape: tuple[int, int]) -> None:
    func = func_of(kernel)
    given, grid = arguments(kernel, shape)
    wanted = copies(given)
    interpreter.run(func, wanted, grid)
    for gang in GANGS:
        found = copies(given)
        with unoptimised():
            assert launch(func, found, grid, lanes=gang) == abi.STATUS_OK
        assert_same_arrays(func, wanted, found, f"{kernel.name}, gangs of {gang}")


@pytest.mark.parametrize("kernel", [transposed, of_batches, written], ids=lambda k: k.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_adjoints_add_in_squares(kernel: Any, shape: tuple[int, int]) -> None:
    func = adjoint_func(kernel)
    assert squares_of(func) is not None
    (x, y), grid = arguments(kernel, shape)
    found, wanted = ([x, y, 1 + x, 2 * y] for _ in range(2))
    found, wanted = copies(found), copies(wanted)
    with unoptimised():
        assert launch(func, found, grid, lanes=16) == abi.STATUS_OK
        assert launch(func, wanted, grid, lanes=1) == abi.STATUS_OK
    assert_same_arrays(func, wanted, found, kernel.name)
    # Cotangents of x, each of which one thread adds to.
    axes = {"written": (1, 0), "of_batches": (0, 2, 1)}.get(kernel.name, (1, 0))
    factor = np.float32(2 if kernel.name == "written" else 1)
    np.testing.assert_array_equal(found[2], 1 + x + factor * (2 * y).transpose(axes))


def test_a_branch_may_ask_for_the_launch_index() -> None:
    x, y = numbers(64, 64), np.zeros((64, 64), np.float32)
    kc.launch(asking_late, y.shape, [x, y, 1])
    np.testing.assert_array_equal(y, x.T + np.arange(64, dtype=np.float32)[:, None])


@pytest.mark.parametrize("part", [(0, 3), (5, 90), (35 * 16, 35 * 33 + 1), (34, 35 * 18)])
def test_launches_run_parts_of_the_grid(part: tuple[int, int]) -> None:
    x, y = numbers(35, 40), np.zeros((40, 35), np.float32)
    func = func_of(transposed)
    assert launch(func, [x, y], y.shape, lanes=16, chunks=[part]) == abi.STATUS_OK
    wanted = x.T.flatten()
    wanted[: part[0]] = wanted[part[1] :] = 0
    np.testing.assert_array_equal(y.ravel(), wanted)


def test_arrays_that_share_memory_are_not_transposed_in_blocks() -> None:
    """Rows that a square has stored may be what its later rows read."""
    memory = numbers(200, 64)
    wanted = memory.copy()
    func = func_of(written)
    for data, lanes in ((memory, 16), (wanted, 1)):
        given = [data[:64], data[8:72]]
        with unoptimised():
            assert launch(func, given, (64, 64), lanes=lanes) == abi.STATUS_OK
    np.testing.assert_array_equal(memory, wanted)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("shape", [(1000, 513), (33, 3000), (3000, 33)], ids=str)
def test_threads_share_squares(shape: tuple[int, int]) -> None:
    x = numbers(*shape[::-1])
    for threads in (1, 2, 3):
        kc.set_num_threads(threads)
        y = np.zeros(shape, np.float32)
        kc.launch(transposed, shape, [x], [y])
        np.testing.assert_array_equal(y, x.T)
