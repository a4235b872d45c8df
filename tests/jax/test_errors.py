"""What a kernel cannot take is refused when the call is traced, by the name of the parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ffi import jax_kernel
from kernelcore import KernelGradError
from tests.jax.kernels import axpy, iota, lookup, matmul, mixed, neighbour, row_sums
from tests.jax.refusal import Golden, check_refusal


def f32(*shape: int) -> Any:
    return jnp.ones(shape, jnp.float32)


def call_axpy(*args: Any, **named: Any) -> Any:
    return jax_kernel(axpy)(*args, **named)


def deleted() -> Any:
    with jax.ensure_compile_time_eval():
        x = f32(3)
    x.delete()
    return x


def masked() -> Any:
    return np.ma.masked_array(np.ones(3, np.float32), [False, True, False])


def call_jitted(n: Any) -> Any:
    return jax.jit(lambda n: call_axpy(f32(3), 1.0, n))(n)


# Of types that the annotations exclude.
FRACTION: Any = 1.5
TEXT: Any = "1"
NUMBER: Any = 3
SET: Any = {3}
MAPPING: Any = {"x": 3}


# By the name of the golden section.
def transposed() -> Any:
    call = jax_kernel(neighbour)
    return jax.linear_transpose(lambda x: call(x)[0], jnp.ones(3))(jnp.ones(3))


REFUSED: dict[str, Callable[[], Any]] = {
    "dtype": lambda: call_axpy(jnp.ones(3), 1.0, 1),
    "rank": lambda: call_axpy(f32(3, 3), 1.0, 1),
    "numpy_dtype": lambda: call_axpy(np.ones(3), 1.0, 1),
    "list": lambda: call_axpy([1.0, 2.0], 1.0, 1),
    "number_for_an_array": lambda: call_axpy(1.0, 1.0, 1),
    "array_for_a_scalar": lambda: call_axpy(f32(3), f32(3), 1),
    "fraction_for_an_integer": lambda: call_axpy(f32(3), 1.0, 1.5),
    "large_integer": lambda: call_axpy(f32(3), 1.0, 2**31),
    "huge_integer": lambda: call_axpy(f32(3), 1.0, 10**5000),
    "huge_float": lambda: call_axpy(f32(3), 10**5000, 1),
    "large_int64": lambda: call_axpy(f32(3), 1.0, np.int64(2**40)),
    "large_uint32": lambda: call_axpy(f32(3), 1.0, np.uint32(2**32 - 1)),
    "large_weak_array": lambda: call_axpy(f32(3), 1.0, jnp.asarray(2**40)),
    "traced_integer": lambda: call_jitted(3),
    "traced_wide_integer": lambda: call_jitted(np.int64(3)),
    "weak_integers": lambda: jax_kernel(lookup)(jnp.ones(3), jnp.full(3, 2)),
    "complex": lambda: call_axpy(f32(3), 1j, 1),
    "complex_scalar": lambda: call_axpy(f32(3), np.complex64(1j), 1),
    "complex_for_an_array": lambda: call_axpy(jnp.ones(3, jnp.complex64), 1.0, 1),
    "complex_array": lambda: call_axpy(f32(3), jnp.asarray(1j), 1),
    "deleted": lambda: call_axpy(deleted(), 1.0, 1),
    "masked": lambda: call_axpy(masked(), 1.0, 1),
    "masked_number": lambda: call_axpy(f32(3), np.ma.masked, 1),
    "bool_for_a_number": lambda: call_axpy(f32(3), True, 1),
    "strong_scalar_dtype": lambda: call_axpy(f32(3), jnp.float64(1.0), 1),
    "string": lambda: call_axpy(f32(3), "1", 1),
    "missing": lambda: call_axpy(f32(3), 1.0),
    "too_many": lambda: call_axpy(f32(3), 1.0, 1, f32(3)),
    "unknown_name": lambda: call_axpy(f32(3), 1.0, m=1),
    "given_twice": lambda: call_axpy(f32(3), 1.0, 1, x=f32(3)),
    "no_launch_shape": lambda: jax_kernel(iota)(),
    "launch_rank": lambda: jax_kernel(neighbour)(jnp.ones(3), launch_dims=(3, 3)),
    "launch_extent": lambda: jax_kernel(neighbour)(jnp.ones(3), launch_dims="q.shape[0]"),
    "launch_value": lambda: jax_kernel(neighbour)(jnp.ones(3), launch_dims=FRACTION),
    "output_rank": lambda: jax_kernel(matmul)(jnp.ones((2, 2)), jnp.ones((2, 2)), output_dims=3),
    "output_name": lambda: jax_kernel(neighbour)(jnp.ones(3), output_dims={"q": 3}),
    "undeclared_output": lambda: jax_kernel(mixed)(*[jnp.ones(3)] * 3),
    "output_count": lambda: jax_kernel(axpy, num_outputs=9),
    "no_output": lambda: jax_kernel(axpy, num_outputs=0),
    "output_count_type": lambda: jax_kernel(axpy, num_outputs=TEXT),
    "in_out_type": lambda: jax_kernel(axpy, in_out_argnames=NUMBER),
    "in_out_name": lambda: jax_kernel(row_sums, in_out_argnames="q"),
    "launch_dims_traced": lambda: jax.jit(lambda n: jax_kernel(iota)(launch_dims=n))(3),
    "launch_dims_set": lambda: jax_kernel(neighbour)(jnp.ones(3), launch_dims=SET),
    "output_dims_traced": lambda: jax.jit(lambda n: jax_kernel(iota)(output_dims=(n,)))(3),
    "no_kernel": lambda: jax_kernel(TEXT),
    "launch_dims_key": lambda: jax_kernel(neighbour)(jnp.ones(3), launch_dims=MAPPING),
    "reach": lambda: call_axpy(f32(4), 2.0, 1, launch_dims=5),
    "reach_of_output": lambda: jax.jit(lambda x: call_axpy(x, 2.0, 1, output_dims=3))(f32(4)),
    "transposed": transposed,
    "vmap_method": lambda: jax_kernel(axpy, vmap_method="fast"),
    "vmap_method_of_a_call": lambda: call_axpy(f32(3), 1.0, 1, vmap_method="fast"),
    "block_dim": lambda: jax_kernel(axpy, block_dim=0),
    "block_dim_of_no_gpu": lambda: jax_kernel(axpy, block_dim=1025),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_call_is_refused(case: str, golden_error: Golden) -> None:
    check_refusal(REFUSED[case], case, golden_error)


def test_types_of_64_bits_need_x64(golden_error: Golden) -> None:
    with jax.enable_x64(False):
        check_refusal(lambda: jax_kernel(neighbour)(jnp.ones(3)), "no_x64", golden_error)


@pytest.mark.parametrize("transform", [jax.grad, jax.jacfwd, jax.hessian])
def test_kernel_without_derivative_refuses_it(transform: Any) -> None:
    call = jax_kernel(neighbour, enable_backward=False)
    x = jnp.ones(3)
    assert call(x)[0].shape == (3,)
    assert jax.vmap(call)(jnp.ones((2, 3)))[0].shape == (2, 3)
    with pytest.raises(KernelGradError, match="enable_backward"):
        transform(lambda x: jnp.sum(call(x)[0]))(x)


def test_stop_gradient_passes_a_kernel_without_derivative() -> None:
    call = jax_kernel(neighbour, enable_backward=False)
    gradient = jax.grad(lambda x: jnp.sum(x * call(jax.lax.stop_gradient(x))[0]))(jnp.ones(3))
    np.testing.assert_array_equal(gradient, np.ones(3))
