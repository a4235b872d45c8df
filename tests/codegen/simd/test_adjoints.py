"""Derivatives of vectorised kernels have the bits of scalar code, for every number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.reduction.accumulation import adds_in_order
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import LANES
from kernelcore.operators import derive
from kernelcore.operators.operation import Operation
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import unoptimised
from tests.helpers.operations import run_operation, smooth
from tests.helpers.patterns import PATTERNS, Pattern
from tests.helpers.vectorised.case import COLLAPSE, F32, F32_2D, I32, LOOP, strategy_of
from tests.helpers.vectorised.gangs import attracted
from tests.helpers.vectorised.loops import RADIUS, density, particles
from tests.helpers.vectorised.rows import product
from tests.passes.autodiff.test_derivatives import directions, float_operands, setup

SIZE = 150
POINTS = 500


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def counts(limit: int) -> np.ndarray:
    return np.random.default_rng(4).integers(0, limit, SIZE).astype(np.int32)


@kc.kernel
def chained(x: F32, n: I32, y: F32):
    i = kc.tid()
    v = x[i]
    for k in range(n[i]):
        if v > 0.5:
            v = kc.sin(v) * kc.float32(k + 1)
        elif v > -4.0:
            v = v * v + 0.125
    y[i] = v


@kc.kernel
def nested(x: F32, n: I32, y: F32):
    i = kc.tid()
    v = x[i]
    steps = 0
    while kc.abs(v) < 9.0 and steps < n[i]:
        steps += 1
        v = v * 1.5 + 0.25
        for k in range(i % 3, n[i] % 5):
            if v > 0.5:
                v = kc.sin(v) * kc.float32(k + 1)
            else:
                v += v * v * 0.125
    y[i] = v


@kc.kernel
def waves(x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    v = x[i, j]
    for _ in range(j + 1):
        v = kc.sin(v) + 0.5 * v * v
    y[i, j] = v


def adjoint(kernel: kc.Kernel) -> Operation:
    return derive.vjp(kernel_operation(kernel, ["y"]), [0], [0]).operation


def adjoint_of_density(points: int) -> tuple[Operation, list[Any]]:
    """The adjoint with respect to the points and the radius, and operands for it."""
    op = kernel_operation(density)
    operands = [*particles(points), np.float32(RADIUS), floats(points, seed=1)]
    return derive.vjp(op, [0, 3], range(op.visible)).operation, operands


OF_CHAINED = adjoint(chained), [floats(SIZE), counts(70), floats(SIZE, seed=5)]
OF_NESTED = adjoint(nested), [floats(SIZE), counts(9), floats(SIZE, seed=5)]
DERIVED = {
    "chained": OF_CHAINED,
    "nested_adjoint": (
        derive.vjp(OF_NESTED[0], [0, 2], [0]).operation,
        [*OF_NESTED[1], floats(SIZE, seed=6)],
    ),
    "nested_jvp": (
        derive.jvp(OF_NESTED[0], [0, 2]).operation,
        [*OF_NESTED[1], floats(SIZE, seed=6), floats(SIZE, seed=7)],
    ),
    "waves": (adjoint(waves), [floats(50, 3), floats(50, 3, seed=1)]),
}


@pytest.mark.parametrize("name", DERIVED)
def test_stacks_of_gangs(name: str) -> None:
    op, operands = DERIVED[name]
    want = run_operation(op, operands, lanes=1)
    for lanes in LANES[1:]:
        found = run_operation(op, operands, lanes=lanes)
        for x, y in zip(want, found, strict=True):
            np.testing.assert_array_equal(y, x, f"{lanes} lanes")
    assert np.count_nonzero(want[0]) > SIZE // 2


def test_gangs_of_an_adjoint_continue_in_the_next_row() -> None:
    assert COLLAPSE in strategy_of(optimize(DERIVED["waves"][0].func))


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_adjoints_of_patterns(pattern: Pattern) -> None:
    op, point = setup(pattern)
    wrt = float_operands(op, point)
    base = smooth(op, point, wrt)
    cts = directions(run_operation(op, point), range(op.visible), 1)
    derived = derive.vjp(base.operation, wrt, range(op.visible)).operation
    args = [*base.operands, *cts]
    with unoptimised():
        found, single = (run_operation(derived, args, lanes=lanes) for lanes in (4, 1))
    for x, y in zip(single, found, strict=True):
        if adds_in_order(optimize(derived.func)):
            np.testing.assert_array_equal(y, x)
        else:
            np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12)


def test_vectorised_loops() -> None:
    op, operands = adjoint_of_density(POINTS)
    assert LOOP in strategy_of(optimize(op.func))
    want = run_operation(op, operands, lanes=1)
    found = run_operation(op, operands, lanes=1, loop_lanes=LOOP_LANES)
    for a, b in zip(want, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("points", [POINTS, 20_000])
def test_vectorised_loops_do_not_depend_on_the_threads(points: int) -> None:
    op, operands = adjoint_of_density(points)
    kc.set_num_threads(1)
    want = run_operation(op, operands)
    for one, other in zip(want, run_operation(op, operands, lanes=1), strict=True):
        # Chunks that add to copies of a small array have another order.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    for threads in (2, 8):
        kc.set_num_threads(threads)
        for one, other in zip(want, run_operation(op, operands), strict=True):
            np.testing.assert_array_equal(one, other)


def cotangents(kernel: kc.Kernel, *values: np.ndarray) -> list[np.ndarray]:
    """The cotangents of two inputs, for that of the output."""
    arrays = [kc.array(v.copy()) for v in values]
    cts = [kc.array(np.zeros_like(v)) for v in values[:2]] + [kc.array(values[2].copy())]
    grid = values[2].shape
    kc.launch(kernel, grid, arrays[:2], arrays[2:], cts[:2], cts[2:], adjoint=True)
    return [c.numpy() for c in cts[:2]]


@pytest.mark.parametrize(
    ("m", "k", "n"), [(160, 50, 63), (160, 50, 67), (160, 50, 90), (70, 40, 130)]
)
def test_sums_of_tiles_do_not_depend_on_the_threads(m: int, k: int, n: int) -> None:
    a, b, seed = floats(m, k), floats(k, n, seed=1), floats(m, n, seed=2)
    points = [floats(12 * n, seed=k) for k in range(3)]
    results: list[list[np.ndarray]] = []
    for threads in (1, 2):
        kc.set_num_threads(threads)
        results.append(cotangents(product, a, b, seed) + cotangents(attracted, *points))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
    for found, expected in zip(results[0], (seed @ b.T, a.T @ seed), strict=False):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
