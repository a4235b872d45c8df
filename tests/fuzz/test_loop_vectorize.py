"""Random loops: vectorised ones, and blocks along rows, have the bits of the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.loop_dependence import vector_loops
from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.simd.cost_model import outer_loops
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import has_vector_form, loops_in_parts
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType
from kernelcore.passes.pipeline import optimize
from tests.fuzz.loop_programs import (
    ELEMENTS,
    POINTS,
    CollectingProgram,
    ColumnProgram,
    LoopProgram,
    OwnLengthProgram,
    RowProgram,
)
from tests.fuzz.program_arguments import bits, row_arguments
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import adjoint_func, copies, is_float, launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "16"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


def arguments(func: Func, rng: np.random.Generator) -> list[np.ndarray]:
    """Arrays for the parameters of a program: a table of neighbours, and numbers."""
    counts = rng.integers(0, 21, POINTS)
    tables = {
        "start": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "at": rng.integers(0, ELEMENTS, 700).astype(np.int32),
    }
    found: list[np.ndarray] = []
    for param in func.params:
        assert isinstance(param.type, ArrayType)
        dtype = param.type.dtype.numpy
        shape = (ELEMENTS, *param.type.components)
        numbers: Any = rng.normal(size=shape) if is_float(dtype) else rng.integers(-9, 9, shape)
        found.append(tables[param.name] if param.name in tables else numbers.astype(dtype))
    return found


def check(func: Func, number: int, oracle: Callable[[list[Any]], object]) -> None:
    """Run vectorised loops and ``oracle`` on the same arguments, and compare every bit."""
    compare(func, arguments(func, np.random.default_rng(number)), oracle, 1, LOOP_LANES)


def compare(
    func: Func,
    given: Sequence[Any],
    oracle: Callable[[list[Any]], object],
    gang: int,
    loop_lanes: int = 1,
    least_masked_bytes: int = 1,
) -> None:
    """Run a strategy and ``oracle`` on the arguments ``given``, and compare every bit."""
    wanted, found = copies(given), copies(given)
    oracle(wanted)
    status = launch(func, found, POINTS, None, gang, loop_lanes, 1, least_masked_bytes)
    assert status == abi.STATUS_OK
    for param, one, other in zip(func.params, found, wanted, strict=True):
        if not isinstance(param.type, ArrayType):
            continue
        dtype = param.type.dtype
        for a, b in zip(bits(one, dtype), bits(other, dtype), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shard", range(8))
def test_vectorised_loops_have_the_bits_of_the_interpreter(shard: int) -> None:
    for number in range(FIRST + shard, FIRST + COUNT, 8):
        program = LoopProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = optimize(kernel.func)
        assert vector_loops(func), program.text
        try:
            check(func, number, lambda args, func=func: interpreter.run(func, args, POINTS))
        except AssertionError as error:
            raise AssertionError(f"program {number}:\n{program.text}") from error


@pytest.mark.parametrize("shard", range(4))
def test_adjoints_of_vectorised_loops_have_the_bits_of_scalar_code(shard: int) -> None:
    compared = 0
    for number in range(FIRST + shard, FIRST + COUNT // 2, 4):
        program = LoopProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = adjoint_func(kernel)
        compared += bool(vector_loops(func))
        try:
            check(func, number, lambda args, func=func: launch(func, args, POINTS, None, 1))
        except AssertionError as error:
            raise AssertionError(f"adjoint of program {number}:\n{program.text}") from error
    assert compared > 0


@pytest.mark.parametrize("shard", range(8))
def test_blocks_along_rows_have_the_bits_of_the_interpreter(shard: int) -> None:
    in_blocks = 0
    for number in range(FIRST + shard, FIRST + 2 * COUNT, 8):
        program = RowProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = optimize(kernel.func)
        in_blocks += bool(blocked_loops(func, lane_strides(func)))
        gang, least = ((4, 1), (16, 1), (64, 1), (16, 4))[number // 8 % 4]
        given = row_arguments(func, np.random.default_rng(number))
        try:
            with unoptimised() if number % 8 else nullcontext():
                run = partial(interpreter.run, func, grid_dims=POINTS)
                compare(func, given, run, gang, 1, least)
        except AssertionError as error:
            raise AssertionError(f"program {number}:\n{program.text}") from error
    assert in_blocks > 0


@pytest.mark.parametrize("shard", range(8))
def test_sums_and_extrema_of_rows_have_the_bits_of_the_interpreter(shard: int) -> None:
    in_parts = 0
    for number in range(FIRST + shard, FIRST + 2 * COUNT, 8):
        program = (CollectingProgram, OwnLengthProgram)[number // 8 % 3 == 2](number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = optimize(kernel.func)
        in_parts += bool(loops_in_parts(func))
        gang, least = ((1, 1), (4, 1), (16, 1), (64, 1), (16, NO_MASKS))[number // 8 % 5]
        lanes = 1 if has_vector_form(func) else LOOP_LANES
        given = row_arguments(func, np.random.default_rng(number), width=program.width)
        try:
            with unoptimised() if number % 8 else nullcontext():
                run = partial(interpreter.run, func, grid_dims=POINTS)
                compare(func, given, run, gang if lanes == 1 else 1, lanes, least)
        except AssertionError as error:
            raise AssertionError(f"program {number}:\n{program.text}") from error
    assert in_parts > 0


def test_programs_have_rows_of_their_own_length() -> None:
    programs = (OwnLengthProgram(number) for number in range(FIRST, FIRST + 60))
    kernels = (define(program.text, {"kc": kc})["kernel"] for program in programs)
    assert sum(not has_vector_form(optimize(kernel.func)) for kernel in kernels) >= 6


@pytest.mark.parametrize("shard", range(8))
def test_independent_iterations_have_the_bits_of_the_interpreter(shard: int) -> None:
    for number in range(FIRST + shard, FIRST + 2 * COUNT, 8):
        program = ColumnProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = optimize(kernel.func)
        assert outer_loops(func), program.text
        least = (1, 4, NO_MASKS)[number // 8 % 3]
        given = row_arguments(func, np.random.default_rng(number))
        try:
            with unoptimised() if number % 8 else nullcontext():
                run = partial(interpreter.run, func, grid_dims=POINTS)
                compare(func, given, run, 1, LOOP_LANES, least)
        except AssertionError as error:
            raise AssertionError(f"program {number}:\n{program.text}") from error


@pytest.mark.parametrize("shard", range(4))
def test_blocks_of_adjoints_along_rows_have_the_bits_of_gathers(shard: int) -> None:
    compared = 0
    for number in range(FIRST + shard, FIRST + COUNT, 4):
        program = RowProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        try:
            func = adjoint_func(kernel)
        except kc.KernelGradError:
            continue
        compared += bool(blocked_loops(func, lane_strides(func)))
        given = row_arguments(func, np.random.default_rng(number))
        try:
            with unoptimised():
                gathers = partial(launch, func, dims=POINTS, lanes=16, least_masked_bytes=NO_MASKS)
                compare(func, given, gathers, 16)
        except AssertionError as error:
            raise AssertionError(f"adjoint of program {number}:\n{program.text}") from error
    assert compared > 0


@pytest.mark.parametrize("shard", range(4))
def test_adjoints_of_strided_arrays_have_the_bits_of_dense_ones(shard: int) -> None:
    compared = 0
    for number in range(FIRST + shard, FIRST + COUNT, 4):
        program = (RowProgram, LoopProgram)[number // 4 % 2](number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        try:
            func = adjoint_func(kernel)
        except kc.KernelGradError:
            continue
        if not has_vector_form(func):
            continue
        compared += 1
        rng = np.random.default_rng(number)
        given = (row_arguments if isinstance(program, RowProgram) else arguments)(func, rng)
        with unoptimised():
            dense, strided = copies(given), [spread(a, rng) for a in given]
            assert launch(func, dense, POINTS, lanes=16) == abi.STATUS_OK
            assert launch(func, strided, POINTS, lanes=16) == abi.STATUS_OK
        for param, a, b in zip(func.params, strided, dense, strict=True):
            if isinstance(param.type, ArrayType):
                message = f"{param.name} of the adjoint of program {number}:\n{program.text}"
                dtype = param.type.dtype
                np.testing.assert_array_equal(bits(a, dtype), bits(b, dtype), message)
    assert compared > 0


def spread(value: Any, rng: np.random.Generator) -> Any:
    """A copy of ``value``, of other strides at times."""
    if np.ndim(value) == 0:
        return value
    if rng.random() < 0.3:
        return np.asfortranarray(value).copy(order="F")
    step = int(rng.choice((2, -1)))
    view = np.zeros((*value.shape[:-1], 2 * value.shape[-1]), value.dtype)[..., ::step]
    view = view[..., : value.shape[-1]]
    view[...] = value
    return view
