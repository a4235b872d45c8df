"""Arrays of JAX and data arrays on the same memory; types and devices of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import dtype_from_jax, dtype_to_jax, from_jax, to_jax
from kernelcore.language.types import SCALARS
from kernelcore.launch import recorded_launch
from tests.jax.kernels import neighbour
from tests.jax.refusal import Golden, check_refusal


@kc.kernel
def copied(x: kc.array(dtype=float, ndim=2), y: kc.array(dtype=float, ndim=2)):
    i, j = kc.tid()
    y[i, j] = x[i, j]


DTYPES = pytest.mark.parametrize("dtype", SCALARS, ids=str)


@DTYPES
def test_memory_is_shared_both_ways(dtype: Any) -> None:
    x = jnp.arange(6).astype(dtype.numpy).reshape(2, 3)
    array = from_jax(x)
    assert (array.shape, array.element) == ((2, 3), dtype)
    assert array.ptr == x.unsafe_buffer_pointer()
    assert array.is_read_only
    back = to_jax(array)
    assert back.unsafe_buffer_pointer() == array.ptr
    np.testing.assert_array_equal(back, x)
    assert back.dtype == x.dtype
    for made in (kc.zeros(5, dtype), kc.array(np.ones(5, dtype.numpy)), kc.zeros(5, dtype).clone()):
        assert to_jax(made).unsafe_buffer_pointer() == made.ptr


def test_memory_lives_as_long_as_either_array() -> None:
    x = jnp.arange(1000.0)
    array = from_jax(x)
    del x
    back = to_jax(array)
    del array
    np.testing.assert_array_equal(back, np.arange(1000.0))
    for n in range(3):
        np.testing.assert_array_equal(to_jax(kc.full(1000, float(n), kc.float64)), np.full(1000, n))


def test_components_are_the_last_axes() -> None:
    x = jnp.arange(12.0).reshape(4, 3)
    array = from_jax(x, kc.vec3d)
    assert (array.shape, array.dtype) == ((4,), kc.vec3d)
    np.testing.assert_array_equal(to_jax(array), x)
    assert to_jax(kc.zeros((2, 0), kc.vec3d)).shape == (2, 0, 3)


def test_jax_arrays_are_read_only_to_kernels() -> None:
    x = jnp.arange(4.0)
    out = kc.zeros(4, kc.float64)
    kc.launch(neighbour, 4, [from_jax(x)], [out])
    np.testing.assert_array_equal(out.numpy(), [0, 2, 6, 9])
    for given in (x, from_jax(x)):
        with pytest.raises(kc.KernelArgumentError, match=r"read-only"):
            kc.launch(neighbour, 4, [out], [given])


@DTYPES
def test_types_of_both_correspond(dtype: Any) -> None:
    assert dtype_from_jax(dtype_to_jax(dtype)) is dtype
    assert dtype_from_jax(jnp.zeros(1, dtype.numpy).dtype) is dtype


def test_python_types_are_those_of_kernels() -> None:
    assert dtype_to_jax(float) is jnp.dtype("float32").type
    assert jnp.zeros(3, dtype_to_jax(int)).dtype == jnp.int32


def test_devices_of_both_correspond() -> None:
    assert kc.device_from_jax(jax.devices("cpu")[0]) == "cpu"
    assert kc.device_to_jax("cpu") == jax.devices("cpu")[0]
    assert kc.device_to_jax(None) == jax.devices("cpu")[0]


def deleted() -> Any:
    with jax.ensure_compile_time_eval():
        x = jnp.ones(3)
    x.delete()
    return x


def unaligned() -> Any:
    memory = np.zeros(64)
    start = next(k for k in range(1, 9) if (memory.ctypes.data + 8 * k) % 64)
    return kc.array(memory[start : start + 8], copy=False)


def test_a_repeated_command_does_not_check_arrays_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = jnp.arange(6, dtype=jnp.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    command = kc.launch(copied, (2, 3), [x], [y], record_cmd=True)
    assert command is not None
    command.launch()
    with monkeypatch.context() as patch:
        patch.delattr(recorded_launch, "execute")
        command.launch()
        y.fill(0.0)
        command.launch()
        np.testing.assert_array_equal(y, x)
    x.delete()
    y.fill(0.0)
    with pytest.raises(kc.KernelError, match="argument 'x'"):
        command.launch()
    assert not y.any()


@kc.struct
class Pair:
    """A struct, of which JAX has no arrays."""

    a: float
    b: float


TEXT: Any = "x"
REFUSED: dict[str, Callable[[], Any]] = {
    "tracer": lambda: jax.jit(from_jax)(jnp.ones(3)),
    "no_array": lambda: from_jax(TEXT),
    "deleted": lambda: from_jax(deleted()),
    "complex": lambda: from_jax(jnp.ones(3) * 1j),
    "components": lambda: from_jax(jnp.ones((3, 2)), kc.vec3d),
    "to_no_array": lambda: to_jax(TEXT),
    "to_struct": lambda: to_jax(kc.zeros(3, Pair)),
    "to_gaps": lambda: to_jax(kc.zeros(8)[::2]),
    "to_address": lambda: to_jax(unaligned()),
    "dtype": lambda: dtype_from_jax("complex64"),
    "dtype_text": lambda: dtype_from_jax(TEXT),
    "composite": lambda: dtype_to_jax(kc.vec3),
    "device": lambda: kc.device_from_jax(TEXT),
    "to_device": lambda: kc.device_to_jax("gpu:7"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_that_cannot_be_shared_are_refused(case: str, golden_error: Golden) -> None:
    check_refusal(REFUSED[case], f"interop_{case}", golden_error)
