"""Loops that search an array run in an earlier loop over it, unless something keeps them apart."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.core import Func
from kernelcore.ir.op import OpKind
from kernelcore.passes.pipeline import normalize
from kernelcore.passes.simplify.common_subexpressions import merge_equal
from kernelcore.passes.simplify.loop_fusion import fuse_searches
from tests.helpers import interpreter

F2, F1, I1 = kc.array(kc.float64, 2), kc.array(kc.float64, 1), kc.array(kc.int32, 1)


@kc.kernel
def together(x: F2, w: F1, y: F2, at: I1):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
        y[i, k] = 2.0 * x[i, k]
    last = -1
    first = x.shape[1]
    for k in range(x.shape[1]):
        last = kc.max(last, k if x[i, k] > w[i] else -1)
        first = kc.min(first, k if x[i, k] > w[i] else x.shape[1])
    w[i] = total
    at[i] = last - first


@kc.kernel
def needs_the_sum(x: F2, w: F1, y: F2, at: I1):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
    last = -1
    for k in range(x.shape[1]):
        last = kc.max(last, k if x[i, k] > total else -1)
    at[i] = last


@kc.kernel
def written_before(x: F2, w: F1, y: F2, at: I1):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] + w[i] * y[i, x.shape[1] - 1 - k]
    last = -1
    for k in range(x.shape[1]):
        last = kc.max(last, k if y[i, k] > x[i, k] else -1)
    at[i] = last


@kc.kernel
def written_between(x: F2, w: F1, y: F2, at: I1):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
    x[i, 0] = 9.0
    last = -1
    for k in range(x.shape[1]):
        last = kc.max(last, k if x[i, k] > 1.0 else -1)
    at[i] = last
    w[i] = total


@kc.kernel
def other_range(x: F2, w: F1, y: F2, at: I1):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1] - 1):
        total += x[i, k]
    last = -1
    for k in range(x.shape[1]):
        last = kc.max(last, k if x[i, k] > 1.0 else -1)
    at[i] = last
    w[i] = total


@kc.kernel
def carries_a_float(x: F2, w: F1, y: F2, at: I1):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
    top = kc.float64(0.0)
    for k in range(x.shape[1]):
        top = kc.max(top, x[i, k])
    w[i] = total * top


@kc.kernel
def order_counts(x: F2, w: F1, y: F2, at: I1):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
    number = 7
    for k in range(x.shape[1]):
        number = 31 * number + (k if x[i, k] > 0.0 else 1)
    at[i] = number
    w[i] = total


APART = [order_counts, needs_the_sum, written_before, written_between, other_range, carries_a_float]


def loops(func: Func) -> int:
    return sum(eqn.op.kind is OpKind.FOR for eqn in func.body.eqns)


@pytest.mark.parametrize(("kernel", "count"), [(together, 1), *((k, 2) for k in APART)])
@pytest.mark.parametrize("columns", [0, 1, 6])
def test_results_stay(kernel: kc.Kernel, count: int, columns: int) -> None:
    plain = merge_equal(normalize(kernel.func))
    fused = fuse_searches(plain)
    assert (loops(plain), loops(fused)) == (2, count)
    rng = np.random.default_rng(columns)
    if kernel is written_between:
        columns += 1
    given = [rng.normal(size=(4, columns)), rng.normal(size=4), rng.normal(size=(4, columns))]
    runs = [[*(a.copy() for a in given), np.zeros(4, np.int32)] for _ in range(2)]
    for func, arrays in zip((plain, fused), runs, strict=True):
        interpreter.run(func, arrays, (4,))
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)
