"""Calls of kernels from JAX: outputs, shapes, scalars, in-out arguments, chaining."""

from __future__ import annotations

import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from kernelcore import _native as native
from tests.jax.kernels import (
    F64,
    I32,
    assert_close,
    axpy,
    compiled_text,
    iota,
    matmul,
    mixed,
    row_sums,
    row_sums_reference,
    scale_in_place,
)


def launch_axpy(x: kc.array(dtype=float), a: float, n: int, o: kc.array(dtype=float)):
    kc.launch(axpy, x.shape, [x, a, n], [o])


def test_results_are_a_tuple_in_the_order_of_the_parameters() -> None:
    x = jnp.linspace(0.1, 1.0, 4)
    results = jax_kernel(mixed, num_outputs=2)(x, x, 0.5, output_dims={"r": 1})
    assert isinstance(results, tuple)
    assert [r.shape for r in results] == [(4,), (1,)]


def test_arguments_are_taken_by_name() -> None:
    x, y = jnp.linspace(0.1, 1.0, 4), jnp.linspace(1.0, 2.0, 4)
    call = jax_kernel(mixed, num_outputs=2, output_dims={"r": 1})
    assert_close(call(x, s=0.5, y=y), call(x, y, 0.5))


def test_launch_dims_shape_the_output_of_a_kernel_without_inputs() -> None:
    call = jax_kernel(iota)
    (actual,) = jax.jit(lambda: call(launch_dims=4))()
    assert_close(actual, jnp.array([0, 3, 6, 9], jnp.int32))
    same: list[Any] = [(2,), 2, np.int64(2), jnp.array(2), np.array([2])]
    for dims in same:
        assert_close(jax_kernel(iota, launch_dims=dims)()[0], jnp.array([0, 3], jnp.int32))


def test_output_larger_than_the_launch_is_zero_elsewhere() -> None:
    (actual,) = jax_kernel(iota)(launch_dims=2, output_dims=4)
    assert_close(actual, jnp.array([0, 3, 0, 0], jnp.int32))


