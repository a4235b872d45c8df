"""Random kernels: Python = interpreter = machine code; JVP, VJP and differences agree."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.operators.operation import Operation
from kernelcore.passes.autodiff.atomic_extrema import extremum_arrays
from tests.fuzz.derivative_contract import check_first, check_second, optimised, updating_operation
from tests.fuzz.programs import POINTS, arguments, kernel, run_in_python
from tests.helpers.operations import run_operation
from tests.passes.autodiff.test_derivatives import directions, push

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
def test_tangents_of_launches_are_those_of_operations(seed: int) -> None:
    made, point = kernel(seed), arguments(seed)
    along = directions(point, WRT, seed + 1)
    args = [np.copy(a) if isinstance(a, np.ndarray) else a for a in point]
    tangents: list[Any] = [None] * len(point)
    for k, tangent in zip(WRT, along, strict=True):
        tangents[k] = np.copy(tangent) if isinstance(point[k], np.ndarray) else float(tangent)
    chosen = extremum_arrays(made.func, tuple(WRT))
    with optimised(seed):
        if chosen:
            with pytest.raises(kc.KernelArgumentError, match="atomic minima or maxima"):
                kc.jvp(made, POINTS, args, tangents, [np.zeros(POINTS)])
            return
        found = kc.jvp(made, POINTS, args, tangents, [np.zeros(POINTS)])
        op = operation(seed)
        tangent = push(op, point, WRT, along, False)
    want = dict(zip([r.name for r in op.outputs], tangent, strict=True))
    found = found if isinstance(found, tuple) else (found,)
    names = [p.name for p, e in zip(made.func.params, made.effects, strict=True) if e.writes]
    for name, tangent in zip(names, found, strict=True):
        np.testing.assert_allclose(tangent, want[name], rtol=1e-9, atol=1e-9)


@seeds
def test_second_derivatives_agree(seed: int) -> None:
    with optimised(seed):
        check_second(operation(seed), arguments(seed), WRT, seed, 1e-7)
