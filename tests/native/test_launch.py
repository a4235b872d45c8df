"""launch(): arrays of every kind in, exact results or exact errors out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from kernelcore import _native
from kernelcore.base.errors import (
    KernelArgumentError,
    KernelCompileError,
    KernelMemoryError,
)
from kernelcore.language.types import SCALARS
from tests.native import kernels

WHERE = '  File "k.py", line 3\n    x: kc.array(kc.float32),\n    ^'


def axpy_signature() -> _native.LaunchDescriptor:
    return kernels.axpy().signature(wheres=[WHERE] * 4)


class OnlyCapsule:
    """An array that offers nothing but ``__dlpack__``."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OldCapsule(OnlyCapsule):
    """The same, from before DLPack 1.0."""

    def __dlpack__(self, stream: object = None) -> object:
        return self._array.__dlpack__()


READERS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "numpy": lambda a: a,
    "memoryview": lambda a: memoryview(a.data),
    "torch": torch.from_numpy,
    "dlpack": OnlyCapsule,
    "dlpack 0": OldCapsule,
}


@pytest.mark.parametrize("reader", READERS)
def test_launch_reads_and_writes_arrays_in_place(reader: str) -> None:
    read = READERS[reader]
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    out = np.zeros(8, np.float32)
    _native.launch(axpy_signature(), 8, (read(x), 2.0, read(y), read(out)))
    np.testing.assert_array_equal(out, 2 * x + y)


def test_launch_reads_jax_arrays() -> None:
    x = jnp.arange(8, dtype=jnp.float32)
    out = np.zeros(8, np.float32)
    _native.launch(axpy_signature(), [8], [x, 2, x, out])
    np.testing.assert_array_equal(out, 3 * np.arange(8))


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
def test_strides_are_honoured(step: int) -> None:
    base = np.arange(24, dtype=np.float32)
    out = np.zeros((8, 3), np.float32)
    x = base[::step][:8]
    _native.launch(axpy_signature(), 8, (x, 2.0, x, out[:, 1]))
    np.testing.assert_array_equal(out[:, 1], 3 * x)
    assert not out[:, [0, 2]].any()


@pytest.mark.parametrize(
    ("dtype", "numpy_type", "values"),
    [
        (kernels.BOOL, np.bool_, [True, False, np.True_, torch.tensor(True)]),
        (kernels.INT32, np.int32, [-(2**31), 2**31 - 1, np.int64(5), np.array(7), True]),
        (kernels.INT64, np.int64, [-(2**63), 2**63 - 1, torch.tensor(5)]),
        (kernels.FLOAT32, np.float32, [0.1, 3, np.float64(2.5), np.array(1.5), float("inf")]),
        (kernels.FLOAT64, np.float64, [0.1, 2**53, np.float32(0.5)]),
        (kernels.INT8, np.int8, [-128, 127, np.int64(5)]),
        (kernels.INT16, np.int16, [-(2**15), 2**15 - 1, np.uint8(5)]),
        (kernels.UINT8, np.uint8, [0, 255, np.int64(5), True]),
        (kernels.UINT16, np.uint16, [0, 2**16 - 1, torch.tensor(5)]),
        (kernels.UINT32, np.uint32, [0, 2**32 - 1]),
        (kernels.UINT64, np.uint64, [0, 2**63, 2**64 - 1, np.uint64(2**64 - 1)]),
        (kernels.FLOAT16, np.float16, [0.1, 3, np.float64(2.5), float("inf")]),
        (kernels.BFLOAT16, ml_dtypes.bfloat16, [0.1, 3, ml_dtypes.bfloat16(2.5), -1e300]),
    ],
)
def test_values_are_converted_exactly(dtype: int, numpy_type: Any, values: list[Any]) -> None:
    signature = kernels.store_value(dtype).signature(grid_rank=0)
    for value in values:
        out = np.zeros((), numpy_type)
        _native.launch(signature, (), (value, out))
        assert out[()] == numpy_type(value)


