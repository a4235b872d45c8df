"""Sums of launches: exact in their order, and the same for every number of threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers import accumulation_model as model

pytestmark = pytest.mark.usefixtures("eager_sharing")

F32 = kc.array(dtype=kc.float32)
F64 = kc.array(dtype=kc.float64)
I32 = kc.array(dtype=kc.int32)
THREADS = (1, 2, 3, 8)
SIZES = (1, 64, 255, 256, 257, 1000, 20_011)


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def same_for_all_threads(run: Callable[[], Sequence[np.ndarray]]) -> list[np.ndarray]:
    """What ``run`` gives, which must have the same bits for every number of threads."""
    first: list[np.ndarray] | None = None
    for threads in THREADS:
        kc.set_num_threads(threads)
        for _ in range(2):
            found = list(run())
            first = first or found
            for one, other in zip(found, first, strict=True):
                np.testing.assert_array_equal(bits(one), bits(other), f"{threads} threads")
    assert first is not None
    return first


def launched(kernel: kc.Kernel, dim: Any, args: Sequence[Any], target: int) -> np.ndarray:
    """``args[target]`` after a launch, the same for every number of threads."""

    def run() -> list[np.ndarray]:
        own = list(args)
        own[target] = args[target].copy()
        kc.launch(kernel, dim, inputs=own)
        return [own[target]]

    return same_for_all_threads(run)[0]


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@kc.kernel
def total(x: F32, out: F32):
    i = kc.tid()
    kc.atomic_add(out, 1, x[i])


@kc.kernel
def total_of_odd(x: F64, at: int, out: F64):
    i = kc.tid()
    if i % 2 == 1:
        kc.atomic_add(out, at - 1, x[i])


@kc.kernel
def total_2d(x: kc.array2d(dtype=kc.float32), out: F32):
    i, j = kc.tid()
    kc.atomic_add(out, 0, x[i, j])


@kc.kernel
def histogram(bins: I32, out: I32):
    i = kc.tid()
    kc.atomic_add(out, bins[i], 1)


@kc.kernel
def scatter(index: I32, x: F32, out: F32):
    i = kc.tid()
    kc.atomic_add(out, index[i], x[i])


@kc.kernel
def scatter64(index: I32, x: F64, out: F64):
    i = kc.tid()
    kc.atomic_add(out, index[i], x[i])


@kc.kernel
def spread(x: F32, out: F32):
    i = kc.tid()
    kc.atomic_add(out, i, x[i])
    if i > 0:
        kc.atomic_add(out, i - 1, 0.5 * x[i])
    kc.atomic_add(out, 2 + i, 0.25 * x[i])


@kc.kernel
def spread_2d(x: kc.array2d(dtype=kc.float32), out: kc.array2d(dtype=kc.float32)):
    i, j = kc.tid()
    kc.atomic_add(out, i + 1, j, x[i, j])
    kc.atomic_add(out, i, j + 1, 2.0 * x[i, j])


@kc.kernel
def weights(x: F32, out: F32):
    i = kc.tid()
    for j in range(out.shape[0]):
        kc.atomic_add(out, j, x[i] * kc.float32(j))


@kc.kernel
def half(index: I32, x: kc.array(dtype=kc.float16), out: kc.array(dtype=kc.float16)):
    i = kc.tid()
    kc.atomic_add(out, index[i], x[i])


@pytest.mark.parametrize("size", SIZES)
def test_a_sum_is_a_tree_of_64_sums_per_chunk(size: int) -> None:
    x, start = normal(size), np.array([5, 0.25], np.float32)
    found = launched(total, size, [x, start], 1)
    assert found[0] == 5
    assert bits(found)[4:].tobytes() == model.add_partial(start[1], x, size).tobytes()


def test_points_that_add_nothing_leave_the_element() -> None:
    x = normal(10_000, dtype=np.float64)
    start = np.array([-0.0, 1.0])
    odd = np.where(np.arange(10_000) % 2 == 1, x, -0.0)
    found = launched(total_of_odd, 10_000, [x, 2, start], 2)
    assert found[1] == model.add_partial(start[1], odd, 10_000)
    # No point adds: the element, which does not exist, is not touched either.
    launched(total_of_odd, 1, [x, 1 << 30, start], 2)


@pytest.mark.parametrize("shape", [(3, 100), (100, 3), (1, 5000), (5000, 1), (70, 130)])
def test_partial_sums_go_by_the_last_axis(shape: tuple[int, int]) -> None:
    x = normal(*shape)
    found = launched(total_2d, shape, [x, np.zeros(1, np.float32)], 1)
    assert found[0] == model.add_partial(np.float32(0), x.reshape(-1), shape[1])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bins", [1, 10, 5000])
def test_integers_are_exact(size: int, bins: int) -> None:
    index = np.random.default_rng(0).integers(0, bins, size).astype(np.int32)
    found = launched(histogram, size, [index, np.ones(bins, np.int32)], 1)
    np.testing.assert_array_equal(found, 1 + np.bincount(index, minlength=bins))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bins", [10, 300, 1000, 2000, 50_000])
def test_floats_are_added_in_the_order_of_the_points(size: int, bins: int) -> None:
    rng = np.random.default_rng(0)
    index, x = rng.integers(0, bins, size).astype(np.int32), normal(size)
    expected = np.full(bins, 0.5, np.float32)
    first, last = next(iter(model.chunks(size)))
    # An array that is small beside a chunk is copied per chunk.
    add = model.add_by_copies if bins <= last - first else model.add_in_turn
    add(expected, index, x)
    found = launched(scatter, size, [index, x, np.full(bins, 0.5, np.float32)], 2)
    np.testing.assert_array_equal(bits(found), bits(expected))


@kc.kernel
def three_sums(index: I32, x: F32, far: F64, near: F32, loss: F32):
    i = kc.tid()
    kc.atomic_add(far, index[i], kc.float64(x[i]))
    kc.atomic_add(near, index[i] % 10, x[i])
    kc.atomic_add(loss, 0, x[i])


@pytest.mark.parametrize("bins", [500, 1000, 20_011])
def test_commit_sequences_copy_every_array_of_floats(bins: int) -> None:
    rng = np.random.default_rng(0)
    index, x = rng.integers(0, bins, 20_011).astype(np.int32), normal(20_011)
    targets = [np.full(bins, 0.5), np.full(10, 0.5, np.float32), np.full(1, 0.5, np.float32)]
    expected = [t.copy() for t in targets]
    parts = list(model.sections(len(x), bins))
    assert len(parts) == {500: 6, 1000: 3, 20_011: 1}[bins]
    for begin, end in parts:
        far, near, loss = expected if begin == 0 else [np.full_like(t, -0.0) for t in targets]
        np.add.at(far, index[begin:end], x[begin:end].astype(np.float64))
        for first, last in [c for c in model.chunks(len(x)) if begin <= c[0] < end]:
            copy = near if first == begin else np.full_like(near, -0.0)
            np.add.at(copy, index[first:last] % 10, x[first:last])
            if first > begin:
                near += copy
            loss[0] += model.tree_total(x[first:last], np.arange(first, last))
        if begin:
            for target, kept in zip(expected, (far, near, loss), strict=True):
                target += kept

    def run() -> list[np.ndarray]:
        found = [t.copy() for t in targets]
        kc.launch(three_sums, len(x), inputs=[index, x, *found])
        return found

    for found, wanted in zip(same_for_all_threads(run), expected, strict=True):
        np.testing.assert_array_equal(bits(found), bits(wanted))


def test_doubles_and_strided_targets() -> None:
    index = np.random.default_rng(0).integers(0, 40_000, 30_000).astype(np.int32)
    x, memory = normal(30_000, dtype=np.float64), np.zeros((40_000, 3))
    expected = np.zeros(40_000)
    np.add.at(expected, index, x)

    def run() -> list[np.ndarray]:
        memory[...] = 0
        kc.launch(scatter64, 30_000, inputs=[index, x, memory[::-1, 1]])
        return [memory.copy()]

    found = same_for_all_threads(run)[0]
    np.testing.assert_array_equal(found[::-1, 1], expected)
    assert not found[:, [0, 2]].any()


@pytest.mark.parametrize("size", SIZES)
def test_stencils_of_one_axis(size: int) -> None:
    x = normal(size)
    expected = np.zeros(size + 2)
    expected[:size] += x
    expected[: size - 1] += 0.5 * x[1:].astype(np.float64)
    expected[2:] += 0.25 * x.astype(np.float64)
    found = launched(spread, size, [x, np.zeros(size + 2, np.float32)], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    def run() -> list[np.ndarray]:
        strided = np.zeros((size + 2, 2), np.float32)[::-1, 0]
        kc.launch(spread, size, inputs=[x, strided])
        return [strided]

    # Gangs are for packed arrays: the order is another one.
    np.testing.assert_allclose(same_for_all_threads(run)[0], expected, rtol=1e-5, atol=1e-6)


@kc.kernel
def some_lanes(x: kc.array2d(dtype=kc.float32), total: F32, near: F32):
    i = kc.tid()
    for j in range(x.shape[1]):
        if x[i, j] > 0.0:
            kc.atomic_add(total, j, x[i, j])
            kc.atomic_add(near, i + j, x[i, j])


@pytest.mark.parametrize("size", SIZES)
def test_sums_of_the_active_lanes(size: int) -> None:
    x = normal(size * 5).reshape(size, 5)
    chosen = np.where(x > 0, x, 0).astype(np.float64)
    near = np.zeros(size + 4)
    for j in range(5):
        near[j : j + size] += chosen[:, j]

    def run() -> list[np.ndarray]:
        found = [np.zeros(5, np.float32), np.zeros(size + 4, np.float32)]
        kc.launch(some_lanes, size, inputs=[x, *found])
        return found

    total, neighbours = same_for_all_threads(run)
    np.testing.assert_allclose(total, chosen.sum(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(neighbours, near, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 999), (999, 5), (64, 257), (3, 20_000)])
def test_stencils_of_two_axes(shape: tuple[int, int]) -> None:
    x = normal(*shape)
    start = np.zeros((shape[0] + 1, shape[1] + 1), np.float32)
    expected = start.astype(np.float64)
    expected[1:, :-1] += x
    expected[:-1, 1:] += 2.0 * x
    found = launched(spread_2d, shape, [x, start], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@kc.kernel
def spread_far(x: F32, near: F32, far: F32):
    i = kc.tid()
    for k in range(3):
        kc.atomic_add(near, i + 1, x[i])
        kc.atomic_add(near, i + 90, x[i] * kc.float32(k))
        kc.atomic_add(far, i + 500, x[i])
        kc.atomic_add(far, i, x[i] + 1.0)


@pytest.mark.parametrize("size", SIZES)
def test_windows_of_several_widths(size: int) -> None:
    # Of small integers every sum is exact.
    x = np.random.default_rng(size).integers(-9, 9, size).astype(np.float32)
    near, far = np.zeros(size + 90, np.float32), np.zeros(size + 500, np.float32)
    near[1 : size + 1] += 3 * x
    near[90:] += 3 * x
    far[500:] += 3 * x
    far[:size] += 3 * x + 3

    def run() -> list[np.ndarray]:
        found = [np.zeros_like(near), np.zeros_like(far)]
        kc.launch(spread_far, size, inputs=[x, *found])
        return found

    for found, wanted in zip(same_for_all_threads(run), (near, far), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("count", [1, 7, 3000])
def test_an_element_per_iteration_of_a_loop(count: int) -> None:
    x = normal(700)
    found = launched(weights, 700, [x, np.zeros(count, np.float32)], 1)
    expected = x.astype(np.float64).sum() * np.arange(count)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_narrow_floats_round_in_the_order_of_the_points() -> None:
    index = np.random.default_rng(0).integers(0, 20, 5000).astype(np.int32)
    x = normal(5000, dtype=np.float16)
    expected = np.zeros(20, np.float16)
    np.add.at(expected, index, x)
    found = launched(half, 5000, [index, x, np.zeros(20, np.float16)], 2)
    np.testing.assert_array_equal(bits(found), bits(expected))


def test_signed_zeros_infinities_and_nans_survive() -> None:
    x = np.full(5000, -0.0, np.float32)
    index = np.arange(5000, dtype=np.int32) % 7
    found = launched(scatter, 5000, [index, x, np.full(7, -0.0, np.float32)], 2)
    assert np.signbit(found).all()
    x[[1, 4000]] = np.inf, -np.inf
    found = launched(scatter, 5000, [index, x, np.zeros(7, np.float32)], 2)
    assert np.isposinf(found[1])
    assert np.isneginf(found[4000 % 7])


SCRIPT = """
import resource
from pathlib import Path
import numpy as np
import kernelcore as kc
from tests.codegen.reduction.test_accumulate import scatter
size, bins = 4_000_000, 500_000
index, x = np.arange(size, dtype=np.int32) % bins, np.ones(size, np.float32)
target = np.zeros(bins, np.float32)
kc.launch(scatter, 10, inputs=[index, x, target])
target[:] = 0.0
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used, resource.RLIM_INFINITY))
try:
    kc.launch(scatter, size, inputs=[index, x, target])
except MemoryError:
    print("refused", target.any())
"""


def test_commit_sequences_without_memory_add_nothing() -> None:
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "refused False\n", done.stderr
