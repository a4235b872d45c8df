"""Random kernels of private vectors: the order of a block changes no bit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kernelcore.base.errors import KernelGradError
from kernelcore.base.host import NO_MASKS
from kernelcore.ir.core import Func
from kernelcore.ir.verify import verify
from kernelcore.passes import scheduling
from kernelcore.passes.pipeline import optimize
from tests.fuzz.pack_programs import POINTS
from tests.fuzz.test_packs import program_of
from tests.helpers.kernel_harness import adjoint_func, assert_same_arrays, launched_in_two

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "12"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
SHARDS = 4


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


def ordered(func: Func, number: int, monkeypatch: pytest.MonkeyPatch) -> Func:
    """``func`` with blocks of any length in the order of their use."""
    with monkeypatch.context() as patch:
        patch.setattr(scheduling, "LEAST_EQNS", 1)
        patch.setattr(scheduling, "MOST_USES", (2, 8)[number % 2])
        patch.setattr(scheduling, "MOST_PULLED", (1, 6, 40)[number % 3])
        found = scheduling.schedule(func)
    verify(found)
    return found


def run(func: Func, given: Sequence[Any], number: int) -> list[Any]:
    """The arguments after a launch in two parts."""
    gang, least = (8, 16, 32)[number % 3], (1, 4, NO_MASKS)[number // 3 % 3]
    return launched_in_two(func, given, POINTS, number % POINTS, gang, least_masked_bytes=least)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_order_changes_no_bit(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = 0
    for number in range(FIRST + shard, FIRST + COUNT, SHARDS):
        program, kernel = program_of(number)
        rng = np.random.default_rng(number)
        args = program.arguments(rng)
        cases = [(optimize(kernel.func), args)]
        try:
            adjoint = adjoint_func(kernel)
        except KernelGradError:
            pass
        else:
            names = [f"{start}{p.name}" for start in ("", "ct_") for p in kernel.func.params]
            known = dict(zip(names, [*args, *program.arguments(rng)], strict=True))
            cases.append((adjoint, [known[p.name] for p in adjoint.params]))
        for func, given in cases:
            other = ordered(func, number, monkeypatch)
            changed += other is not func
            wanted, found = run(func, given, number), run(other, given, number)
            assert_same_arrays(func, wanted, found, f"program {number}\n{program.text}")
    assert changed