@pytest.mark.parametrize(
    ("dtype", "value", "found"),
    [
        (kernels.BOOL, 1.0, "expected a bool value, found float"),
        (kernels.INT32, 2**31, "found 2147483648, which is out of its range"),
        (kernels.INT64, -(2**63) - 1, "which is out of its range"),
        (kernels.INT32, 1.0, "expected an int32 value, found float"),
        (kernels.INT8, 128, "expected an int8 value, found 128, which is out of its range"),
        (kernels.INT8, -129, "kc.int64"),
        (kernels.INT16, 2**15, "which is out of its range"),
        (kernels.UINT8, 300, "expected a uint8 value, found 300, which is out of its range"),
        (kernels.UINT8, 300, "kc.uint64"),
        (kernels.UINT8, -1, "annotate the parameter as a signed integer"),
        (kernels.UINT32, 2**32, "which is out of its range"),
        (kernels.UINT64, -1, "found -1, which is out of its range"),
        (kernels.UINT64, 2**64, "which is out of its range"),
        (kernels.UINT64, 1.0, "expected a uint64 value, found float"),
        (kernels.FLOAT16, "1", "expected a float16 value, found str"),
        (kernels.FLOAT32, "1", "expected a float32 value, found str"),
        (kernels.FLOAT64, None, "expected a float64 value, found NoneType"),
    ],
)
def test_values_of_another_kind_are_refused(dtype: int, value: object, found: str) -> None:
    kernel = kernels.store_value(dtype)
    with pytest.raises(KernelArgumentError) as caught:
        _native.launch(kernel.signature(grid_rank=0), (), (value, np.zeros(())))
    assert f"{kernel.name}(): argument 'value': " in str(caught.value)
    assert found in str(caught.value)
    assert "\n  help: " in str(caught.value)


def stored(dtype: int, value: float) -> int:
    """The bits of ``value`` as a scalar argument of 16 bits."""
    out = np.zeros((), SCALARS[dtype].numpy)
    _native.launch(kernels.store_value(dtype).signature(grid_rank=0), (), (value, out))
    return int(out.view(np.uint16))


def test_half_values_are_rounded_once_to_nearest_even() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(500) * 2.0 ** rng.integers(-28, 18, 500)
    ties = np.ldexp(np.arange(2048, 2080) + 0.5, rng.integers(-36, 4, 32))
    # Rounded to float32 first, these would be ties.
    near_ties = np.array([1 + 2**-11 + 2**-40, 1 + 3 * 2**-11 - 2**-40])
    special = [0.0, -0.0, np.inf, -np.inf, 65519.99, 65520.0, 2.0**-25, 2.0**-24, 3 * 2.0**-25]
    for value in (*values, *ties, *near_ties, *special):
        with np.errstate(over="ignore"):
            expected = int(np.float16(value).view(np.uint16))
        assert stored(kernels.FLOAT16, float(value)) == expected, value
    assert np.isnan(np.uint16(stored(kernels.FLOAT16, float("nan"))).view(np.float16))


def test_brain_float_values_are_rounded_to_nearest_even() -> None:
    # Numbers of float32 alone: ml_dtypes rounds to these first.
    bits = np.random.default_rng(1).integers(0, 2**32, 500, dtype=np.uint32)
    ties = np.arange(0x3F80, 0x3FA0, dtype=np.uint32) << 16 | 0x8000
    special = np.array([0.0, -0.0, np.inf, -np.inf, 3.4e38, 1e-45, 9.2e-41], np.float32)
    for value in (*bits.view(np.float32), *ties.view(np.float32), *special):
        if not np.isnan(value):
            expected = int(np.array(value).astype(ml_dtypes.bfloat16).view(np.uint16))
            assert stored(kernels.BFLOAT16, float(value)) == expected, value
    nan = np.uint16(stored(kernels.BFLOAT16, float("nan"))).view(ml_dtypes.bfloat16)
    assert np.isnan(np.float32(nan))


DTYPES = pytest.mark.parametrize("dtype", range(len(SCALARS)), ids=[s.name for s in SCALARS])


def elements(dtype: int, count: int) -> np.ndarray[Any, Any]:
    """``count`` different numbers; equal ones of bools."""
    return (np.arange(count) - count // 2 * (SCALARS[dtype].kind != "uint")).astype(
        SCALARS[dtype].numpy
    )


@DTYPES
def test_arrays_of_every_dtype_are_read_and_written(dtype: int) -> None:
    signature = kernels.copy(dtype).signature()
    x = elements(dtype, 20)
    for given in (x[:10], x[::2], x[::-2]):
        out = np.zeros((10, 2), x.dtype)
        _native.launch(signature, 10, (given, out[:, 1]))
        np.testing.assert_array_equal(out[:, 1], given)
        assert not out[:, 0].any()
    result = torch.zeros(10, dtype=getattr(torch, SCALARS[dtype].name))
    _native.launch(signature, 10, (x[:10], result))
    assert result.tolist() == x[:10].tolist()


