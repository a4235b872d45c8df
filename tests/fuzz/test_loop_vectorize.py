"""Random loops: vectorised loops have the bits of the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.loop_dependence import vector_loops
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.compiler.stages import all_derivatives
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy
from tests.fuzz.loop_programs import ELEMENTS, POINTS, LoopProgram
from tests.fuzz.program_arguments import bits
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import is_float, launch

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


def check(func: Func, number: int, oracle: Callable[[list[np.ndarray]], object]) -> None:
    """Run vectorised loops and ``oracle`` on the same arguments, and compare every bit."""
    given = arguments(func, np.random.default_rng(number))
    wanted, found = ([a.copy() for a in given] for _ in "ab")
    oracle(wanted)
    assert launch(func, found, POINTS, None, 1, LOOP_LANES) == abi.STATUS_OK
    for param, one, other in zip(func.params, found, wanted, strict=True):
        assert isinstance(param.type, ArrayType)
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
        adjoint = vjp(kernel.func, *all_derivatives(kernel.func))
        func = optimize(tidy(adjoint.func))
        compared += bool(vector_loops(func))
        try:
            check(func, number, lambda args, func=func: launch(func, args, POINTS, None, 1))
        except AssertionError as error:
            raise AssertionError(f"adjoint of program {number}:\n{program.text}") from error
    assert compared > 0
