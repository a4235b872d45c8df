"""Single threads compute components of private vectors as lanes, with the bits of scalar code."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen.analysis.packs import Pack, Packing
from kernelcore.codegen.simd.cost_model import packs
from kernelcore.codegen.simd.strategy import SCALAR_CODE, VectorStrategy, choose_strategy
from kernelcore.compiler.native_code import strategies_by
from kernelcore.ir.core import Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import adjoint_func, agree

SIZE, STEPS = 6, 5
V = kc.types.vector(length=SIZE, dtype=kc.float64)
PACKED = VectorStrategy(packed_bytes=32)


@kc.kernel
def recurrent(w: kc.array1d[V], x: kc.array1d[V], y: kc.array1d[V]):
    state = w[0]
    for t in range(x.shape[0]):
        for j in range(SIZE):
            state[j] = kc.tanh(state[j] * w[1][j] + x[t][j] * w[2][j])
    y[0] = state


@kc.kernel
def total_of(x: kc.array1d[V], y: kc.array1d[kc.float64]):
    total = kc.float64(0.0)
    a = x[0]
    for j in range(SIZE):
        total += a[j]
    y[0] = total


@kc.kernel
def scattered(at: kc.array1d[int], x: kc.array1d[V], y: kc.array1d[V]):
    i = kc.tid()
    kc.atomic_add(y, at[i], kc.cw_mul(x[i], x[i]))


@kc.kernel
def rewritten(x: kc.array1d[V], y: kc.array1d[V]):
    for t in range(x.shape[0]):
        a = x[t]
        for j in range(SIZE):
            y[t][j] = kc.exp(a[j])
        for j in range(SIZE):
            y[t][j] += kc.exp(x[t][j])


def packed(func: Func) -> Packing:
    return packs(func, PACKED.packed_bytes)


def sizes(packing: Packing, kind: OpKind) -> list[int]:
    """How many lanes the packs of ``kind`` have, in order."""
    items = [item for order in packing.regions.values() for item in order]
    return [len(p.eqns) for p in items if isinstance(p, Pack) and p.kind is kind]


def vectors(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(*shape, SIZE))


def test_kernels_of_one_point_pack_components() -> None:
    func = optimize(recurrent.func)
    assert choose_strategy(func, host()).packed_bytes == host().register_bytes
    pure = [e for e in walk_eqns(func.body) if e.op.name == "tanh"]
    found = packed(func)
    lanes = [p for order in found.regions.values() for p in order if isinstance(p, Pack)]
    assert {e for p in lanes for e in p.eqns} >= set(pure)
    assert set(sizes(found, OpKind.LOAD)) == {4, 2}


def test_loops_carry_vectors() -> None:
    func = optimize(recurrent.func)
    (loop,) = [e for e in walk_eqns(func.body) if e.op.kind is OpKind.FOR]
    assert packed(func).carried[loop] == [(0, 1, 2, 3), (4, 5)]


def test_sums_in_order_are_not_packed() -> None:
    assert choose_strategy(optimize(total_of.func), host()) == SCALAR_CODE


@pytest.mark.parametrize("strided", [False, True])
def test_recurrences_have_the_bits_of_the_interpreter(strided: bool) -> None:
    args = [vectors(3), vectors(STEPS), vectors(1)]
    args = [np.asfortranarray(a) for a in args] if strided else args
    agree(optimize(recurrent.func), args, 1, None, 1, packed_bytes=PACKED.packed_bytes)


def test_loads_stay_between_stores() -> None:
    """``y`` may be ``x``: what a loop loads again is what the one before has stored."""
    func, x = optimize(rewritten.func), vectors(STEPS)
    agree(func, [x, np.zeros_like(x)], 1, None, 1, packed_bytes=PACKED.packed_bytes)
    found = x.copy()
    with strategies_by(lambda func: PACKED):
        kc.launch(rewritten, 1, [found], [found])
    first = np.exp(x)
    np.testing.assert_allclose(found, first + np.exp(first), 1e-14)


def test_adjoints_add_together_to_adjacent_elements() -> None:
    func = adjoint_func(recurrent)
    assert sizes(packed(func), OpKind.ATOMIC_ADD) == [4]
    given = [vectors(3), vectors(STEPS), vectors(1)]
    args = [*given, *(np.zeros_like(a) for a in given[:2]), vectors(1)]
    wanted = agree(func, args, 1, None, 1)
    found = agree(func, args, 1, None, 1, packed_bytes=PACKED.packed_bytes)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_several_threads_add_in_one_order() -> None:
    """By logs, too: ``y`` is too large for copies."""
    points, rows = 40_000, 200_000
    at = np.random.default_rng(1).integers(0, rows // 4, points).astype(np.int32)
    results: list[Any] = []
    for strategy, threads in ((SCALAR_CODE, 1), (PACKED, 1), (PACKED, 2)):
        y = np.zeros((rows, SIZE))
        before = kc.num_threads()
        kc.set_num_threads(threads)
        fresh = kc.Kernel(func=scattered.pyfunc)
        with strategies_by(lambda func, chosen=strategy: chosen):
            kc.launch(fresh, points, [at, vectors(points)], [y])
        kc.set_num_threads(before)
        results.append(y)
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])
