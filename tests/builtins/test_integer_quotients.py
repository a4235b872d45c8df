"""Quotients of integers in lanes: ratios of float64 are exact, whatever the operands."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import Host, host
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.compiler.native_code import strategies_by
from kernelcore.ir.core import Func
from kernelcore.language.types import INTEGERS, Scalar, int32, int64
from tests.fuzz.typed_programs import define

COUNT = 4000
NARROW = [t for t in INTEGERS if t.bits <= 32]


def pairs(dtype: Scalar) -> tuple[np.ndarray, np.ndarray]:
    """Random operands, and dividends next to multiples of their divisors."""
    rng = np.random.default_rng(dtype.bits)
    least, most = dtype.limits
    divisors = rng.integers(least, most, COUNT, endpoint=True)
    small = rng.integers(max(least, -9), 10, COUNT)
    divisors = np.concatenate((divisors, small, divisors >> rng.integers(0, dtype.bits, COUNT)))
    wholes = rng.integers(least, most, divisors.size, endpoint=True)
    nonzero = np.where(divisors == 0, 1, divisors)
    near = (wholes // nonzero) * divisors + rng.integers(-1, 2, divisors.size)
    edges = np.array([least, most, least + 1, most - 1, 0, 1, -1, 2])
    dividends = np.concatenate((wholes, near, np.repeat(edges, edges.size)))
    divisors = np.concatenate((divisors, divisors, np.tile(edges, edges.size)))
    is_valid = (least <= dividends) & (dividends <= most)
    is_valid &= (least <= divisors) & (divisors <= most)
    return dividends[is_valid].astype(dtype.numpy), divisors[is_valid].astype(dtype.numpy)


def wide(func: Func, target: Host | None = None) -> VectorStrategy:
    return VectorStrategy(16, least_masked_bytes=(target or host()).least_masked_bytes)


TEXT = """
@kc.kernel
def quotients(x: kc.array1d[kc.T], y: kc.array1d[kc.T], all: kc.T, q: kc.array2d[kc.T]):
    i = kc.tid()
    q[0, i] = x[i] // y[i]
    q[1, i] = x[i] % y[i]
    q[2, i] = x[i] // all
    q[3, i] = x[i] % all
"""


def quotients(dtype: Scalar) -> kc.Kernel:
    return define(TEXT.replace("kc.T", f"kc.{dtype.name}"), {"kc": kc})["quotients"]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_lanes_have_the_quotients_of_numpy(dtype: Scalar) -> None:
    x, y = pairs(dtype)
    with strategies_by(wide), np.errstate(all="ignore"):
        kernel = quotients(dtype)
        for divisor in {0, 1, 3, 7, dtype.limits[1], dtype.limits[0], max(dtype.limits[0], -1)}:
            found = np.zeros((4, x.size), dtype.numpy)
            kc.launch(kernel, x.size, [x, y, dtype.numpy.type(divisor)], [found])
            every = np.full_like(x, divisor)
            expected = (x // y, x % y, x // every, x % every)
            np.testing.assert_array_equal(found, np.stack(expected))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_lanes_that_wrap_once_have_the_remainders_of_numpy(dtype: Scalar) -> None:
    most = dtype.limits[1]
    with strategies_by(wide):
        kernel = quotients(dtype)
        for divisor in (1, 2, 16, 23, most // 4, most // 2, most // 2 + 1, most):
            # Whole gangs below twice the divisor, at its ends, and beyond.
            last = min(2 * divisor + 40, most)
            x = np.unique(
                np.concatenate((np.arange(80), divisor - np.arange(-40, 40), last - np.arange(100)))
            )
            x = x[(x >= 0) & (x <= last)].astype(dtype.numpy)
            every = np.full_like(x, divisor)
            found = np.zeros((4, x.size), dtype.numpy)
            kc.launch(kernel, x.size, [x, every, dtype.numpy.type(divisor)], [found])
            np.testing.assert_array_equal(found, np.stack((x // every, x % every) * 2))


def test_lanes_divide_together() -> None:
    text = cpu.llvm_text(quotients(int32).func, strategy=VectorStrategy(16))
    assert "sdiv <16" not in text
    assert "fdiv <16 x double>" in text
    wide_text = cpu.llvm_text(quotients(int64).func, strategy=VectorStrategy(16))
    assert "fdiv" not in wide_text