@DTYPES
def test_jax_arrays_of_every_dtype_are_read(dtype: int) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(elements(dtype, 10))
    out = np.zeros(10, SCALARS[dtype].numpy)
    _native.launch(kernels.copy(dtype).signature(), 10, (x, out))
    np.testing.assert_array_equal(out, np.asarray(x))


def test_read_only_brain_floats_are_not_written() -> None:
    x = np.zeros(4, ml_dtypes.bfloat16)
    x.flags.writeable = False
    with pytest.raises(KernelArgumentError, match="writable"):
        _native.launch(kernels.copy(kernels.BFLOAT16).signature(), 4, (x.copy(), x))


@pytest.mark.parametrize("other", range(len(SCALARS)), ids=[s.name for s in SCALARS])
def test_every_other_dtype_is_refused_by_name(other: int) -> None:
    name = SCALARS[other].name
    wanted = kernels.UINT16 if other != kernels.UINT16 else kernels.BFLOAT16
    with pytest.raises(KernelArgumentError, match=f"found {name} with 1 dimension"):
        _native.launch(kernels.copy(wanted).signature(), 4, (elements(other, 4),) * 2)


def test_components_are_the_last_axes() -> None:
    kernel = kernels.first_component((3,), 2)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for given in (x, np.asfortranarray(x), x[:, ::-1]):
        out = np.zeros((4, 3), np.float32)
        _native.launch(kernel.signature(), 4, (given, out))
        np.testing.assert_array_equal(out[:, 0], given[:, 0])
    value = kernels.first_component((3,), 1)
    out = np.zeros(3, np.float32)
    _native.launch(value.signature(), 1, (x[1], out))
    np.testing.assert_array_equal(out, [3, 0, 0])


@pytest.mark.parametrize(
    ("components", "ndim", "shape", "text"),
    [
        (
            (3,),
            2,
            (5, 4),
            "expected array of elements of 3 float32 components: shape (n, 3), found shape (5, 4)",
        ),
        ((3,), 2, (5,), "components: shape (n, 3), found shape (5,)"),
        (
            (2, 3),
            4,
            (5, 6, 3, 2),
            "elements of 2x3 float32 components: shape (n, m, 2, 3), found shape (5, 6, 3, 2)",
        ),
        ((4,), 1, (3,), "array of the 4 float32 components of a value: shape (4,), found shape"),
        ((2, 2), 2, (4,), "components of a value: shape (2, 2), found shape (4,)"),
    ],
)
def test_other_components_are_refused(
    components: tuple[int, ...], ndim: int, shape: tuple[int, ...], text: str
) -> None:
    kernel = kernels.first_component(components, ndim)
    x = np.zeros(shape, np.float32)
    with pytest.raises(KernelArgumentError) as caught:
        _native.launch(kernel.signature(), 1, (x, x))
    assert str(caught.value).startswith(f"{kernel.name}(): argument 'x': ")
    assert text in str(caught.value)


