"""Random programs: machine code of gangs of any size = that of single threads, bit for bit.

Of single threads the other tests compare machine code with the interpreter.
"""

from __future__ import annotations

from typing import Any

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.form import LANES
from kernelcore.execute import argument_leaves
from kernelcore.passes.pipeline import optimize
from tests.fuzz.program_arguments import arguments
from tests.fuzz.test_typed_programs import COUNT, compare, fuzz, names, shards
from tests.fuzz.typed_programs import Program, define
from tests.kernel_harness import launch

# Points besides a whole gang.
REST = 3
# Of a short run every program has one form besides that of single threads.
SHORT_COUNT = 400


def check(program: Program) -> None:
    """Run the program in gangs, and compare every bit."""
    space = define(program.text, names())
    kernel: kc.Kernel = space["kernel"]
    sizes = LANES[1:] if COUNT > SHORT_COUNT else [LANES[1 + program.seed % 5]]
    for lanes in sizes:
        single, found = (run(program, space, kernel, n, lanes + REST) for n in (1, lanes))
        compare(program, single, found, f"gangs of {lanes} and single threads")


def run(
    program: Program, space: dict[str, Any], kernel: kc.Kernel, lanes: int, points: int
) -> list[Any]:
    """The arguments after a launch of ``points`` threads in gangs of ``lanes``."""
    args = arguments(program, space, points)
    leaves = argument_leaves(kernel, args)
    assert launch(optimize(kernel.func), leaves, points, lanes=lanes) == abi.STATUS_OK
    return args


@shards
def test_gangs_and_single_threads_agree(shard: int) -> None:
    fuzz(check, shard)
