"""Random kernels with equal values in several loops: those that keep them have the same bits."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.kept_rows import kept_rows
from kernelcore.codegen.simd import bodies
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType
from kernelcore.passes.pipeline import optimize
from tests.fuzz.kept_programs import EXTENTS, KeepingProgram
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import adjoint_func, launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "8"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
LENGTHS = (70, 32, 7, 100, 31, 1, 64)
FORMS = ((4, 1), (16, 1), (64, 4), (16, NO_MASKS))


def arguments(func: Func, rank: int, number: int) -> list[np.ndarray]:
    """Arrays for the parameters of a program; every third program has no packed ones."""
    rng, found = np.random.default_rng(number), list[np.ndarray]()
    length = LENGTHS[number % len(LENGTHS)]
    for param in func.params:
        assert isinstance(param.type, ArrayType)
        shape = (*EXTENTS[rank], length)[: param.type.ndim]
        values: Any = rng.normal(size=shape).astype(param.type.dtype.numpy)
        if number % 3 == 2:
            wide = np.zeros((*shape[:-1], 2 * shape[-1]), values.dtype)
            wide[..., ::2] = values
            values = wide[..., ::2]
        found.append(values)
    return found


def by_gangs(func: Func, program: KeepingProgram, number: int) -> list[np.ndarray]:
    """The arrays after a run of ``func`` by gangs."""
    (gang, least), found = FORMS[number % len(FORMS)], arguments(func, program.rank, number)
    status = launch(func, found, EXTENTS[program.rank], None, gang, 1, 1, least)
    assert status == abi.STATUS_OK
    return found


def check(func: Func, program: KeepingProgram, number: int, wanted: list[np.ndarray]) -> None:
    """Run gangs of ``func``, and compare every bit with what is ``wanted``."""
    found = by_gangs(func, program, number)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shard", range(4))
def test_kept_values_have_the_bits_of_the_interpreter(shard: int) -> None:
    kept = 0
    for number in range(FIRST + shard, FIRST + 2 * COUNT, 4):
        program = KeepingProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = optimize(kernel.func)
        kept += kept_rows(func) is not None
        wanted = arguments(func, program.rank, number)
        interpreter.run(func, wanted, EXTENTS[program.rank])
        try:
            with unoptimised() if number % 8 else nullcontext():
                check(func, program, number, wanted)
        except AssertionError as error:
            raise AssertionError(f"program {number}:\n{program.text}") from error
    assert kept > 0


@pytest.mark.parametrize("shard", range(4))
def test_adjoints_have_the_bits_of_code_that_keeps_nothing(
    shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = 0
    for number in range(FIRST + shard, FIRST + 2 * COUNT, 4):
        program = KeepingProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        func = adjoint_func(kernel)
        kept += kept_rows(func) is not None
        with monkeypatch.context() as without, unoptimised():
            without.setattr(bodies, "kept_rows", lambda *_: None)
            without.setattr(bodies, "_suits_one", lambda *_: False)
            wanted = by_gangs(func, program, number)
        try:
            with unoptimised():
                check(func, program, number, wanted)
        except AssertionError as error:
            raise AssertionError(f"adjoint of program {number}:\n{program.text}") from error
    assert kept > 0
