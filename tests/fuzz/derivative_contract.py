"""What holds for the derivatives of every random kernel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from kernelcore.operators import derive
from kernelcore.operators.operation import Operation
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.kernel_harness import unoptimised
from tests.helpers.operations import run_operation, smooth
from tests.passes.autodiff.test_derivatives import difference, directions, dot, pull, push

# LLVM's optimisations take two thirds of the time: one program in so many is compiled with them.
OPTIMISED_PART = 5


def optimised(seed: int) -> AbstractContextManager[None]:
    """The setting for the program of ``seed``."""
    return nullcontext() if seed % OPTIMISED_PART == 0 else unoptimised()


def updating_operation(made: Any) -> Operation:
    """Kernel ``made`` on arrays that it updates, with y as its one result that is none."""
    written = [p.name for p, e in zip(made.func.params, made.effects, strict=True) if e.writes]
    return kernel_operation(made, ["y"], [n for n in written if n != "y"])


def check_first(
    op: Operation,
    point: list[Any],
    wrt: Sequence[int],
    seed: int,
    tol: float,
    *,
    interpret: bool = False,
) -> None:
    """JVP is VJP transposed, to ``tol``, and agrees with differences.

    The adjoint of one operand alone, which is other code than that of all, gives the same. With
    ``interpret``, the interpreter runs all, but for that of one program in ten.
    """
    along = directions(point, wrt, seed + 1)
    cts = directions(run_operation(op, point, interpret=interpret), range(op.visible), seed + 2)
    tangent = push(op, point, wrt, along, interpret)
    pulled = pull(op, point, wrt, cts, interpret)
    np.testing.assert_allclose(dot(cts, tangent), dot(pulled, along), rtol=tol, atol=tol)
    one = seed % len(wrt)
    (alone,) = pull(op, point, [wrt[one]], cts, not interpret or seed % 10 > 0)
    np.testing.assert_allclose(alone, pulled[one], rtol=tol, atol=tol)

    def run(operands: list[Any]) -> list[Any]:
        return run_operation(op, operands, interpret=interpret)

    want = difference(run, point, wrt, along)
    near = difference(run, point, wrt, [0.5 * a for a in along])
    for found, a, b in zip(tangent, want, near, strict=True):
        # Where the step crosses a kink or a jump, the differences of two steps disagree.
        smooth = np.abs(a - 2.0 * b) < 1e-7 * (1.0 + np.abs(a))
        np.testing.assert_allclose(found[smooth], a[smooth], rtol=1e-5, atol=1e-5)


def check_second(
    op: Operation, point: list[Any], wrt: Sequence[int], seed: int, tol: float
) -> None:
    """Forward over reverse, reverse over reverse and reverse over forward agree to ``tol``."""
    along = directions(point, wrt, seed + 1)
    cts = directions(run_operation(op, point), range(op.visible), seed + 2)
    op, point, _ = smooth(op, point, wrt)
    adjoint = derive.vjp(op, wrt, range(op.visible))
    at = [*point, *cts]
    forward_reverse = push(adjoint.operation, at, wrt, along, False)
    seeds = [along[wrt.index(k)] for k in adjoint.produced]
    reverse_reverse = pull(adjoint.operation, at, wrt, seeds, False)
    tangent = derive.jvp(op, wrt)
    cts_tangent = [cts[j] for j in tangent.produced]
    crossed = pull(tangent.operation, [*point, *along], wrt, cts_tangent, False)
    for k, product in zip(adjoint.produced, forward_reverse, strict=True):
        n = wrt.index(k)
        np.testing.assert_allclose(reverse_reverse[n], product, rtol=tol, atol=tol)
        np.testing.assert_allclose(crossed[n], product, rtol=tol, atol=tol)
