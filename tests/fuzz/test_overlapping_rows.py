"""Random loops along rows of arrays that share memory: gangs have the interpreter's elements."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.ir.core import Func
from kernelcore.passes.pipeline import optimize
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "96"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
SHARDS = 4
ROWS, WIDTH = 17, 37
# What an iteration reads of its row.
_COLUMNS = ("k", "k", "k", "(k + 1) % m", "kc.min(k + 1, m - 1)", "kc.max(k - 1, 0)", "0")
_LOOPS = ("range(m)", "range(m - 1, -1, -1)", "range(1, m)")


class Program:
    """A kernel whose threads update rows of three arrays, each a view of the same memory."""

    def __init__(self, number: int) -> None:
        self.rng = rng = Random(number)
        lines = [
            "@kc.kernel",
            "def kernel(x: I2, y: I2, z: I2):",
            "    i = kc.tid()",
            "    m = x.shape[1]",
            "    total = 1",
        ]
        for _ in range(rng.choice((1, 1, 2))):
            lines.append(f"    for k in {rng.choice(_LOOPS)}:")
            if rng.random() < 0.5:
                lines.append(f"        total = total * 3 + {self._value()}")
            lines += [
                f"        {rng.choice('xyz')}[i, k] = {self._value()} - {self._value()} * 3 + total"
                for _ in range(rng.choice((1, 1, 2)))
            ]
        self.text = "\n".join(lines)

    def _value(self) -> str:
        return f"{self.rng.choice('xyz')}[i, {self.rng.choice(_COLUMNS)}]"

    def arrays(self) -> list[np.ndarray]:
        """Views of the same memory, near each other or apart; its elements are the same ones."""
        rng = Random(self.text)
        memory = np.arange(ROWS * 4 * WIDTH, dtype=np.int32).reshape(ROWS, -1)
        begins = [rng.choice((0, 1, 2, 11, 16, WIDTH, 3 * WIDTH)) for _ in range(3)]
        return [memory[:, at : at + WIDTH] for at in begins]


def kernel_of(program: Program) -> Func:
    kernel: Any = define(program.text, {"kc": kc, "I2": kc.array2d(dtype=kc.int32)})["kernel"]
    return optimize(kernel.func)


def test_some_programs_have_blocks_along_rows() -> None:
    funcs = [kernel_of(Program(number)) for number in range(FIRST, FIRST + COUNT)]
    assert any(blocked_loops(func, lane_strides(func)) for func in funcs)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_rows_that_overlap_have_the_elements_of_the_interpreter(shard: int) -> None:
    for number in range(FIRST + shard, FIRST + COUNT, SHARDS):
        program = Program(number)
        func, wanted = kernel_of(program), program.arrays()
        interpreter.run(func, wanted, ROWS)
        for lanes in (4, 16):
            found = program.arrays()
            with unoptimised():
                assert launch(func, found, ROWS, lanes=lanes) == abi.STATUS_OK
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other, f"program {number}\n{program.text}")
