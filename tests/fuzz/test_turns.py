"""Random loops: machine code that takes several turns at once = the interpreter, bit for bit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.turns import TURNS
from kernelcore.passes.pipeline import optimize
from kernelcore.passes.turns import loops_in_step
from kernelcore.types import ArrayType
from tests.fuzz.turn_programs import ELEMENTS, POINTS, TurnProgram
from tests.fuzz.typed_programs import define
from tests.kernel_harness import agree, is_float

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "24"))
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


@pytest.mark.parametrize("shard", range(8))
def test_turns_in_step_are_single_turns(shard: int) -> None:
    for number in range(FIRST + shard, FIRST + COUNT, 8):
        program = TurnProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = optimize(kernel.func)
        assert loops_in_step(func), program.text
        try:
            agree(func, arguments(kernel, np.random.default_rng(number)), POINTS, None, 1, TURNS)
        except AssertionError as error:
            raise AssertionError(f"program {number}:\n{program.text}") from error
