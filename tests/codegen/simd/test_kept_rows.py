"""Values that several loops along a row compute alike: which are kept, and what must be apart."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.kept_rows import kept_rows
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from kernelcore.ir.op import LOOPS
from kernelcore.ir.verify import verify
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import adjoint_func, launch
from tests.helpers.vectorised.along_rows import softmax
from tests.helpers.vectorised.case import F32, F32_2D


@kc.kernel
def two_values(x: F32_2D, y: F32_2D):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k]) * kc.sin(x[i, k])
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k]) - kc.sin(x[i, k]) * total


@kc.kernel
def cheap(x: F32_2D, y: F32_2D):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] * x[i, k] / total


@kc.kernel
def other_extents(x: F32_2D, y: F32_2D):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k])
    for k in range(y.shape[1]):
        y[i, k] = kc.exp(x[i, k]) / total


@kc.kernel
def written_between(x: F32_2D, y: F32_2D):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += kc.exp(y[i, k])
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(y[i, k]) / total


@kc.kernel
def of_a_sum(x: F32_2D, y: F32_2D):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
        y[i, k] = kc.exp(total)
    for k in range(x.shape[1]):
        y[i, k] += kc.exp(total)


def exponentials(func: Func) -> int:
    inside = (e for e in func.body.eqns if e.op.kind in LOOPS)
    return sum(e.op.name == "exp" for loop in inside for e in walk_eqns(loop.regions[0]))


def test_the_first_loop_alone_computes_a_kept_value() -> None:
    func = optimize(softmax.func)
    found = kept_rows(func)
    assert found is not None
    assert (exponentials(func), exponentials(found.func)) == (2, 1)
    assert found.func.params == (*func.params, *found.rows)
    verify(found.func)
    adjoint = adjoint_func(softmax)
    found = kept_rows(adjoint)
    assert found is not None
    assert (exponentials(adjoint), exponentials(found.func)) == (3, 1)


def test_values_of_one_loop_are_kept_apart() -> None:
    found = kept_rows(optimize(two_values.func))
    assert found is not None
    assert len(found.rows) == 2


@pytest.mark.parametrize(
    "kernel", [cheap, other_extents, written_between, of_a_sum], ids=lambda k: k.name
)
def test_nothing_is_kept(kernel: kc.Kernel) -> None:
    assert kept_rows(optimize(kernel.func)) is None


def test_what_is_written_meanwhile_is_apart() -> None:
    names = [
        {(x.name, y.name) for x, y in found.apart}
        for found in map(kept_rows, (optimize(softmax.func), adjoint_func(softmax)))
        if found is not None
    ]
    assert names == [set(), {("ct_x", "x")}]


@pytest.mark.parametrize("offset", [0, 1, -40])
def test_gradients_that_overlap_what_is_kept(offset: int) -> None:
    """The cotangent of ``x`` has the memory of ``x``, or some of it."""
    func, width = adjoint_func(softmax), 40
    results: list[np.ndarray] = []
    for lanes in (1, 4, 16):
        memory = np.random.default_rng(1).normal(size=(21, 3 * width)).astype(np.float32)
        x, ct_x = (memory[:, width + at : 2 * width + at] for at in (0, offset))
        y, ct_y = np.zeros((2, 21, width), np.float32)
        ct_y[...] = np.linspace(-1.0, 1.0, width)
        assert launch(func, [x, y, ct_x, ct_y], 21, lanes=lanes) == abi.STATUS_OK
        results.append(memory)
    for found in results[1:]:
        np.testing.assert_array_equal(found, results[0])


def test_the_memory_is_made_once_per_call_and_freed() -> None:
    text = cpu.llvm_text(optimize(softmax.func), strategy=VectorStrategy(16))
    assert text.count("call ptr @aligned_alloc") == 1
    assert "call void @free" in text
    assert "aligned_alloc" not in cpu.llvm_text(optimize(cheap.func), strategy=VectorStrategy(16))


@kc.kernel
def with_count(x: F32_2D, y: F32_2D, sums: F32):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k])
    assert total < 1000.0, "small"
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k])
    sums[i] = total


def test_rows_without_elements() -> None:
    assert kept_rows(optimize(with_count.func)) is not None
    x, y = np.zeros((2, 5, 0), np.float32)
    sums = np.ones(5, np.float32)
    kc.launch(with_count, 5, [x, y, sums])
    np.testing.assert_array_equal(sums, np.zeros(5, np.float32))


def test_assertions_between_loops() -> None:
    x, y, sums = np.zeros((37, 40), np.float32), np.zeros((37, 40), np.float32), np.zeros(37)
    kc.launch(with_count, 37, [x, y, sums.astype(np.float32)])
    np.testing.assert_array_equal(y, np.ones((37, 40)))
    x[20] = 30.0
    with pytest.raises(kc.KernelAssertionError, match="small"):
        kc.launch(with_count, 37, [x, y, sums.astype(np.float32)])


@pytest.mark.parametrize("in_place", [False, True])
def test_threads_have_rows_of_their_own(in_place: bool) -> None:
    given = np.random.default_rng(2).normal(size=(4099, 70)).astype(np.float32)
    results: list[np.ndarray] = []
    before = kc.num_threads()
    try:
        for threads in (1, 2, 4):
            kc.set_num_threads(threads)
            x = given.copy()
            y = x if in_place else np.zeros_like(x)
            kc.launch(softmax, len(x), [x, y])
            results.append(y)
    finally:
        kc.set_num_threads(before)
    for found in results[1:]:
        np.testing.assert_array_equal(found, results[0])
    wanted = np.exp(given - given.max(1, keepdims=True, initial=-np.inf).astype(np.float64))
    np.testing.assert_allclose(results[0], wanted / wanted.sum(1, keepdims=True), rtol=2e-6)


def test_the_code_is_the_same_in_every_process() -> None:
    """Pairs of arrays have the order of the program, whatever the addresses of its parts."""
    orders: list[list[str]] = []
    for _ in range(5):
        found = kept_rows(adjoint_func(mixed))
        assert found is not None
        orders.append([x.name for _, x in found.apart])
    assert orders == [orders[0]] * 5
    assert len(orders[0]) > 1


@kc.kernel
def mixed(x: F32_2D, w: F32_2D, z: F32_2D, y: F32_2D):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k] * w[i, k] + z[i, k])
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k] * w[i, k] + z[i, k]) / total
