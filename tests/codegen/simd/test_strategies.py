"""Every way to vectorise a kernel gives the bits of the interpreter, whatever the grid and arrays.

``tests/helpers/vectorised`` holds the kernels, and the strategy that each must take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.config import config
from kernelcore.codegen import abi
from kernelcore.codegen.llvm import points
from kernelcore.codegen.simd import bodies
from kernelcore.codegen.simd.bodies import MANY_GANGS, Bodies
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import LANES, VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from kernelcore.ir.op import LOOPS
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.pipeline import optimize
from tests.helpers import interpreter
from tests.helpers.kernel_harness import agree, comparable, copies, launch, parts_of, unoptimised
from tests.helpers.vectorised import CASES, along_rows, gangs, independent, loops, middles, rows
from tests.helpers.vectorised.case import (
    F32,
    F32_2D,
    IDEMPOTENT,
    INDEPENDENT,
    LOOP,
    NONE,
    SCALAR,
    SHORT_ROWS,
    TILE,
    TWO_LOOPS,
    Case,
    Grid,
    Strategy,
    chunks_of,
    strategy_of,
)


def has_no_loops(func: Func) -> bool:
    return not any(eqn.op.kind in LOOPS for eqn in walk_eqns(func.body))


cases = pytest.mark.parametrize("case", CASES, ids=repr)
Chunks = Sequence[tuple[int, int]] | None


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@cases
def test_strategy(case: Case) -> None:
    assert strategy_of(case.func) == case.strategy


@pytest.mark.parametrize(
    ("kernels", "refused"),
    [
        (rows.UNTILED, TILE),
        (loops.SEQUENTIAL, LOOP | TWO_LOOPS),
        (independent.DEPENDENT, INDEPENDENT),
    ],
)
def test_refused_strategy(kernels: Sequence[kc.Kernel], refused: Strategy) -> None:
    for kernel in kernels:
        assert strategy_of(optimize(kernel.func)) & refused == NONE, kernel.name


def run(
    case: Case, values: Sequence[Any], grid: Grid, chunks: Chunks, form: VectorStrategy
) -> list[Any]:
    """The arguments after a launch of machine code."""
    args = copies(values)
    status = launch(case.func, args, grid, chunks, *parts_of(form))
    assert status == abi.STATUS_OK
    return args


@cases
def test_bits(case: Case) -> None:
    changed: set[int] = set()
    for grid in case.grids:
        values = case.values(grid)
        interpreted = copies(values)
        if case.oracle is None:
            interpreter.run(case.func, interpreted, grid)
        for chunks in chunks_of(grid):
            expected = interpreted
            if case.oracle is not None:
                expected = run(case, values, grid, chunks, case.oracle)
            for k, (a, b) in enumerate(zip(values, expected, strict=True)):
                changed |= set() if np.array_equal(comparable(a), comparable(b)) else {k}
            for form in (SCALAR, *case.forms) if case.oracle is None else case.forms:
                for name, args in case.layouts(values):
                    found = run(case, args, grid, chunks, form)
                    for a, b in zip(found, expected, strict=True):
                        if np.asarray(a).tobytes() == np.asarray(b).tobytes():
                            continue
                        message = f"{form}, grid {grid}, chunks {chunks}, {name}"
                        np.testing.assert_array_equal(comparable(a), comparable(b), message)
    assert changed, "the kernel changes nothing"


@pytest.mark.parametrize("case", [c for c in CASES if has_no_loops(c.func)], ids=repr)
def test_gathered_elements_are_those_that_are_loaded_one_by_one(case: Case) -> None:
    for grid, form in product(case.grids, case.forms):
        values = case.values(grid)
        one_by_one, gathered = (
            run(case, values, grid, None, replace(form, gathers=gathers))
            for gathers in (False, True)
        )
        for a, b in zip(gathered, one_by_one, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), f"{form}, grid {grid}"


@pytest.mark.parametrize("case", middles.ADDING, ids=repr)
def test_sums_in_the_middle_of_rows_have_the_order_of_other_gangs(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "optimize", False)
    assert strategy_of(case.func) & Strategy.MIDDLE
    results: list[list[Any]] = []
    # Elements have 4 bytes: the code is the same, and its key another one.
    for least in (1, 4):
        if results:
            monkeypatch.setattr(bodies, "gaining_middle", lambda _: None)
        forms = [replace(form, least_masked_bytes=least) for form in case.forms]
        results.append(
            [
                run(case, case.values(grid), grid, chunks, form)
                for grid, form in product(case.grids, forms)
                for chunks in chunks_of(grid)
            ]
        )
    for found, expected in zip(*results, strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(comparable(a), comparable(b))


@kc.kernel
def of_rows(x: F32_2D, row: F32, column: F32, y: F32_2D):
    i, j = kc.tid()
    v = x[i, j] * row[i] + column[j]
    steps = 0
    while kc.abs(v) < 4.0 and steps < 9:
        steps += 1
        v = v * 1.5 + kc.float32(j)
        if steps > i % 5:
            v += kc.sin(v)
    for k in range(j % 3):
        v += x[i, k]
    if v > 0.0 or i % 2 == 1:
        y[i, j] = v


def test_gangs_of_loops_and_branches_continue_in_the_next_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collapsing = Bodies(collapse_limit=MANY_GANGS)
    monkeypatch.setattr(points, "bodies_for", lambda *_: collapsing)
    func = optimize(of_rows.func)
    for lanes in (4, 16, 64):
        for shape in SHORT_ROWS:
            x, y = floats(*shape), floats(*shape, seed=2)
            agree(func, [x, floats(shape[0]), floats(shape[1], seed=1), y], shape, None, lanes)


@kc.kernel
def checked(x: F32, y: F32):
    i = kc.tid()
    if i > 20:
        assert x[i] < 2.0
    y[i] = x[i]


@pytest.mark.parametrize("lanes", LANES)
def test_an_assertion_fails_in_any_lane(lanes: int) -> None:
    func, x = optimize(checked.func), np.zeros(150, np.float32)
    assert launch(func, [x, x.copy()], x.shape, lanes=lanes) == abi.STATUS_OK
    x[3] = 9.0
    assert launch(func, [x, x.copy()], x.shape, lanes=lanes) == abi.STATUS_OK
    x[140] = 9.0
    assert launch(func, [x, x.copy()], x.shape, lanes=lanes) == abi.STATUS_FIRST_ASSERTION


@kc.kernel
def added_columns(x: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = x[i, j]
    for k in range(b.shape[0]):
        total += b[k, j]
    c[i, j] = total


@pytest.mark.parametrize("width", range(1, 10))
def test_gangs_that_overlap_do_not_read_their_own_stores(width: int) -> None:
    """One array is read and written under two names."""
    func, b = optimize(added_columns.func), floats(5, width)
    assert IDEMPOTENT in strategy_of(func)
    before = floats(4, width, seed=1)
    expected, found = before.copy(), before.copy()
    assert launch(func, [before, b, expected], (4, width), lanes=1) == abi.STATUS_OK
    assert launch(func, [found, b, found], (4, width), lanes=4, tile_rows=4) == abi.STATUS_OK
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [1, 5, 9, 63, 65, 150])
def test_masked_remainders_of_one_array_under_two_names(size: int) -> None:
    func = optimize(gangs.convolved.func)
    x, w, before = floats(size + 2), floats(3, seed=1), floats(size, seed=2)
    *_, expected = agree(func, [x, w, before, floats(size)], size, None, 4)
    for lanes in (4, 64):
        found = before.copy()
        assert launch(func, [x, w, found, found], size, None, lanes) == abi.STATUS_OK
        np.testing.assert_array_equal(found, expected)


@kc.kernel
def halved(x: F32_2D, y: F32_2D):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = 0.5 * x[i, k]


@kc.kernel
def wrapped(x: F32_2D, y: F32_2D):
    # What is stored is also read at another index: no stream of a block, unlike ``x``.
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total = 0.5 * y[i, (k + 1) % x.shape[1]] + total
        y[i, k] = x[i, k] + kc.sin(total)


@pytest.mark.parametrize("offset", [-1, 0, 1, 3])
@pytest.mark.parametrize("kernel", [halved, wrapped, along_rows.softmax], ids=lambda k: k.name)
def test_blocks_of_rows_that_overlap(kernel: kc.Kernel, offset: int) -> None:
    """Iterations see what earlier ones of their thread have stored under another name."""
    func, width = optimize(kernel.func), 37
    results: list[np.ndarray] = []
    for lanes in (1, 4, 16):
        memory = floats(21, width + 6)
        x, y = (memory[:, 3 + at : 3 + at + width] for at in (0, offset))
        assert launch(func, [x, y], 21, lanes=lanes) == abi.STATUS_OK
        results.append(memory)
    for found in results[1:]:
        np.testing.assert_array_equal(found, results[0])


@pytest.mark.parametrize("offset", [-33, -1, 0, 1, 40])
def test_independent_iterations_whose_arrays_overlap(offset: int) -> None:
    """Iterations see what earlier ones have stored under another name."""
    func, width = optimize(independent.gathered.func), 40
    results: list[np.ndarray] = []
    for loop_lanes in (1, LOOP_LANES):
        memory = floats(12, 120)
        x, y = (memory[:, 35 + at : 35 + at + width] for at in (0, offset))
        args = [np.arange(12, dtype=np.int32), x[:, :-1], np.int32(1), y]
        assert launch(func, args, 12, lanes=1, loop_lanes=loop_lanes) == abi.STATUS_OK
        results.append(memory)
    one_by_one, together = results
    np.testing.assert_array_equal(together, one_by_one)


MAT33 = kc.matrix((3, 3), kc.int32)


@kc.kernel
def kept(x: kc.array(dtype=MAT33), y: kc.array(dtype=kc.float16)):
    i = kc.tid()
    x[i] = x[i]
    y[i] = y[i]


def test_unoptimised_gangs_of_elements_that_are_loaded_by_registers() -> None:
    x, y = np.arange(19 * 9, dtype=np.int32).reshape(19, 3, 3), floats(19).astype(np.float16)
    with unoptimised():
        agree(optimize(kept.func), [x, y], 19, lanes=8)


@kc.kernel
def divided(x: kc.array1d[Any], by: Any, quotients: kc.array1d[Any], rests: kc.array1d[Any]):
    i = kc.tid()
    quotients[i] = x[i] // by
    rests[i] = x[i] % by


@pytest.mark.parametrize("dtype", [kc.int8, kc.int32, kc.int64, kc.uint32], ids=str)
def test_quotients_by_a_shared_number(dtype: Any) -> None:
    array = kc.array(dtype, 1)
    func = optimize(divided.overload([array, dtype, array, array]).func)
    assert "quotient_same" in cpu.llvm_text(func, strategy=VectorStrategy(16))
    lowest, highest = (int(n) for n in (np.iinfo(dtype.name).min, np.iinfo(dtype.name).max))
    rng, steps = np.random.default_rng(0), np.arange(70).astype(dtype.name)
    divisors = {
        0,
        1,
        3,
        64,
        highest,
        highest // 2 + 1,
        lowest,
        lowest + 1,
        *(-1, -7) * (lowest < 0),
    }
    for by in sorted(divisors):
        for start in (lowest, max(lowest, -20), 0, 3, highest - 30):
            # Indices of neighbours wrap at the ends of the type.
            first = np.array([start]).astype(dtype.name)
            drawn = rng.integers(lowest, highest, 70, dtype.name, endpoint=True)
            for x in (first + steps, first - steps, first + steps % 2 * highest, drawn):
                x = x.astype(dtype.name)
                with np.errstate(all="ignore"):
                    divisor = np.asarray(by, dtype.name)[()]
                    expected = x // divisor, x % divisor
                for gang in (4, 16, 64):
                    args = [x, divisor, np.zeros_like(x), np.zeros_like(x)]
                    assert launch(func, args, (70,), None, gang) == abi.STATUS_OK
                    np.testing.assert_array_equal(args[2], expected[0], f"{x} // {by}")
                    np.testing.assert_array_equal(args[3], expected[1], f"{x} % {by}")


def test_indices_that_wrap_between_the_threads_of_a_gang() -> None:
    @kc.kernel
    def first(x: F32, y: F32):
        y[kc.tid()] = x[(kc.tid() * 65536 + x.shape[0]) * 65536]

    x, y = floats(65536), np.zeros(64, np.float32)
    assert launch(optimize(first.func), [x, y], (64,), None, 8, 1, 1, 1) == abi.STATUS_OK
    np.testing.assert_array_equal(y, x[0])


@pytest.mark.parametrize("gang", [2, 4, 8])
def test_additions_to_neighbours_beyond_a_gang(gang: int) -> None:
    @kc.kernel
    def spread(k: kc.array[kc.int64], c: kc.array[kc.int64]):
        i = kc.tid()
        kc.atomic_add(c, i, k[i])
        kc.atomic_add(c, i + 3, 2 * k[i])

    k = np.arange(1, 40, dtype=np.int64)
    wanted = np.zeros(42, np.int64)
    wanted[:39] += k
    wanted[3:] += 2 * k
    c = np.zeros(42, np.int64)
    assert launch(optimize(spread.func), [k, c], (39,), None, gang, 1, 1, 1) == abi.STATUS_OK
    np.testing.assert_array_equal(c, wanted)
