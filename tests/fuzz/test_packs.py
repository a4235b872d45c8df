"""Random kernels of private vectors: packs of equations have the bits of scalar code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelGradError
from kernelcore.codegen.analysis import pack_search
from kernelcore.ir.core import Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.pipeline import optimize
from tests.fuzz.pack_programs import POINTS, PackProgram
from tests.fuzz.typed_programs import define
from tests.helpers.kernel_harness import adjoint_func, assert_same_arrays, launched_in_two

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "12"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
SHARDS = 4
shards = pytest.mark.parametrize("shard", range(SHARDS))


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


def program_of(number: int) -> tuple[PackProgram, kc.Kernel]:
    program = PackProgram(number)
    dtype = getattr(kc, program.dtype)
    vector = kc.types.vector(length=program.length, dtype=dtype)
    return program, define(program.text, {"kc": kc, "D": dtype, "V": vector})["kernel"]


def run(func: Func, given: Sequence[Any], cut: int, packed_bytes: int) -> list[Any]:
    """The arguments after a launch in two parts."""
    return launched_in_two(func, given, POINTS, cut, 1, packed_bytes=packed_bytes)


def compare(func: Func, args: Sequence[Any], number: int, text: str) -> None:
    """Scalar code and packs leave the same elements."""
    cut = number % POINTS
    wanted, found = run(func, args, cut, 0), run(func, args, cut, (16, 32, 64)[number % 3])
    assert_same_arrays(func, wanted, found, f"program {number}\n{text}")


@pytest.mark.parametrize("gain", [True, False])
@shards
def test_packs_have_the_bits_of_scalar_code(
    shard: int, gain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that gain, and all that there can be."""
    if not gain:
        monkeypatch.setattr(pack_search.Search, "keep_gaining", lambda self: bool(self.found))
    for number in range(FIRST + shard, FIRST + COUNT, SHARDS):
        program, kernel = program_of(number)
        rng, func = np.random.default_rng(number), optimize(kernel.func)
        args = program.arguments(rng)
        if number % 2:
            args = [np.asfortranarray(a) if isinstance(a, np.ndarray) else a for a in args]
        compare(func, args, number, program.text)
        try:
            adjoint = adjoint_func(kernel)
        except KernelGradError:
            continue
        if any(e.op.kind is OpKind.ATOMIC_ADD for e in walk_eqns(adjoint.body)):
            names = [f"{start}{p.name}" for start in ("", "ct_") for p in kernel.func.params]
            known = dict(zip(names, [*args, *program.arguments(rng)], strict=True))
            compare(adjoint, [known[p.name] for p in adjoint.params], number, program.text)
