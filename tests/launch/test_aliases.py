"""Launches over arrays that share memory: as if one thread ran the points in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import kernelcore as kc
from kernelcore import _native
from kernelcore.base.errors import KernelArgumentError
from tests.helpers import interpreter

F32 = kc.array(dtype=kc.float32)
I32 = kc.array(dtype=kc.int32)
SIZE = 3000


@pytest.fixture(autouse=True, params=[1, 3])
def threads(request: pytest.FixtureRequest, eager_sharing: None) -> None:
    kc.set_num_threads(request.param)


@kc.kernel
def both(x: F32, first: F32, second: F32):
    i = kc.tid()
    kc.atomic_add(first, 0, x[i])
    kc.atomic_add(second, 0, 2.0 * x[i])


@kc.kernel
def owned(x: F32, first: F32, second: F32):
    i = kc.tid()
    kc.atomic_add(first, i, x[i])
    kc.atomic_add(second, i, 3.0 * x[i])


@kc.kernel
def scatter(index: I32, x: F32, out: F32):
    i = kc.tid()
    kc.atomic_add(out, index[i], x[i])


@kc.kernel
def read_back(index: I32, x: F32, out: F32):
    i = kc.tid()
    kc.atomic_add(out, index[i], x[i] * 0.5)


def in_order(kernel: kc.Kernel, args: list[Any]) -> None:
    """What the launch means: the interpreter runs the points one after the other."""
    interpreter.run(kernel.func, args, SIZE)


def check(kernel: kc.Kernel, make: Any) -> None:
    found, expected = make(), make()
    kc.launch(kernel, SIZE, inputs=found)
    in_order(kernel, expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def values(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(size).astype(np.float32)


def test_one_array_for_two_sums() -> None:
    def make() -> list[Any]:
        out = np.zeros(1, np.float32)
        return [values(), out, out]

    check(both, make)


def test_one_array_for_two_targets_that_threads_own() -> None:
    def make() -> list[Any]:
        out = np.zeros(SIZE, np.float32)
        return [values(), out, out]

    check(owned, make)


@pytest.mark.parametrize("shift", [1, 16, SIZE - 1])
def test_targets_that_overlap_in_part(shift: int) -> None:
    def make() -> list[Any]:
        out = np.zeros(SIZE + shift, np.float32)
        return [values(), out[:SIZE], out[shift:]]

    check(owned, make)


def test_a_target_against_the_other_direction() -> None:
    def make() -> list[Any]:
        out = np.zeros(SIZE, np.float32)
        return [values(), out, out[::-1]]

    check(owned, make)


def test_a_target_that_is_read_as_well() -> None:
    def make() -> list[Any]:
        memory = values()
        index = np.random.default_rng(1).integers(0, SIZE, SIZE).astype(np.int32)
        return [index, memory, memory]

    check(read_back, make)


def test_a_target_whose_elements_are_one() -> None:
    def make() -> list[Any]:
        index = np.arange(SIZE, dtype=np.int32)
        one = np.zeros(1, np.float32)
        spread = as_strided(one, (SIZE,), (0,))
        return [index, values(), spread]

    check(scatter, make)


def test_targets_that_interleave_are_apart() -> None:
    memory = np.zeros((SIZE, 2), np.float32)
    signature = owned.executable.signature
    assert _native.launch(signature, SIZE, [values(), memory[:, 0], memory[:, 1]])
    np.testing.assert_array_equal(memory, values()[:, None] * np.array([1, 3], np.float32))
    assert not _native.launch(signature, SIZE, [values(), memory[:, 0], memory[:, 0]])


def test_cotangents_that_share_memory_are_refused() -> None:
    @kc.kernel
    def product(x: F32, y: F32, out: F32):
        i = kc.tid()
        out[i] = x[i] * y[i]

    shared = np.zeros(SIZE, np.float32)
    x, y, out, ct_out = (values() for _ in range(4))
    with pytest.raises(KernelArgumentError, match="share memory"):
        kc.launch(
            product,
            SIZE,
            inputs=[x, y],
            outputs=[out],
            adj_inputs=[shared, shared],
            adj_outputs=[ct_out],
            adjoint=True,
        )
    assert not shared.any()


def test_a_tape_adds_both_gradients_of_an_array_passed_twice() -> None:
    @kc.kernel
    def gathered(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64), out: Any):
        i = kc.tid()
        out[0] += x[i] * y[SIZE - 1 - i]

    x = kc.array(values().astype(np.float64), requires_grad=True)
    loss = kc.zeros(1, dtype=kc.float64, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(gathered, SIZE, inputs=[x, x], outputs=[loss])
    tape.backward(loss)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * x.numpy()[::-1])


@kc.kernel
def stored(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[i, j] = x[i, j]


@pytest.mark.parametrize("strides", [(0, 4), (4, 0), (4, 4), (8, 4), (8, 16), (-4, 4), (12, 12)])
def test_stores_to_elements_of_several_indices_are_refused(strides: tuple[int, int]) -> None:
    memory = np.zeros(64, np.float32)
    x, y = np.ones((3, 4), np.float32), as_strided(memory[16:], (3, 4), strides)
    with pytest.raises(KernelArgumentError, match=r"'y': .* several indices reach the same"):
        kc.launch(stored, (3, 4), [x], [y])
    assert not memory.any()


@pytest.mark.parametrize("strides", [(16, 4), (4, 12), (-24, 8), (20, 4), (8, 12), (0, 4)])
def test_stores_to_elements_of_their_own_run(strides: tuple[int, int]) -> None:
    memory = np.zeros(64, np.float32)
    extents = (1 if strides[0] == 0 else 3, 3)
    y = as_strided(memory[16:], extents, strides)
    kc.launch(stored, extents, [np.ones((3, 3), np.float32)], [y])
    assert memory.sum() == extents[0] * 3
