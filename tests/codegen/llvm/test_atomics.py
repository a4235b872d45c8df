"""Atomics: machine code does what the interpreter does.

The interpreter runs points in order. What depends on the order is compared with a launch in order;
launches of many threads are held to what does not: sums, extrema, which values there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelcore.builtins import OPS
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Func, Var
from kernelcore.language.types import SCALARS, ArrayType, Scalar, boolean, int32, int64
from tests.helpers import interpreter
from tests.helpers.kernel_harness import agree, call, comparable, const, copies, make, region
from tests.helpers.threads import run, samples

NUMBERS = tuple(s for s in SCALARS if s != boolean)
INTEGERS = tuple(s for s in SCALARS if s.is_integer)
UPDATES = ("min", "max", "bitand", "bitor", "bitxor", "add", "mul", None)
CASES = [
    (dtype, update)
    for dtype in SCALARS
    for update in UPDATES
    if update is None or (dtype.is_integer or (dtype.is_float and not update.startswith("bit")))
]
COUNT = 100_000
# On a GPU a thread that gets one makes all others try again, which takes the square of the number.
TICKETS = 20_000
ZERO = const(int32, 0)


def updating(dtype: Scalar, update: str | None) -> Func:
    """``old[i] = update of target[which[i]] by values[i]``."""

    def write(b: Builder, target: Var, which: Var, values: Var, old: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value, at = b.emit(ops.LOAD, values, i), b.emit(ops.LOAD, which, i)
        entry = None if update is None else OPS[update]
        b.emit_effect(ops.STORE, old, i, b.emit(ops.ATOMIC, target, at, value, update=entry))

    array = ArrayType(dtype, 1)
    return make("updating", [array, ArrayType(int32, 1), array, array], write, 1)


def updates(dtype: Scalar) -> list[Any]:
    """Arguments of ``updating``: 200 updates of five of eight elements."""
    which = np.random.default_rng(1).integers(0, 5, 200).astype(np.int32)
    return [samples(dtype, 8), which, samples(dtype, 200), np.zeros(200, dtype.numpy)]


@pytest.mark.parametrize(("dtype", "update"), CASES, ids=str)
def test_atomic_updates_of_every_dtype_are_those_of_the_interpreter(
    dtype: Scalar, update: str | None
) -> None:
    agree(updating(dtype, update), updates(dtype), 200, in_order=True)


# Sums and products of floats are rounded in their order.
COMMUTATIVE = [(t, u) for t, u in CASES if u in ("min", "max") or (u and t.is_integer)]


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(("dtype", "update"), COMMUTATIVE, ids=str)
def test_concurrent_updates_leave_what_the_interpreter_leaves(dtype: Scalar, update: str) -> None:
    func, args = updating(dtype, update), updates(dtype)
    expected, found = copies(args), copies(args)
    interpreter.run(func, expected, 200)
    run(func, 200, found)
    np.testing.assert_array_equal(comparable(found[0]), comparable(expected[0]))


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_compare_and_swap_compares_bits(dtype: Scalar) -> None:
    def write(b: Builder, target: Var, expected: Var, desired: Var, old: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        operands = [b.emit(ops.LOAD, a, i) for a in (expected, desired)]
        b.emit_effect(ops.STORE, old, i, b.emit(ops.ATOMIC_CAS, target, i, *operands))

    func = make("swap", [ArrayType(dtype, 1)] * 4, write, 1)
    target = samples(dtype, 64)
    expected = np.where(np.arange(64) % 2 == 0, target, np.roll(target, 1)).astype(dtype.numpy)
    desired = samples(dtype, 64)[::-1]
    after, _, _, old = agree(func, [target, expected, desired.copy(), np.zeros_like(target)], 64)
    np.testing.assert_array_equal(comparable(old), comparable(target))
    bits = f"u{dtype.size_bytes}"
    same = target.view(bits) == expected.view(bits)
    np.testing.assert_array_equal(
        after.view(bits), np.where(same, desired.view(bits), old.view(bits))
    )


def adding(dtype: Scalar, every: int) -> Func:
    """Every ``every``-th thread adds one to element 0."""

    def write(b: Builder, target: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        due = call(b, "equal", call(b, "mod", i, const(int32, every)), ZERO)

        def then() -> None:
            b.emit(ops.ATOMIC_ADD, target, ZERO, const(dtype, 1))

        b.emit_if(due, region(b, [], then), region(b, [], lambda: None))

    return make("adding", [ArrayType(dtype, 1)], write, 1)


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_additions_of_many_threads_are_complete(dtype: Scalar) -> None:
    # Floats count exactly as far as their significand reaches; integers wrap.
    every = {"float16": 100, "bfloat16": 1000}.get(dtype.name, 1)
    target = np.zeros(1, dtype.numpy)
    run(adding(dtype, every), COUNT, [target])
    count = COUNT // every
    assert target[0] == (count if dtype.is_float else np.array(count).astype(dtype.numpy))


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("update", ["min", "max"])
def test_extrema_of_many_threads_are_exact(dtype: Scalar, update: str) -> None:
    values = samples(dtype, COUNT)
    values = values[~np.isnan(values)]
    target = values[:1].copy()
    which = np.zeros(len(values), np.int32)
    run(updating(dtype, update), len(values), [target, which, values, np.zeros_like(values)])
    assert target[0] == (min(values) if update == "min" else max(values))


@pytest.mark.usefixtures("four_threads")
def test_exchange_hands_every_value_on_once() -> None:
    values, old = np.arange(1, COUNT + 1, dtype=np.int64), np.zeros(COUNT, np.int64)
    target = np.zeros(1, np.int64)
    run(updating(int64, None), COUNT, [target, np.zeros(COUNT, np.int32), values, old])
    np.testing.assert_array_equal(np.sort(np.append(old, target)), np.arange(COUNT + 1))


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_exchange_of_every_dtype_keeps_all_bits(dtype: Scalar) -> None:
    target, which, values, old = updates(dtype)
    before = target.copy()
    run(updating(dtype, None), 200, [target, which, values, old])
    bits = f"u{dtype.size_bytes}"
    for element in range(len(target)):
        mine = which == element
        found = np.append(old[mine], target[element : element + 1]).view(bits)
        given = np.append(values[mine], before[element : element + 1]).view(bits)
        np.testing.assert_array_equal(np.sort(found), np.sort(given))


@pytest.mark.usefixtures("four_threads")
def test_compare_and_swap_in_a_loop_gives_every_thread_its_own_ticket() -> None:
    def write(b: Builder, counter: Var, ticket: Var) -> None:
        i = b.emit(ops.TID, axis=0)

        def attempt(seen: Var, expected: Var) -> list[Atom]:
            del seen
            more = call(b, "add", expected, const(int32, 1))
            found = b.emit(ops.ATOMIC_CAS, counter, ZERO, expected, more)
            return [call(b, "equal", found, expected), found]

        def goes_on(done: Var, expected: Var) -> list[Atom]:
            del expected
            return [call(b, "logical_not", done)]

        carried = [boolean, int32]
        loop = (region(b, carried, goes_on), region(b, carried, attempt))
        _, found = b.emit_while([const(boolean, False), ZERO], *loop)
        b.emit_effect(ops.STORE, ticket, i, found)

    func = make("tickets", [ArrayType(int32, 1)] * 2, write, 1)
    counter, ticket = np.zeros(1, np.int32), np.zeros(TICKETS, np.int32)
    run(func, TICKETS, [counter, ticket])
    np.testing.assert_array_equal(np.sort(ticket), np.arange(TICKETS))
    assert counter[0] == TICKETS
    agree(func, [np.zeros(1, np.int32), np.zeros(9, np.int32)], 9, in_order=True)
