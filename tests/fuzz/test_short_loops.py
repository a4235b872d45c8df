"""Random loops over scattered rows: launches with few iterations have the interpreter's bits."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen import abi
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import choose_strategy, short_loops
from kernelcore.ir.core import Func
from kernelcore.language.types import float32
from kernelcore.passes.pipeline import optimize
from tests.fuzz.program_arguments import bits
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import copies, launch

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "4"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
POINTS = 37
# What an iteration reads: of the row of the thread, of one that is anywhere, of none.
_READ = ("x[i, j]", "x[at[i, 1], j]", "w[j]", "y[i, j]", "x[i, 0]")


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


class Program:
    """A kernel whose threads go along rows of their own, with loops over rows anywhere inside."""

    def __init__(self, number: int) -> None:
        self.rng = rng = Random(number)
        lines = [
            "@kc.kernel",
            "def kernel(x: F2, at: I2, w: F1, y: F2):",
            "    i = kc.tid()",
        ]
        for _ in range(rng.choice((1, 1, 2))):
            lines.append(f"    for j in range({rng.choice(('w.shape[0]', '1, x.shape[1]'))}):")
            lines.append(f"        total = {self._value(1)}")
            if rng.random() < 0.7:
                lines.append(f"        for k in range({rng.choice(('at.shape[1]', '3'))}):")
                term = f"kc.tanh({self._value(1)} - x[at[i, k], j])"
                lines.append(f"            total += {term} * {self._value(0)}")
            lines.append(f"        y[i, j] = total * kc.exp({self._value(1)} - 3.0)")
        self.text = "\n".join(lines)

    def _value(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(_READ)
        form = rng.choice(("{} * {}", "kc.max({}, {})", "kc.tanh({} - {})"))
        return form.format(self._value(depth - 1), self._value(depth - 1))


def kernel_of(program: Program) -> Func:
    types = {"F1": kc.array(dtype=kc.float32), "F2": kc.array2d(dtype=kc.float32)}
    names = {"kc": kc, **types, "I2": kc.array2d(dtype=kc.int32)}
    kernel: Any = define(program.text, names)["kernel"]
    return optimize(kernel.func)


def check(program: Program) -> None:
    """Compare launches with few iterations, and more, with the interpreter."""
    func, rng = kernel_of(program), np.random.default_rng(program.rng.randrange(1 << 30))
    for columns in (0, int(rng.integers(1, LOOP_LANES)), LOOP_LANES, LOOP_LANES + 1):
        x, y = rng.normal(size=(2, POINTS, max(columns, 1))).astype(np.float32)
        w = rng.normal(size=columns).astype(np.float32)
        at = rng.integers(0, POINTS, (POINTS, 4)).astype(np.int32)
        wanted, found = copies([x, at, w, y]), copies([x, at, w, y])
        interpreter.run(func, wanted, POINTS)
        assert launch(func, found, POINTS, [(0, 17), (17, POINTS)]) == abi.STATUS_OK
        one, other = bits(found[-1], float32), bits(wanted[-1], float32)
        np.testing.assert_array_equal(one, other, program.text)


def test_some_programs_have_code_for_short_loops() -> None:
    funcs = [kernel_of(Program(number)) for number in range(FIRST, FIRST + 2 * COUNT)]
    assert any(short_loops(f, choose_strategy(f, host()), host()) is not None for f in funcs)


@pytest.mark.parametrize("shard", range(8))
def test_short_loops_have_the_bits_of_the_interpreter(shard: int) -> None:
    for number in range(FIRST + shard, FIRST + 2 * COUNT, 8):
        check(Program(number))