@pytest.mark.parametrize("dims", [(3, 5), ("a.shape[0]", "b.shape[1]")])
def test_matmul_with_launch_dims_is_differentiable(dims: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = jnp.array(rng.normal(size=(3, 4))), jnp.array(rng.normal(size=(4, 5)))
    call = partial(jax_kernel(matmul), launch_dims=dims)
    assert_close(jax.jit(lambda a, b: call(a, b)[0])(a, b), a @ b)

    def gradients(g: Any) -> Any:
        return jax.grad(lambda a, b: jnp.sum(jnp.sin(g(a, b))), (0, 1))(a, b)

    assert_close(gradients(lambda a, b: call(a, b)[0]), gradients(jnp.matmul))


def test_matmul_with_output_dims_for_every_call() -> None:
    call = jax_kernel(matmul)

    @jax.jit
    def run() -> Any:
        small = call(jnp.ones((3, 2)), jnp.ones((2, 4)), launch_dims=(3, 4), output_dims=(3, 4))
        large = call(
            jnp.ones((4, 2)), jnp.ones((2, 3)), launch_dims=(4, 3), output_dims={"c": (5, 3)}
        )
        return small[0], large[0]

    small, large = run()
    assert_close(small, jnp.full((3, 4), 2.0))
    assert_close(large, jnp.concatenate([jnp.full((4, 3), 2.0), jnp.zeros((1, 3))]))


@pytest.mark.parametrize("n", [-(2**31), np.int64(2**31 - 1), np.uint8(255)])
def test_integers_arrive_exactly(n: Any) -> None:
    @kc.kernel
    def store(n: int, o: I32):
        i = kc.tid()
        o[i] = n

    call = jax_kernel(store, launch_dims=1)
    expected = jnp.array([int(n)], jnp.int32)
    assert_close(call(n)[0], expected)
    assert_close(call(jnp.asarray(int(n)))[0], expected)


@pytest.mark.parametrize(
    "a", [2, 2.5, np.float32(2.5), np.float64(2.5), np.int64(2), np.longdouble(2.5), 10**20]
)
def test_scalars_are_numbers(a: Any) -> None:
    x = jnp.arange(4, dtype=jnp.float32)
    expected = jnp.float32(a) * x + 3
    assert_close(jax_kernel(axpy)(x, a, 3)[0], expected)
    assert_close(jax.jit(lambda x: jax_kernel(axpy)(x, a, np.int8(3))[0])(x), expected)


def test_scalars_are_traced() -> None:
    x = jnp.arange(4, dtype=jnp.float32)
    call = jax.jit(lambda x, a, n: jax_kernel(axpy)(x, a, n)[0])
    expected = 2.5 * x + 3
    assert_close(call(x, jnp.float32(2.5), jnp.int32(3)), expected)
    assert_close(jax.jit(lambda n: call(x, 2.5, n.astype("int32")))(3), expected)
    with jax.enable_x64(False):
        assert_close(call(x, 2.5, 3), expected)


def test_gradient_of_a_traced_scalar() -> None:
    x = jnp.arange(4, dtype=jnp.float32)
    slope = jax.grad(lambda a: jnp.sum(jax_kernel(axpy)(x, a, 3)[0] ** 2))
    assert_close(slope(jnp.float32(2.0)), jnp.float32(2 * np.sum((2.0 * x + 3) * x)))


def test_in_out_argument_is_preserved() -> None:
    matrix, sums = jnp.arange(6.0).reshape(2, 3), jnp.ones(2)
    call = jax_kernel(row_sums, in_out_argnames=["sums"])
    (actual,) = call(matrix, sums)
    assert_close(actual, row_sums_reference(matrix, sums))
    assert_close(sums, jnp.ones(2))


def test_in_out_argument_that_is_a_numpy_array_is_preserved() -> None:
    matrix, sums = np.arange(6.0).reshape(2, 3), np.ones(2)
    call = jax_kernel(row_sums, in_out_argnames=["sums"])
    assert_close(call(matrix, sums)[0], row_sums_reference(jnp.array(matrix), jnp.array(sums)))
    np.testing.assert_array_equal(sums, np.ones(2))


def test_donated_in_out_argument_is_updated_in_place() -> None:
    call = jax_kernel(scale_in_place, in_out_argnames=["o"])
    run = jax.jit(lambda x, o: call(x, o)[0], donate_argnums=1)
    x, o = jnp.full(8, 3.0), jnp.full(8, 2.0)
    before = o.unsafe_buffer_pointer()
    result = run(x, o)
    assert_close(result, jnp.full(8, 6.0))
    assert result.unsafe_buffer_pointer() == before
    assert o.is_deleted()


def test_second_derivatives_of_an_in_place_update() -> None:
    rng = np.random.default_rng(3)
    x, o = jnp.array(rng.normal(size=3)), jnp.array(rng.normal(size=3))
    call = jax_kernel(scale_in_place, in_out_argnames=["o"])

    def hessians(g: Any) -> Any:
        return jax.hessian(lambda x, o: jnp.sum(jnp.sin(g(x, o))), (0, 1))(x, o)

    assert_close(hessians(lambda x, o: call(x, o)[0]), hessians(lambda x, o: x * o))


@pytest.mark.parametrize("size", [0, 1])
def test_zero_size_arrays(size: int) -> None:
    x = jnp.ones(size)
    call = jax_kernel(mixed, num_outputs=2, output_dims={"r": 1})
    o, r = call(x, x, 0.0)
    assert o.shape == (size,)
    assert_close(r, jnp.array([float(size)]))
    gradient = jax.grad(lambda x: jnp.sum(call(x, x, 0.0)[1]))(x)
    assert_close(gradient, jnp.ones(size))


def test_chained_calls_in_one_jit() -> None:
    call = jax_kernel(axpy)

    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(50):
            (x,) = call(x, 0.5, 1)
        return x

    assert_close(chain(jnp.zeros(8, jnp.float32)), jnp.full(8, 2.0, jnp.float32))


def test_large_launch_uses_every_element() -> None:
    x = jnp.arange(300_000, dtype=jnp.float32) / 1e5
    assert_close(jax.jit(lambda x: jax_kernel(axpy)(x, 2.0, 1)[0])(x), 2.0 * x + 1.0)


def test_export_with_symbolic_shapes() -> None:
    def run(a: Any, b: Any) -> Any:
        call = jax_kernel(matmul, launch_dims=("a.shape[0]", "b.shape[1]"))
        return jax.grad(lambda a: jnp.sum(call(a, b)[0] ** 2))(a)

    n, k, m = export.symbolic_shape("n, k, m")
    shapes = [jax.ShapeDtypeStruct(s, jnp.float64) for s in ((n, k), (k, m))]
    allowed = [export.DisabledSafetyCheck.custom_call("kernelcore_launch")]
    exported = export.export(jax.jit(run), disabled_checks=allowed)(*shapes)
    rng = np.random.default_rng(0)
    for sizes in ((2, 3, 4), (1, 2, 5)):
        a, b = jnp.array(rng.normal(size=sizes[:2])), jnp.array(rng.normal(size=sizes[1:]))
        assert_close(exported.call(a, b), 2 * a @ b @ b.T)


def test_threads_share_a_kernel() -> None:
    call = jax_kernel(axpy)

    def work(size: int) -> bool:
        x = jnp.arange(size, dtype=jnp.float32)
        return all(np.array_equal(call(x, float(k), 1)[0], k * x + 1) for k in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(1, 9)))


