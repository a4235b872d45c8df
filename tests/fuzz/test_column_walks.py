"""Random loops down columns: gangs that run a few rows at a time have the interpreter's bits."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.simd.column_walks import column_walks
from kernelcore.codegen.simd.strategy import has_vector_form
from kernelcore.ir.core import Func
from kernelcore.passes.pipeline import optimize
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import assert_same_arrays, copies, launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "32"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
SHARDS = 4
# Rows and columns; from 32 rows on gangs run together, in strips of 16 KiB.
SHAPES = ((32, 45), (37, 16), (5, 40), (64, 9), (33, 64))
LONG = (41, 2100)
_TYPES = (
    *("float32", "float32", "float32", "float64", "int32"),
    *("float16", "int8", "int16", "uint8", "int64", "uint64"),
)
_TERMS = (
    "{x}[k, j]",
    "{x}[k, j] * a[k]",
    "{x}[n - 1 - k, j] - {t}(1)",
    "{x}[k, j] * {x}[k, j]",
    "z[k, j] + {t}(k)",
    "{t}(j % 7) - {x}[k // 2, j]",
    "kc.max({x}[k, j], {t}(h))",
)
_GUARDS = ("{x}[k, j] > {t}(0)", "j % 3 != 1", "k > 2", "{x}[k, 0] > {t}(0)")
_BETWEEN = (
    "h = h + {t}(1)",
    "h = kc.min(h, p)",
    "h = p + {x}[0, j]",
    "h = h * a[0]",
    "p = p + a[low]",
)


class Program:
    """A kernel of one or two axes with loops down the columns of its arrays."""

    def __init__(self, number: int) -> None:
        self.rng = rng = Random(number)
        self.dtype = rng.choice(_TYPES)
        self.name = f"kc.{self.dtype}"
        self.is_batched = rng.random() < 0.3
        at = "b, " if self.is_batched else ""
        rank = 3 if self.is_batched else 2
        known = {"x": "x", "t": self.name, "at": at}
        arrays = {"a": 1, "x": rank, "z": rank, "y": rank, "u": rank, "v": rank - 1}
        params = ", ".join(f"{v}: kc.array({self.name}, {n})" for v, n in arrays.items())
        lines = [
            "@kc.kernel",
            f"def kernel({params}, low: int):",
            f"    {at}j = kc.tid()",
            f"    n = x.shape[{rank - 2}]",
            "    h = {t}(2)",
            "    p = {t}(0)",
        ]
        for _ in range(rng.choice((1, 1, 2, 3))):
            lines += self._loop(at)
            if rng.random() < 0.5:
                lines.append("    " + rng.choice(_BETWEEN))
        lines.append(f"    {rng.choice(('v[{at}j] = h', 'v[{at}j] += h'))} + p")
        text = "\n".join(lines).format(**known)
        self.text = text.replace("x[", f"x[{at}").replace("z[", f"z[{at}") if at else text

    def _loop(self, at: str) -> list[str]:
        rng = self.rng
        term = rng.choice(_TERMS)
        kind = rng.randrange(5)
        if kind < 2:
            work = ["h += " + term]
        elif kind == 2:
            work = ["p = p * {t}(3) + " + term, "h += p"]
        elif kind == 3:
            work = [f"y[{at}k, j] = {term} + h"]
        else:
            work = [f"u[{at}k, j] += {term}", "p += {t}(1)"]
        if rng.random() < 0.3:
            work = [f"if {rng.choice(_GUARDS)}:", *("    " + line for line in work)]
        bounds = rng.choice(("n", "n", "1, n", "low, n - 1"))
        return [f"    for k in range({bounds}):", *("        " + line for line in work)]

    def arrays(self, shape: tuple[int, int]) -> tuple[list[Any], tuple[int, ...]]:
        """Arguments and the grid for columns of ``shape``."""
        rng = np.random.default_rng(len(self.text))
        outer = (2,) if self.is_batched else ()

        def numbers(*extents: int) -> np.ndarray:
            least = 0 if self.dtype.startswith("u") else -9
            return rng.integers(least, 10, extents).astype(self.dtype)

        shapes = [shape[:1], *[outer + shape] * 4, outer + shape[1:]]
        given = [numbers(*extents) for extents in shapes]
        return [*given, 3], (*outer, shape[1])


def run(func: Func, given: list[Any], grid: tuple[int, ...], gang: int) -> list[Any]:
    """What gangs of ``gang`` threads make of copies of ``given``."""
    found = copies(given)
    with unoptimised():
        assert launch(func, found, grid, lanes=gang) == abi.STATUS_OK
    return found


@pytest.mark.parametrize("shard", range(SHARDS))
def test_columns_have_the_bits_of_single_threads(shard: int) -> None:
    walks = 0
    for number in range(FIRST + shard, FIRST + COUNT, SHARDS):
        program = Program(number)
        func = optimize(define(program.text, {"kc": kc})["kernel"].func)
        assert has_vector_form(func)
        walks += column_walks(func) is not None
        for gang in (4, 16):
            for shape in SHAPES:
                given, grid = program.arrays(shape)
                wanted = copies(given)
                interpreter.run(func, wanted, grid)
                found = run(func, given, grid, gang)
                what = f"program {number}, {shape}, gangs of {gang}:\n{program.text}"
                assert_same_arrays(func, wanted, found, what)
        given, grid = program.arrays(LONG)
        what = f"program {number}, {LONG}:\n{program.text}"
        assert_same_arrays(func, run(func, given, grid, 1), run(func, given, grid, 16), what)
    assert walks
