"""Derivatives that users give: what they replace, how modes follow from each other, refusals."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.ir.printer import canonical
from kernelcore.ir.verify import verify
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.autodiff.jvp import jvp
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import normalize, optimize
from kernelcore.passes.vmap import batch
from tests.helpers.kernel_harness import agree
from tests.helpers.operations import run_operation
from tests.helpers.rule_programs import (
    Pair,
    array,
    floats,
    gather_kernel,
    gradient,
    ints,
    mapped,
    quantize,
    refused,
    tangent,
)


def test_a_straight_through_estimator_passes_cotangents_on() -> None:
    x = array(0.3, 0.6, 1.1)
    found = agree(quantize.func, [x, np.zeros_like(x)], 3)[-1]
    np.testing.assert_array_equal(found, np.round(4 * x) * x)
    np.testing.assert_allclose(gradient(quantize, x), np.round(4 * x) + 4 * x, rtol=1e-6)
    t = array(1, 2, 3)
    np.testing.assert_allclose(tangent(quantize, x, t), t * (np.round(4 * x) + 4 * x), rtol=1e-6)


def test_second_derivatives_are_those_of_the_rule() -> None:
    op = kernel_operation(quantize)
    x = array(0.3, 0.6)
    first = derive.vjp(op, [0], [0]).operation
    second = derive.vjp(first, [0], [0])
    (found,) = run_operation(second.operation, [x, np.ones_like(x), np.ones_like(x)])
    # Of round(4 x) + 4 x, where the derivative of round counts as 1 again.
    np.testing.assert_allclose(found, [8, 8], rtol=1e-6)
    pushed = derive.jvp(first, [0])
    (found,) = run_operation(pushed.operation, [x, np.ones_like(x), np.ones_like(x)])
    np.testing.assert_allclose(found, [8, 8], rtol=1e-6)


def test_every_derived_kernel_is_well_formed_and_has_one_meaning() -> None:
    func = quantize.func
    x, ct = array(0.3, 0.6), array(1, 2)
    verify(func)
    for derived in (vjp(func, [0], [1]).func, jvp(func, [0]).func):
        verify(derived)
        verify(normalize(derived))
        agree(optimize(normalize(derived)), [x, np.zeros_like(x), np.zeros_like(x), ct], 2)
    twice = vjp(normalize(vjp(func, [0], [1]).func), [0], [2]).func
    verify(normalize(twice))


def test_a_rule_is_batched() -> None:
    batched = batch(quantize.func, [True, True])
    verify(batched)
    x, ct = np.random.default_rng(0).random((2, 3), np.float32), np.ones((2, 3), np.float32)
    adj = np.zeros_like(x)
    derived = optimize(normalize(vjp(batched, [0], [1]).func))
    adj = agree(derived, [x, np.zeros_like(x), adj, ct], (2, 3))[2]
    np.testing.assert_allclose(adj, np.round(4 * x) + 4 * x, rtol=1e-6)


def test_a_rule_of_arrays_is_batched() -> None:
    a, index = np.ones((2, 3), np.float32), np.array([2, 0, 2, 2], np.int32)
    batched = batch(gather_kernel.func, [True, False, True])
    derived = optimize(normalize(vjp(batched, [0], [2]).func))
    verify(derived)
    ct, adj = np.ones((2, 4), np.float32), np.zeros_like(a)
    found = agree(derived, [a, index, np.zeros((2, 4), np.float32), adj, ct], (2, 4))
    np.testing.assert_array_equal(found[3], [[10, 0, 30]] * 2)


def test_cotangents_that_nobody_asks_for_are_dropped() -> None:
    @kc.func
    def scaled(a: floats, i: int, x: float):
        return a[i] * x

    @kc.func_grad(scaled)
    def scaled_grad(a: floats, i: int, x: float, adj_ret: float):
        kc.adjoint[a][i] += x * adj_ret
        kc.adjoint[x] += a[i] * adj_ret + kc.adjoint[a][i] + float(kc.adjoint[a].shape[0])

    @kc.kernel
    def run(x: floats, a: floats, y: floats):
        i = kc.tid()
        y[i] = scaled(a, i, x[i])

    x, a = array(2, 3), array(5, 7)
    np.testing.assert_array_equal(gradient(run, x, a), a + 2)


def test_rows_of_arrays_have_cotangents() -> None:
    @kc.func
    def first(row: floats):
        return row[0]

    @kc.func_grad(first)
    def first_grad(row: floats, adj_ret: float):
        kc.adjoint[row][1] += 2.0 * adj_ret

    @kc.kernel
    def run(m: kc.array2d(dtype=float), y: floats):
        i = kc.tid()
        y[i] = first(m[i])

    m, y, adj = np.ones((2, 3), np.float32), np.zeros(2, np.float32), np.zeros((2, 3), np.float32)
    kc.launch(run, 2, [m], [y], [adj], [array(1, 2)], adjoint=True)
    np.testing.assert_array_equal(adj, [[0, 2, 0], [0, 4, 0]])


def test_fields_of_structs_have_cotangents() -> None:
    @kc.func
    def weigh(p: Pair):
        return p.x[0] * p.w * float(p.n)

    @kc.func_grad(weigh)
    def weigh_grad(p: Pair, adj_ret: float):
        kc.adjoint[p].x[1] += adj_ret
        kc.adjoint[p].w += 2.0 * adj_ret

    @kc.kernel
    def run(p: Pair, y: floats):
        i = kc.tid()
        y[i] = weigh(p)

    value = Pair()
    value.x, value.n, value.w = kc.vec2(2.0, 3.0), 4, 5.0
    adj = {"x": np.zeros(2, np.float32), "w": np.zeros((), np.float32)}
    y = np.zeros(3, np.float32)
    kc.launch(run, 3, [value], [y], [adj], [np.ones(3, np.float32)], adjoint=True)
    assert adj["x"].tolist() == [0, 3]
    assert adj["w"] == 6


def test_either_mode_follows_from_the_other() -> None:
    @kc.func
    def product(x: float, y: kc.float64):
        return x * float(y), kc.float64(x) + y

    @kc.func_jvp(product)
    def product_jvp(x: float, y: kc.float64, t_x: float, t_y: kc.float64):
        total = t_x * float(y) + x * float(t_y)
        for _ in range(2):
            total = total + 0.0 * total
        return total, kc.float64(t_x) + (t_y if y > 0.0 else kc.float64(0.0))

    @kc.kernel
    def run(x: floats, y: kc.array(dtype=kc.float64), out: kc.array(dtype=kc.float64)):
        i = kc.tid()
        p, s = product(x[i], y[i])
        out[i] = kc.float64(p) * 2.0 + s

    x, y = array(2, 3), np.array([5.0, 7.0])
    adj_x, adj_y, out = np.zeros_like(x), np.zeros_like(y), np.zeros_like(y)
    kc.launch(run, 2, [x, y], [out], [adj_x, adj_y], [np.ones(2)], adjoint=True)
    np.testing.assert_allclose(adj_x, 2 * y + 1)
    np.testing.assert_allclose(adj_y, 2 * x + 1)


def test_code_is_used_inside_of_its_own_rule() -> None:
    @kc.func
    def square(x: float):
        return x * x

    @kc.func_grad(square)
    def square_grad(x: float, adj_ret: float):
        kc.adjoint[x] += square(x) * adj_ret

    x = array(2, 3)
    np.testing.assert_array_equal(gradient(mapped(square), x), x * x)
    op = kernel_operation(mapped(square))
    twice = derive.vjp(derive.vjp(op, [0], [0]).operation, [0], [0])
    (found,) = run_operation(twice.operation, [x, np.ones_like(x), np.ones_like(x)])
    np.testing.assert_array_equal(found, 2 * x)


def test_a_rule_may_return_early_and_loop() -> None:
    @kc.func
    def kink(x: float):
        return kc.abs(x)

    @kc.func_grad(kink)
    def kink_grad(x: float, adj_ret: float) -> None:
        if x == 0.0:
            return
        for k in range(3):
            if k == 2:
                return
            kc.adjoint[x] = kc.adjoint[x] + kc.sign(x) * adj_ret
        kc.adjoint[x] += 100.0

    found = gradient(mapped(kink), array(-1, 0, 2))
    np.testing.assert_array_equal(found, [-2, 0, 2])


def test_generic_functions_have_rules() -> None:
    @kc.func
    def double(x: Any):
        return x + x

    @kc.func_grad(double)
    def double_grad(x: Any, adj_ret: Any):
        kc.adjoint[x] += adj_ret * 3.0

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        v = double(kc.vec2(x[i], 1.0))
        y[i] = double(x[i]) + v.x

    np.testing.assert_array_equal(gradient(run, array(1, 2)), [6, 6])


def test_a_rule_belongs_to_one_overload() -> None:
    @kc.func
    def twice(x: float):
        return x + x

    @kc.func
    def twice(x: kc.vec2):  # noqa: F811
        return x + x

    @kc.func_grad(twice)
    def twice_grad(x: kc.vec2, adj_ret: kc.vec2):
        kc.adjoint[x] += 5.0 * adj_ret

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        y[i] = twice(x[i]) + twice(kc.vec2(x[i], 0.0)).x

    np.testing.assert_array_equal(gradient(run, array(1, 2)), [7, 7])


def test_rules_are_part_of_the_content_hash() -> None:
    def with_factor(factor: float) -> kc.Kernel:
        @kc.func
        def same(x: float):
            return x

        @kc.func_grad(same)
        def same_grad(x: float, adj_ret: float):
            kc.adjoint[x] += factor * adj_ret

        return mapped(same)

    one, two = with_factor(1.0), with_factor(2.0)
    assert canonical(one.func) != canonical(two.func)
    assert kernel_operation(one).key != kernel_operation(two).key
    assert canonical(optimize(one.func)) == canonical(optimize(two.func))


@kc.func
def ticket(counter: ints, kept: ints, i: int):
    n = kc.atomic_add(counter, 0, 1)
    kept[i] = n
    return n


@kc.func_replay(ticket)
def ticket_replay(counter: ints, kept: ints, i: int):
    return kept[i]


@kc.kernel
def compact(x: floats, counter: ints, kept: ints, y: floats):
    i = kc.tid()
    n = ticket(counter, kept, i)
    y[n] = x[i] * x[i]


def test_recomputation_reuses_the_result_of_an_atomic() -> None:
    x = array(1, 2, 3, 4)
    counter, kept, y = np.zeros(1, np.int32), np.zeros(4, np.int32), np.zeros_like(x)
    kc.launch(compact, 4, [x, counter, kept], [y])
    assert sorted(kept.tolist()) == [0, 1, 2, 3]
    adj, ct = np.zeros_like(x), array(10, 20, 30, 40)
    kc.launch(compact, 4, [x, counter, kept], [y], [adj, None, None], [ct], adjoint=True)
    np.testing.assert_array_equal(adj, 2 * x * ct[kept])
    assert counter.tolist() == [4]


def test_operators_refuse_rules_that_read_final_elements() -> None:
    op = kernel_operation(compact, outputs=["y"], in_out=["counter", "kept"], output_dims="x")
    for derived in (lambda: derive.vjp(op, [0], [2]), lambda: derive.jvp(op, [0])):
        refused(derived, "its derivative reads 'kept' as the launch left it")

    @kc.func
    def noted(x: float, kept: floats, i: int):
        kept[i] = 2.0 * x
        return x * x

    @kc.func_replay(noted)
    def noted_replay(x: float, kept: floats, i: int):
        return x * x

    @kc.func_grad(noted)
    def noted_grad(x: float, kept: floats, i: int, adj_ret: float):
        kc.adjoint[x] += kept[i] * adj_ret

    @kc.kernel
    def run(x: floats, kept: floats, y: floats):
        i = kc.tid()
        y[i] = noted(x[i], kept, i)

    x, kept, out, adj = array(1, 2), array(0, 0), array(0, 0), array(0, 0)
    kc.launch(run, 2, [x], [kept, out])
    kc.launch(run, 2, [x], [kept, out], [adj], [None, array(1, 1)], adjoint=True)
    np.testing.assert_array_equal(adj, 2 * x)
    op = kernel_operation(run)
    refused(lambda: derive.vjp(op, [0], [1]), "its derivative reads 'kept' as the launch left it")


def test_a_recomputation_snippet_may_go_with_a_gradient() -> None:
    @kc.func
    def slow(x: float):
        return x * x

    @kc.func_replay(slow)
    def slow_replay(x: float):
        return 100.0 * x

    @kc.func_grad(slow)
    def slow_grad(x: float, adj_ret: float):
        kc.adjoint[x] += 7.0 * adj_ret

    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        v = slow(x[i])
        y[i] = v * v

    x = array(2, 3)
    np.testing.assert_array_equal(agree(run.func, [x, np.zeros_like(x)], 2)[-1], x**4)
    np.testing.assert_array_equal(gradient(run, x), 2 * 100 * x * 7)