def test_eager_calls_compile_once() -> None:
    call = jax_kernel(axpy)
    x = jnp.ones(3, jnp.float32)
    call(x, 0.5, 1)
    with jax.log_compiles(True), jax.no_tracing():
        call(x, 0.25, 2)


def test_ten_thousand_eager_calls_leave_nothing() -> None:
    """Neither a registered kernel, a plan, a compiled program nor an object per call."""
    kernel, function = jax_kernel(axpy), jax_callable(launch_axpy)
    x = jnp.ones(3, jnp.float32)

    def calls(count: int) -> list[int]:
        for k in range(count):
            kernel(x, 0.5 * k, k)
            function(x, 0.5 * k, k)
        gc.collect()
        known = [native.count_registered_kernels(), native.count_xla_plans()]
        return [*known, len(kernel.calls), len(function.specialisations), len(gc.get_objects())]

    calls(10)
    before = calls(10)
    with jax.no_tracing():
        after = calls(5_000)
    assert after[:-1] == before[:-1]
    assert after[-1] <= before[-1] + 100


@pytest.mark.parametrize("has_side_effect", [True, False])
def test_calls_run_without_jit(has_side_effect: bool) -> None:
    call = jax_kernel(axpy, has_side_effect=has_side_effect)
    x = jnp.ones((2, 3), jnp.float32)

    def gradient(x: Any) -> Any:
        return jax.grad(lambda x: jnp.sum(call(x, 2.0, 1)[0] ** 2))(x)

    with jax.disable_jit():
        assert_close(call(x[0], 2.0, 1)[0], 2 * x[0] + 1)
        if not has_side_effect:
            assert_close(jax.jit(jax.vmap(gradient))(x), 4 * (2 * x + 1))


def test_debug_nans_names_the_primitive() -> None:
    call = jax_kernel(axpy)
    x = jnp.array([1.0, jnp.nan], jnp.float32)
    functions = [lambda x: call(x, 2.0, 1)[0], jax.jit(lambda x: call(x, 2.0, 1)[0] * 2)]
    with jax.debug_nans(True):
        for function in functions:
            assert_close(function(jnp.ones(2, jnp.float32)).shape, (2,))
            with pytest.raises(FloatingPointError, match=r"nan.*of kernel axpy \(kernels.py:\d+\)"):
                function(x)


