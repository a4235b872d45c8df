"""Elements of several components that lie apart: a gang accesses them as one row per lane."""

# pyright: reportArgumentType=false

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS, host
from kernelcore.codegen.analysis.component_groups import (
    LEAST_WIDE_STORED,
    MAX_INTERLEAVED,
    rows_apart,
)
from kernelcore.codegen.simd.strategy import VectorStrategy, choose_strategy
from kernelcore.codegen.target import cpu
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import assert_same_arrays, launch, launched_in_two, unoptimised
from tests.helpers.vectorised.case import I32

THREADS = 37
DTYPES = ("float32", "float64", "float16", "int8", "uint64")


def storing(count: int, dtype: str) -> kc.Kernel:
    """A kernel whose threads write two vectors of ``count`` components, some of them a third."""
    number = getattr(kc, dtype)
    row = kc.types.vector(length=count, dtype=number)

    @kc.kernel
    def stores(
        x: kc.array1d(dtype=number), at: I32, y: kc.array2d(dtype=row), z: kc.array1d(dtype=row)
    ):
        i = kc.tid()
        first, second = row(), row()
        for k in kc.static(tuple(range(count))):
            first[k] = x[i] + number(k)
            second[k] = x[i] * number(k + 1)
        y[i, 0] = first
        y[i, 1] = second
        if at[i] >= 0:
            z[at[i]] = first

    return stores


def arguments(count: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(count)
    x = rng.integers(0, 9, THREADS).astype(dtype)
    # Each element at most once, in no order; some threads write none.
    at = rng.permutation(2 * THREADS)[:THREADS].astype(np.int32) - THREADS // 2
    return [
        x,
        at,
        np.zeros((THREADS, 3, count), dtype),
        np.zeros((2 * THREADS, count), dtype),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17])
def test_rows_have_the_bits_of_single_threads(count: int, dtype: str) -> None:
    func = optimize(storing(count, dtype).func)
    given = arguments(count, dtype)
    first = 11
    wanted = launched_in_two(func, given, THREADS, first, 1, least_masked_bytes=1, gathers=True)
    x, at, y, z = wanted
    k = np.arange(count)
    with np.errstate(over="ignore"):
        rows = [(x[:, None] + k.astype(dtype)), (x[:, None] * (k + 1).astype(dtype))]
    np.testing.assert_array_equal(y[:, 0], rows[0].astype(dtype))
    np.testing.assert_array_equal(y[:, 1], rows[1].astype(dtype))
    np.testing.assert_array_equal(y[:, 2], 0)
    np.testing.assert_array_equal(z[at[at >= 0]], rows[0].astype(dtype)[at >= 0])
    for gang, least in product((8, 16, 32), (1, 4, NO_MASKS)):
        found = launched_in_two(
            func, given, THREADS, first, gang, least_masked_bytes=least, gathers=True
        )
        assert_same_arrays(func, wanted, found, f"gang {gang}, {least}")


@pytest.mark.parametrize("least", [1, NO_MASKS])
@pytest.mark.parametrize("count", [LEAST_WIDE_STORED - 1, LEAST_WIDE_STORED, 8, 15, 17])
def test_a_lane_writes_its_row_at_once(count: int, least: int) -> None:
    func = optimize(storing(count, "float64").func)
    text = cpu.llvm_text(func, "kernel", VectorStrategy(8, least_masked_bytes=least))
    # What registers of eight numbers hold.
    rows = [min(8, count - first) for first in range(0, count, 8)]
    are_whole = LEAST_WIDE_STORED <= count <= MAX_INTERLEAVED
    for size in rows:
        assert (f"store <{size} x double>" in text) == are_whole


@pytest.mark.parametrize("count", [3, 9, 15])
def test_components_that_are_apart_have_the_same_bits(count: int) -> None:
    kernel, dtype = storing(count, "float32"), "float32"
    found: list[Any] = []
    for order in ("C", "F"):
        x, at, y, z = arguments(count, dtype)
        y, z = (np.zeros(a.shape, dtype, order=order) for a in (y, z))
        kc.launch(kernel, THREADS, [x, at, y, z])
        found.append((y, z))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def loading(count: int, dtype: str, used: tuple[int, ...]) -> kc.Kernel:
    """A kernel whose threads add up the components ``used`` of elements that lie anywhere."""
    number = getattr(kc, dtype)
    row = kc.types.vector(length=count, dtype=number)

    @kc.kernel
    def loads(
        x: kc.array1d(dtype=row), at: I32, y: kc.array1d(dtype=number), z: kc.array1d(dtype=number)
    ):
        i = kc.tid()
        total = number(0)
        if at[i] >= 0:
            element = row()
            element = x[at[i]]
            for k in kc.static(used):
                total += element[k]
        y[i] = total
        last, place = number(0), abs(at[i])
        for k in kc.static(used):
            last = last * number(2) + x[place][k]
        z[i] = last

    return loads


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "used"),
    [
        (2, (0, 1)),
        (3, (0, 1, 2)),
        (3, (2, 1)),
        (4, (3, 2, 1, 0)),
        (5, (1, 2, 3)),
        (9, (0, 4, 8)),
        (9, tuple(range(9))),
        (16, tuple(range(16))),
        (17, tuple(range(17))),
    ],
)
def test_loaded_rows_have_the_bits_of_single_threads(
    count: int, used: tuple[int, ...], dtype: str
) -> None:
    func = optimize(loading(count, dtype, used).func)
    rng = np.random.default_rng(count)
    x = rng.integers(0, 9, (THREADS, count)).astype(dtype)
    at = rng.integers(-THREADS + 1, THREADS, THREADS).astype(np.int32)
    given = [x, at, np.zeros(THREADS, dtype), np.zeros(THREADS, dtype)]
    first = 11
    wanted = launched_in_two(func, given, THREADS, first, 1, least_masked_bytes=1, gathers=True)
    with np.errstate(over="ignore"):
        total = sum((x[at, k] for k in used), np.zeros(THREADS, dtype))
    np.testing.assert_array_equal(wanted[2], np.where(at >= 0, total, np.zeros_like(total)))
    for gang, least, gathers in product((8, 16, 32), (1, NO_MASKS), (True, False)):
        found = launched_in_two(
            func, given, THREADS, first, gang, least_masked_bytes=least, gathers=gathers
        )
        assert_same_arrays(func, wanted, found, f"gang {gang}, {least}, {gathers}")


