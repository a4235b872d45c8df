"""Random kernels: Python = interpreter = machine code; JVP, VJP and differences agree."""

from __future__ import annotations

import os

import numpy as np
import pytest

from kernelcore.operators.operation import Operation
from tests.fuzz.derivative_contract import check_first, check_second, optimised, updating_operation
from tests.fuzz.programs import POINTS, arguments, kernel, run_in_python
from tests.helpers.operations import run_operation

# KC_FUZZ_PROGRAMS asks for a longer run, KC_FUZZ_SEED for another stretch of seeds.
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("KC_FUZZ_PROGRAMS", "15")))
seeds = pytest.mark.parametrize("seed", SEEDS)
WRT = [0, 1, 4, 5, 6, 7]


def operation(seed: int) -> Operation:
    # y alone is a result only; the others are updated, whether or not this kernel touches them.
    return updating_operation(kernel(seed))


@seeds
def test_python_interpreter_and_machine_code_agree(seed: int) -> None:
    op, point = operation(seed), arguments(seed)
    host = [*(np.copy(a) if isinstance(a, np.ndarray) else a for a in point), np.zeros(POINTS)]
    run_in_python(seed, host)
    want = dict(zip(["o", "h", "t", "top", "y"], host[4:], strict=True))
    for interpret in (True, False):
        found = run_operation(op, point, interpret=interpret)
        for result, array in zip(op.outputs, found, strict=True):
            np.testing.assert_allclose(array, want[result.name], rtol=1e-9, atol=1e-9)


@seeds
def test_first_derivatives_agree(seed: int) -> None:
    with optimised(seed):
        check_first(operation(seed), arguments(seed), WRT, seed, 1e-9)


@seeds
def test_second_derivatives_agree(seed: int) -> None:
    with optimised(seed):
        check_second(operation(seed), arguments(seed), WRT, seed, 1e-7)
