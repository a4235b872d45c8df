"""Loops whose turns run in step: bits of single turns, and which loops these are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen.analysis.loop_dependence import loops_in_step
from kernelcore.codegen.simd.loop_vectorize import TURNS
from kernelcore.codegen.simd.strategy import Form, form_for
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import agree
from tests.helpers.operations import run_operation

F32, I32, VEC3 = kc.array(kc.float32, 1), kc.array(kc.int32, 1), kc.array(kc.vec3, 1)
I64 = kc.array(kc.int64, 1)
POINTS = 500
RADIUS = 0.4


@kc.kernel
def density(x: VEC3, start: I32, neighbour: I32, h: float, rho: F32):
    i = kc.tid()
    here = x[i]
    total = 0.0
    for k in range(start[i], start[i + 1]):
        d = x[neighbour[k]] - here
        near = h * h - kc.dot(d, d)
        if near > 0.0:
            total += near * near * near
    rho[i] = total


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def particles(points: int = POINTS) -> list[np.ndarray]:
    """Points in a box, and for each up to 40 others, some of which are near."""
    rng = np.random.default_rng(0)
    x = rng.random((points, 3)).astype(np.float32)
    start = np.concatenate([[0], np.cumsum(rng.integers(0, 41, points))]).astype(np.int32)
    neighbour = rng.integers(0, points, start[-1]).astype(np.int32)
    return [x, start, neighbour]


def adjoint_of_density(points: int = POINTS) -> tuple[Any, list[Any]]:
    """The adjoint with respect to the points and the radius, and operands for it."""
    op = kernel_operation(density)
    x, start, neighbour = particles(points)
    cotangent = floats(np.random.default_rng(1), points)
    adjoint = derive.vjp(op, [0, 3], range(op.visible)).operation
    return adjoint, [x, start, neighbour, np.float32(RADIUS), cotangent]


def test_a_loop_over_neighbours_has_the_bits_of_the_interpreter() -> None:
    func = optimize(density.func)
    assert loops_in_step(func)
    agree(func, [*particles(), RADIUS, np.zeros(POINTS, np.float32)], POINTS, None, 1, TURNS)


def test_arrays_that_are_not_packed() -> None:
    x, start, neighbour = particles()
    args = [np.repeat(x, 2, 0)[::2], start, neighbour, RADIUS, np.zeros(POINTS, np.float32)]
    agree(optimize(density.func), args, POINTS, None, 1, TURNS)


def test_adjoints_have_the_bits_of_single_turns() -> None:
    adjoint, operands = adjoint_of_density()
    assert loops_in_step(optimize(adjoint.func))
    want = run_operation(adjoint, operands, lanes=1)
    found = run_operation(adjoint, operands, lanes=1, turns=TURNS)
    for a, b in zip(want, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("points", [POINTS, 20_000])
def test_threads_add_in_the_same_order(points: int) -> None:
    adjoint, operands = adjoint_of_density(points)
    kc.set_num_threads(1)
    want = run_operation(adjoint, operands)
    for one, other in zip(want, run_operation(adjoint, operands, lanes=1), strict=True):
        # Chunks that add to copies of a small array have another order.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    for threads in (2, 8):
        kc.set_num_threads(threads)
        for one, other in zip(want, run_operation(adjoint, operands), strict=True):
            np.testing.assert_array_equal(one, other)


@kc.kernel
def every_sum(at: I32, x: VEC3, count: I32, near: VEC3, out: VEC3, n: I32):
    i = kc.tid()
    total, steps = kc.vec3(0.0, -0.0, 1.0), 0
    for k in range(i % 40, -1, -1):
        j = at[k]
        d = x[j] - x[i]
        q = kc.exp(-kc.dot(d, d))
        total -= q * d
        if j % 3 == 0:
            steps += j
            kc.atomic_add(near, j, q * d)
        elif q > 0.5:
            steps -= 1
            total += d
        kc.atomic_add(count, (i + k) % 50, 1)
    out[i] = total
    n[i] = steps


def test_sums_and_additions_in_branches() -> None:
    rng = np.random.default_rng(2)
    at, x = rng.integers(0, 70, 40).astype(np.int32), floats(rng, 70, 3)
    sums = [np.zeros(50, np.int32), x.copy(), np.zeros_like(x), np.zeros(70, np.int32)]
    agree(optimize(every_sum.func), [at, x, *sums], 70, None, 1, TURNS)


@kc.kernel
def signed_zeros(x: F32, y: kc.array(kc.float64, 1), z: F32, added: F32):
    i = kc.tid()
    up, down, zero = kc.float64(-0.0), kc.float32(-0.0), kc.float32(0.0)
    for k in range(i):
        up += kc.float64(x[k % 7])
        down -= kc.abs(x[k % 7])
        zero -= x[k % 7]
        kc.atomic_add(added, (i + k) % 50, x[k % 7])
    y[i] = up
    z[i] = down if i % 2 == 0 else zero


def test_turns_that_repeat_the_last_one_keep_the_sign_of_zero() -> None:
    y, z, added = np.zeros(40), np.zeros(40, np.float32), np.full(50, -0.0, np.float32)
    args = [np.full(7, -0.0, np.float32), y, z, added]
    y, z, added = agree(optimize(signed_zeros.func), args, 40, None, 1, TURNS)[1:]
    assert np.signbit(y).all()
    assert np.signbit(added).all()
    assert (np.signbit(z) == (np.arange(40) % 2 == 0)).all()


@kc.kernel
def guarded(at: I32, x: F32, added: F32, y: F32):
    i = kc.tid()
    total, quotients = 0.0, 0
    for k in range(i % 40):
        j = at[k]
        if j >= 0 and j < 20:
            total += x[j]
            kc.atomic_add(added, j, x[j])
            quotients += 100 // (j - 4)
        if k < 20 and k > 5:
            total -= x[k]
    y[i] = total + kc.float32(quotients)


def test_turns_touch_no_memory_that_a_branch_keeps_them_from() -> None:
    choices = [3, 4, 19, 20, -5, 2**30, -(2**31), 2**31 - 1]
    at = np.random.default_rng(3).choice(choices, 40).astype(np.int32)
    x = floats(np.random.default_rng(4), 2, 20)
    func = optimize(guarded.func)
    assert loops_in_step(func)
    agree(func, [at, x[0], x[1], np.zeros(70, np.float32)], 70, None, 1, TURNS)


@kc.kernel
def of_every_width(
    h: kc.array(kc.float16, 1),
    b: kc.array(kc.bfloat16, 1),
    is_used: kc.array(bool, 1),
    small: kc.array(kc.int8, 1),
    large: kc.array(kc.uint64, 1),
    m: kc.array(kc.mat22, 1),
    at: I32,
    y: F32,
    few: kc.array(kc.int8, 1),
    count: kc.array(kc.int8, 1),
    many: kc.array(kc.uint64, 1),
):
    i = kc.tid()
    total, few_left, number = 0.0, kc.int8(3), kc.uint64(5)
    for k in range(i % 40):
        j = at[k]
        total += kc.float32(h[j]) * kc.float32(b[k]) + m[j][0, 1]
        few_left -= small[j] * small[k]
        if is_used[j]:
            number -= large[k] * kc.uint64(7)
            kc.atomic_add(few, j, small[k])
    y[i] = total
    count[i] = few_left
    many[i] = number


def test_numbers_of_every_width() -> None:
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 2**63, 120).astype(np.uint64)
    h, b = (floats(rng, 50).astype(t.numpy) for t in (kc.float16, kc.bfloat16))
    small, at = numbers.astype(np.int8), rng.integers(0, 50, 50).astype(np.int32)
    args = [h, b, numbers % 3 == 0, small, numbers, floats(rng, 50, 2, 2), at]
    results = [np.zeros(70, np.float32), small.copy(), small.copy(), numbers.copy()]
    func = optimize(of_every_width.func)
    assert loops_in_step(func)
    agree(func, [*args, *results], 70, None, 1, TURNS)


@kc.kernel
def near_limits(x: F32, first: I64, last: I64, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(first[i], last[i], kc.int64(3)):
        total += x[k & kc.int64(31)] * kc.float32(k * kc.int64(5) % kc.int64(1000))
    for k in range(last[i], first[i], kc.int64(-5)):
        total -= x[(k * kc.int64(2**62 + 1)) & kc.int64(31)]
    y[i] = total


@pytest.mark.parametrize("limit", [-(2**63), 2**63 - 1])
def test_indices_that_would_pass_the_limits_of_their_type(limit: int) -> None:
    func = optimize(near_limits.func)
    assert len(loops_in_step(func)) == 2
    x, inner = floats(np.random.default_rng(6), 32), np.arange(60)
    bounds = np.sort([np.full(60, limit), limit - inner if limit > 0 else limit + inner], axis=0)
    agree(func, [x, *bounds, np.zeros(60, np.float32)], 60, None, 1, TURNS)


@kc.kernel
def stores(x: F32, y: F32):
    for k in range(kc.tid()):
        y[k] = x[k] * x[k]


@kc.kernel
def sees_its_additions(x: F32, y: F32):
    i = kc.tid()
    for k in range(i):
        kc.atomic_add(y, k, x[k] * y[k + 1])


@kc.kernel
def adds_at_two_places(x: F32, y: F32):
    for k in range(kc.tid()):
        kc.atomic_add(y, k, x[k])
        kc.atomic_add(y, 2 * k, x[k])


@kc.kernel
def multiplies(x: F32, y: F32):
    i = kc.tid()
    product = 1.0
    for k in range(i):
        product *= x[k]
    y[i] = product


@kc.kernel
def sees_its_sum(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total += kc.sin(total + x[k])
    y[i] = total


@kc.kernel
def leaves_early(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total += kc.sin(x[k])
        if total > 3.0:
            break
    y[i] = total


@kc.kernel
def asks_for_old_elements(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total += kc.atomic_add(y, k, x[k])
    x[i] = total


@kc.kernel
def checks(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        assert x[k] < 3.0
        total += x[k]
    y[i] = total


@kc.kernel
def adds_in_one_arm_of_what_it_replaces_in_the_other(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(i):
        total = total + x[k] if x[k] > 0.0 else x[k]
    y[i] = total


@pytest.mark.parametrize(
    "kernel",
    [
        stores,
        sees_its_additions,
        adds_at_two_places,
        multiplies,
        sees_its_sum,
        leaves_early,
        asks_for_old_elements,
        checks,
        adds_in_one_arm_of_what_it_replaces_in_the_other,
    ],
    ids=lambda k: k.func.name,
)
def test_turns_that_need_those_before_are_taken_one_by_one(kernel: kc.Kernel) -> None:
    assert not loops_in_step(optimize(kernel.func))


@kc.kernel
def sparse_product(start: I32, column: I32, value: F32, x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(start[i], start[i + 1]):
        total += value[k] * x[column[k]]
    y[i] = total


def test_form_follows_from_what_a_turn_computes() -> None:
    adjoint, _ = adjoint_of_density()
    in_step = Form(turns=TURNS)
    assert [form_for(optimize(f), host()) for f in (density.func, adjoint.func)] == [in_step] * 2
    assert form_for(optimize(sparse_product.func), host()) == Form()
