"""``array(ptr=, shape=, dtype=)`` in kernels: packed memory at an address."""

# Annotations of kernels are read by kernelcore.
# pyright: reportInvalidTypeForm=false, reportArgumentType=false

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError, KernelGradError, KernelIndexError
from kernelcore.passes.pipeline import optimize
from tests.device import emulation
from tests.helpers import interpreter
from tests.helpers.environment import IS_CPU
from tests.helpers.kernel_harness import agree

NUMBERS = np.arange(1, 13, dtype=np.float32)


@kc.struct
class Sample:
    """A struct with padding, and fields of several types."""

    weight: kc.float64
    at: kc.vec3
    count: kc.int8


@kc.kernel
def row_sums(p: kc.uint64, n: int, m: kc.int64, out: kc.array(dtype=float)):
    i = kc.tid()
    a = kc.array(ptr=p, shape=(n, m), dtype=float)
    total = 0.0
    for j in range(a.shape[1]):
        total += a[i, j] * float(i + 1)
    row = a[i]
    out[i] = total + row[0] + float(len(row)) + float(a.shape[0])


@kc.kernel
def second_row(p: kc.uint64, out: kc.array(dtype=float)):
    i = kc.tid()
    # An address can be computed.
    a = kc.array(ptr=p + kc.uint64(16), shape=4, dtype=float)
    out[i] = a[i]


