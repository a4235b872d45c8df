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


def check(program: Program) -> None:
    """Run the program in gangs and one thread by one, and compare every bit."""
    space = define(program.text, names())
    kernel: kc.Kernel = space["kernel"]
    lanes = program.points - REST
    single, found = (run(program, space, kernel, n) for n in (1, lanes))
    compare(program, single, found, f"gangs of {lanes} and single threads")


def run(program: Program, space: dict[str, Any], kernel: kc.Kernel, lanes: int) -> list[Any]:
    """The arguments after a launch in gangs of ``lanes``."""
    args = arguments(program, space)
    leaves = argument_leaves(kernel, args)
    status = launch(optimize(kernel.func), leaves, program.points, lanes=lanes)
    assert status == abi.STATUS_OK
    return args


@shards
def test_gangs_and_single_threads_agree(shard: int) -> None:
    lanes = LANES[1 + shard % (len(LANES) - 1)]
    fuzz(check, shard, lanes + REST, COUNT // 3)