F32 = np.zeros(4, np.float32)
BAD_ARRAYS: dict[str, tuple[Any, str, str]] = {
    "dtype": (np.zeros(4), "found float64 with 1 dimension\n", ".astype('float32')"),
    "torch dtype": (torch.zeros(4).double(), "found float64 with", ".to(torch.float32)"),
    "rank": (F32.reshape(2, 2), "found float32 with 2 dimensions", "reshape it"),
    "unknown dtype": (np.zeros(4, np.uint8), "found uint8 with 1", "convert it with"),
    "byte order": (F32.astype(">f4"), "found >f4 with 1", "convert it with"),
    "kind": ("text", "found str\n", "pass a NumPy array"),
    "number": (1.0, "found float\n", "pass a NumPy array"),
    "meta": (torch.empty(4, device="meta"), "cannot be read", "the CPU can reach"),
    "sparse": (torch.zeros(4).to_sparse(), "a tensor without storage", "the CPU can reach"),
    "pending sign": (
        torch.zeros(4, dtype=torch.cfloat).conj().imag,
        "found a view with a pending negation",
        ".resolve_neg()",
    ),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_unfit_arrays_are_refused_with_a_remedy(case: str) -> None:
    array, found, remedy = BAD_ARRAYS[case]
    with pytest.raises(KernelArgumentError) as caught:
        _native.launch(axpy_signature(), 4, (F32, 1.0, array, F32.copy()))
    message = str(caught.value)
    expected = "axpy(): argument 'y': expected array of float32 with 1 dimension, "
    assert message.startswith(expected)
    assert found in message
    assert WHERE in message
    assert remedy in message.splitlines()[-1]


def test_extents_that_32_bits_cannot_index_are_refused() -> None:
    array = np.broadcast_to(np.float32(0), (2**31,))
    expected = r"argument 'y': expected extents below 2\*\*31, found 2147483648 on axis 0"
    with pytest.raises(KernelArgumentError, match=expected):
        _native.launch(axpy_signature(), 4, (F32, 1.0, array, F32.copy()))


def read_only() -> np.ndarray[Any, Any]:
    array = F32.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "make", [read_only, lambda: OnlyCapsule(read_only()), lambda: jnp.zeros(4)]
)
def test_read_only_memory_is_never_written(make: Callable[[], Any]) -> None:
    array = make()
    with pytest.raises(KernelArgumentError, match="found a read-only one"):
        _native.launch(axpy_signature(), 4, (F32, 1.0, F32, array))
    _native.launch(axpy_signature(), 4, (array, 1.0, array, F32.copy()))


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ((2, 2), "grid: expected 1 dimension, found 2"),
        (-1, "grid: expected extents of at least 0, found -1"),
        (2**31, r"grid: expected extents below 2\*\*31, found 2147483648"),
        ((1,) * 20, "grid: expected 1 dimension, found 9"),
        ("4", "grid: expected an int or a tuple of ints, found str"),
        (4.0, "grid: expected an int or a tuple of ints"),
    ],
)
def test_unfit_grids_are_refused(dims: Any, message: str) -> None:
    with pytest.raises(KernelArgumentError, match=message):
        _native.launch(axpy_signature(), dims, (F32, 1.0, F32, F32.copy()))


def test_a_grid_of_2_to_the_63_points_is_refused() -> None:
    signature = kernels.store_value(kernels.INT32).signature(grid_rank=0)
    args = (1, np.zeros((), np.int32))
    with pytest.raises(KernelArgumentError, match=r"fewer than 2\*\*63 points"):
        _native.launch(signature, (2**30,) * 3, args)
    _native.launch(signature, (2**30, 2**30, 2**30, 0), args)


def test_the_number_of_arguments_is_checked() -> None:
    with pytest.raises(
        KernelArgumentError, match=r"expected 4 arguments \(x, a, y, out\), found 2"
    ):
        _native.launch(axpy_signature(), 4, (F32, 1.0))


def test_an_empty_grid_runs_nothing() -> None:
    out = np.full(4, 7, np.float32)
    _native.launch(axpy_signature(), 0, (F32, 1.0, F32, out))
    empty = np.zeros(0, np.float32)
    _native.launch(axpy_signature(), 0, (empty, 1.0, torch.from_numpy(empty), out))
    assert (out == 7).all()


@pytest.mark.parametrize("points", [1, 1000])
def test_a_failing_kernel_raises_a_memory_error(points: int) -> None:
    with pytest.raises(KernelMemoryError, match=r"failing\(\): out of memory"):
        _native.launch(kernels.failing().signature(), points, (np.zeros(points, np.float32),))


def test_malformed_descriptions_are_refused() -> None:
    good = kernels.axpy()

    def build(address: int, size: int, slots: list[kernels.ParameterSlot]) -> None:
        _native.LaunchDescriptor("k", "key", address, bytes(size), slots, [], [])

    with pytest.raises(KernelCompileError, match="no code for the CPU"):
        _native.launch(_native.LaunchDescriptor("k", "key", 0, bytes(8), [], [], []), 1, [])
    with pytest.raises(KernelCompileError, match="outside the argument block"):
        build(good.address, good.block_size - 8, good.slots)
    with pytest.raises(KernelCompileError, match="dtype = 13"):
        build(good.address, 64, [(0, 0, 13, 1, 0, -1, -1, 0, 0)])
    with pytest.raises(KernelCompileError, match="misaligned"):
        build(good.address, 64, [(4, 0, 0, 1, 0, -1, -1, 0, 0)])
    with pytest.raises(KernelCompileError, match="description: components"):
        build(good.address, 64, [(0, 0, 0, 1, 0, -1, -1, 3, 3)])
    with pytest.raises(KernelCompileError, match="description: components"):
        build(good.address, 64, [(0, 0, 0, 2, 0, -1, -1, 0, 3)])
