"""Loops that are vectorised run in gangs of threads where a launch has few iterations of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen import abi
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import choose_strategy, short_loops
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from kernelcore.passes.access.accumulation_plan import plan_accumulations
from kernelcore.passes.pipeline import optimize
from tests.bench.strategy_kernels import neighbours
from tests.helpers import interpreter
from tests.helpers.kernel_harness import launch

F32_2D = kc.array2d(dtype=kc.float32)


@kc.kernel
def of_a_length_per_thread(x: F32_2D, at: kc.array2d(dtype=kc.int32), y: F32_2D):
    i = kc.tid()
    for j in range(at[i, 0]):
        total = 0.0
        for k in range(at.shape[1]):
            total += kc.tanh(x[i, j] - x[at[i, k], j])
        y[i, j] = total


@kc.kernel
def of_neighbouring_threads(x: F32_2D, at: kc.array2d(dtype=kc.int32), y: F32_2D):
    i = kc.tid()
    for j in range(x.shape[0]):
        y[j, i] = kc.tanh(x[j, i]) * kc.exp(x[j, i])


def has_short_loops(func: Func) -> bool:
    func = plan_accumulations(func)
    return short_loops(func, choose_strategy(func, host()), host()) is not None


def test_other_kernels_have_no_code_for_them() -> None:
    kernel: Any = neighbours(kc, kc.float32)
    assert has_short_loops(optimize(kernel.func))
    assert "void @kc.short_loops" in cpu.llvm_text(optimize(kernel.func))
    for kernel in (of_a_length_per_thread, of_neighbouring_threads):
        assert not has_short_loops(optimize(kernel.func))


def test_the_report_names_their_gangs() -> None:
    text = str(kc.explain(neighbours(kc, kc.float32)))
    assert "loops of fewer than 8 iterations: gangs of " in text
    assert "loops of fewer than" not in str(kc.explain(of_neighbouring_threads))


@pytest.mark.parametrize("real", ["float32", "float64"])
@pytest.mark.parametrize("columns", [0, 1, LOOP_LANES - 1, LOOP_LANES, 17])
def test_bits_do_not_depend_on_the_length_of_loops(real: str, columns: int) -> None:
    kernel: Any = neighbours(kc, getattr(kc, real))
    func, rng = optimize(kernel.func), np.random.default_rng(columns)
    rows = 40
    x, at = rng.normal(size=(rows, columns)).astype(real), rng.integers(0, rows, (rows, 5))
    wide = rng.normal(size=(rows, 2 * columns)).astype(real)[:, ::2]
    for given in (x, np.asfortranarray(x), wide):
        expected, found = (np.full((rows, columns), np.nan, real) for _ in range(2))
        args = [given, at.astype(np.int32)]
        interpreter.run(func, [*args, expected], rows)
        assert launch(func, [*args, found], rows, [(0, 23), (23, rows)]) == abi.STATUS_OK
        np.testing.assert_array_equal(found, expected)
