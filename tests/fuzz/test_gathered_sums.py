"""Random sums over threads: gathered in pieces of any size, they are those of the interpreter."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS, host
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.gathered_sums import GatheredSums, gathered_sums
from kernelcore.codegen.analysis.own_elements import own_elements
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.llvm import pieces
from kernelcore.codegen.llvm.kernel import emit_kernel
from kernelcore.codegen.simd.gathering import Gathering
from kernelcore.codegen.simd.strategy import LANES, SCALAR_CODE, VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.compiler import native_code
from kernelcore.ir.core import Func
from kernelcore.ir.verify import verify
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.accumulation_plan import shared_arrays
from kernelcore.passes.pipeline import optimize
from tests.fuzz.sum_programs import LOOP, SumProgram
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import copies, launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "8"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
# The room for kept values: of one point, of a part of a row, of some rows.
ROOMS = (8, 40, 400, 4000, 1 << 16)
# Every compilation has a key of its own: the same kernel gathers its sums in several ways.
KEYS = itertools.count(1 << 64)


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


def arguments(func: Func, program: SumProgram, *, are_exact: bool) -> list[Any]:
    """Arrays, some in another order of memory, and the two numbers of a program."""
    rng = np.random.default_rng(program.rng.randrange(1 << 30))
    found: list[Any] = []
    for param in func.params:
        if not isinstance(param.type, ArrayType):
            found.append(
                np.int32({"n": rng.integers(0, LOOP), "m": rng.integers(0, 9)}[param.name])
            )
            continue
        shape = program.shape(param.name)
        numbers = rng.integers(-2, 3, shape) if are_exact else rng.normal(size=shape)
        array = np.asarray(numbers).astype(param.type.dtype.numpy)
        found.append(array if rng.random() < 0.7 else np.asfortranarray(array))
    return found


def strategy(func: Func, rng: Random) -> VectorStrategy:
    """A way to run ``func``."""
    lanes = rng.choice((1, *LANES[1:4]))
    if lanes == 1:
        return SCALAR_CODE
    rows = rng.choice((1, 2, 4, 8)) if can_tile_rows(func) else 1
    return VectorStrategy(lanes, 1, rows, rng.choice((1, 4, NO_MASKS)))


def run(
    func: Func,
    gathering: tuple[Gathering, Sequence[VectorStrategy]],
    args: Sequence[Any],
    grid: Sequence[int],
    parts: Sequence[tuple[int, int]],
    own: int = 0,
) -> list[Any]:
    """The arrays after a launch in ``parts``, which divide the elements of arrays ``own``."""
    found, key = copies(args), f"{next(KEYS):032x}"

    def text(func: Func, symbol: str, _: VectorStrategy | None) -> str:
        given = host().attributes
        return emit_kernel(func, symbol, given, scales=host().scales, gathering=gathering)

    with (
        unoptimised(),
        patch.object(cpu, "llvm_text", text),
        patch.object(native_code, "content_hash", lambda *_: key),
    ):
        assert launch(replace(func), found, grid, parts, own=own) == abi.STATUS_OK
    return found


def parts_of(grid: Sequence[int], rng: Random, count: int = 2) -> list[tuple[int, int]]:
    """``count`` parts of ``grid``, some without points."""
    points = math.prod(grid)
    cuts = [0, *sorted(rng.randint(0, points) for _ in range(count - 1)), points]
    return list(itertools.pairwise(cuts))


def programs(
    shard: int, shards: int, suits: Callable[[Func], object] = gathered_sums
) -> Iterator[tuple[int, SumProgram, Func]]:
    """Programs with sums that can be gathered, and that ``suits`` finds fit."""
    found = 0
    for number in itertools.count(8 * FIRST + shard, shards):
        if found >= COUNT // shards:
            return
        program = SumProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = optimize(kernel.func)
        if gathered_sums(func) is not None and suits(func):
            found += 1
            yield number, program, func


def either_way(func: Func, rng: Random) -> GatheredSums | None:
    """The gathered sums of ``func``, some with the axis of their elements behind the loop."""
    return gathered_sums(func, lambda one, other: rng.random() < 0.6)


@pytest.mark.parametrize("shard", range(4))
def test_gathered_sums_are_those_of_the_interpreter(
    shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, program, func in programs(shard, 4):
        rng = Random(number)
        monkeypatch.setattr(pieces, "KEPT_BYTES", rng.choice(ROOMS))
        sums = either_way(func, rng)
        assert sums is not None
        for one in sums.funcs:
            verify(one)
        given = arguments(func, program, are_exact=True)
        wanted = copies(given)
        interpreter.run(func, wanted, program.grid)
        ways = [strategy(one, rng) for one in sums.funcs]
        gathering = Gathering(sums, rng.choice((0, 0, 9))), ways
        found = run(func, gathering, given, program.grid, parts_of(program.grid, rng))
        for param, want, got in zip(func.params, wanted, found, strict=True):
            if isinstance(param.type, ArrayType):
                np.testing.assert_array_equal(got, want, f"{number} {param.name}\n{program.text}")


@pytest.mark.parametrize("shard", range(4))
def test_gathered_sums_have_one_order(shard: int) -> None:
    """Whatever the gangs, and the strides of arrays."""
    for number, program, func in programs(shard, 4):
        rng = Random(f"order {number}")
        sums = either_way(func, rng)
        assert sums is not None
        given = arguments(func, program, are_exact=False)
        scalar = Gathering(sums, 0), [SCALAR_CODE] * len(sums.funcs)
        gangs = Gathering(sums, 0), [strategy(one, rng) for one in sums.funcs]
        parts = parts_of(program.grid, rng)
        wanted = run(func, scalar, given, program.grid, parts)
        dense = [a.copy("C") if isinstance(a, np.ndarray) else a for a in given]
        for way, args in ((gangs, given), (gangs, dense)):
            found = run(func, way, args, program.grid, parts)
            for param, want, got in zip(func.params, wanted, found, strict=True):
                if isinstance(param.type, ArrayType):
                    text = f"{number} {param.name}\n{program.text}"
                    np.testing.assert_array_equal(got, want, text)


def divisible(func: Func) -> list[tuple[GatheredSums, int]]:
    """The gathered sums of ``func`` with either axis last, and the arrays that parts can divide."""
    found: list[tuple[GatheredSums, int]] = []
    for is_turned in (False, True):
        sums = gathered_sums(func, lambda *_, is_turned=is_turned: is_turned)
        assert sums is not None
        arrays = shared_arrays(func)
        divided = zip(sums.sums, own_elements(sums, 0), strict=True)
        bits = sum(1 << arrays.index(one.arrays[0]) for one, how in divided if how is not None)
        if bits:
            found.append((sums, bits))
    return found


@pytest.mark.parametrize("shard", range(4))
def test_parts_divide_elements(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order, and with totals of any number of rows, the sums are the same."""
    for number, program, func in programs(shard, 4, divisible):
        rng = Random(f"own {number}")
        for sums, bits in divisible(func):
            monkeypatch.setattr(pieces, "OWN_ROWS", rng.choice((1, 3, 256)))
            given = arguments(func, program, are_exact=True)
            wanted = copies(given)
            interpreter.run(func, wanted, program.grid)
            gathering = Gathering(sums, 0), [strategy(one, rng) for one in sums.funcs]
            parts = parts_of(program.grid, rng, rng.randint(1, 5))
            rng.shuffle(parts)
            found = run(func, gathering, given, program.grid, parts, bits)
            for param, want, got in zip(func.params, wanted, found, strict=True):
                if isinstance(param.type, ArrayType):
                    text = f"{number} {param.name}\n{program.text}"
                    np.testing.assert_array_equal(got, want, text)
