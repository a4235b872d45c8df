"""Random programs: gangs of any size have the bits of scalar code.

Other tests compare scalar code with the interpreter.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.simd import cost_model
from kernelcore.codegen.simd.gang_work import scattered_rows
from kernelcore.codegen.simd.strategy import LANES
from kernelcore.compiler.stages import all_derivatives
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.launch.dispatch import argument_leaves
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.operators.whole_results import without_zeros
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize
from tests.fuzz import campaign, form_checks
from tests.fuzz.program_arguments import arguments, grid_arguments
from tests.fuzz.test_typed_programs import COUNT, compare, fuzz, names, shards
from tests.fuzz.typed_programs import Program, define
from tests.helpers.kernel_harness import launch, unoptimised
from tests.helpers.vectorised.case import Strategy, strategy_of

# How gangs are compiled: LLVM's optimisations take half of the time, so only long runs have them.
CODE = nullcontext if "KC_FUZZ_PROGRAMS" in os.environ else unoptimised
# Points besides a whole gang.
REST = 3
# Extent of the rows of a grid that gangs collapse.
COLUMNS = 3
# The gang and the rows of a row tile.
TILE_LANES, ROWS = 2, 4
# What grid programs have in their text, and all that they are to reach.
WORDS = {
    "philox_init", "rand_init", "Private()", "Pair(", "blend(", "both(", "kc.where(", " // ", " % ",
    "while ", "break", "continue", "kc.static(", "in range(3)", "atomic_add", "atomic_sub",
    "atomic_min", "atomic_max", "flush_denormals", "w.shape", "kc.dot(", "else:", "return\n",
    "    i = kc.int32(0)\n",
}  # fmt: skip
# All but loops that fill rows, of which there are programs of their own (``loop_programs.py``).
FORMS = [flag for flag in Strategy if flag is not Strategy.INDEPENDENT]
EXPECTED = {
    *WORDS, *(flag.name for flag in FORMS), "1 axes", "2 axes", "3 axes", "IF", "FOR", "WHILE",
    "LOAD", "STORE", "ATOMIC", "ATOMIC_ADD", "DIM", "CAST", "as launched", "gang 1", "gang 4",
    "gang 8", "gang 16", "rows 2", "rows 4", "loop lanes 8", "masks from 4",
    f"masks from {NO_MASKS}", "expanded", "reversed", "transposed", "dense", "strided",
    "lanes along an axis", "whole result", "adjoint", "recorded stack", "row apart, load",
}  # fmt: skip
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
    monkeypatch.setattr(cost_model.GangWork, "suits_gangs", lambda *_, **__: True)
    lanes = LANES[1 + shard % (len(LANES) - 1)]
    fuzz(check_loop_collapse, shard, lanes + -lanes % COLUMNS + COLUMNS, COUNT // 16)


@shards
def test_row_tiling_has_the_bits_of_scalar_code(shard: int) -> None:
    fuzz(check_row_tiles, shard, 5 * ROWS * COLUMNS, COUNT // 32)


def features(seed: int) -> set[str]:
    """What the grid program of ``seed`` has, in its text, its IR, its arrays and its code."""
    program, kernel, func = form_checks.grid_kernel(seed)
    _, _, text = program.text.partition("@kc.kernel")
    found = {f"{len(program.grid)} axes", *(word for word in WORDS if word in text)}
    found |= {eqn.op.kind.name for eqn in walk_eqns(func.body)}
    found |= {str(flag.name) for flag in FORMS if flag in strategy_of(func)}
    form = form_checks.form_of(func, seed)
    lanes_are_along_another = form_checks.lane_axis_of(func, seed) is not None
    if form is None:
        found |= {"as launched"} | ({"lanes along an axis"} if lanes_are_along_another else set())
    else:
        found |= {f"gang {form.gang}", f"rows {form.tile_rows}", f"loop lanes {form.loop_lanes}"}
        found.add(f"masks from {form.least_masked_bytes}")
    for array in grid_arguments(program, np.random.default_rng(seed)):
        if isinstance(array, np.ndarray) and array.size > 1:
            steps = [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
            found |= {"expanded"} if 0 in steps else set()
            found |= {"reversed"} if min(steps) < 0 else set()
            found |= {"transposed"} if steps != sorted(steps, reverse=True) else set()
            found |= {"dense" if array.flags.c_contiguous else "strided"}
    for at in scattered_rows(func, lane_strides(func)):
        found.add("row apart, " + at.op.kind.name.lower())
    op = kernel_operation(kernel, **form_checks.operator_options(program, kernel))
    if without_zeros(op.func, op.bindings, op.like, op.results, op.grid)[1] != op.bindings:
        found.add("whole result")
    try:
        adjoint = vjp(kernel.func, *all_derivatives(kernel.func)).func
    except kc.KernelGradError:
        return found
    kinds = {eqn.op.kind for eqn in walk_eqns(adjoint.body)}
    return found | ({"recorded stack"} if OpKind.STACK in kinds else {"adjoint"})


def test_grid_programs_reach_every_form_of_code() -> None:
    reached = Counter(name for seed in range(250) for name in features(seed))
    assert not {name: reached[name] for name in EXPECTED if reached[name] < 3}


@pytest.mark.parametrize("kind", campaign.KINDS)
def test_short_programs_are_right(kind: str) -> None:
    rows = list(campaign.check_all(range(20), kind))
    assert not "".join(found for _, _, found in rows)
    assert sum(has_run for _, has_run, _ in rows) > 10
