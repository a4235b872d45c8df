"""Records of gangs under a mask: as narrow as the lanes that have points, whatever is pushed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from kernelcore.codegen import abi
from kernelcore.codegen.llvm.stacks import FIRST_CAPACITY_BYTES
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Func, Var
from kernelcore.language.types import (
    ArrayType,
    Scalar,
    boolean,
    float32,
    float64,
    int8,
    int32,
)
from tests.helpers.allocations import launch_with
from tests.helpers.kernel_harness import agree, call, const, make, region

GANG = 8
# Wide fields before and after narrow ones.
WIDTHS = [
    (boolean, float64, int8, float32),
    (float64, boolean, float32),
    (int8, int32, boolean, float64, int8),
    (float32,),
]


def mixture(dtypes: Sequence[Scalar]) -> Func:
    """``out[j, i]``: of all rows in reverse, one value of every type, through a stack for each."""

    def write(b: Builder, x: Var, out: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        stacks = [b.emit(ops.STACK, dtype=t) for t in dtypes]
        zero, one, n = const(int32, 0), const(int32, 1), b.emit(ops.DIM, x, axis=0)

        def push(j: Var) -> None:
            value = b.emit(ops.LOAD, x, j, i)
            for number, (stack, dtype) in enumerate(zip(stacks, dtypes, strict=True)):
                moved = call(b, "add", value, const(float64, number % 2))
                pushed = (
                    call(b, "less", moved, const(float64, 50.0))
                    if dtype == boolean
                    else b.emit(ops.CAST, moved, dtype=dtype)
                )
                b.emit_effect(ops.PUSH, stack, pushed)

        def pop(j: Var) -> None:
            total: Atom = const(float64, 0.0)
            for number, (stack, dtype) in enumerate(zip(stacks, dtypes, strict=True)):
                popped: Atom = b.emit(ops.POP, stack)
                if dtype != float64:
                    popped = b.emit(ops.CAST, popped, dtype=float64)
                weighted = call(b, "mul", popped, const(float64, 1000.0**number))
                total = call(b, "add", total, weighted)
            b.emit_effect(ops.STORE, out, j, i, total)

        b.emit_for(zero, n, one, [], region(b, [int32], push))
        b.emit_for(zero, n, one, [], region(b, [int32], pop))

    array = ArrayType(float64, 2)
    return make("mixture", [array, array], write, grid_rank=1)


def uneven() -> Func:
    """``out[i]``: the sum of ``x[: counts[i], i]`` backwards; lanes push unequally often."""

    def write(b: Builder, x: Var, counts: Var, out: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        values, places = b.emit(ops.STACK, dtype=float64), b.emit(ops.STACK, dtype=int32)
        zero, one, n = const(int32, 0), const(int32, 1), b.emit(ops.LOAD, counts, i)

        def push(j: Var) -> None:
            b.emit_effect(ops.PUSH, places, j)
            b.emit_effect(ops.PUSH, values, b.emit(ops.LOAD, x, j, i))

        def pop(_: Var, total: Var) -> list[Atom]:
            place = b.emit(ops.CAST, b.emit(ops.POP, places), dtype=float64)
            value = call(b, "mul", b.emit(ops.POP, values), place)
            return [call(b, "add", total, value)]

        b.emit_for(zero, n, one, [], region(b, [int32], push))
        start = const(float64, 0.0)
        down, last = const(int32, -1), call(b, "sub", n, one)
        backwards = region(b, [int32, float64], pop)
        (total,) = b.emit_for(last, down, down, [start], backwards, ends_together=True)
        b.emit_effect(ops.STORE, out, i, total)

    params = [ArrayType(float64, 2), ArrayType(int32, 1), ArrayType(float64, 1)]
    return make("uneven", params, write, grid_rank=1)


@pytest.mark.parametrize("dtypes", WIDTHS, ids=str)
@pytest.mark.parametrize("points", [1, 2, 5, GANG, GANG + 3])
def test_fields_of_any_widths_come_back(dtypes: Sequence[Scalar], points: int) -> None:
    x = np.random.default_rng(points).integers(0, 99, (150, points)).astype(np.float64)
    agree(mixture(dtypes), [x, np.zeros_like(x)], points, lanes=GANG)


@pytest.mark.parametrize("chunks", [[(0, 3), (3, 13)], [(0, 13)], [(0, 9), (9, 10), (10, 13)]])
def test_the_width_changes_from_chunk_to_chunk(chunks: Sequence[tuple[int, int]]) -> None:
    x = np.random.default_rng(3).integers(0, 99, (150, 13)).astype(np.float64)
    agree(mixture(WIDTHS[0]), [x, np.zeros_like(x)], 13, chunks, lanes=GANG)


@pytest.mark.parametrize("points", [1, 3, 7])
def test_arrays_of_any_strides_have_narrow_records(points: int) -> None:
    x = np.random.default_rng(3).integers(0, 99, (150, 4 * points)).astype(np.float64)[:, ::4]
    agree(mixture(WIDTHS[0]), [x, np.zeros((150, points))], points, lanes=GANG)


@pytest.mark.parametrize("points", [1, 3, GANG - 1, GANG + 1])
def test_lanes_that_push_unequally_often(points: int) -> None:
    rng = np.random.default_rng(points)
    x, counts = rng.standard_normal((90, points)), rng.integers(0, 90, points, np.int32)
    agree(uneven(), [x, counts, np.zeros(points)], points, lanes=GANG)


def blocks_of_launch(points: int) -> list[int]:
    """The sizes of the blocks that a launch of ``mixture`` of 1000 rows of float32 allocates."""
    x, sizes = np.ones((1000, points)), list[int]()
    out = np.zeros_like(x)
    count = ctypes.CFUNCTYPE(None, ctypes.c_int64)(sizes.append)
    where = ctypes.cast(count, ctypes.c_void_p).value
    allocation = COUNTED_ALLOCATION.replace("COUNT", str(where))
    strategy = VectorStrategy(GANG)
    status = launch_with(allocation, mixture([float32]), [x, out], points, strategy)
    assert status == abi.STATUS_OK
    np.testing.assert_array_equal(out, x)
    return sizes


COUNTED_ALLOCATION = """\
declare ptr @aligned_alloc(i64, i64)
define internal ptr @tested_allocation(i64 %alignment, i64 %size) {
  call void inttoptr (i64 COUNT to ptr)(i64 %size)
  %data = call ptr @aligned_alloc(i64 %alignment, i64 %size)
  ret ptr %data
}"""


def test_few_points_take_the_memory_of_few_lanes() -> None:
    element = 4
    for points in (1, 3):
        # And a gang's last record, which is stored with all lanes.
        (size,) = blocks_of_launch(points)
        assert size <= max(FIRST_CAPACITY_BYTES, 1000 * points * element + GANG * element + 63)
    assert blocks_of_launch(GANG) == [1000 * GANG * element]
