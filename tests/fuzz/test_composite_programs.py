"""Random kernels of vectors, structs and views: JVP, VJP and differences agree."""

from __future__ import annotations

import os

import numpy as np
import pytest

from kernelcore import opderive
from kernelcore.opshape import kernel_operation
from kernelcore.opspec import Operation
from tests.fuzz.composite_programs import arguments, kernel
from tests.operations import run_operation
from tests.test_derivatives import difference, directions, dot, float_operands, pull, push

# KC_FUZZ_PROGRAMS asks for a longer run, KC_FUZZ_SEED for another stretch of seeds.
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("KC_FUZZ_PROGRAMS", "5")))
seeds = pytest.mark.parametrize("seed", SEEDS)


def operation(seed: int) -> Operation:
    """Kernel ``seed`` on arrays that it updates, with y as its one result that is none."""
    made = kernel(seed)
    written = [p.name for p, e in zip(made.func.params, made.effects, strict=True) if e.writes]
    return kernel_operation(made, ["y"], [n for n in written if n != "y"])


@seeds
def test_first_derivatives_agree(seed: int) -> None:
    op, point = operation(seed), arguments(seed)
    wrt = float_operands(op, point)
    along = directions(point, wrt, seed + 1)
    value = run_operation(op, point)
    for a, b in zip(run_operation(op, point, interpret=True), value, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    cts = directions(value, range(op.visible), seed + 2)
    tangent = push(op, point, wrt, along, False)
    np.testing.assert_allclose(
        dot(cts, tangent), dot(pull(op, point, wrt, cts, False), along), rtol=1e-10, atol=1e-10
    )
    want = difference(lambda p: run_operation(op, p), point, wrt, along)
    near = difference(lambda p: run_operation(op, p), point, wrt, [0.5 * a for a in along])
    for found, a, b in zip(tangent, want, near, strict=True):
        # Where the step crosses a kink or a jump, the differences of two steps disagree.
        smooth = np.abs(a - 2.0 * b) < 1e-7 * (1.0 + np.abs(a))
        np.testing.assert_allclose(found[smooth], a[smooth], rtol=1e-5, atol=1e-5)


@seeds
def test_second_derivatives_agree(seed: int) -> None:
    op, point = operation(seed), arguments(seed)
    wrt = float_operands(op, point)
    along = directions(point, wrt, seed + 1)
    cts = directions(run_operation(op, point), range(op.visible), seed + 2)
    adjoint = opderive.vjp(op, wrt, range(op.visible))
    at = [*point, *cts]
    forward_reverse = push(adjoint.operation, at, wrt, along, False)
    seeds_ = [along[wrt.index(k)] for k in adjoint.produced]
    reverse_reverse = pull(adjoint.operation, at, wrt, seeds_, False)
    tangent = opderive.jvp(op, wrt)
    cts_tangent = [cts[j] for j in tangent.produced]
    crossed = pull(tangent.operation, [*point, *along], wrt, cts_tangent, False)
    for k, product in zip(adjoint.produced, forward_reverse, strict=True):
        n = wrt.index(k)
        np.testing.assert_allclose(reverse_reverse[n], product, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(crossed[n], product, rtol=1e-9, atol=1e-9)
