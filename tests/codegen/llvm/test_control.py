"""Machine code of kernels against the interpreter: control flow and stacks."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from kernelcore.codegen import abi
from kernelcore.codegen.llvm.stack_records import stack_records
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Func, Var
from kernelcore.language.types import (
    INTEGERS,
    SCALARS,
    ArrayType,
    Scalar,
    StackType,
    boolean,
    float32,
    float64,
    int32,
    int64,
)
from tests.helpers.allocations import launch_with
from tests.helpers.kernel_harness import agree, call, const, elementwise, make, region


def test_an_if_yields_from_the_arm_taken() -> None:
    def write(b: Builder, x: Var) -> list[Atom]:
        cond = call(b, "less", x, const(float64, 0.0))
        then = region(b, [], lambda: [call(b, "neg", x), const(int32, 1)])
        orelse = region(b, [], lambda: [call(b, "mul", x, x), const(int32, 2)])
        return list(b.emit_if(cond, then, orelse))

    func = elementwise(make("choose", [float64], write))
    agree(func, [np.linspace(-2, 2, 9), np.zeros(9), np.zeros(9, np.int32)], 9)


def test_arms_with_stores_yield_nothing() -> None:
    def write(b: Builder, x: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        cond = call(b, "equal", call(b, "mod", i, const(int32, 2)), const(int32, 0))
        then = region(b, [], lambda: b.emit_effect(ops.STORE, x, i, const(int32, 7)))
        b.emit_if(cond, then, region(b, [], lambda: None))

    func = make("evens", [ArrayType(int32, 1)], write, grid_rank=1)
    (found,) = agree(func, [np.zeros(6, np.int32)], 6)
    assert found.tolist() == [7, 0, 7, 0, 7, 0]


def sum_over_range(dtype: Scalar, step: int | None) -> Func:
    """``(start, stop, step) -> (count, sum of indices)``; a literal step if one is given."""

    def write(b: Builder, start: Var, stop: Var, dynamic: Var) -> list[Atom]:
        def iteration(i: Var, count: Var, total: Var) -> list[Atom]:
            return [call(b, "add", count, const(int64, 1)), call(b, "add", total, i)]

        body = region(b, [dtype, int64, dtype], iteration)
        stride = dynamic if step is None else const(dtype, step)
        init = [const(int64, 0), const(dtype, 0)]
        return list(b.emit_for(start, stop, stride, init, body))

    return elementwise(make("sum_over_range", [dtype] * 3, write))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_loops_run_as_often_as_range_says(dtype: Scalar) -> None:
    smallest, largest = dtype.limits
    ranges = [(0, 5, 1), (5, 0, -1), (0, 5, -1), (5, 0, 1), (3, 3, 1), (0, 10, 3), (10, 0, -4)]
    ranges += [(0, 10, 0), (smallest, largest, largest // 4), (largest, smallest, smallest)]
    ranges += [(largest - 2, largest, 5), (smallest + 2, smallest, -1), (-3, 4, 2)]
    ranges += [(largest - 3, largest, 1), (0, largest, largest), (0, 5, largest)]
    ranges = [r for r in ranges if min(r) >= smallest]
    columns = [np.array(c, dtype.numpy) for c in zip(*ranges, strict=True)]
    count, totals = np.zeros(len(ranges), np.int64), np.zeros(len(ranges), dtype.numpy)
    found = agree(sum_over_range(dtype, None), [*columns, count, totals], len(ranges))
    expected = [len(range(*r)) if r[2] else 0 for r in ranges]
    assert found[3].tolist() == expected
    for step in [s for s in (1, -1, 4) if s >= smallest]:
        short = [r for r in ranges if abs(r[0] - r[1]) < 100]
        columns = [np.array(c, dtype.numpy) for c in zip(*short, strict=True)]
        results = [np.zeros(len(short), np.int64), np.zeros(len(short), dtype.numpy)]
        agree(sum_over_range(dtype, step), [*columns, *results], len(short))


def test_nested_loops_carry_outer_values() -> None:
    def write(b: Builder, n: Var) -> list[Atom]:
        zero, one = const(int32, 0), const(int32, 1)

        def outer(i: Var, total: Var) -> list[Atom]:
            def inner(j: Var, subtotal: Var) -> list[Atom]:
                return [call(b, "add", subtotal, call(b, "mul", i, j))]

            return list(b.emit_for(zero, i, one, [total], region(b, [int32, int32], inner)))

        return list(b.emit_for(zero, n, one, [zero], region(b, [int32, int32], outer)))

    func = elementwise(make("triangle", [int32], write))
    agree(func, [np.arange(12, dtype=np.int32), np.zeros(12, np.int32)], 12)


def test_while_loops_stop_on_their_condition() -> None:
    def write(b: Builder, n: Var) -> list[Atom]:
        one = const(int64, 1)

        def odd_step(x: Var) -> list[Atom]:
            return [call(b, "add", call(b, "mul", x, const(int64, 3)), one)]

        def iteration(x: Var, count: Var) -> list[Atom]:
            half = region(b, [], lambda: [call(b, "floordiv", x, const(int64, 2))])
            odd = call(b, "equal", call(b, "mod", x, const(int64, 2)), one)
            (following,) = b.emit_if(odd, region(b, [], lambda: odd_step(x)), half)
            return [following, call(b, "add", count, one)]

        cond = region(b, [int64, int64], lambda x, _: [call(b, "greater", x, one)])
        outs = b.emit_while([n, const(int64, 0)], cond, region(b, [int64, int64], iteration))
        return [outs[1]]

    func = elementwise(make("collatz", [int64], write))
    found = agree(func, [np.array([1, 2, 3, 27]), np.zeros(4, np.int64)], 4)
    assert found[-1].tolist() == [0, 1, 7, 111]


def test_carried_values_may_be_swapped_and_be_constants() -> None:
    def write(b: Builder, n: Var) -> list[Atom]:
        swap = region(b, [int32, float64, float64], lambda i, x, y: [y, x])
        init = [const(float64, 1.0), const(float64, 2.0)]
        return list(b.emit_for(const(int32, 0), n, const(int32, 1), init, swap))

    func = elementwise(make("swap", [int32], write))
    found = agree(func, [np.arange(3, dtype=np.int32), np.zeros(3), np.zeros(3)], 3)
    assert found[1].tolist() == [1, 2, 1]


def reversal(dtype: Scalar) -> Func:
    """``out[i, :] = x[i, ::-1]`` through a stack."""

    def write(b: Builder, x: Var, out: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        stack = b.emit(ops.STACK, dtype=dtype)
        zero, one, n = const(int32, 0), const(int32, 1), b.emit(ops.DIM, x, axis=1)

        def push(j: Var) -> None:
            b.emit_effect(ops.PUSH, stack, b.emit(ops.LOAD, x, i, j))

        def pop(j: Var) -> None:
            b.emit_effect(ops.STORE, out, i, j, b.emit(ops.POP, stack))

        assert isinstance(stack.type, StackType)
        b.emit_for(zero, n, one, [], region(b, [int32], push))
        b.emit_for(zero, n, one, [], region(b, [int32], pop))
        # What is left over must not be seen by the next grid point.
        b.emit_effect(ops.PUSH, stack, b.emit(ops.LOAD, x, i, zero))

    array = ArrayType(dtype, 2)
    return make("reversal", [array, array], write, grid_rank=1)


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_stacks_grow_and_are_empty_at_every_point(dtype: Scalar) -> None:
    values = np.random.default_rng(3).integers(0, 2 if dtype == boolean else 99, (3, 200))
    x = values.astype(dtype.numpy)
    found = agree(reversal(dtype), [x, np.zeros_like(x)], 3)[-1]
    np.testing.assert_array_equal(found, x[:, ::-1])


def two_stacks(is_nested: bool) -> Func:
    """A row backwards plus indices, through two stacks; ``is_nested``: one is popped at once."""

    def write(b: Builder, x: Var, out: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        stacks = [b.emit(ops.STACK, dtype=t) for t in (int32, float64)]
        zero, one, n = const(int32, 0), const(int32, 1), b.emit(ops.DIM, x, axis=1)

        def push(j: Var) -> None:
            b.emit_effect(ops.PUSH, stacks[0], j)
            if is_nested:
                b.emit_for(zero, one, one, [], region(b, [int32], pop_first(j)))
            b.emit_effect(ops.PUSH, stacks[1], b.emit(ops.LOAD, x, i, j))

        def pop_first(j: Var) -> Callable[[Var], None]:
            def pop(_: Var) -> None:
                number = b.emit(ops.CAST, b.emit(ops.POP, stacks[0]), dtype=float64)
                b.emit_effect(ops.STORE, out, i, j, number)

            return pop

        def pop(j: Var) -> None:
            value = b.emit(ops.POP, stacks[1])
            b.emit(ops.ATOMIC_ADD, out, i, j, value)
            if not is_nested:
                number = b.emit(ops.CAST, b.emit(ops.POP, stacks[0]), dtype=float64)
                b.emit(ops.ATOMIC_ADD, out, i, j, number)

        b.emit_for(zero, n, one, [], region(b, [int32], push))
        b.emit_for(zero, n, one, [], region(b, [int32], pop))

    array = ArrayType(float64, 2)
    return make("two_stacks", [array, array], write, grid_rank=1)


@pytest.mark.parametrize("is_nested", [False, True])
def test_stacks_that_are_pushed_and_popped_together_share_memory(is_nested: bool) -> None:
    func = two_stacks(is_nested)
    members = stack_records(func).values()
    assert len({m.record for m in members}) == (2 if is_nested else 1)
    x = np.random.default_rng(3).standard_normal((3, 200))
    numbers = np.arange(200) if is_nested else np.arange(200)[::-1]
    found = agree(func, [x, np.zeros_like(x)], 3)[-1]
    np.testing.assert_array_equal(found, x[:, ::-1] + numbers)


def test_a_stack_that_cannot_grow_fails_the_launch() -> None:
    x = np.ones((3, 200), np.float32)
    out = np.zeros_like(x)
    status = launch_with(STARVED_ALLOCATION, reversal(float32), [x, out], 3)
    assert status == abi.STATUS_OUT_OF_MEMORY
    assert not out.any()


STARVED_ALLOCATION = """\
declare ptr @aligned_alloc(i64, i64)
define internal ptr @tested_allocation(i64 %alignment, i64 %size) {
  %large = icmp ugt i64 %size, 500
  br i1 %large, label %fail, label %pass
pass:
  %data = call ptr @aligned_alloc(i64 %alignment, i64 %size)
  ret ptr %data
fail:
  ret ptr null
}"""


def test_a_loop_makes_room_for_all_that_it_pushes_before_it_starts() -> None:
    text = cpu.llvm_text(two_stacks(False), "roomy", VectorStrategy())
    marks = re.findall(r"^for|call ptr @aligned_alloc", text, re.MULTILINE)
    # In both bodies: room for the records of both stacks, a loop that pushes, one that pops.
    assert marks == ["call ptr @aligned_alloc", "for", "for"] * 2


def test_pushes_at_several_places_ask_for_room_each_time() -> None:
    text = cpu.llvm_text(reversal(float32), "asking", VectorStrategy())
    marks = re.findall(r"^for|call ptr @aligned_alloc", text, re.MULTILINE)
    assert marks == ["for", "call ptr @aligned_alloc", "for", "call ptr @aligned_alloc"] * 2
