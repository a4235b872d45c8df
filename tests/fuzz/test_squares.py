"""Random kernels that read and write across the rows of the grid: squares have the right bits."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.simd.squares import squares_of
from kernelcore.passes.pipeline import optimize
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import assert_same_arrays, copies, launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "64"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
SHARDS = 4
SHAPES = ((16, 64), (33, 17), (5, 40), (70, 37), (18, 3))
# Elements behind the last index that a kernel reaches.
MARGIN = 4
_TYPES = (
    *("float32", "float32", "float64", "int32", "bool"),
    *("float16", "int8", "uint8", "uint16", "int64", "uint64"),
)
_TERMS = (
    "{x}[{b}j, i]",
    "{x}[{b}j + 2, i + low]",
    "{x}[{b}j, m + 3 - i]",
    "{x}[{b}i, j]",
    "{z}[{b}j // 2, i]",
    "{z}[{b}j, i + 1]",
    "{z}[{b}at[j], i]",
    "{z}[{b}3, i]",
    "{x}[{b}j, 2]",
)
_GUARDS = ("i % 3 != 1", "j > low", "int({x}[{b}j, i]) > 0", "(i + j) % 2 == 0")


class Program:
    """A kernel of two or three axes whose threads go across the rows of its arrays."""

    def __init__(self, number: int) -> None:
        self.rng = rng = Random(number)
        self.dtype = rng.choice(_TYPES)
        self.is_batched = rng.random() < 0.3
        rank = 3 if self.is_batched else 2
        self.known = {"x": "x", "z": "z", "t": f"kc.{self.dtype}", "b": "b, " * self.is_batched}
        params = ", ".join(f"{v}: kc.array({{t}}, {rank})" for v in "xzyu")
        lines = [
            "@kc.kernel",
            f"def kernel({params}, at: kc.array(kc.int32, 1), low: int):",
            "    {b}i, j = kc.tid()",
            f"    m = y.shape[{rank - 2}]",
            f"    h = {self._value()}",
        ]
        for _ in range(rng.choice((1, 1, 2))):
            work = self._statement()
            if rng.random() < 0.3:
                work = [f"if {rng.choice(_GUARDS)}:", *("    " + line for line in work)]
            lines += ["    " + line for line in work]
        self.text = "\n".join(lines).format(**self.known)

    def _value(self) -> str:
        terms = self.rng.sample(_TERMS, self.rng.choice((1, 1, 2, 3)))
        if self.dtype == "bool":
            return " or ".join(terms)
        return self.rng.choice((" + ", " - ", " * ")).join(terms)

    def _statement(self) -> list[str]:
        rng = self.rng
        if self.dtype == "bool":
            return [rng.choice(("y[{b}i, j] = h", "u[{b}j, i] = not h", "y[{b}i, j] = h"))]
        return [
            rng.choice(
                (
                    *("y[{b}i, j] = h", "y[{b}i, j] = h * {t}(2)", "y[{b}i, j] += h"),
                    *("u[{b}j, i] = h", "u[{b}j, i] += h", "u[{b}j, i] = u[{b}j, i] - h"),
                )
            )
        ]

    def arrays(self, shape: tuple[int, int]) -> tuple[list[Any], tuple[int, ...]]:
        """Arguments and the grid of that shape."""
        (n, m), rng = shape, np.random.default_rng(len(self.text))
        outer = (2,) if self.is_batched else ()

        def numbers(*extents: int) -> np.ndarray:
            least = 0 if self.dtype[0] in "ub" else -9
            return rng.integers(least, 10, extents).astype(self.dtype)

        size = max(shape) + MARGIN
        read = [numbers(*outer, size, size) for _ in range(2)]
        at = rng.integers(0, size, m).astype(np.int32)
        return [*read, numbers(*outer, n, m), numbers(*outer, m, n), at, 1], (*outer, n, m)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_squares_have_the_bits_of_the_interpreter(shard: int) -> None:
    squares = 0
    for number in range(FIRST + shard, FIRST + COUNT, SHARDS):
        program = Program(number)
        func = optimize(define(program.text, {"kc": kc})["kernel"].func)
        squares += squares_of(func) is not None
        gang = program.rng.choice((4, 8, 16, 32, 64))
        for shape in SHAPES:
            given, grid = program.arrays(shape)
            wanted, found = copies(given), copies(given)
            interpreter.run(func, wanted, grid)
            with unoptimised():
                assert launch(func, found, grid, lanes=gang) == abi.STATUS_OK
            assert_same_arrays(func, wanted, found, f"{program.text}\n{shape}, gangs of {gang}")
    assert squares > COUNT // SHARDS // 4
