"""The XLA handler: kernels inside jitted programs, with no Python at run time."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from jax_ffi import compat, registration
from kernelcore import _native
from tests.native import kernels
from tests.native.kernels import Kernel

TARGET = "kernelcore_native_test"

compat.register_state_type(
    "kernelcore_native_test_plan", _native.xla_type_id, _native.xla_type_info, platform="cpu"
)
jax.ffi.register_ffi_target(
    TARGET,
    {"instantiate": _native.xla_instantiate, "execute": _native.xla_execute},
    platform="cpu",
)

GRID_OF_FIRST = [(0, 0, 0)]


def call(
    kernel: Kernel,
    grid: Sequence[tuple[int, int, int]],
    results: Any,
    aliases: dict[int, int] | None = None,
    register: bool = True,
) -> Callable[..., Any]:
    if register:
        _native.register_kernel(kernel.key, kernel.address)
    function = jax.ffi.ffi_call(TARGET, results, input_output_aliases=aliases)
    return lambda *args: function(*args, **step(kernel, grid, len(args)))


def step(kernel: Kernel, grid: Sequence[tuple[int, int, int]], operands: int) -> dict[str, Any]:
    """The attributes of one launch, in a call with so many operands."""
    slots = np.array(kernel.slots, np.int64)
    if slots.shape[1] == 9:
        slots[:, 6] += np.where(slots[:, 6] >= 0, operands, 0)
    return {
        "key": kernel.key,
        "name": kernel.name,
        "template": np.zeros(kernel.block_size, np.uint8),
        "slots": slots.reshape(-1),
        "messages": np.zeros(0, np.uint8),
        "accumulated": np.zeros(0, np.int64),
        "grid": np.array(grid, np.int64).reshape(-1),
    }


def axpy(n: int, **changes: Any) -> Callable[..., Any]:
    kernel = dataclasses.replace(kernels.axpy(), **changes)
    result = jax.ShapeDtypeStruct((n,), jnp.float32)
    return call(kernel, GRID_OF_FIRST, result, register=not changes)


def test_calls_chain_inside_one_program() -> None:
    f = axpy(8)
    x, y = jnp.arange(8, dtype=jnp.float32), jnp.ones(8, jnp.float32)

    @jax.jit
    def chain(x: jax.Array, a: jax.Array) -> jax.Array:
        for _ in range(10):
            x = f(x, a, y)
        return x

    expected = np.arange(8, dtype=np.float32)
    for _ in range(10):
        expected = np.float32(0.5) * expected + np.float32(1)
    np.testing.assert_array_equal(chain(x, jnp.float32(0.5)), expected)


@pytest.mark.parametrize("aliases", [None, {0: 0}])
def test_in_out_operands_are_preserved(aliases: dict[int, int] | None) -> None:
    x = jnp.arange(1000, dtype=jnp.int32)
    kernel = kernels.increment(kernels.INT32)
    f = call(kernel, GRID_OF_FIRST, jax.ShapeDtypeStruct(x.shape, x.dtype), aliases)
    np.testing.assert_array_equal(jax.jit(f)(x), np.arange(1000) + 1)
    np.testing.assert_array_equal(x, np.arange(1000))


def test_large_runs_are_shared_and_complete() -> None:
    with jax.enable_x64(True):
        x = jnp.zeros(200_003, jnp.int64)
        kernel = kernels.slow_increment()
        f = call(kernel, GRID_OF_FIRST, jax.ShapeDtypeStruct(x.shape, x.dtype), {0: 0})
        twice = jax.jit(lambda x: f(f(x)))
        for _ in range(3):
            assert (twice(x) == 2).all()


def test_accumulated_results_start_at_zero() -> None:
    f = call(kernels.accumulate(), GRID_OF_FIRST, jax.ShapeDtypeStruct((), jnp.float32))
    x = jnp.ones(100_000, jnp.float32)
    for _ in range(3):
        assert f(x) == 100_000
    assert f(jnp.ones(0, jnp.float32)) == 0


def test_partly_written_results_are_zero_elsewhere() -> None:
    params = tuple(dataclasses.replace(p, zero=kernels.IF_PARTIAL) for p in kernels.axpy().params)
    slots, _ = kernels.layout(params)
    kernel = dataclasses.replace(kernels.axpy(), slots=slots)
    f = call(kernel, [(-1, -1, 5)], jax.ShapeDtypeStruct((8,), jnp.float32))
    x = jnp.ones(8, jnp.float32)
    np.testing.assert_array_equal(f(x, jnp.float32(1), x), [2] * 5 + [0] * 3)


def test_the_grid_may_follow_a_result() -> None:
    f = call(kernels.axpy(), [(3, 0, 0)], jax.ShapeDtypeStruct((8,), jnp.float32))
    x = jnp.ones(8, jnp.float32)
    np.testing.assert_array_equal(f(x, jnp.float32(1), x), [2] * 8)


def test_call_sites_that_do_the_same_have_one_plan_until_their_program_goes() -> None:
    kernel = dataclasses.replace(kernels.axpy(), key="axpy of few plans")
    result = jax.ShapeDtypeStruct((8,), jnp.float32)
    f, g = call(kernel, GRID_OF_FIRST, result), call(kernel, [(3, 0, 0)], result)
    x, a = jnp.ones(8, jnp.float32), jnp.float32(1)
    before = _native.count_xla_plans()
    program = jax.jit(lambda x: f(f(g(x, a, x), a, x), a, x)).lower(x).compile()
    assert _native.count_xla_plans() == before + 2
    other = jax.jit(lambda x: f(x, a, f(x, a, x))).lower(x).compile()
    assert _native.count_xla_plans() == before + 2
    np.testing.assert_array_equal(program(x), [4] * 8)
    del program
    gc.collect()
    assert _native.count_xla_plans() == before + 1
    np.testing.assert_array_equal(other(x), [3] * 8)


def test_an_empty_grid_specification_is_one_point() -> None:
    kernel = kernels.store_value(kernels.FLOAT32)
    f = call(kernel, [], jax.ShapeDtypeStruct((), jnp.float32))
    assert f(jnp.float32(3.5)) == 3.5


def test_steps_run_in_order_on_shared_buffers() -> None:
    """Twice axpy, on a buffer that is no result of a caller's: o = x + a (x + a x)."""
    kernel = kernels.axpy()
    _native.register_kernel(kernel.key, kernel.address)
    x = jnp.arange(8, dtype=jnp.float32)
    result = ShapedArray((8,), np.dtype(np.float32))

    def function(*args: Any, **attributes: Any) -> Any:
        # ffi_call takes no dictionaries of arrays, which XLA does.
        call = Primitive("steps")
        call.multiple_results = True
        call.def_abstract_eval(lambda *_: [result, result])
        mlir.register_lowering(
            call, lambda ctx, *a: jax.ffi.ffi_lowering(TARGET)(ctx, *a, **attributes), "cpu"
        )
        return jax.jit(call.bind)(*args)

    # The operands are x, a and x; the results are buffers 3 and 4.
    first, second = (step(kernel, GRID_OF_FIRST, 3) for _ in range(2))
    rows = second["slots"].reshape(-1, 9)
    written = rows[:, 6] >= 0
    rows[written, 6] = 4
    rows[np.flatnonzero(rows[:, 5] == 2)[0], 5] = 3
    temporary, out = function(x, jnp.float32(2), x, steps=np.int64(2), step0=first, step1=second)
    np.testing.assert_array_equal(temporary, 3 * x)
    np.testing.assert_array_equal(out, 2 * x + 3 * x)
    with pytest.raises(jax.errors.JaxRuntimeError, match="attribute 'step1' is missing"):
        function(x, jnp.float32(2), x, steps=np.int64(2), step0=first)


