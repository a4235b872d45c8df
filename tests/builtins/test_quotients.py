"""Quotients of moderate numbers by estimates of reciprocals have the bits of divisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.evaluation import Evaluation
from kernelcore.language.types import Scalar, float32, float64

COUNT = 1500
# On which side of the reciprocal an estimate is off, as far as it may be.
SIDES = (-1.0, 0.0, 1.0)
# How many bits of an estimate are right (PTX ISA, rcp.approx.ftz.f64); of float32, all but 1 ulp.
GOOD_BITS = 18


@dataclass(frozen=True, slots=True)
class Estimating(Evaluation):
    """Numbers with an estimate of reciprocals that is off to one side.

    Of a divisor of which all bits are ones it is not too small: steps that begin below end one bit
    below. Divisions of hardware take the same steps, so its estimates are not.
    """

    estimates = True
    side: float = 0.0

    def unary(self, name: str, scalar: Scalar, x: Any) -> Any:
        if name != "reciprocal":
            return Evaluation.unary(self, name, scalar, x)
        are_ones = np.frexp(x)[0] == 1.0 - np.finfo(x.dtype).epsneg
        near, side = 1.0 / x, np.where(are_ones, abs(self.side), self.side).astype(x.dtype)
        if scalar == float64:
            return near * (1.0 + side * 2.0**-GOOD_BITS)
        is_there = (near - 1.0 / x.astype(np.float64)) * side >= 0
        return np.where(is_there, near, np.nextafter(near, np.copysign(np.float32(np.inf), side)))


def operands(dtype: Scalar) -> tuple[np.ndarray, np.ndarray]:
    """Dividends and divisors: any, next to each other, and such whose quotients are hard to round.

    Those are next to the middle of two floats: with ``b * m = k * 2**(d + 1) + 1`` for a divisor b
    of d bits and an odd m of one more, ``k / b`` is as close to the middle m as quotients come.
    """
    digits = np.finfo(dtype.numpy).nmant + 1
    rng = np.random.default_rng(3)
    whole = 1 << digits + 1
    divisors = [int(b) | 1 for b in rng.integers(whole >> 2, whole >> 1, COUNT)]
    divisors += [(whole >> 1) - 1 - 2 * k for k in range(100)]
    middles = [pow(b, -1, whole) for b in divisors]
    hard = [(b * m // whole, b) for b, m in zip(divisors, middles, strict=True)]
    hard += [(b * (whole - m) // whole + 1, b) for b, m in zip(divisors, middles, strict=True)]
    above, below = np.array(hard, dtype.numpy).T
    assert [int(x) for x in above[:9]] == [k for k, _ in hard[:9]]
    below /= dtype.numpy.type(whole >> 1)
    some = rng.uniform(1, 2, (2, COUNT)).astype(dtype.numpy)
    near = np.nextafter(some, 2, dtype=dtype.numpy)
    zeros, ones = np.zeros(COUNT, dtype.numpy), np.ones(len(below), dtype.numpy)
    x = np.concatenate([above / dtype.numpy.type(whole >> 1), some[0], some[1], zeros, ones, ones])
    y = np.concatenate([below, some[1], near[1], some[0], below, ones])
    of_divisors, of_quotients = (rng.integers(-most, most, len(x)) for most in (31, 62))
    return np.ldexp(x, of_divisors + of_quotients), np.ldexp(y, of_divisors)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("dtype", [float32, float64], ids=repr)
def test_steps_from_an_estimate_round_as_a_division_does(dtype: Scalar, side: float) -> None:
    x, y = operands(dtype)
    on = Estimating(True, side)
    found = Value(on, dtype, x).over(Value(on, dtype, y)).raw
    np.testing.assert_array_equal(found, x / y)
    negative = Value(on, dtype, -x).over(Value(on, dtype, y)).raw
    np.testing.assert_array_equal(negative, -(x / y))
