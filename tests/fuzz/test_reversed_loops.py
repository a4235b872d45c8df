"""Random loops that adjoints run backwards: lanes are iterations, which add to shared elements.

Sums of small integers are exact in any order: they are those of the interpreter.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen.simd.cost_model import outer_loops
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.ir.core import Func
from tests.fuzz.loop_programs import POINTS, ColumnProgram
from tests.fuzz.program_arguments import row_arguments
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import adjoint_func, assert_same_arrays, copies, launched_in_two

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "16"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


def adjoints(shard: int, shards: int, *, are_exact: bool) -> Iterator[tuple[int, str, Func]]:
    """Adjoints with loops whose iterations add, and the text of the program."""
    found = 0
    for number in itertools.count(8 * FIRST + shard, shards):
        if found >= COUNT // shards:
            return
        program = ColumnProgram(number)
        if are_exact and "kc.sin" in program.text:
            continue
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = adjoint_func(kernel)
        if any(loop.adds for loop in outer_loops(func).values()):
            found += 1
            yield number, program.text, func


def run(func: Func, given: Sequence[Any], cut: int, least_masked_bytes: int) -> list[Any]:
    """The arrays after a launch in two parts, with vectorised loops."""
    return launched_in_two(func, given, POINTS, cut, 1, LOOP_LANES, 1, least_masked_bytes)


@pytest.mark.parametrize("shard", range(4))
def test_what_iterations_add_is_that_of_the_interpreter(shard: int) -> None:
    for number, text, func in adjoints(shard, 4, are_exact=True):
        given = row_arguments(func, np.random.default_rng(number), are_exact=True)
        wanted = copies(given)
        interpreter.run(func, wanted, POINTS)
        found = run(func, given, number % POINTS, (1, 4, NO_MASKS)[number // 4 % 3])
        assert_same_arrays(func, wanted, found, f"program {number}:\n{text}")


@pytest.mark.parametrize("shard", range(4))
def test_sums_of_iterations_have_one_order(shard: int) -> None:
    """Whatever the strides of arrays, the parts of a launch and the masks of processors."""
    for number, text, func in adjoints(shard, 4, are_exact=False):
        given = row_arguments(func, np.random.default_rng(number), are_exact=False)
        strided = [np.asfortranarray(a) if isinstance(a, np.ndarray) else a for a in given]
        wanted = run(func, given, 0, 1)
        for args, cut, least in ((strided, 0, 1), (given, number % POINTS, NO_MASKS)):
            found = run(func, args, cut, least)
            assert_same_arrays(
                func, wanted, found, f"program {number}, cut {cut}, masks {least}:\n{text}"
            )
