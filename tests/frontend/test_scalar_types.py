"""Kernels over every scalar type: literals adapt to it, loops count in it, floats differentiate."""

# Annotations of kernels are values here, as they name a type that a test was given.
import ctypes
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Func, Var
from kernelcore.language.types import (
    FLOATS,
    INTEGERS,
    ArrayType,
    Scalar,
    float16,
    float64,
    int16,
    int32,
    uint8,
)
from kernelcore.passes.autodiff.jvp import jvp
from kernelcore.passes.autodiff.vjp import vjp
from tests.helpers.kernel_harness import agree, call, const, launch, make, region


def kernel_over(dtype: Scalar) -> kc.Kernel:
    def weigh(x: kc.array(dtype=dtype), out: kc.array(dtype=dtype)):  # pyright: ignore[reportInvalidTypeForm]
        i = kc.tid()
        total = 0
        for _ in range(3):
            total += x[i] * 3
        out[i] = total + 7

    return kc.kernel(weigh)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_literals_and_their_variables_take_the_type_that_they_meet(dtype: Scalar) -> None:
    x = np.arange(5).astype(dtype.numpy)
    found = agree(kernel_over(dtype).func, [x, np.zeros_like(x)], 5)[-1]
    assert found.astype(float).tolist() == [9 * k + 7 for k in range(5)]


@pytest.mark.parametrize(
    ("dtype", "text"),
    [(uint8, "300"), (uint8, "-1"), (int16, "40000"), (kc.int8, "-129"), (kc.uint32, "2**32")],
)
def test_an_integer_that_a_type_does_not_hold_is_refused(dtype: Scalar, text: str) -> None:
    number = eval(text)

    def offset(x: kc.array(dtype=dtype)):  # pyright: ignore[reportInvalidTypeForm]
        x[kc.tid()] += number

    with pytest.raises(kc.KernelTypeError, match=f"{number} does not fit in {dtype}"):
        _ = kc.kernel(offset).func


def test_types_do_not_mix_and_no_fraction_becomes_an_integer() -> None:
    @kc.kernel
    def mixed(x: kc.array(dtype=kc.int8), y: kc.array(dtype=uint8)):
        i = kc.tid()
        x[i] = x[i] + y[i]

    @kc.kernel
    def fraction(x: kc.array(dtype=uint8)):
        i = kc.tid()
        x[i] = x[i] + 0.5

    with pytest.raises(kc.KernelTypeError, match="different types: int8 and uint8"):
        _ = mixed.func
    with pytest.raises(kc.KernelTypeError, match=r"different types: uint8 and float literal 0\.5"):
        _ = fraction.func