@kc.kernel
def written_between(x: kc.array1d(dtype=kc.vec3), at: I32, y: kc.array1d(dtype=kc.float32)):
    i = kc.tid()
    k = at[i]
    first = x[k][0]
    x[k][1] = first + 1.0
    y[i] = first + x[k][1] + x[k][2]


@kc.kernel
def few_of_many(x: kc.array1d(dtype=kc.mat33), at: I32, y: kc.array1d(dtype=kc.float32)):
    i = kc.tid()
    k = at[i]
    y[i] = x[k][0, 0] + x[k][2, 2]


@kc.kernel
def other_written_between(
    x: kc.array1d(dtype=kc.vec3),
    at: I32,
    z: kc.array1d(dtype=kc.vec3),
    y: kc.array1d(dtype=kc.float32),
):
    i = kc.tid()
    k = at[i]
    first = x[k][0]
    z[k][1] = first + 1.0
    y[i] = first + x[k][1] * x[k][2]


@kc.kernel
def one_twice(x: kc.array1d(dtype=kc.mat33), at: I32, y: kc.array1d(dtype=kc.float32)):
    i = kc.tid()
    k = at[i]
    y[i] = x[k][1, 1] * x[k][1, 1]


@pytest.mark.parametrize("kernel", [few_of_many, one_twice])
def test_other_loads_are_made_one_by_one(kernel: kc.Kernel) -> None:
    assert not rows_apart(optimize(kernel.func))


@pytest.mark.parametrize("kernel", [written_between, other_written_between])
@pytest.mark.parametrize("gang", [1, 16])
def test_what_is_written_between_loads_is_seen(kernel: kc.Kernel, gang: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(THREADS, 3)).astype(np.float32)
    at, y = rng.permutation(THREADS).astype(np.int32), np.zeros(THREADS, np.float32)
    found = x.copy()
    # The second kernel gets one array twice.
    given = [found, at, y] if kernel is written_between else [found, at, found, y]
    with unoptimised():
        launch(optimize(kernel.func), given, THREADS, None, gang)
    new = x[at, 0] + np.float32(1.0)
    wanted = x[at, 0] + new + x[at, 2] if kernel is written_between else x[at, 0] + new * x[at, 2]
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_lane_loads_its_row_at_once(dtype: str) -> None:
    func = optimize(loading(3, dtype, (0, 1, 2)).func)
    number = {"float32": "float", "float64": "double"}[dtype]
    assert f"load <3 x {number}>" in cpu.llvm_text(func, "kernel", VectorStrategy(8))


@kc.kernel
def added_apart(
    x: kc.array1d(dtype=kc.vec3), y: kc.array2d(dtype=kc.vec3), z: kc.array1d(dtype=kc.float32)
):
    i = kc.tid()
    kc.atomic_add(y, i, 1, x[i])
    kc.atomic_add(y, i, 1, 2.0 * x[i])
    z[i] = x[i][0]


def test_additions_to_elements_that_lie_apart() -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=s).astype(np.float32) for s in ((THREADS, 3), (THREADS, 2, 3)))
    func = optimize(added_apart.func)
    given = [x, y, np.zeros(THREADS, np.float32)]
    for gang in (1, 8, 16, 32):
        _, found, _ = launched_in_two(func, given, THREADS, 11, gang, least_masked_bytes=1)
        np.testing.assert_array_equal(found[:, 0], y[:, 0])
        np.testing.assert_array_equal(found[:, 1], (y[:, 1] + x) + np.float32(2.0) * x)


@kc.kernel
def taken(x: kc.array1d(dtype=kc.vec3), at: I32, y: kc.array1d(dtype=kc.vec3)):
    i = kc.tid()
    y[i] = x[at[i]]


@kc.kernel
def edge_lengths(x: kc.array1d(dtype=kc.vec3), a: I32, b: I32, y: kc.array1d(dtype=kc.float32)):
    i = kc.tid()
    y[i] = kc.length(x[a[i]] - x[b[i]])


@kc.kernel
def taken_numbers(x: kc.array1d(dtype=kc.float32), at: I32, y: kc.array1d(dtype=kc.float32)):
    i = kc.tid()
    y[i] = x[at[i]]


@kc.kernel
def taken_in_a_loop(x: kc.array1d(dtype=kc.vec3), at: I32, n: I32, y: kc.array1d(dtype=kc.vec3)):
    i = kc.tid()
    if at[i] >= 0:
        for _ in range(n[i]):
            y[i] += x[at[i]]


@pytest.mark.parametrize(
    ("kernel", "runs_in_gangs"),
    [(taken, True), (edge_lengths, True), (taken_numbers, False), (taken_in_a_loop, False)],
)
def test_kernels_that_scatter_rows_alone_run_in_gangs(
    kernel: kc.Kernel, runs_in_gangs: bool
) -> None:
    assert (choose_strategy(optimize(kernel.func), host()).gang > 1) == runs_in_gangs