def test_an_unknown_kernel_is_named() -> None:
    x = jnp.zeros(8, jnp.float32)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        axpy(8, key="no-such-hash")(x, jnp.float32(1), x)
    assert "NOT_FOUND: kernelcore: kernel 'axpy' (no-such-hash) is not registered" in str(
        caught.value
    )
    assert "import the module that defines it" in str(caught.value)


def test_the_resolver_is_asked_for_unknown_kernels() -> None:
    asked: list[str] = []

    def resolve(key: str, code: bytes) -> None:
        assert code == b""
        asked.append(key)
        _native.register_kernel(key, kernels.axpy().address)

    x = jnp.ones(8, jnp.float32)
    _native.set_resolver(resolve)
    try:
        for _ in range(2):
            out = axpy(8, key="resolved-late")(x, jnp.float32(1), x)
    finally:
        _native.set_resolver(registration.register_known)
    np.testing.assert_array_equal(out, [2] * 8)
    assert asked == ["resolved-late"]


def test_a_failing_kernel_exhausts_resources() -> None:
    f = call(kernels.failing(), [(-1, -1, 4)], jax.ShapeDtypeStruct((4,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"RESOURCE_EXHAUSTED: failing\(\)"):
        f()


@pytest.mark.parametrize("operand", [1, 2])
def test_buffers_of_another_type_are_refused(operand: int) -> None:
    args: list[Any] = [jnp.zeros(8), jnp.float32(1), jnp.zeros(8)]
    args[operand] = args[operand].astype(jnp.int32)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"INTERNAL: .*parameter {operand}"):
        axpy(8)(*args)


def test_malformed_attributes_are_refused() -> None:
    x = jnp.zeros(8, jnp.float32)
    with pytest.raises(jax.errors.JaxRuntimeError, match="slot length"):
        axpy(8, key=kernels.axpy().key, slots=[(0, 0)])(x, jnp.float32(1), x)


def test_components_are_checked_and_outer_axes_alone_cover_the_grid() -> None:
    kernel = kernels.first_component((3,), 2)
    x = jnp.arange(15, dtype=jnp.float32).reshape(5, 3)

    def run(given: jax.Array, rows: int) -> jax.Array:
        result = jax.ShapeDtypeStruct((rows, *given.shape[1:]), jnp.float32)
        return call(kernel, GRID_OF_FIRST, result)(given)

    np.testing.assert_array_equal(run(x, 5)[:, 0], x[:, 0])
    larger = np.asarray(run(x, 9))
    np.testing.assert_array_equal(larger[:5, 0], x[:, 0])
    assert not larger[:, 1:].any()
    assert not larger[5:].any()
    with pytest.raises(Exception, match=r"shape \(n, 3\), found shape \(5, 4\)"):
        run(jnp.zeros((5, 4), jnp.float32), 5)
