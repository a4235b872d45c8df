"""Derivatives of every pattern: against central differences and each other, to second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kernelcore.operators import derive
from kernelcore.operators.operation import Operation
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.kernel_harness import unoptimised
from tests.helpers.operations import Arrays, run_operation, smooth
from tests.helpers.patterns import PATTERNS, Pattern

RTOL = 1e-6
# The first derivatives are compiled with LLVM's optimisations; for the others, which are more code
# of the same kinds, these would take two thirds of the time.
patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
engines = pytest.mark.parametrize("interpret", [True, False], ids=["interpreted", "compiled"])
Point = list[Any]


def setup(pattern: Pattern, seed: int = 0) -> tuple[Operation, Point]:
    op = kernel_operation(pattern.kernel, **pattern.options)
    return op, pattern.arguments(np.random.default_rng(seed))


def float_operands(op: Operation, point: Point) -> list[int]:
    return [k for k in range(len(op.operands)) if np.asarray(point[k]).dtype.kind == "f"]


def directions(point: Point, wrt: Sequence[int], seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(np.shape(point[k])).astype(np.asarray(point[k]).dtype) for k in wrt]


def difference(
    function: Callable[[Point], Arrays], point: Point, wrt: Sequence[int], along: Arrays
) -> Arrays:
    """Central difference of ``function`` at ``point`` along a direction, fourth order."""
    h = 2e-3 if any(np.asarray(point[k]).dtype == np.float32 for k in wrt) else 2e-4

    def at(t: float) -> Arrays:
        moved = list(point)
        for k, d in zip(wrt, along, strict=True):
            moved[k] = np.asarray(point[k], np.float64) + t * d
        return function(
            [np.asarray(m).astype(np.asarray(p).dtype) for m, p in zip(moved, point, strict=True)]
        )

    pairs = [zip(at(s * h), at(-s * h), strict=True) for s in (1, 2)]
    one, two = ([(a - b) / (2 * s * h) for a, b in p] for s, p in zip((1, 2), pairs, strict=True))
    return [(4 * a - b) / 3 for a, b in zip(one, two, strict=True)]


def push(op: Operation, point: Point, wrt: Sequence[int], along: Arrays, interpret: bool) -> Arrays:
    """The JVP as arrays for all results."""
    base = smooth(op, point, wrt, interpret=interpret)
    derived = derive.jvp(base.operation, wrt)
    along = [a * base.own.get(k, 1.0) for k, a in zip(wrt, along, strict=True)]
    found = run_operation(derived.operation, [*base.operands, *along], interpret=interpret)
    results = dict(zip(derived.produced, found, strict=True))
    shapes = run_operation(op, point, interpret=interpret)
    return [results.get(j, np.zeros_like(r)) for j, r in enumerate(shapes)]


def pull(op: Operation, point: Point, wrt: Sequence[int], cts: Arrays, interpret: bool) -> Arrays:
    """The VJP as arrays for all of ``wrt``."""
    base = smooth(op, point, wrt, interpret=interpret)
    derived = derive.vjp(base.operation, wrt, range(op.visible))
    found = run_operation(derived.operation, [*base.operands, *cts], interpret=interpret)
    results = dict(zip(derived.produced, found, strict=True))
    return [results.get(k, np.zeros(np.shape(point[k]))) * base.own.get(k, 1.0) for k in wrt]


def dot(a: Arrays, b: Arrays) -> float:
    return float(sum(np.sum(x.astype(np.float64) * y) for x, y in zip(a, b, strict=True)))


def tolerance(point: Point) -> float:
    narrow = any(np.asarray(p).dtype == np.float32 for p in point)
    return 1e-3 if narrow else RTOL


@patterns
@engines
def test_operation_matches_its_reference(pattern: Pattern, interpret: bool) -> None:
    op, point = setup(pattern)
    found = run_operation(op, point, interpret=interpret)
    for a, b in zip(found, pattern.reference(*point), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@patterns
@engines
def test_jvp_matches_central_differences(pattern: Pattern, interpret: bool) -> None:
    op, point = setup(pattern)
    wrt = float_operands(op, point)
    along = directions(point, wrt, 1)
    found = push(op, point, wrt, along, interpret)
    want = difference(lambda p: list(pattern.reference(*p)), point, wrt, along)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance(point), atol=tolerance(point))


@patterns
@engines
def test_vjp_matches_central_differences(pattern: Pattern, interpret: bool) -> None:
    op, point = setup(pattern)
    wrt = float_operands(op, point)
    cts = directions(run_operation(op, point), range(op.visible), 2)
    found = pull(op, point, wrt, cts, interpret)
    for n, k in enumerate(wrt):
        along = directions(point, [k], 3)
        want = dot(cts, difference(lambda p: list(pattern.reference(*p)), point, [k], along))
        np.testing.assert_allclose(
            dot([found[n]], along), want, rtol=tolerance(point), atol=tolerance(point)
        )


@patterns
def test_vjp_is_the_transpose_of_jvp(pattern: Pattern) -> None:
    op, point = setup(pattern)
    wrt = float_operands(op, point)
    along = directions(point, wrt, 1)
    cts = directions(run_operation(op, point), range(op.visible), 2)
    forward = dot(cts, push(op, point, wrt, along, False))
    backward = dot(pull(op, point, wrt, cts, False), along)
    narrow = any(np.asarray(p).dtype == np.float32 for p in point)
    np.testing.assert_allclose(forward, backward, rtol=1e-5 if narrow else 1e-10)


@patterns
@unoptimised()
def test_second_derivatives_agree_in_every_order_of_modes(pattern: Pattern) -> None:
    """Hessian-vector products of <ct, f> by JVP(VJP) and VJP(JVP), VJP(VJP) and differences."""
    op, point = setup(pattern)
    wrt = float_operands(op, point)
    cts = directions(run_operation(op, point), range(op.visible), 2)
    along = directions(point, wrt, 1)
    base, start, _ = smooth(op, point, wrt)
    adjoint = derive.vjp(base, wrt, range(op.visible))
    gradient_of = adjoint.operation
    at = [*start, *cts]

    forward_reverse = push(gradient_of, at, wrt, along, False)
    seeds = [along[wrt.index(k)] for k in adjoint.produced]
    reverse_reverse = pull(gradient_of, at, wrt, seeds, False)
    tangent = derive.jvp(base, wrt)
    ct_tangent = [cts[j] for j in tangent.produced]
    reverse_forward = pull(tangent.operation, [*start, *along], wrt, ct_tangent, False)
    want = difference(lambda p: pull(op, p, adjoint.produced, cts, False), point, wrt, along)
    rtol = tolerance(point)
    by_operand = dict(zip(wrt, reverse_reverse, strict=True))
    crossed = dict(zip(wrt, reverse_forward, strict=True))
    for k, a, b in zip(adjoint.produced, forward_reverse, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(by_operand[k], a, rtol=1e-3 * rtol, atol=1e-3 * rtol)
        np.testing.assert_allclose(crossed[k], a, rtol=1e-3 * rtol, atol=1e-3 * rtol)


@patterns
@unoptimised()
def test_selected_derivatives_equal_the_full_ones(pattern: Pattern) -> None:
    op, point = setup(pattern)
    wrt = float_operands(op, point)
    cts = directions(run_operation(op, point), range(op.visible), 2)
    full = pull(op, point, wrt, cts, False)
    for n, k in enumerate(wrt):
        (alone,) = pull(op, point, [k], cts, False)
        np.testing.assert_allclose(alone, full[n], rtol=1e-12, atol=1e-12)


@patterns
@unoptimised()
def test_batching_is_one_run_per_instance(pattern: Pattern) -> None:
    op, first = setup(pattern, 0)
    _, second = setup(pattern, 5)
    for mask in ([True] * len(first), [k in op.owners() or k == 0 for k in range(len(first))]):
        batched = derive.batch(op, mask)
        pairs = [(a, b if m else a) for a, b, m in zip(first, second, mask, strict=True)]
        operands = [np.stack(p) if m else p[0] for p, m in zip(pairs, mask, strict=True)]
        found = run_operation(batched, operands)
        for instance in (0, 1):
            want = run_operation(op, [p[instance] for p in pairs])
            for a, b in zip(found, want, strict=True):
                np.testing.assert_allclose(a[instance], b, rtol=1e-13, atol=1e-13)


@patterns
@unoptimised()
def test_vjp_of_a_batch_sums_over_shared_operands(pattern: Pattern) -> None:
    op, first = setup(pattern, 0)
    _, second = setup(pattern, 5)
    wrt = float_operands(op, first)
    mask = [k in op.owners() or k == 0 for k in range(len(first))]
    pairs = [(a, b if m else a) for a, b, m in zip(first, second, mask, strict=True)]
    operands = [np.stack(p) if m else p[0] for p, m in zip(pairs, mask, strict=True)]
    batched = derive.batch(op, mask)
    cts = directions(run_operation(batched, operands), range(op.visible), 2)
    found = pull(batched, operands, wrt, cts, False)
    singles = [pull(op, [p[i] for p in pairs], wrt, [c[i] for c in cts], False) for i in (0, 1)]
    for n, k in enumerate(wrt):
        want = np.stack([s[n] for s in singles])
        np.testing.assert_allclose(
            found[n], want if mask[k] else want.sum(axis=0), rtol=1e-5, atol=1e-10
        )
