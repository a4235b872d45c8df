"""Random loops: machine code that takes several turns at once = the interpreter, bit for bit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import interp
from kernelcore.codegen import abi
from kernelcore.codegen.turns import TURNS
from kernelcore.ir.core import Func
from kernelcore.passes.pipeline import optimize
from kernelcore.passes.turns import loops_in_step
from kernelcore.types import ArrayType
from tests.fuzz.program_arguments import bits
from tests.fuzz.turn_programs import ELEMENTS, POINTS, TurnProgram
from tests.fuzz.typed_programs import define
from tests.kernel_harness import is_float, launch

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "16"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


def arguments(kernel: kc.Kernel, rng: np.random.Generator) -> list[np.ndarray]:
    """Arrays for the parameters of a program: a table of neighbours, and numbers."""
    counts = rng.integers(0, 21, POINTS)
    tables = {
        "start": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "at": rng.integers(0, ELEMENTS, 700).astype(np.int32),
    }
    found: list[np.ndarray] = []
    for param in kernel.func.params:
        assert isinstance(param.type, ArrayType)
        dtype = param.type.dtype.numpy
        shape = (ELEMENTS, *param.type.components)
        numbers: Any = rng.normal(size=shape) if is_float(dtype) else rng.integers(-9, 9, shape)
        found.append(tables[param.name] if param.name in tables else numbers.astype(dtype))
    return found


def check(func: Func, given: list[np.ndarray]) -> None:
    """Run interpreter and machine code on copies of the arguments, and compare every bit."""
    interpreted, compiled = ([a.copy() for a in given] for _ in "ab")
    interp.run(func, interpreted, POINTS)
    assert launch(func, compiled, POINTS, None, 1, TURNS) == abi.STATUS_OK
    for param, found, expected in zip(func.params, compiled, interpreted, strict=True):
        assert isinstance(param.type, ArrayType)
        dtype = param.type.dtype
        for a, b in zip(bits(found, dtype), bits(expected, dtype), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shard", range(8))
def test_turns_in_step_are_single_turns(shard: int) -> None:
    for number in range(FIRST + shard, FIRST + COUNT, 8):
        program = TurnProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = optimize(kernel.func)
        assert loops_in_step(func), program.text
        try:
            check(func, arguments(kernel, np.random.default_rng(number)))
        except AssertionError as error:
            raise AssertionError(f"program {number}:\n{program.text}") from error
