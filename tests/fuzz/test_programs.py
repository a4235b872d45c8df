"""Random kernels: Python = interpreter = machine code; JVP, VJP and differences agree."""

from __future__ import annotations

import os

import numpy as np
import pytest

from kernelcore import opderive
from kernelcore.opshape import kernel_operation
from kernelcore.opspec import Operation
from tests.fuzz.programs import POINTS, arguments, kernel, run_in_python
from tests.operations import Arrays, run_operation
from tests.test_derivatives import difference, directions, dot, pull, push

# KC_FUZZ_PROGRAMS asks for a longer run, KC_FUZZ_SEED for another stretch of seeds.
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("KC_FUZZ_PROGRAMS", "15")))
seeds = pytest.mark.parametrize("seed", SEEDS)
WRT = [0, 1, 4, 5]


def operation(seed: int) -> Operation:
    # y alone is a result only; o and h are updated, whether or not this kernel touches them.
    made = kernel(seed)
    written = [p.name for p, e in zip(made.func.params, made.effects, strict=True) if e.writes]
    return kernel_operation(made, ["y"], [n for n in written if n != "y"])


def forward(op: Operation, point: list[object]) -> Arrays:
    return run_operation(op, point)


@seeds
def test_python_interpreter_and_machine_code_agree(seed: int) -> None:
    op, point = operation(seed), arguments(seed)
    host = [*(np.copy(a) if isinstance(a, np.ndarray) else a for a in point), np.zeros(POINTS)]
    run_in_python(seed, host)
    want = {"o": host[4], "h": host[5], "y": host[6]}
    for interpret in (True, False):
        found = run_operation(op, point, interpret=interpret)
        for result, array in zip(op.outputs, found, strict=True):
            np.testing.assert_allclose(array, want[result.name], rtol=1e-9, atol=1e-9)


@seeds
def test_first_derivatives_agree(seed: int) -> None:
    op, point = operation(seed), arguments(seed)
    along = directions(point, WRT, seed + 1)
    cts = directions(forward(op, point), range(op.visible), seed + 2)
    tangent = push(op, point, WRT, along, False)
    np.testing.assert_allclose(
        dot(cts, tangent), dot(pull(op, point, WRT, cts, False), along), rtol=1e-9, atol=1e-9
    )
    want = difference(lambda p: forward(op, p), point, WRT, along)
    near = difference(lambda p: forward(op, p), point, WRT, [0.5 * a for a in along])
    for found, a, b in zip(tangent, want, near, strict=True):
        # Where the step crosses a kink or a jump, the differences of two steps disagree.
        smooth = np.abs(a - 2.0 * b) < 1e-7 * (1.0 + np.abs(a))
        np.testing.assert_allclose(found[smooth], a[smooth], rtol=1e-5, atol=1e-5)


@seeds
def test_second_derivatives_agree(seed: int) -> None:
    op, point = operation(seed), arguments(seed)
    along = directions(point, WRT, seed + 1)
    cts = directions(forward(op, point), range(op.visible), seed + 2)
    adjoint = opderive.vjp(op, WRT, range(op.visible))
    at = [*point, *cts]
    forward_reverse = push(adjoint.operation, at, WRT, along, False)
    seeds_ = [along[WRT.index(k)] for k in adjoint.produced]
    reverse_reverse = pull(adjoint.operation, at, WRT, seeds_, False)
    tangent = opderive.jvp(op, WRT)
    cts_tangent = [cts[j] for j in tangent.produced]
    crossed = pull(tangent.operation, [*point, *along], WRT, cts_tangent, False)
    for k, product in zip(adjoint.produced, forward_reverse, strict=True):
        n = WRT.index(k)
        np.testing.assert_allclose(reverse_reverse[n], product, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(crossed[n], product, rtol=1e-7, atol=1e-7)