def test_casts_of_literals_saturate() -> None:
    @kc.kernel
    def edges(x: kc.array(dtype=uint8), y: kc.array(dtype=float16)):
        x[0] = kc.uint8(-1.5)
        x[1] = kc.uint8(1e9)
        y[0] = kc.float16(1e9)
        y[1] = kc.float16(0.1)

    args = [np.ones(2, np.uint8), np.ones(2, np.float16)]
    x, y = agree(edges.func, args, 1)
    assert x.tolist() == [0, 255]
    assert y.tolist() == [np.inf, np.float16(0.1)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_host_casts_as_kernels_do(dtype: Scalar) -> None:
    def cast(x: kc.array(dtype=kc.float64), out: kc.array(dtype=dtype)):  # pyright: ignore[reportInvalidTypeForm]
        i = kc.tid()
        out[i] = dtype(x[i])

    x = np.array([0.0, -0.5, 2.75, -3.25, 1e3, -1e3, 1e25, -1e25, np.inf, -np.inf, np.nan])
    out = np.zeros(x.size, dtype.numpy)
    kc.launch(kc.kernel(cast), x.size, [x], [out])
    assert [dtype(value) for value in x] == out.tolist()
    assert [dtype(float(value)) for value in x] == out.tolist()


def test_a_loop_with_an_exit_may_outrun_its_index() -> None:
    @kc.kernel
    def count(start: kc.int8, stop: kc.int8, out: kc.array(dtype=int32)):
        turns = 0
        for i in range(start, stop):
            if i > 120:
                break
            turns += 1
        out[0] = turns

    (found,) = agree(count.func, [np.int8(-128), np.int8(127), np.zeros(1, np.int32)], 1)
    assert found == 249


def sum_of_powers(dtype: Scalar, step: int) -> Func:
    """``out[i] = x[i] ** (number of iterations)``, through a loop over ``dtype``."""

    def write(b: Builder, x: Var, start: Var, stop: Var, out: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(ops.LOAD, x, i)

        def turn(k: Var, product: Var) -> list[Atom]:
            weight = b.emit(ops.CAST, k, dtype=float64)
            return [call(b, "add", product, call(b, "mul", weight, call(b, "sin", product)))]

        body = region(b, [dtype, float64], turn)
        outs = b.emit_for(start, stop, const(dtype, step), [value], body)
        b.emit_effect(ops.STORE, out, i, *outs)

    array = ArrayType(float64, 1)
    return make("powers", [array, dtype, dtype, array], write, grid_rank=1)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_loops_over_every_integer_have_both_derivatives(dtype: Scalar) -> None:
    least, most = dtype.limits
    far = (most - 3, most) if dtype.bits == 64 else (least, least + min(most - least, 250))
    for start, stop, step in ((0, 5, 1), (1, 9, 4), (5, 2, 1), (*far, 1)):
        func = sum_of_powers(dtype, step)
        x, bounds = np.array([0.3, -0.2]), [dtype(start), dtype(stop)]
        forward, backward = jvp(func, [0]), vjp(func, [0], [3])
        out = np.zeros(2)
        tangents = agree(forward.func, [x, *bounds, out, np.ones(2), np.zeros(2)], 2)
        cotangents = agree(backward.func, [x, *bounds, out, np.zeros(2), np.ones(2)], 2)
        # Each output depends on its own input only, so both are its derivative.
        np.testing.assert_allclose(cotangents[2], tangents[3], rtol=1e-9)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_float_has_both_derivatives(dtype: Scalar) -> None:
    def write(b: Builder, x: Var, out: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(ops.LOAD, x, i)
        b.emit_effect(ops.STORE, out, i, call(b, "mul", value, call(b, "exp", value)))

    array = ArrayType(dtype, 1)
    func = make("product", [array, array], write, grid_rank=1)
    x = np.linspace(-1, 1, 9).astype(dtype.numpy)
    zero, one = np.zeros_like(x), np.ones_like(x)
    wide = x.astype(np.float64)
    expected = (1 + wide) * np.exp(wide)
    digits = {16: 0.02, 32: 1e-5, 64: 1e-12}[dtype.bits]
    forward, backward = jvp(func, [0]), vjp(func, [0], [1])
    for derived, args, at in (
        (forward, [x, zero, one, zero], 3),
        (backward, [x, zero, zero, one], 2),
    ):
        found: Any = machine_code(derived.func, args)[at]
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=digits, atol=digits)


def machine_code(func: Func, args: list[np.ndarray]) -> list[np.ndarray]:
    """Machine code's arrays; the exponential of the C library may differ from NumPy's."""
    arrays = [a.copy() for a in args]
    assert launch(func, arrays, len(args[0])) == 0
    return arrays


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, kc.bool], ids=str)
def test_types_of_scalars_are_used_as_classes(dtype: Any) -> None:
    value = dtype(1)
    others: list[Any] = [t for t in (*INTEGERS, *FLOATS) if t is not dtype]
    assert isinstance(value, dtype)
    assert not any(isinstance(value, other) for other in others)
    assert not isinstance(1.0, dtype)
    assert dtype.__name__ == repr(dtype)
    assert ctypes.sizeof(dtype._type_) == dtype.size_bytes
    if dtype not in (kc.float16, kc.bfloat16):
        assert np.dtype(dtype._type_) == dtype.numpy
