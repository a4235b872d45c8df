"""Launches try how many threads pay; whatever they find, results keep their bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.vectorised.rows import layer

F32_2D = kc.array2d[float]
# Enough for trials of several threads and of one, and for launches that are told what they found.
LAUNCHES = 60


@kc.kernel
def waves(x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = kc.sin(x[i, j]) + kc.cos(x[i, (j + 1) % x.shape[1]])


@kc.kernel
def scattered(x: F32_2D, at: kc.array[int], y: F32_2D):
    i, j = kc.tid()
    kc.atomic_add(y, at[i], j, kc.sin(x[i, j]))


def operands(name: str) -> tuple[kc.Kernel, list[np.ndarray], tuple[int, int], tuple[int, int]]:
    """A kernel, its operands, its grid, and the shape of its result."""
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    if name == "waves":
        return waves, [floats(700, 333)], (700, 333), (700, 333)
    if name == "layer":
        return layer, [floats(200, 64), floats(500, 64)], (500, 200), (500, 200)
    at = rng.integers(0, 4000, 5000).astype(np.int32)
    return scattered, [floats(5000, 64), at], (5000, 64), (4000, 64)


@pytest.fixture
def threads() -> Iterator[None]:
    before = kc.num_threads()
    yield
    kc.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", ["waves", "layer", "scattered"])
def test_every_launch_has_the_bits_of_one_thread(name: str) -> None:
    kernel, given, grid, shape = operands(name)

    def result() -> np.ndarray:
        y = np.zeros(shape, np.float32)
        kc.launch(kernel, grid, given, [y])
        return y

    kc.set_num_threads(1)
    expected = result()
    assert np.isfinite(expected).all()
    kc.set_num_threads(2)
    assert all(np.array_equal(result(), expected) for _ in range(LAUNCHES))
