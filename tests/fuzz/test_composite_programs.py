"""Random kernels of vectors, structs and views: JVP, VJP and differences agree."""

from __future__ import annotations

import os
from contextlib import nullcontext

import numpy as np
import pytest

from tests.fuzz.composite_programs import arguments, kernel
from tests.fuzz.derivative_contract import check_first, check_second, optimised, updating_operation
from tests.helpers.operations import run_operation
from tests.passes.autodiff.test_derivatives import float_operands

# KC_FUZZ_PROGRAMS asks for a longer run, KC_FUZZ_SEED for another stretch of seeds.
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("KC_FUZZ_PROGRAMS", "5")))
seeds = pytest.mark.parametrize("seed", SEEDS)
# Kernels whose second derivatives LLVM's SLP vectoriser gets wrong.
SLP_SEEDS = [100217]


@seeds
def test_first_derivatives_agree(seed: int) -> None:
    op, point = updating_operation(kernel(seed)), arguments(seed)
    interpreted = run_operation(op, point, interpret=True)
    with optimised(seed):
        for a, b in zip(interpreted, run_operation(op, point), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        check_first(op, point, float_operands(op, point), seed, 1e-10)


@pytest.mark.parametrize("seed", [*SEEDS, *SLP_SEEDS])
def test_second_derivatives_agree(seed: int) -> None:
    op, point = updating_operation(kernel(seed)), arguments(seed)
    with nullcontext() if seed in SLP_SEEDS else optimised(seed):
        check_second(op, point, float_operands(op, point), seed, 1e-9)
