"""Random loops that move an index on from a launch index: gangs have the interpreter's elements.

Threads of a gang leave such a loop in different iterations. Where gangs go on in the next row, so
do their indices.
"""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.uniformity import row_major_accesses
from kernelcore.codegen.simd.bodies import MANY_GANGS, choose_bodies
from kernelcore.codegen.simd.strategy import has_vector_form
from kernelcore.passes.pipeline import optimize
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "96"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
SHARDS = 4
GRIDS = {2: ((40, 5), (3, 37), (2, 17), (7, 3), (23, 1)), 3: ((4, 5, 3), (2, 3, 11), (9, 1, 4))}
_GUARDS = ("{i} % 3 != 1", "{i} > 0", "x[{at}] > 0", "n > 1")
_WALKS = (
    ("while k < n:", "k += 1"),
    ("while k > 0:", "k -= 1"),
    ("while k < n - 1 and x[{moved}] < 1:", "k += 1"),
    ("for _ in range({i}):", "k -= 1"),
    ("for _ in range(n - {i}):", "k += 1"),
    ("for _ in range(2):", "k = (k + 1) % n"),
    ("for k in range({i}, n):", ""),
    ("for k in range({i}, -1, -1):", ""),
)


class Program:
    """A kernel of two or three axes, whose integers do not depend on the order of additions."""

    def __init__(self, number: int) -> None:
        self.rng = rng = Random(number)
        self.rank = rng.choice((2, 2, 2, 3))
        names = "abc"[: self.rank]
        axis = rng.choice((self.rank - 1, self.rank - 1, rng.randrange(self.rank)))
        moved = ", ".join("k" if at == axis else name for at, name in enumerate(names))
        known = {"i": names[axis], "at": ", ".join(names), "moved": moved}
        array = f"kc.array(kc.int32, {self.rank})"
        lines = [
            "@kc.kernel",
            f"def kernel(x: {array}, y: {array}):",
            f"    {', '.join(names)} = kc.tid()",
            f"    n = x.shape[{axis}]",
            "    total, k = 1, 0",
        ]
        depth = 1
        if rng.random() < 0.4:
            lines.append("    if " + rng.choice(_GUARDS).format(**known) + ":")
            depth = 2
        for _ in range(rng.choice((1, 1, 2))):
            head, step = rng.choice(_WALKS)
            body = [f"        total = total * 3 + x[{moved}]"]
            if rng.random() < 0.3:
                body = [f"        if x[{moved}] > 0:", *("    " + line for line in body)]
            if rng.random() < 0.2:
                body.append(f"        y[{known['at']}] = total")
            is_counted = head.startswith("for") and "2" not in head
            start = "{i}" if is_counted else rng.choice(("{i}", "{i}", "n - 1 - {i}"))
            name, end = ("k", [f"        {step}"]) if step else ("kept", ["    k = kept"])
            loop = [f"    {name} = {start}", f"    {head}", *body, *end]
            lines += ["    " * (depth - 1) + line.format(**known) for line in loop]
        if rng.random() < 0.3:
            lines += ["    if k >= 0 and k < n:", f"        total += x[{moved}]"]
        lines.append(f"    y[{known['at']}] = total")
        self.text = "\n".join(lines)

    def arrays(self, grid: tuple[int, ...]) -> list[np.ndarray]:
        """Operands for a launch over ``grid``."""
        rng = np.random.default_rng(len(self.text))
        return [rng.integers(-3, 4, grid).astype(np.int32), np.zeros(grid, np.int32)]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_gangs_find_the_elements_of_loops_that_walk(shard: int) -> None:
    crossed = 0
    for number in range(FIRST + shard, FIRST + COUNT, SHARDS):
        program = Program(number)
        func = optimize(define(program.text, {"kc": kc})["kernel"].func)
        assert has_vector_form(func)
        for gang in (4, 16):
            limit = choose_bodies(func, gang, 1).collapse_limit
            crossed += limit == MANY_GANGS and bool(row_major_accesses(func))
            for grid in GRIDS[program.rank]:
                wanted, found = program.arrays(grid), program.arrays(grid)
                interpreter.run(func, wanted, grid)
                with unoptimised():
                    assert launch(func, found, grid, lanes=gang) == abi.STATUS_OK
                same = np.array_equal(found[1], wanted[1])
                assert same, f"program {number}, {grid}, gangs of {gang}:\n{program.text}"
    assert crossed