@kc.kernel
def vectors(p: kc.uint64, n: int, out: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    a = kc.array(ptr=p, shape=(n,), dtype=kc.vec3)
    out[i] = 2.0 * a[i]
    a[i][1] = 7.0
    kc.atomic_add(a, i, kc.vec3(1.0, 0.0, float(i)))


@kc.kernel
def flags(p: kc.uint64, n: kc.uint8, out: kc.array(dtype=int)):
    i = kc.tid()
    a = kc.array(ptr=p, shape=n, dtype=bool)
    out[i] = kc.where(a[i], 1, 2)


def of_numbers(kernel: kc.Kernel, *more: Any, out: Any, data: Any = NUMBERS) -> tuple[Any, Any]:
    """The result of ``kernel`` on a copy of ``data`` as the interpreter has it, and the copy."""
    data = data.copy()
    return agree(kernel.func, [data.ctypes.data, *more, out], len(out))[-1], data


def test_elements_lie_in_order_from_the_address() -> None:
    found, _ = of_numbers(row_sums, 3, 4, out=np.zeros(3, np.float32))
    rows = NUMBERS.reshape(3, 4)
    expected = rows.sum(1) * np.arange(1, 4) + rows[:, 0] + 4 + 3
    np.testing.assert_array_equal(found, expected)
    found, _ = of_numbers(second_row, out=np.zeros(4, np.float32))
    np.testing.assert_array_equal(found, NUMBERS[4:8])
    data = np.array([True, False, True])
    found, _ = of_numbers(flags, 3, out=np.zeros(3, np.int32), data=data)
    np.testing.assert_array_equal(found, [1, 2, 1])


def in_every_mode(kernel: kc.Kernel, dim: int, make: Callable[[], list[Any]]) -> Iterator[Any]:
    """The arguments after a launch, in every mode."""
    for mode in ("release", "debug", "python"):
        args = make()
        kc.config.mode = mode
        try:
            kc.launch(kernel, dim, [a.ptr if k == 0 else a for k, a in enumerate(args)])
        finally:
            kc.config.mode = "release"
        yield args


def test_vectors_are_read_written_and_added_to() -> None:
    def make() -> list[Any]:
        return [kc.array(NUMBERS, dtype=kc.vec3), 4, kc.zeros(4, dtype=kc.vec3)]

    rows = NUMBERS.reshape(4, 3)
    expected = np.c_[rows[:, 0] + 1, np.full(4, 7.0), rows[:, 2] + np.arange(4)]
    for data, _, out in in_every_mode(vectors, 4, make):
        np.testing.assert_array_equal(data.numpy(), expected)
        np.testing.assert_array_equal(out.numpy(), 2 * rows)


@kc.kernel
def samples(p: kc.uint64, n: int, out: kc.array(dtype=float)):
    i = kc.tid()
    a = kc.array(ptr=p, shape=(n, 2), dtype=Sample)
    one = a[i, 1]
    out[i] = float(one.weight) + one.at[2] + float(one.count)
    a[i, 0].at = one.at * 2.0
    a[i, 0].count -= kc.int8(1)


def test_structs_lie_as_in_arrays_of_them() -> None:
    found: Any = kc.zeros((3, 2), dtype=Sample).numpy()
    found["weight"] = np.arange(6).reshape(3, 2)
    found["at"] = np.arange(18).reshape(3, 2, 3) * 10
    found["count"] = 100

    def make() -> list[Any]:
        return [kc.array(found, dtype=Sample), 3, kc.zeros(3, dtype=float)]

    expected = found.copy()
    expected["at"][:, 0] = 2 * found["at"][:, 1]
    expected["count"][:, 0] = 99
    for data, _, out in in_every_mode(samples, 3, make):
        for name in ("weight", "at", "count"):
            np.testing.assert_array_equal(data.numpy()[name], expected[name])
        np.testing.assert_array_equal(out.numpy(), [1 + 50 + 100, 3 + 110 + 100, 5 + 170 + 100])
    out = np.zeros(3, np.float32)
    data = found.copy()
    interpreter.run(samples.func, [data.ctypes.data, 3, out], 3)
    np.testing.assert_array_equal(data["at"], expected["at"])
    np.testing.assert_array_equal(out, [151, 213, 275])


def test_memory_may_be_that_of_a_parameter() -> None:
    @kc.kernel
    def kernel(p: kc.uint64, v: kc.array(dtype=kc.vec3), out: kc.array(dtype=float)):
        i = kc.tid()
        a = kc.array(ptr=p, shape=(4, 3), dtype=float)
        v[i] = kc.vec3(1.0, 2.0, 3.0)
        total = a[i, 0] + a[i, 1]
        for k in range(3):
            v[i][k] += 1.0
            total += a[i, k]
        kc.atomic_add(v, i, kc.vec3(10.0))
        out[i] = total + a[i, 2]

    data = np.zeros((4, 3), np.float32)
    out = np.zeros(4, np.float32)
    for run in (lambda f, n, args: agree(f.func, args, n), kc.launch):
        run(kernel, 4, [data.ctypes.data, data, out])
    np.testing.assert_array_equal(out, 3 + 2 + 3 + 4 + 14)
    np.testing.assert_array_equal(data, [[12, 13, 14]] * 4)


@pytest.mark.skipif(not IS_CPU, reason="the emulation has the memory of the host")
def test_devices_read_and_write_at_addresses() -> None:
    data, out = NUMBERS.copy(), np.zeros(3, np.float32)
    emulation.run(optimize(row_sums.func), [data.ctypes.data, 3, 4, out], 3)
    rows = NUMBERS.reshape(3, 4)
    np.testing.assert_array_equal(out, rows.sum(1) * np.arange(1, 4) + rows[:, 0] + 7)


def test_variables_take_other_arrays() -> None:
    @kc.kernel
    def kernel(p: kc.uint64, out: kc.array(dtype=float)):
        i = kc.tid()
        if i > 0:
            a = kc.array(ptr=p, shape=i, dtype=float)
        else:
            a = kc.array(ptr=p + kc.uint64(20), shape=6, dtype=float)
        last = kc.array(ptr=p, shape=1, dtype=float)
        for k in range(2, 5):
            last = kc.array(ptr=p + kc.uint64(4 * k), shape=k, dtype=float)
        out[i] = 100.0 * a[0] + 10.0 * float(len(a)) + last[0] + float(len(last)) / 8.0

    found, _ = of_numbers(kernel, out=np.zeros(3, np.float32))
    np.testing.assert_array_equal(found, [600 + 60 + 5.5, 100 + 10 + 5.5, 100 + 20 + 5.5])


@pytest.mark.parametrize(("mode", "text"), [("debug", "extent is 4"), ("python", "4 elements")])
def test_indices_are_checked_against_the_shape(mode: str, text: str) -> None:
    kc.config.mode = mode
    try:
        with pytest.raises(KernelIndexError, match=text):
            kc.launch(second_row, 5, [NUMBERS.ctypes.data, kc.zeros(5, dtype=float)])
    finally:
        kc.config.mode = "release"


def wrong(body: Callable[..., Any]) -> str:
    with pytest.raises(kc.KernelError) as caught:
        _ = kc.kernel(body).func
    assert caught.value.remedy
    assert caught.value.loc is not None
    return str(caught.value)


def test_what_is_no_array_at_an_address_is_refused() -> None:
    def without_shape(p: kc.uint64):
        _ = kc.array(ptr=p, dtype=float)

    def of_data(p: kc.uint64, x: kc.array(dtype=float)):
        _ = kc.array(x, ptr=p, shape=1, dtype=float)

    def signed(p: kc.int64):
        _ = kc.array(ptr=p, shape=1, dtype=float)

    def literal(x: kc.array(dtype=float)):
        _ = kc.array(ptr=0, shape=1, dtype=float)

    def of_number(p: kc.uint64):
        _ = kc.array(ptr=p, shape=1, dtype=4)

    def of_floats(p: kc.uint64, n: float):
        _ = kc.array(ptr=p, shape=(n, 1), dtype=float)

    def of_many(p: kc.uint64):
        _ = kc.array(ptr=p, shape=(1, 1, 1, 1, 1), dtype=float)

    assert "takes ptr, shape and dtype by keyword, found ptr, dtype" in wrong(without_shape)
    assert "by keyword" in wrong(of_data)
    assert "ptr: expected a uint64, found int64" in wrong(signed)
    assert "ptr: expected a uint64, found a literal" in wrong(literal)
    assert "dtype: expected the type of an element" in wrong(of_number)
    assert "shape: expected integers, found float32" in wrong(of_floats)
    assert "shape: expected 1 to 4 extents, found 5" in wrong(of_many)


@kc.kernel
def scaled(p: kc.uint64, w: kc.array(dtype=float), out: kc.array(dtype=float)):
    i = kc.tid()
    a = kc.array(ptr=p, shape=4, dtype=float)
    out[i] = a[i] * w[i]


@kc.kernel
def put(p: kc.uint64, w: kc.array(dtype=float)):
    i = kc.tid()
    a = kc.array(ptr=p, shape=4, dtype=float)
    a[i] = 3.0 * w[i]


def test_there_are_no_derivatives() -> None:
    w = kc.ones(4, dtype=float, requires_grad=True)
    out = kc.zeros(4, dtype=float, requires_grad=True)
    for kernel, args in ((scaled, [NUMBERS.ctypes.data, w, out]), (put, [out.ptr, w])):
        tape = kc.Tape()
        with tape:
            kc.launch(kernel, 4, args)
        with pytest.raises(KernelGradError, match="made of an address"):
            tape.backward(grads={out: kc.ones(4, dtype=float)})


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_there_are_no_operators(framework: str) -> None:
    pytest.importorskip(framework)
    made = kc.op(scaled)
    with pytest.raises(KernelArgumentError, match="makes an array of an address"):
        getattr(made, framework)(kc.uint64(NUMBERS.ctypes.data), np.ones(4, np.float32))