def test_copies_share_the_kernel() -> None:
    call = jax_kernel(axpy)
    x = jnp.ones(3, jnp.float32)
    for copied in (copy.copy(call), copy.deepcopy({"call": call})["call"]):
        assert copied.kernel is axpy
        assert_close(copied(x, 2.0, 1)[0], 2 * x + 1)


def test_functions_of_one_kernel_with_equal_options_are_equal() -> None:
    made = [
        lambda **o: jax_kernel(axpy, **o),
        lambda **o: kc.op(axpy, **o).jax,
        lambda **o: kc.op(axpy, **o),
        lambda **o: jax_callable(launch_axpy, **o),
    ]
    for make in made:
        assert make() == make()
        assert len({make(), make(), make(output_dims=(3,)), make(output_dims=[3])}) == 2
        assert pickle.loads(pickle.dumps(make())) == make()
    assert jax_kernel(axpy) != jax_kernel(axpy, enable_backward=False)
    assert jax_kernel(axpy) != jax_kernel(row_sums)
    assert kc.op(axpy, defaults={"a": 0.0}) != kc.op(axpy, defaults={"a": -0.0})


def test_modules_that_hold_functions_of_kernels_do_not_retrace() -> None:
    @partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["call"])
    @dataclass
    class Module:
        weight: jax.Array
        call: Any

    traced: list[str] = []

    @jax.jit
    def run(module: Module, x: jax.Array) -> jax.Array:
        traced.append("run")
        return module.call(x, 2.0, 1)[0] * module.weight

    x = jnp.ones(3, jnp.float32)
    for make in (jax_kernel, lambda k: kc.op(k, outputs="o").jax):
        for _ in range(3):
            module = Module(x, make(axpy))
            assert jax.tree.structure(module) == jax.tree.structure(Module(x, make(axpy)))
            assert_close(run(module, x), 2 * x + 1)
    # Once each: operators of kc.op may be fused.
    assert traced == ["run", "run"]


def test_call_with_side_effect_stays_without_uses() -> None:
    def calls(has_side_effect: bool) -> int:
        call = jax_kernel(axpy, has_side_effect=has_side_effect)

        def unused(x: Any) -> Any:
            call(x, 2.0, 1)
            return x + 1

        return compiled_text(unused, jnp.ones(3, jnp.float32)).count(" custom-call(")

    assert (calls(True), calls(False)) == (1, 0)


def test_side_effect_in_control_flow() -> None:
    call = jax_kernel(axpy, has_side_effect=True)

    def total(x: Any) -> Any:
        carry, _ = jax.lax.scan(lambda c, _: (call(c, 2.0, 0)[0], None), x, None, length=3)
        return jnp.sum(carry)

    x = jnp.ones(3, jnp.float32)
    assert_close(jax.jit(jax.grad(total))(x), 8 * x)


def test_side_effects_are_recomputed_and_pass_custom_rules() -> None:
    call = jax_kernel(axpy, has_side_effect=True)

    @jax.custom_vjp
    def ruled(x: Any) -> Any:
        return call(x, 2.0, 0)[0]

    ruled.defvjp(lambda x: (ruled(x), x), lambda x, ct: (2 * ct,))

    @jax.checkpoint
    def step(x: Any, _: Any) -> Any:
        return jax.lax.cond(x[0] > 0, lambda x: call(x, 2.0, 0)[0], ruled, x), None

    def total(x: Any) -> Any:
        return jnp.sum(jax.lax.scan(step, x, None, length=3)[0])

    for sign in (1, -1):
        x = jnp.full(3, sign, jnp.float32)
        assert_close(jax.jit(jax.grad(total))(x), 8 * jnp.ones(3, jnp.float32))


def test_kernels_of_one_meaning_are_compiled_together() -> None:
    def make(scale: float) -> kc.Kernel:
        @kc.kernel
        def scaled(x: F64, o: F64):
            i = kc.tid()
            o[i] = scale * x[i]

        return scaled

    x = jnp.ones(2)
    results = [jax_kernel(make(s))(x)[0] for s in (2.0, 2.0, 3.0)]
    assert_close(results, [2 * x, 2 * x, 3 * x])
