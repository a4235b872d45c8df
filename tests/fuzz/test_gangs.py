"""Random programs: gangs of any size have the bits of scalar code.

Other tests compare scalar code with the interpreter.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.simd import cost_model
from kernelcore.codegen.simd.strategy import LANES
from kernelcore.launch.dispatch import argument_leaves
from kernelcore.passes.pipeline import optimize
from tests.fuzz import campaign
from tests.fuzz.program_arguments import arguments
from tests.fuzz.test_typed_programs import COUNT, compare, fuzz, names, shards
from tests.fuzz.typed_programs import Program, define
from tests.helpers.kernel_harness import launch, unoptimised

# How gangs are compiled: LLVM's optimisations take half of the time, so only long runs have them.
CODE = nullcontext if "KC_FUZZ_PROGRAMS" in os.environ else unoptimised
# Points besides a whole gang.
REST = 3
# Extent of the rows of a grid that gangs collapse.
COLUMNS = 3
# The gang and the rows of a row tile.
TILE_LANES, ROWS = 2, 4
ONE_AXIS = "    i = kc.tid()\n"
TWO_AXES = f"    row, column = kc.tid()\n    i = {COLUMNS} * row + column\n"


def check(program: Program) -> None:
    """Run the program in gangs and as scalar code, and compare every bit."""
    lanes = program.points - REST
    compare_forms(program, program.points, lanes, 1, f"gangs of {lanes} and scalar code")


def check_loop_collapse(program: Program) -> None:
    """As ``check``, over a grid whose rows are shorter than a gang."""
    lanes = 1 << (program.points.bit_length() - 1)
    what = f"gangs of {lanes} across rows and scalar code"
    compare_forms(over_rows(program), (program.points // COLUMNS, COLUMNS), lanes, 1, what)


def check_row_tiles(program: Program) -> None:
    """As ``check``, over a grid with row tiles where the kernel allows them."""
    dims = (program.points // COLUMNS, COLUMNS)
    compare_forms(over_rows(program), dims, TILE_LANES, ROWS, "row tiles and scalar code")


def over_rows(program: Program) -> Program:
    """The program over a grid of two axes."""
    assert program.text.count(ONE_AXIS) == 1
    return dataclasses.replace(program, text=program.text.replace(ONE_AXIS, TWO_AXES))


def compare_forms(
    program: Program, dims: Sequence[int] | int, lanes: int, rows: int, what: str
) -> None:
    """Compare scalar code with gangs of ``lanes``, of ``rows`` if rows can be together.

    The IR is made once for both, which takes most of the time.
    """
    space = define(program.text, names())
    kernel: kc.Kernel = space["kernel"]
    func = optimize(kernel.func)
    rows = rows if rows > 1 and can_tile_rows(func) else 1

    def run(lanes: int, rows: int) -> list[Any]:
        """The arguments after a launch."""
        args = arguments(program, space)
        leaves = argument_leaves(kernel, args)
        status = launch(func, leaves, dims, lanes=lanes, tile_rows=rows)
        assert status == abi.STATUS_OK
        return args

    with CODE():
        found = run(lanes, rows)
    with unoptimised():
        single = run(1, 1)
    compare(program, single, found, what)


@shards
def test_gangs_have_the_bits_of_scalar_code(shard: int) -> None:
    lanes = LANES[1 + shard % (len(LANES) - 1)]
    fuzz(check, shard, lanes + REST, COUNT // 4)


@shards
def test_loop_collapse_has_the_bits_of_scalar_code(
    shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_model.Work, "suits_gangs", lambda *_, **__: True)
    lanes = LANES[1 + shard % (len(LANES) - 1)]
    fuzz(check_loop_collapse, shard, lanes + -lanes % COLUMNS + COLUMNS, COUNT // 16)


@shards
def test_row_tiling_has_the_bits_of_scalar_code(shard: int) -> None:
    fuzz(check_row_tiles, shard, 5 * ROWS * COLUMNS, COUNT // 32)


@pytest.mark.parametrize("kind", campaign.KINDS)
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_short_programs_are_right(first: int, kind: str) -> None:
    rows = list(campaign.check_all(range(first, first + 20), kind))
    assert not "".join(found for _, _, found in rows)
    assert sum(has_run for _, has_run, _ in rows) > 10
