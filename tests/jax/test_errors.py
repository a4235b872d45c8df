"""What a kernel cannot take is refused when the call is traced, by the name of the parameter."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ffi import jax_kernel
from kernelcore import KernelArgumentError, KernelGradError
from tests.jax.kernels import axpy, iota, lookup, matmul, mixed, neighbour, row_sums


def f32(*shape: int) -> Any:
    return jnp.ones(shape, jnp.float32)


def call_axpy(*args: Any, **named: Any) -> Any:
    return jax_kernel(axpy)(*args, **named)


def deleted() -> Any:
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

# Per case: the call, and what its error says.
REFUSED: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "dtype": (lambda: call_axpy(jnp.ones(3), 1.0, 1), ["'x'", "float32", "float64", "astype"]),
    "rank": (lambda: call_axpy(f32(3, 3), 1.0, 1), ["'x'", "1 dimension", "2 dimensions"]),
    "numpy dtype": (lambda: call_axpy(np.ones(3), 1.0, 1), ["'x'", "float64"]),
    "list": (lambda: call_axpy([1.0, 2.0], 1.0, 1), ["'x'", "list"]),
    "number for an array": (lambda: call_axpy(1.0, 1.0, 1), ["'x'", "value of type float"]),
    "array for a scalar": (lambda: call_axpy(f32(3), f32(3), 1), ["'a'", "1 dimension"]),
    "fraction for an integer": (lambda: call_axpy(f32(3), 1.0, 1.5), ["'n'", "int32", "1.5"]),
    "large integer": (lambda: call_axpy(f32(3), 1.0, 2**31), ["'n'", "out of range"]),
    "huge integer": (lambda: call_axpy(f32(3), 1.0, 10**5000), ["'n'", "16610 bits"]),
    "huge float": (lambda: call_axpy(f32(3), 10**5000, 1), ["'a'", "16610 bits"]),
    "large int64": (lambda: call_axpy(f32(3), 1.0, np.int64(2**40)), ["'n'", "1099511627776"]),
    "large uint32": (lambda: call_axpy(f32(3), 1.0, np.uint32(2**32 - 1)), ["'n'", "4294967295"]),
    "large weak array": (
        lambda: call_axpy(f32(3), 1.0, jnp.asarray(2**40)),
        ["'n'", "1099511627776", "out of range"],
    ),
    "traced integer": (lambda: call_jitted(3), ["'n'", "int64", "n.astype('int32')"]),
    "traced wide integer": (lambda: call_jitted(np.int64(3)), ["'n'", "int32", "int64"]),
    "weak integers": (
        lambda: jax_kernel(lookup)(jnp.ones(3), jnp.full(3, 2)),
        ["'indices'", "int64", "indices.astype('int32')"],
    ),
    "complex": (lambda: call_axpy(f32(3), 1j, 1), ["'a'", "complex"]),
    "complex scalar": (lambda: call_axpy(f32(3), np.complex64(1j), 1), ["'a'", "complex64"]),
    "complex array": (lambda: call_axpy(f32(3), jnp.asarray(1j), 1), ["'a'", "complex128"]),
    "deleted": (lambda: call_axpy(deleted(), 1.0, 1), ["'x'", "deleted", "donated"]),
    "masked": (lambda: call_axpy(masked(), 1.0, 1), ["'x'", "masked", "filled"]),
    "masked number": (lambda: call_axpy(f32(3), np.ma.masked, 1), ["'a'", "masked"]),
    "bool for a number": (lambda: call_axpy(f32(3), True, 1), ["'a'", "True"]),
    "strong scalar dtype": (lambda: call_axpy(f32(3), jnp.float64(1.0), 1), ["'a'", "float64"]),
    "string": (lambda: call_axpy(f32(3), "1", 1), ["'a'", "str"]),
    "missing": (lambda: call_axpy(f32(3), 1.0), ["missing", "'n'", "axpy(x, a, n)"]),
    "too many": (lambda: call_axpy(f32(3), 1.0, 1, f32(3)), ["expected 3", "found 4"]),
    "unknown name": (lambda: call_axpy(f32(3), 1.0, m=1), ["unknown", "'m'"]),
    "given twice": (lambda: call_axpy(f32(3), 1.0, 1, x=f32(3)), ["'x'", "twice"]),
    "no launch shape": (lambda: jax_kernel(iota)(), ["launch_dims"]),
    "launch rank": (lambda: jax_kernel(neighbour)(jnp.ones(3), launch_dims=(3, 3)), ["1", "2"]),
    "launch extent": (
        lambda: jax_kernel(neighbour)(jnp.ones(3), launch_dims="q.shape[0]"),
        ["q.shape[0]"],
    ),
    "launch value": (lambda: jax_kernel(neighbour)(jnp.ones(3), launch_dims=FRACTION), ["1.5"]),
    "output rank": (
        lambda: jax_kernel(matmul)(jnp.ones((2, 2)), jnp.ones((2, 2)), output_dims=3),
        ["'c'", "output_dims"],
    ),
    "output name": (
        lambda: jax_kernel(neighbour)(jnp.ones(3), output_dims={"q": 3}),
        ["'q'", "no output"],
    ),
    "undeclared output": (lambda: jax_kernel(mixed)(*[jnp.ones(3)] * 3), ["'o'", "in-out"]),
    "output count": (lambda: jax_kernel(axpy, num_outputs=9), ["num_outputs", "9"]),
    "no output": (lambda: jax_kernel(axpy, num_outputs=0), ["num_outputs", "0"]),
    "output count type": (lambda: jax_kernel(axpy, num_outputs=TEXT), ["num_outputs", "'1'"]),
    "in-out type": (
        lambda: jax_kernel(axpy, in_out_argnames=NUMBER),
        ["in_out_argnames", "found 3", "x, a, n, o"],
    ),
    "pickle": (lambda: pickle.dumps(jax_kernel(axpy)), ["pickled", "import"]),
    "in-out name": (lambda: jax_kernel(row_sums, in_out_argnames="q"), ["'q'"]),
    "vmap method": (lambda: jax_kernel(axpy, vmap_method="fast"), ["vmap_method", "'fast'"]),
    "vmap method of a call": (
        lambda: call_axpy(f32(3), 1.0, 1, vmap_method="fast"),
        ["vmap_method", "'fast'"],
    ),
    "block_dim": (lambda: jax_kernel(axpy, block_dim=0), ["block_dim", "0"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_call_is_refused(case: str) -> None:
    call, texts = REFUSED[case]
    with pytest.raises(KernelArgumentError) as caught:
        call()
    message = str(caught.value)
    for text in texts:
        assert text in message
    assert "kernels.py" in message
    assert "help:" in message


def test_bad_call_is_refused_at_trace_time() -> None:
    with pytest.raises(KernelArgumentError, match="'x'"):
        jax.jit(call_axpy).lower(jnp.ones(3), 1.0, 1)


def test_traced_launch_dims_name_the_remedy() -> None:
    with pytest.raises(KernelArgumentError, match=r"x\.shape\[0\]"):
        jax.jit(lambda n: jax_kernel(iota)(launch_dims=n))(3)


def test_types_of_64_bits_need_x64() -> None:
    with (
        jax.enable_x64(False),
        pytest.raises(KernelArgumentError, match=r"'x'.*float64.*jax_enable_x64"),
    ):
        jax_kernel(neighbour)(jnp.ones(3))


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


def test_transposing_a_kernel_that_is_not_known_to_be_linear_is_refused() -> None:
    call = jax_kernel(neighbour)
    with pytest.raises(KernelGradError, match="linear"):
        jax.linear_transpose(lambda x: call(x)[0], jnp.ones(3))(jnp.ones(3))


def test_arrays_that_the_launch_leaves_are_refused() -> None:
    with pytest.raises(KernelArgumentError, match="expected at least 5 elements on axis 0"):
        call_axpy(f32(4), 2.0, 1, launch_dims=5)
    with pytest.raises(KernelArgumentError, match="expected at least 4 elements on axis 0"):
        jax.jit(lambda x: call_axpy(x, 2.0, 1, output_dims=3))(f32(4))
