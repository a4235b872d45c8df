"""Threads that go along long rows one by one: which kernels do, and what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.simd.bodies import choose_bodies
from kernelcore.passes.pipeline import optimize


@kc.kernel
def normalise(x: kc.array2d[float], y: kc.array2d[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] / kc.sqrt(total)


@kc.kernel
def loss(x: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k])
    y[0] += kc.log(total)


@kc.kernel
def with_other_loop(x: kc.array2d[float], steps: int, y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    for _ in range(steps):
        total = 0.5 * total + 1.0 / total
    y[i] = total


@kc.kernel
def with_much_else(x: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    y[i] = kc.sin(total) + kc.cos(total) + kc.tanh(total) + kc.exp(total)


@kc.kernel
def with_activation(x: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    y[i] = kc.tanh(total)


@pytest.mark.parametrize(
    ("kernel", "lanes"),
    [
        (normalise, 1),
        (loss, 16),
        (with_other_loop, 16),
        (with_much_else, 16),
        (with_activation, 16),
    ],
)
def test_a_thread_alone_needs_little_besides_its_rows(kernel: kc.Kernel, lanes: int) -> None:
    assert choose_bodies(optimize(kernel.func), 16, 1).tail_lanes == lanes


@pytest.mark.parametrize("columns", [1, 31, 32, 77])
@pytest.mark.parametrize("rows", [1, 15, 16, 37])
def test_results_are_those_of_other_strides(rows: int, columns: int) -> None:
    x = np.random.default_rng(rows * columns).normal(size=(rows, columns)).astype(np.float32)
    y, strided = np.zeros_like(x), np.zeros((columns, rows), np.float32).T
    kc.launch(normalise, rows, [x, y])
    kc.launch(normalise, rows, [np.asfortranarray(x), strided])
    assert np.array_equal(y, strided)
    exact = x.astype(np.float64)
    exact /= np.sqrt((exact * exact).sum(1, keepdims=True))
    assert np.allclose(y, exact, rtol=1e-6, atol=0)


@pytest.mark.usefixtures("eager_sharing")
def test_any_number_of_threads_gives_the_same_bits() -> None:
    x = np.random.default_rng(0).normal(size=(4001, 96)).astype(np.float32)
    found: list[np.ndarray] = []
    for threads in (1, 2, 3):
        kc.set_num_threads(threads)
        y = np.zeros_like(x)
        kc.launch(normalise, len(x), [x, y])
        found.append(y)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
