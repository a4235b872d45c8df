"""Random programs whose arrays are at addresses compute what they do with parameters."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelcore.ir.core import Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ARRAY_AT
from kernelcore.ir.verify import verify
from kernelcore.language.types import ArrayType, int32, int64, uint64
from kernelcore.passes.pipeline import optimize
from tests.device import emulation
from tests.fuzz.composite_programs import arguments, kernel
from tests.fuzz.programs import POINTS
from tests.helpers import interpreter
from tests.helpers.environment import IS_CPU
from tests.helpers.kernel_harness import copies, launch

# KC_FUZZ_PROGRAMS asks for a longer run, KC_FUZZ_SEED for another stretch of seeds.
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("KC_FUZZ_PROGRAMS", "10")))


def at_addresses(func: Func, args: list[Any], seed: int) -> tuple[Func, list[Any]]:
    """``func`` with half of its arrays, which are packed, made of addresses; its arguments."""
    rng = np.random.default_rng(seed)
    params: list[Var] = []
    made: list[Eqn] = []
    given: list[Any] = []
    for param, arg in zip(func.params, args, strict=True):
        type_ = param.type
        if not (isinstance(type_, ArrayType) and type_.outer_ndim) or rng.random() < 0.5:
            params.append(param)
            given.append(arg)
            continue
        address = Var(uint64, f"{param.name}_address")
        params.append(address)
        given.append(arg.ctypes.data)
        extents = [Const(int64 if rng.random() < 0.5 else int32, n) for n in arg.shape]
        extents = extents[: len(extents) - len(type_.components)]
        inner = int(np.prod(type_.components, dtype=int))
        attrs = {
            "dtype": type_.dtype,
            "components": type_.components,
            "spacing": inner * type_.dtype.size_bytes,
        }
        made.append(Eqn(ARRAY_AT, (address, *extents), (param,), attrs))
    body = Region(tuple(params), (*made, *func.body.eqns), func.body.yields)
    return replace(func, body=body, param_locs=()), given


@pytest.mark.skipif(not IS_CPU, reason="addresses are those of the host")
@pytest.mark.parametrize("seed", SEEDS)
def test_arrays_may_be_at_addresses(seed: int) -> None:
    func = kernel(seed).func
    point = [*arguments(seed), np.zeros(POINTS)]
    expected = copies(point)
    interpreter.run(func, expected, POINTS)
    for run in ("interpreter", "machine", "device"):
        found = copies(point)
        changed, given = at_addresses(func, found, seed)
        verify(changed)
        if run == "interpreter":
            interpreter.run(changed, given, POINTS)
        elif run == "machine":
            assert launch(optimize(changed), given, POINTS) == 0
        else:
            assert emulation.run(optimize(changed), given, POINTS).status == 0
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
