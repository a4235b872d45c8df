"""Sums on devices: threads of a warp and of a block add up first, and one atomic adds the total."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.gpu.ptx import ptx_text
from kernelcore.passes.access.accumulation_plan import Order, fixed_order
from kernelcore.passes.pipeline import optimize, standalone
from tests.device import engine
from tests.helpers import interpreter

ATOMIC = re.compile(r"^\s*(atom|red)\.", re.MULTILINE)
DTYPES = ("int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64")
SIZE = 500


@kc.kernel
def total(x: kc.array(dtype=Any), out: kc.array(dtype=Any)):
    i = kc.tid()
    kc.atomic_add(out, 1, x[i])


@kc.kernel
def some(x: kc.array(dtype=float), at: int, out: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] < 8.0
    if x[i] > 1.0:
        kc.atomic_add(out, at, x[i])


@kc.kernel
def of_rows(x: kc.array2d(dtype=kc.float64), out: kc.array(dtype=kc.float64)):
    i, j = kc.tid()
    kc.atomic_add(out, i, x[i, j])
    for k in range(3):
        kc.atomic_add(out, k, 1.0)


def narrow_total(x: np.ndarray) -> Any:
    """Whole numbers, whose sum is exact in any order."""
    return x.astype(np.int64).sum().astype(x.dtype)


@pytest.mark.parametrize("threads", [1, 32, 75])
@pytest.mark.parametrize("name", DTYPES)
def test_a_block_adds_its_total_once(name: str, threads: int) -> None:
    dtype = getattr(kc, name)
    func = optimize(total.overload([kc.array(dtype=dtype), kc.array(dtype=dtype)]).func)
    size = 90 if dtype.bits <= 16 else SIZE
    x = np.random.default_rng(0).integers(0, 3, size).astype(dtype.numpy)
    out = np.zeros(3, dtype.numpy)
    assert engine.run(func, [x, out], size, 3, threads) == abi.STATUS_OK
    assert out.astype(float).tolist() == [0.0, float(narrow_total(x)), 0.0]


def test_the_code_of_a_total_has_one_atomic_after_the_loop() -> None:
    func = optimize(some.func)
    text = ptx_text(func, "some", "sm_80")
    assert len(ATOMIC.findall(text)) == 2, "the total, and the status of the assertion"
    *_, after = text.split("shfl.sync")
    assert "red." in after or "atom." in after
    assert "shfl" not in ptx_text(standalone(some.func), "some", "sm_80")


def test_elements_that_no_thread_adds_to_are_not_touched() -> None:
    """The index would lie outside."""
    x, out = np.zeros(SIZE, np.float32), np.zeros(1, np.float32)
    func = optimize(some.func)
    assert engine.run(func, [x, 1 << 30, out], SIZE) == abi.STATUS_OK
    x[::100] = 2.0
    assert engine.run(func, [x, 0, out], SIZE, blocks=3) == abi.STATUS_OK
    assert out[0] == 10.0


def test_threads_that_fail_do_not_keep_their_block_waiting() -> None:
    x, out = np.full(SIZE, 3.0, np.float32), np.zeros(1, np.float32)
    x[::7] = 9.0
    status = engine.run(optimize(some.func), [x, 0, out], SIZE, threads=64)
    assert status == abi.STATUS_FIRST_ASSERTION


@pytest.mark.parametrize("is_converged", [False, True])
@pytest.mark.parametrize("columns", [7, 32, 128])
def test_a_warp_that_meets_at_one_element_adds_once(columns: int, is_converged: bool) -> None:
    func = optimize(of_rows.func)
    x = np.random.default_rng(0).normal(size=(8, columns))
    out = np.zeros(8)
    # All warps are full in the case in which their threads are said to stay together.
    engine.run(func, [x, out], x.shape, blocks=1, is_converged=is_converged and columns > 7)
    wanted = x.sum(1) + x.size * (np.arange(8) < 3)
    np.testing.assert_allclose(out, wanted, rtol=1e-13)
    text = ptx_text(func, "of_rows", "sm_75")
    assert text.count("match.all.sync.b64") >= 1
    assert text.count("activemask") >= 1


def sums_in_order(threads: int, blocks: int) -> list[bytes]:
    """The bits of a total and of sums of rows, of numbers whose sum depends on the order."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 7.9, SIZE).astype(np.float32)
    out, rows = np.zeros(1, np.float32), np.zeros(8)
    table = rng.normal(size=(8, 33)) * 10.0 ** rng.integers(-9, 9, (8, 33))
    engine.run(optimize(some.func), [x, 0, out], SIZE, blocks, threads, order=Order.BLOCK)
    func = optimize(of_rows.func)
    engine.run(func, [table, rows], table.shape, blocks, threads, order=Order.THREAD)
    expected = np.zeros(8)
    interpreter.run(func, [table, expected], table.shape)
    assert rows.tobytes() == expected.tobytes()
    np.testing.assert_allclose(out[0], x[x > 1].sum(dtype=np.float64), rtol=1e-5)
    return [out.tobytes(), rows.tobytes()]


def test_sums_in_one_order_do_not_depend_on_the_blocks() -> None:
    first = sums_in_order(64, 1)
    assert sums_in_order(64, 2) == sums_in_order(64, 5) == first


def test_who_runs_kernels_that_add_in_one_order() -> None:
    integers = total.overload([kc.array(dtype=int), kc.array(dtype=int)])
    narrow = total.overload([kc.array(dtype=kc.float16), kc.array(dtype=kc.float16)])
    for kernel, order in (
        *((integers, Order.ANY), (some, Order.BLOCK)),
        *((narrow, Order.THREAD), (of_rows, Order.THREAD)),
    ):
        assert fixed_order(optimize(kernel.func)) is order
        assert fixed_order(standalone(kernel.func)) in (Order.ANY, Order.THREAD)
